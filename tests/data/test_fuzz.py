"""Whatever data is given, as arrays, archives or folders of images, it is taken or refused in one clear sentence."""

from __future__ import annotations

import io
import os
import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import nn

import gradlex
from gradlex import InputError, Recipe, RunError
from gradlex.data import load

MANY = 10_000
QUIET = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "phases": [
        Phase.explicit,
        Phase.generate,
    ],  # to shrink what fails would take minutes; it is small already
}


def examples(default):
    """So many inputs by default, and ten thousand where there is time."""
    return pytest.mark.parametrize("inputs", [default, pytest.param(MANY, marks=pytest.mark.slow)])


def refusal(error):
    """A sentence, neither too short to help nor too long to read."""
    text = str(error)
    assert 15 < len(text) < 2000, text
    return text


# Arrays of the library's callers.

NUMPY = (
    "?",
    "b",
    "B",
    "h",
    "H",
    "i",
    "I",
    "q",
    "Q",
    "e",
    "f",
    "d",
    "g",
    "F",
    "D",
    "m8[s]",
    "M8[D]",
    "U3",
    "S2",
    "O",
)
TORCH = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64),
    *(torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
)
FORMS = {
    "as it is": lambda a: a,
    "reversed": lambda a: a[::-1] if isinstance(a, np.ndarray) and a.ndim else a,
    "read-only": lambda a: _read_only(a) if isinstance(a, np.ndarray) else a,
    "other bytes": lambda a: a.astype(a.dtype.newbyteorder()) if isinstance(a, np.ndarray) else a,
    "a list": lambda a: a.tolist() if a.dtype not in (torch.float8_e4m3fn, torch.float8_e5m2) else a,
    "masked": lambda a: np.ma.masked_array(a, mask=True) if isinstance(a, np.ndarray) else a,
    "sparse": lambda a: a.to_sparse() if isinstance(a, torch.Tensor) and a.dtype == torch.float32 else a,
    "meta": lambda a: a.to("meta") if isinstance(a, torch.Tensor) else a,
    "in need of gradients": lambda a: a.requires_grad_() if _is_float_tensor(a) else a,
    "in a tuple": lambda a: (a,),
    "twice": lambda a: (a, a),
    "in a dict": lambda a: {"input": a},
    "in a dict of numbers": lambda a: {0: a},
    "nested": lambda a: [[{"x": (a, [a])}]],
}
ODD = (
    None,
    3,
    2.5,
    "text",
    b"bytes",
    object(),
    {},
    (),
    [],
    [[]],
    [[1], [2, 3]],
    range(12),
    iter([1]),
    np.float64(1),
)


def _read_only(array):
    array = array.copy()
    array.setflags(write=False)
    return array


def _is_float_tensor(a):
    return isinstance(a, torch.Tensor) and a.dtype in (torch.float32, torch.float64)


def filled(shape, dtype, kind):
    """An array of small whole numbers, or with what numbers go up to, in any type there is."""
    size = int(np.prod(shape))
    values = {
        "classes": np.arange(size) % 3,
        "zeros": np.zeros(size),
        "negative": -(np.arange(size) % 3),
        "broken": np.where(np.arange(size) % 5 == 4, np.nan, 1.0),
        "infinite": np.full(size, np.inf),
        "large": np.full(size, 2.0**62),
        "spread": np.linspace(-2, 2, size),
    }[kind].reshape(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(dtype, str):
            return values.astype("q").astype(dtype) if dtype[0] in "mMS" else values.astype(dtype)
        return torch.from_numpy(values).to(dtype)


def arrays(*shapes, mostly):
    kinds = st.sampled_from(["classes", "zeros", "negative", "broken", "infinite", "large", "spread"])
    plain = st.builds(filled, st.sampled_from(shapes), st.sampled_from([*NUMPY, *TORCH]), kinds)
    formed = st.builds(lambda a, form: FORMS[form](a), plain, st.sampled_from(sorted(FORMS)))
    good = st.builds(filled, st.sampled_from(shapes[:2]), st.sampled_from(mostly), st.just("classes"))
    return st.integers(0, 9).flatmap(lambda n: good if n < 5 else formed if n < 9 else st.sampled_from(ODD))


INPUTS = arrays(
    (12, 4),
    (12, 1, 2, 2),
    (12,),
    (11, 4),
    (0, 4),
    (12, 0),
    (2, 4),
    (),
    (12, 2, 2, 1),
    (1, 4),
    mostly=["f", "d"],
)
LABELS = arrays(
    (12,), (12, 1), (11,), (0,), (12, 0), (12, 3), (), (1,), mostly=[*"BhHiIqQ", torch.uint16, torch.uint64]
)


@examples(150)
def test_arrays_are_trained_on_or_refused(inputs):
    counts = dict.fromkeys(("ran", "refused", "diverged"), 0)
    recipe = Recipe(population=2, generations=1, batch_size=4, threads=1, precision="float32")

    @settings(max_examples=inputs, **QUIET)
    @given(x=INPUTS, y=LABELS, test=st.booleans())
    def check(x, y, test):
        net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy's and torch's own
                gradlex.train(net, (x, y), recipe, test=(x, y) if test else None)
            counts["ran"] += 1
        except InputError as error:
            refusal(error)
            counts["refused"] += 1
        except RunError as error:
            if "diverged" not in refusal(error):
                raise
            counts["diverged"] += 1

    check()
    print(f"\narrays: {counts}")
    assert counts["ran"] >= inputs // 40
    assert counts["refused"] >= inputs // 4


# Archives.


def npy(header, data=b"", version=(1, 0)):
    """A member of an archive with any header, true or not."""
    text = header.encode("latin-1", "replace")
    return (
        b"\x93NUMPY"
        + bytes(version)
        + len(text).to_bytes(2 if version[0] == 1 else 4, "little")
        + text
        + data
    )


HEADERS = st.builds(
    "{{'descr': {}, 'fortran_order': {}, 'shape': {}}}\n".format,
    st.sampled_from(
        ["'<f4'", "'|u1'", "'<i8'", "'|O'", "'<U5'", "'>c16'", "'<M8[ns]'", "[('a', '<f4')]", "'x'", "3"]
    ),
    st.sampled_from(["False", "True", "None", "1"]),
    st.sampled_from(
        [
            "(12, 4)",
            "(12,)",
            "()",
            "(0,)",
            "(-1, 4)",
            "(10**15,)",
            "(2**63, 2)",
            "(12, 'x')",
            "12",
            "__import__",
        ]
    ),
)
MEMBERS = st.sampled_from(
    [
        *("x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy", "class_names.npy", "x_train"),
        *("../x_train.npy", "a/b.npy", "\x1b[31m.npy", "x_train.npy/", "caf\u00e9.npy"),
    ]
)
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.builds(npy, HEADERS, st.binary(max_size=60), st.sampled_from([(1, 0), (2, 0), (3, 0), (9, 9)])),
    st.builds(npy, st.text(max_size=30), st.binary(max_size=60)),
)


def saved(parts, *, compressed):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (np.savez_compressed if compressed else np.savez)(file, **parts)
    return file.getvalue()


def damaged(data, draw):
    """The file with a part of it changed, cut, put in twice or put in from elsewhere."""
    for _ in range(draw(st.integers(1, 3))):
        # Not up to the length itself: a compressed long double has padding of any value, and so any length.
        place = draw(st.integers(0, 10**6)) % (len(data) + 1)
        length = draw(st.integers(0, 40))
        other = draw(st.binary(max_size=8))
        data = {
            "change": data[:place] + other + data[place + len(other) :],
            "cut": data[:place] + data[place + length :],
            "end": data[:place],
            "repeat": data[: place + length] + data[place:],
            "insert": data[:place] + other + data[place:],
        }[draw(st.sampled_from(["change", "change", "cut", "end", "repeat", "insert"]))]
    return data


FINE = {
    "x_train": np.arange(48, dtype=np.float32).reshape(12, 4),
    "y_train": np.arange(12) % 3,
    "x_test": np.ones((6, 4), np.float32),
    "y_test": np.arange(6) % 3,
}
ARRAY = st.builds(
    filled,
    st.sampled_from(
        [(12, 4), (12,), (6, 4), (6,), (12, 5, 5, 3), (12, 3, 5, 5), (12, 5, 5), (12, 1), (), (0, 4), (12, 0)]
    ),
    st.sampled_from([kind for kind in NUMPY if kind != "O"]),
    st.sampled_from(["classes", "zeros", "negative", "broken", "large", "spread"]),
)


@st.composite
def archives(draw):
    """An archive: sound arrays of any kind, a sound file that was damaged, or members that pretend to be arrays."""
    kind = draw(st.sampled_from(["arrays", "arrays", "damaged", "members"]))
    if kind == "members":
        file = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
            warnings.simplefilter("ignore")  # a name that is there twice
            for name, content in draw(st.lists(st.tuples(MEMBERS, CONTENTS), max_size=5)):
                archive.writestr(name, content)
        return file.getvalue()
    changes = draw(st.dictionaries(st.sampled_from([*FINE, "class_names"]), ARRAY | st.none(), max_size=2))
    parts = {name: array for name, array in {**FINE, **changes}.items() if array is not None}
    data = saved(parts, compressed=draw(st.booleans()))
    return damaged(data, draw) if kind == "damaged" else data


@examples(400)
def test_an_archive_is_read_or_refused(inputs, tmp_path):
    counts = {"read": 0, "refused": 0}
    path = tmp_path / "data.npz"

    @settings(max_examples=inputs, **QUIET)
    @given(data=archives())
    def check(data):
        path.write_bytes(data)
        try:
            found = load(Recipe(dataset=str(path)))
            counts["read"] += 1
        except InputError as error:
            if not refusal(error).isprintable():
                raise
            counts["refused"] += 1
        else:
            assert np.isfinite(found.x_train).all()
            if found.labelled:
                assert set(np.unique(found.y_train)) == set(range(found.num_classes))
            else:
                assert np.isfinite(found.y_train).all()
                assert found.y_test is None or found.y_test.shape[1:] == found.y_train.shape[1:]

    check()
    print(f"\narchives: {counts}")
    assert counts["read"] >= inputs // 40
    assert counts["refused"] >= inputs // 3


# Folders of images.


def encoded(form, mode, size):
    file = io.BytesIO()
    Image.new(mode, (size, size), 1).save(file, format=form)
    return file.getvalue()


IMAGES = [
    *(encoded(form, mode, 9) for form in ("PNG", "TIFF") for mode in ("RGB", "L", "P", "1", "I;16")),
    *(encoded(form, "RGB", 9) for form in ("JPEG", "BMP", "WEBP", "PPM", "GIF")),
    encoded("TIFF", "F", 9),
    encoded("TIFF", "CMYK", 9),
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) run\n",
    b"P6\n99999 99999\n255\n",
    b"GIF89a\xff\xff\xff\xff\x00\x00\x00",
]
NAMES = st.sampled_from(
    [
        "1.png",
        "2.PNG",
        "3.jpg",
        "4.tiff",
        "5.webp",
        "6.bmp",
        "7.ppm",
        "8.gif",
        "9.txt",
        ".hidden.png",
        "\x1b[31m.png",
        "a\nb.jpg",
    ]
)


@st.composite
def files(draw):
    """Where an image lies, what it holds, and whether it is a file at all."""
    part = draw(
        st.sampled_from(
            ["train/a", "train/b", "train/c", "test/a", "test/z", "val/a", "a", "train", "train/a/deep"]
        )
    )
    data = draw(st.sampled_from(IMAGES))
    if draw(st.integers(0, 2)) == 0:
        data = damaged(data, draw)
    kind = draw(st.sampled_from(["file"] * 8 + ["folder", "broken link", "loop", "pipe"]))
    return part, draw(NAMES), data, kind


def put(root, part, name, data, kind):
    path = Path(root, part, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() or path.is_symlink():
        return
    if kind == "file":
        path.write_bytes(data)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":  # reading it would never end
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere" if kind == "broken link" else "..")


@examples(300)
def test_a_folder_of_images_is_read_or_refused(inputs, tmp_path):
    counts = {"read": 0, "refused": 0}
    sound = [(f"train/{name}", f"0{i}.png", IMAGES[0], "file") for name in "ab" for i in range(3)]

    @settings(max_examples=inputs, **QUIET)
    @given(odd=st.lists(files(), max_size=3), whole=st.integers(0, 4))
    def check(odd, whole):
        root = tmp_path / "images"
        for each in (*(sound if whole else ()), *odd):
            put(root, *each)
        root.mkdir(exist_ok=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow's own, of damaged files
                found = load(Recipe(dataset=str(root), image_size=6))
            counts["read"] += 1
        except InputError as error:
            if not refusal(error).isprintable():
                raise
            counts["refused"] += 1
        else:
            assert found.x_train.shape[1:] == (6, 6, 3)
        shutil.rmtree(root)

    check()
    print(f"\nfolders of images: {counts}")
    assert counts["read"] >= inputs // 20
    assert counts["refused"] >= inputs // 4
