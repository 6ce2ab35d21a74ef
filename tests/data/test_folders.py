"""Folders of images."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from gradlex import InputError, Recipe
from gradlex.data import prepare


def parts(root, **fields):
    return prepare(None, Recipe(dataset=str(root), **{"image_size": 6, **fields}))


def test_classes_are_folders_and_images_are_square_bytes(images):
    found = parts(images)
    inputs, targets = found.train.clean(np.arange(8))
    assert (inputs.dtype, inputs.shape) == (torch.uint8, (8, 3, 6, 6))
    assert targets.tolist() == [0] * 4 + [1] * 4
    assert inputs[:, :, 0, 0].tolist() == [[250 - i, 0, 0] for i in range(4)] + [[0, 0, 250 - i] for i in range(4)]
    assert found.class_names == ("cat", "dog")
    assert (len(found.test), found.recipe.image_size, found.recipe.augment) == (4, 6, "crop1,flip")
    assert parts(images, image_size=None).sample_shape == (3, 32, 32)


def test_a_folder_of_classes_alone_gets_a_test_part(images):
    found = parts(images / "train", test_fraction=0.25)
    assert (len(found.train), found.test.targets.tolist()) == (6, [0, 1])


def test_a_validation_folder_is_the_test_part_if_there_is_no_other(images, image):
    (images / "test").rename(images / "val")
    assert len(parts(images).test) == 4
    image(images / "test" / "cat" / "a.png")
    assert len(parts(images).test) == 1


def test_deeper_folders_belong_to_their_class_and_hidden_files_to_none(images, image):
    image(images / "train" / "cat" / "more" / "deep" / "a.JPG")
    image(images / "train" / "cat" / ".hidden.png")
    image(images / "train" / "cat" / ".cache" / "b.png")
    (images / "train" / "cat" / "notes.txt").write_text("no image")
    assert len(parts(images).train) == 9


def test_links_to_folders_inside_a_class_are_not_followed(images):
    (images / "train" / "cat" / "loop").symlink_to(images / "train")
    (images / "train" / "cat" / "self").symlink_to(images / "train" / "cat")
    found = parts(images)
    assert found.train.targets.tolist() == [0] * 4 + [1] * 4


@pytest.mark.parametrize("target", [".", "..", "cat", "cat/.."])
def test_a_class_that_links_back_into_the_data_is_an_error(images, target):
    (images / "train" / "loop").symlink_to(target, target_is_directory=True)
    with pytest.raises(InputError, match="loop is a link back into"):
        parts(images)


def test_a_class_may_be_a_link_to_a_folder_elsewhere(images, image, tmp_path):
    for i in range(3):
        image(tmp_path / "elsewhere" / f"{i}.png")
    (images / "train" / "fox").symlink_to(tmp_path / "elsewhere")
    assert parts(images).train.targets.bincount().tolist() == [4, 4, 3]


@pytest.mark.parametrize(
    ("mode", "color", "expected"),
    [
        ("L", 90, [90] * 3),
        ("RGBA", (10, 20, 30, 0), [10, 20, 30]),
        ("P", 0, None),
        ("1", 1, [255] * 3),
        ("LA", (40, 9), [40] * 3),
    ],
)
def test_images_of_other_modes_become_rgb(images, image, mode, color, expected):
    image(images / "train" / "cat" / "0.png", color, mode)
    found = parts(images).train.clean(np.arange(1))[0][0, :, 3, 3].tolist()
    assert expected is None or found == expected


@pytest.mark.parametrize(("name", "mode"), [("0.tif", "F"), ("0.tif", "I"), ("0.png", "I;16")])
def test_deeper_pixels_are_an_error_rather_than_white(images, image, name, mode):
    image(images / "train" / "cat" / name, 3, mode)
    with pytest.raises(InputError, match="more than 8 bits"):
        parts(images)


def test_hostile_and_damaged_files_are_errors(images, image):
    path = images / "train" / "cat" / "0.png"
    sound = path.read_bytes()
    for content in (b"", sound[:40], b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"GIF89a"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"the image .*0\.png cannot be read"):
            parts(images)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        parts(images)
    path.unlink()
    path.symlink_to("nowhere.png")
    with pytest.raises(InputError, match="cannot be read"):
        parts(images)


def test_an_image_that_unpacks_to_too_many_pixels_is_an_error(images, monkeypatch):
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InputError, match="cannot be read: Image size"):
        parts(images)


def test_more_images_than_fit_into_memory_are_an_error(images):
    with pytest.raises(InputError, match="don't fit into memory"):
        parts(images, image_size=1_000_000)


def test_folders_that_are_no_dataset_are_errors(images, image, tmp_path):
    image(tmp_path / "one" / "cat" / "a.png")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "\x1b[2J").mkdir()
    (images / "test" / "fox").mkdir()
    for root, message in (
        (tmp_path / "one", "fewer than two classes"),
        (tmp_path / "bare", r"no images .* in '\\x1b\[2J'"),
        (images, "class 'fox', which the training part doesn't have"),
        (tmp_path, "no images"),
    ):
        with pytest.raises(InputError, match=message):
            parts(root)
    (images / "test" / "fox").rmdir()
    for path in (images / "test").rglob("*.png"):
        path.unlink()
    with pytest.raises(InputError, match="has no test images"):
        parts(images)
    (images / "train").rename(images / "training")
    with pytest.raises(InputError, match=r"cannot be read: .*train"):
        parts(images)
