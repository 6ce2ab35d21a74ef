"""CIFAR and SVHN from small files in the official formats, over a server on this machine, never the real one."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import pickle
import socket
import tarfile
import threading
from functools import partial

import numpy as np
import pytest
import scipy.io
from torchvision import datasets
from torchvision.datasets import utils

from gradlex import cli
from gradlex.data import load
from gradlex.errors import InputError
from gradlex.recipe import Recipe

NAMES = ("cifar10", "cifar100", "svhn")


def loaded(name, data_dir):
    return load(Recipe(dataset=name), data_dir)


def md5(content):
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site:
    """A dataset's official files, small, and torchvision's class told their checksums and address."""

    def __init__(self, name, folder, monkeypatch):
        self.name, self.folder, self._monkeypatch = name, folder, monkeypatch
        self.rng = np.random.default_rng(NAMES.index(name))
        folder.mkdir()
        self.images, self.labels = {}, {}
        self.files = self._svhn() if name == "svhn" else self._cifar()
        self.serve(closed_port())

    def serve(self, port):
        """Say that the files are at this port of this machine."""
        address = f"http://127.0.0.1:{port}"
        if self.name == "svhn":
            splits = {
                split: [f"{address}/{file}", file, md5((self.folder / file).read_bytes())]
                for split, file in (("train", "train_32x32.mat"), ("test", "test_32x32.mat"))
            }
            self._monkeypatch.setattr(datasets.SVHN, "split_list", splits)
        else:
            self._monkeypatch.setattr(self.source, "url", f"{address}/{self.files[0]}")

    def _samples(self, part, number, classes):
        self.images[part] = self.rng.integers(0, 256, (number, 32, 32, 3), dtype=np.uint8)
        self.labels[part] = self.rng.permutation(np.arange(number) % classes)
        return self.images[part], self.labels[part]

    def _cifar(self):
        self.source = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[self.name]
        classes = 10 if self.name == "cifar10" else 100
        key = "labels" if self.name == "cifar10" else "fine_labels"
        members = {}
        for part, listed in (("train", self.source.train_list), ("test", self.source.test_list)):
            x, y = self._samples(part, 200 if part == "train" else 20, classes)
            flat = x.transpose(0, 3, 1, 2).reshape(
                len(x), 3072
            )  # a row is all red, then green, then blue bytes
            for (file, _), rows in zip(listed, np.split(np.arange(len(x)), len(listed)), strict=True):
                batch = {"batch_label": file, key: y[rows].tolist(), "data": flat[rows], "filenames": []}
                members[file] = pickle.dumps(batch, protocol=2)
        self.class_names = tuple(f"class {i}" for i in range(classes))
        meta = self.source.meta
        members[meta["filename"]] = pickle.dumps({meta["key"]: list(self.class_names)}, protocol=2)
        with tarfile.open(self.folder / self.source.filename, "w:gz") as tar:
            for file, content in members.items():
                info = tarfile.TarInfo(f"{self.source.base_folder}/{file}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        patch = partial(self._monkeypatch.setattr, self.source)
        patch("tgz_md5", md5((self.folder / self.source.filename).read_bytes()))
        patch("train_list", [[file, md5(members[file])] for file, _ in self.source.train_list])
        patch("test_list", [[file, md5(members[file])] for file, _ in self.source.test_list])
        patch("meta", {**meta, "md5": md5(members[meta["filename"]])})
        return [self.source.filename]

    def _svhn(self):
        for part in ("train", "test"):
            x, y = self._samples(part, 40 if part == "train" else 20, 10)
            stored = np.where(y == 0, 10, y).astype(np.uint8)[:, None]  # there, a zero is labelled 10
            scipy.io.savemat(self.folder / f"{part}_32x32.mat", {"X": x.transpose(1, 2, 3, 0), "y": stored})
        self.class_names = tuple("0123456789")
        return ["train_32x32.mat", "test_32x32.mat"]


@pytest.fixture(params=NAMES)
def site(request, tmp_path, monkeypatch):
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    return Site(request.param, tmp_path / "site", monkeypatch)


@pytest.fixture
def online(site):
    handler = partial(_Quiet, directory=str(site.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        site.serve(server.server_port)
        yield server
        server.shutdown()
        thread.join()


def by_hand(site, data_dir):
    data_dir.mkdir(exist_ok=True)
    for file in site.files:
        (data_dir / file).write_bytes((site.folder / file).read_bytes())


def assert_is(arrays, site):
    assert arrays.x_train.dtype == arrays.x_test.dtype == np.uint8
    assert np.array_equal(arrays.x_train, site.images["train"])
    assert np.array_equal(arrays.x_test, site.images["test"])
    assert np.array_equal(arrays.y_train, site.labels["train"])
    assert np.array_equal(arrays.y_test, site.labels["test"])
    assert arrays.y_train.dtype == arrays.y_test.dtype == np.int64
    assert arrays.class_names == site.class_names
    assert arrays.x_train.flags.c_contiguous
    assert arrays.x_test.flags.c_contiguous


def test_files_put_there_by_hand_are_loaded_without_a_network(site, tmp_path):
    by_hand(site, tmp_path / "data")
    assert_is(loaded(site.name, tmp_path / "data"), site)


@pytest.mark.usefixtures("online")
def test_files_are_downloaded_once_with_a_progress_display(site, tmp_path, capfd):
    data_dir = tmp_path / "new" / "data"
    assert_is(loaded(site.name, data_dir), site)
    assert "100" in capfd.readouterr().err
    assert set(site.files) <= set(below(data_dir))
    assert not [path for path in below(data_dir) if path.startswith(".")]
    site.serve(closed_port())
    assert_is(loaded(site.name, data_dir), site)


def test_without_a_network_the_message_says_which_files_go_where(site, tmp_path):
    data_dir = tmp_path / "data"
    with pytest.raises(InputError) as refused:
        loaded(site.name, data_dir)
    message = str(refused.value)
    assert message.startswith(f"{site.name} could not be downloaded: ")
    assert f"Without a network, put {' and '.join(site.files)} (http://127.0.0.1:" in message
    assert f"into {data_dir} by hand" in message
    assert "damaged" not in message
    assert below(data_dir) == []


@pytest.mark.usefixtures("online")
def test_a_download_with_a_wrong_checksum_is_refused_and_not_kept(site, tmp_path):
    served = site.folder / site.files[-1]
    content = bytearray(served.read_bytes())
    content[len(content) // 2] ^= 1
    served.write_bytes(content)
    with pytest.raises(InputError, match=f"{site.name} could not be downloaded: File not found or corrupted"):
        loaded(site.name, tmp_path / "data")
    assert below(tmp_path / "data") == []


@pytest.mark.usefixtures("online")
def test_a_truncated_download_is_refused_and_not_kept(site, tmp_path):
    served = site.folder / site.files[-1]
    served.write_bytes(served.read_bytes()[:-100])
    with pytest.raises(InputError, match="could not be downloaded"):
        loaded(site.name, tmp_path / "data")
    assert below(tmp_path / "data") == []


def test_a_server_that_speaks_no_http_is_refused(site, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def babble():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1000)
                        connection.sendall(b"nonsense\r\n\r\n")

        thread = threading.Thread(target=babble, daemon=True)
        thread.start()
        site.serve(server.getsockname()[1])
        with pytest.raises(InputError, match="could not be downloaded"):
            loaded(site.name, tmp_path / "data")
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert below(tmp_path / "data") == []


def test_a_damaged_file_put_there_by_hand_is_named_and_left_alone(site, tmp_path):
    by_hand(site, tmp_path / "data")
    damaged = tmp_path / "data" / site.files[-1]
    damaged.write_bytes(b"altered" + damaged.read_bytes())
    before = {path: (tmp_path / "data" / path).read_bytes() for path in below(tmp_path / "data")}
    with pytest.raises(InputError, match=rf"{site.files[-1]} in .*data is damaged \(its checksum is wrong\)"):
        loaded(site.name, tmp_path / "data")
    assert {path: (tmp_path / "data" / path).read_bytes() for path in below(tmp_path / "data")} == before


@pytest.mark.usefixtures("online")
def test_a_damaged_file_is_replaced_by_a_sound_download(site, tmp_path):
    by_hand(site, tmp_path / "data")
    (tmp_path / "data" / site.files[-1]).write_bytes(b"altered")
    assert_is(loaded(site.name, tmp_path / "data"), site)
    site.serve(closed_port())
    assert_is(loaded(site.name, tmp_path / "data"), site)


@pytest.mark.parametrize("site", ["cifar10", "cifar100"], indirect=True)
def test_damaged_unpacked_batches_are_unpacked_again_from_the_sound_archive(site, tmp_path):
    by_hand(site, tmp_path / "data")
    loaded(site.name, tmp_path / "data")
    batch = tmp_path / "data" / site.source.base_folder / site.source.test_list[0][0]
    batch.write_bytes(b"altered")
    assert_is(loaded(site.name, tmp_path / "data"), site)
    assert not [path for path in below(tmp_path / "data") if path.endswith(".old")]


@pytest.mark.parametrize("site", ["cifar10"], indirect=True)
def test_an_interrupted_download_leaves_nothing_behind(site, tmp_path, monkeypatch):
    by_hand(site, tmp_path / "data")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setitem(utils._ARCHIVE_EXTRACTORS, ".tar", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loaded(site.name, tmp_path / "data")
    assert below(tmp_path / "data") == site.files


@pytest.mark.parametrize("site", ["cifar10"], indirect=True)
def test_a_pickle_with_a_wrong_checksum_is_never_opened(site, tmp_path):
    class Trap:
        def __reduce__(self):
            return exec, (f"open({str(tmp_path / 'sprung')!r}, 'w').close()",)

    by_hand(site, tmp_path / "data")
    loaded(site.name, tmp_path / "data")
    (tmp_path / "data" / site.files[0]).unlink()
    batch = tmp_path / "data" / site.source.base_folder / "data_batch_1"
    batch.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match="could not be downloaded"):
        loaded(site.name, tmp_path / "data")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("site", ["svhn"], indirect=True)
def test_a_data_folder_that_cannot_be_one_is_refused(site, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(
        InputError, match=r"the data folder .*file cannot be used: .* Choose another data_dir"
    ):
        loaded(site.name, tmp_path / "file")


@pytest.mark.parametrize("site", ["cifar10"], indirect=True)
def test_the_data_folder_is_the_users_cache_unless_given(site, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    by_hand(site, tmp_path / "cache" / "gradlex")
    assert_is(load(Recipe(dataset="cifar10")), site)


@pytest.mark.parametrize("site", ["cifar10"], indirect=True)
def test_the_command_refuses_in_one_line_and_writes_no_run(site, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(
            [
                "train",
                "--dataset",
                site.name,
                "--data-dir",
                str(tmp_path / "data"),
                "--out",
                str(tmp_path / "run"),
            ]
        )
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "could not be downloaded" in told
    assert "Traceback" not in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run").exists()
