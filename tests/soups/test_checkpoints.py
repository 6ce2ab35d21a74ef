"""Checkpoints of every kind are read; what a stranger has made of one is refused, and nothing in it runs."""

from __future__ import annotations

import argparse
import collections
import hashlib
import io
import json
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch

import gradlex
from gradlex.errors import InputError
from gradlex.soups import open_checkpoint


def same(checkpoint, net) -> None:
    state = net.state_dict()
    assert dict(checkpoint.shapes) == {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name, tensor in state.items():
        torch.testing.assert_close(checkpoint.read(name), tensor)


def test_safetensors_and_state_dicts_are_read(net, tmp_path):
    state = net.state_dict()
    safetensors.torch.save_file(state, tmp_path / "a.safetensors")
    torch.save(state, tmp_path / "b.pt")
    torch.save({"state_dict": {f"module.{n}": t for n, t in state.items()}, "epoch": 3}, tmp_path / "c.pth")
    torch.save({"model": dict(net.named_parameters()) | dict(net.named_buffers())}, tmp_path / "d.bin")
    for name in ("a.safetensors", "b.pt", "c.pth", "d.bin"):
        found = open_checkpoint(tmp_path / name)
        same(found, net)
        assert found.label == name
        assert found.provenance["sha256"] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    same(open_checkpoint(state), net)
    same(open_checkpoint(net), net)


def test_folders_of_a_trainer_and_of_timm_are_read(net, tmp_path):
    state = net.state_dict()
    whole, shards, timm = (tmp_path / name for name in ("whole", "shards", "timm"))
    for folder in (whole, shards, timm):
        folder.mkdir()
    safetensors.torch.save_file(state, whole / "model.safetensors")
    first = {name: tensor for name, tensor in state.items() if name.startswith("0.")}
    rest = {name: tensor for name, tensor in state.items() if name not in first}
    safetensors.torch.save_file(first, shards / "model-1.safetensors")
    safetensors.torch.save_file(rest, shards / "model-2.safetensors")
    places = {name: f"model-{1 if name in first else 2}.safetensors" for name in state}
    (shards / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    torch.save(
        {"state_dict": state, "args": argparse.Namespace(lr=0.1), "metric": 1.5}, timm / "model_best.pth.tar"
    )
    for folder in (whole, shards, timm):
        same(open_checkpoint(folder), net)


def test_a_run_folder_is_read_if_its_checksum_holds(net, tmp_path):
    x, y = torch.randn(40, 6), torch.randint(3, (40,))
    recipe = gradlex.Recipe(generations=1, population=2, batch_size=8)
    run = gradlex.train(net, (x, y), recipe, out=tmp_path / "run", progress=False)
    same(open_checkpoint(tmp_path / "run"), run.model)
    weights = tmp_path / "run" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(InputError, match="checksum is not the one in result"):
        open_checkpoint(tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(InputError, match="is not finished"):
        open_checkpoint(tmp_path / "run")


class Payload:
    """What unpickling runs."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def archive_of(path: Path, data: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    """A file as torch.save writes it, around any pickle."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", sys.byteorder)
    return path


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
@pytest.mark.parametrize("kind", ["plain", "archive", "safetensors"])
def test_a_pickle_that_runs_code_is_refused_and_runs_none(kind, protocol, tmp_path):
    mark = tmp_path / "ran"
    data = pickle.dumps({"weight": Payload(f"touch {mark}")}, protocol=protocol)
    path = tmp_path / ("model.safetensors" if kind == "safetensors" else "model.pt")
    if kind == "archive":
        archive_of(path, data)
    else:
        path.write_bytes(data)
    with pytest.raises(InputError, match="wants posix.system" if kind == "archive" else "neither a sound"):
        open_checkpoint(path)
    assert not mark.exists()


def test_a_whole_pickled_model_is_refused(net, tmp_path):
    torch.save(net, tmp_path / "model.pt")
    with pytest.raises(InputError, match="which no state dict needs"):
        open_checkpoint(tmp_path / "model.pt")
    torch.save(net.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(InputError, match=r"before 1\.6"):
        open_checkpoint(tmp_path / "old.pt")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = archive_of(tmp_path / "bomb.pt", b"\0" * (100 << 20), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(InputError, match=r"compressed, which torch\.save never does"):
        open_checkpoint(path)
    with zipfile.ZipFile(tmp_path / "empty.pt", "w") as archive:
        archive.writestr("archive/version", "3\n")
    with pytest.raises(InputError, match=r"has no data\.pkl"):
        open_checkpoint(tmp_path / "empty.pt")


def test_a_pickle_that_asks_for_memory_is_refused(tmp_path):
    # bytearray(2**40), which torch's own check allows.
    data = b"\x80\x02}q\x00X\x01\x00\x00\x00wcbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x01\x85Rs."
    with pytest.raises(InputError, match=r"wants builtins\.bytearray"):
        open_checkpoint(archive_of(tmp_path / "large.pt", data))


def test_a_tensor_that_claims_more_than_is_stored_is_refused(tmp_path):
    torch.save({"weight": torch.zeros(1).expand(1 << 40)}, tmp_path / "wide.pt")
    with pytest.raises(InputError, match="more than is stored of it"):
        open_checkpoint(tmp_path / "wide.pt")
    with pytest.raises(InputError, match="no plain tensor"):
        open_checkpoint({"weight": torch.zeros(3).to_sparse()})


def header(content: object, body: bytes = b"") -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        struct.pack("<Q", 1 << 62) + b"{}",
        header(b"{not json"),
        header({"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}),
        header({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}, b"\0" * 8),
        header({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, b"\0" * 8),
        header({"w": {"dtype": "X9", "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8),
        os.urandom(4096),
    ],
    ids=[
        "empty",
        "short",
        "long header",
        "no json",
        "too large",
        "wrong size",
        "backwards",
        "no type",
        "noise",
    ],
)
def test_a_wrong_header_is_refused(data, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(InputError, match="neither a sound safetensors file nor a state dict"):
        open_checkpoint(path)


def test_what_is_no_state_dict_is_refused(tmp_path):
    for content, match in (
        ([1, 2], "holds a list"),
        ({"a": torch.zeros(1), "b": 3}, "'b' is a int"),
        (collections.OrderedDict(), "it is empty"),
        ({"state_dict": {"a": "text"}}, "'a' is a str"),
    ):
        torch.save(content, tmp_path / "model.pt")
        with pytest.raises(InputError, match=match):
            open_checkpoint(tmp_path / "model.pt")
    broken = io.BytesIO()
    torch.save({"a": torch.zeros(100)}, broken)
    (tmp_path / "cut.pt").write_bytes(broken.getvalue()[:-200])
    with pytest.raises(InputError, match="sound"):
        open_checkpoint(tmp_path / "cut.pt")


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links and devices")
def test_links_lead_to_regular_files_or_are_refused(net, tmp_path):
    safetensors.torch.save_file(net.state_dict(), tmp_path / "blob")
    (tmp_path / "link.safetensors").symlink_to(tmp_path / "blob")  # as the hub's cache has them
    same(open_checkpoint(tmp_path / "link.safetensors"), net)
    (tmp_path / "zero.safetensors").symlink_to("/dev/zero")
    (tmp_path / "loop.safetensors").symlink_to(tmp_path / "loop.safetensors")
    (tmp_path / "gone.safetensors").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.safetensors")
    for name in ("zero", "pipe"):
        with pytest.raises(InputError, match="is not a regular file"):
            open_checkpoint(tmp_path / f"{name}.safetensors")
    for name in ("loop", "gone", "missing"):
        with pytest.raises(InputError, match="cannot be read"):
            open_checkpoint(tmp_path / f"{name}.safetensors")


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", ".."])
def test_an_index_may_name_files_of_its_folder_only(name, net, tmp_path):
    (tmp_path / "folder").mkdir()
    safetensors.torch.save_file(net.state_dict(), tmp_path / "secret.safetensors")
    index = tmp_path / "folder" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(net.state_dict(), name)}))
    with pytest.raises(InputError, match="outside of its folder"):
        open_checkpoint(tmp_path / "folder")
    for content in ("[]", "{", '{"weight_map": 3}', "[" * 100_000):
        index.write_text(content)
        with pytest.raises(InputError, match="is not an index of shards"):
            open_checkpoint(tmp_path / "folder")


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no checkpoint"):
        open_checkpoint(tmp_path)
