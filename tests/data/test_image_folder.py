from __future__ import annotations

import contextlib
import os
import shutil

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from gradlex.data import load
from gradlex.errors import InputError
from gradlex.recipe import Recipe


def loaded(path, **fields):
    return load(Recipe(dataset=str(path), **fields))


def test_classes_are_the_folders_in_the_order_of_their_names(images):
    arrays = loaded(images)
    assert arrays.class_names == ("cat", "dog")
    assert arrays.y_train.tolist() == [0] * 4 + [1] * 4
    assert arrays.y_test.tolist() == [0] * 2 + [1] * 2
    assert (arrays.x_train[0] == (250, 0, 0)).all()
    assert (arrays.x_train[3] == (247, 0, 0)).all()
    assert (arrays.x_train[4] == (0, 0, 250)).all()


def test_images_are_resized_to_32_or_to_the_size_asked_for(images):
    assert loaded(images).x_train.shape == (8, 32, 32, 3)
    assert loaded(images, image_size=10).x_test.shape == (4, 10, 10, 3)


def test_an_image_that_has_the_size_already_keeps_its_pixels(images):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(images / "train" / "cat" / "0.png")
    assert np.array_equal(loaded(images, image_size=12).x_train[0], pixels)


@pytest.mark.parametrize(("mode", "colour"), [("L", 90), ("LA", (90, 255)), ("1", 1), ("RGBA", (9, 9, 9, 0))])
def test_images_of_other_kinds_become_three_channels(images, image, mode, colour):
    image(images / "train" / "cat" / "0.png", colour, mode)
    grey = {"1": 255, "RGBA": 9}.get(mode, 90)
    assert (loaded(images).x_train[0] == grey).all()


def test_a_grey_image_of_16_bits_keeps_its_shades(images):
    Image.fromarray(np.full((32, 32), 128 * 256, np.uint16)).save(images / "train" / "cat" / "0.png")
    assert (loaded(images).x_train[0] == 128).all()


@pytest.mark.parametrize("values", [(0, 255), (0, 1 << 20), (-5, 300)])
def test_whole_numbers_of_an_unknown_range_are_refused(images, values):
    pixels = np.linspace(*values, 64, dtype=np.int32).reshape(8, 8)
    Image.fromarray(pixels).save(images / "train" / "cat" / "0.tiff")
    with pytest.raises(
        InputError, match=rf"unknown range, {values[0]} to {values[1]}; store it with 8 or 16 bits"
    ):
        loaded(images)


def test_an_image_stands_as_its_camera_was_held(images):
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[:16] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it to the right
    Image.fromarray(pixels).save(images / "train" / "cat" / "0.png", exif=exif)
    found = loaded(images).x_train[0]
    assert (found[:, 16:].min(), found[:, :16].max()) == (255, 0)


def test_an_image_of_floats_is_refused(images):
    Image.fromarray(np.ones((8, 8), np.float32)).save(images / "train" / "cat" / "0.tiff")
    with pytest.raises(InputError, match=r"0\.tiff cannot be read: its pixels are floats"):
        loaded(images)


def test_a_palette_with_transparency_is_read_without_a_warning(images):
    palette = Image.new("RGB", (12, 12), (200, 100, 50)).convert("P", palette=Image.Palette.ADAPTIVE)
    palette.save(images / "train" / "cat" / "0.png", transparency=bytes(256))
    assert (loaded(images).x_train[0] == (200, 100, 50)).all()


def test_extensions_may_be_upper_case_and_images_lie_deeper(images, image):
    image(images / "train" / "cat" / "9.JPG")
    image(images / "train" / "cat" / "more" / "a.Png")
    assert loaded(images).y_train.tolist() == [0] * 6 + [1] * 4


def test_hidden_files_other_files_and_folders_named_like_images_are_left_out(images, image):
    cat = images / "train" / "cat"
    (cat / "._0.png").write_bytes(b"resource fork")
    (cat / "notes.txt").write_text("none")
    image(cat / ".thumbnails" / "0.png")
    image(images / "train" / ".hidden" / "0.png")
    (cat / "album.png").mkdir()
    assert len(loaded(images).y_train) == 8


def test_without_a_test_folder_a_share_is_kept_for_testing(images):
    shutil.rmtree(images / "test")
    arrays = loaded(images, test_fraction=0.25)
    assert arrays.y_train.tolist() == [0] * 3 + [1] * 3
    assert arrays.y_test.tolist() == [0, 1]


def test_an_unreadable_image_is_refused_by_its_name(images):
    (images / "train" / "dog" / "2.png").write_bytes(b"not an image")
    with pytest.raises(InputError, match=r"the image .*train/dog/2\.png cannot be read.*Fix or remove"):
        loaded(images)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "webp", "tiff", "ppm"])
def test_a_truncated_image_is_refused_by_its_name(images, suffix):
    path = images / "test" / "cat" / f"cut.{suffix}"
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(InputError, match=rf"cut\.{suffix} cannot be read"):
        loaded(images)


def test_links_to_images_and_folders_are_followed_wherever_they_lead(images, image, tmp_path):
    outside = image(tmp_path / "elsewhere" / "0.png", (9, 9, 9))
    (images / "train" / "cat" / "link.png").symlink_to(outside)
    (images / "train" / "cat" / "again.png").symlink_to(images / "train" / "cat" / "0.png")
    (images / "train" / "cat" / "more").symlink_to(outside.parent)
    (images / "train" / "bird").symlink_to(outside.parent)
    (images / "test").rename(tmp_path / "moved")
    (images / "test").symlink_to(tmp_path / "moved")
    (tmp_path / "linked").symlink_to(images)
    arrays = loaded(tmp_path / "linked")
    assert arrays.class_names == ("bird", "cat", "dog")
    assert np.bincount(arrays.y_train).tolist() == [1, 7, 4]
    assert (arrays.x_train[0] == 9).all()
    assert len(arrays.y_test) == 4


def test_a_folder_that_links_lead_back_to_is_read_once(images, image):
    image(images / "train" / "cat" / "deeper" / "0.png")
    (images / "train" / "cat" / "deeper" / "round").symlink_to(images / "train" / "cat")
    (images / "train" / "cat" / "deeper" / "twice").symlink_to(images / "train" / "cat" / "deeper")
    assert np.bincount(loaded(images).y_train).tolist() == [5, 4]


def test_a_class_that_is_a_broken_link_is_refused(images, tmp_path):
    (images / "train" / "bird").symlink_to(tmp_path / "unmounted")
    with pytest.raises(InputError, match="train/bird is a broken link"):
        loaded(images)


def test_a_broken_link_is_refused_by_its_name(images):
    (images / "train" / "cat" / "gone.png").symlink_to(images / "train" / "cat" / "nowhere.png")
    with pytest.raises(InputError, match=r"gone\.png cannot be read: it is not a file"):
        loaded(images)


@pytest.mark.parametrize("name", ["val", "valid", "validation"])
def test_without_test_the_validation_images_are_the_test_part(images, name):
    (images / "test").rename(images / name)
    arrays = loaded(images)
    assert arrays.y_test.tolist() == [0] * 2 + [1] * 2
    assert arrays.notes == (f"{images}: {name}/ is the test part.",)
    assert arrays.test_fraction is None


def test_validation_images_beside_a_test_part_are_left_out_with_a_note(images, image):
    assert loaded(images).notes == ()
    image(images / "val" / "cat" / "0.png")
    arrays = loaded(images, train_size=4)
    assert (len(arrays.y_train), len(arrays.y_test)) == (4, 4)
    assert arrays.notes == (f"{images}: val/ is not used.",)


def test_two_folders_of_validation_images_are_refused(images, image):
    (images / "test").rename(images / "val")
    image(images / "valid" / "cat" / "0.png")
    with pytest.raises(InputError, match="has val/ and valid/ but no test/: call one of them test/"):
        loaded(images)


def test_classes_without_a_part_are_split(images):
    arrays = loaded(images / "train", test_fraction=0.5)
    assert arrays.class_names == ("cat", "dog")
    assert arrays.y_train.tolist() == arrays.y_test.tolist() == [0, 0, 1, 1]
    assert arrays.test_fraction == 0.5
    assert not {row.tobytes() for row in arrays.x_train} & {row.tobytes() for row in arrays.x_test}


@pytest.mark.parametrize("name", ["test", "val"])
def test_a_test_part_without_a_training_part_is_refused(images, name):
    shutil.rmtree(images / "train")
    (images / "test").rename(images / name)
    with pytest.raises(InputError, match=f"has {name}/ but no train/: put the training images"):
        loaded(images)


@pytest.mark.parametrize("part", ["", "train"])
def test_a_folder_without_classes_is_refused(tmp_path, image, part):
    image(tmp_path / part / "0.png")
    with pytest.raises(InputError, match=r"has no class folders: a folder of images has train/<class>/"):
        loaded(tmp_path)


EPS = """%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 10 10
%%EndComments
0 0 10 10 rectfill
showpage
%%EOF
"""


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
def test_postscript_named_as_an_image_never_reaches_another_program(images, tmp_path, monkeypatch):
    called = tmp_path / "called"
    program = tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho called >> '{called}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    path = images / "train" / "cat" / "0.png"
    path.write_text(EPS)
    with pytest.raises(InputError, match=r"the image .*train/cat/0\.png cannot be read"):
        loaded(images)
    assert not called.exists()
    with contextlib.suppress(OSError), Image.open(path) as opened:  # left to itself, Pillow does call it
        opened.load()
    assert called.exists()


def test_an_image_of_another_format_than_its_name_says_is_taken(images):
    Image.new("RGB", (12, 12), (9, 9, 9)).save(images / "train" / "cat" / "0.png", format="BMP")
    assert (loaded(images).x_train[0] == 9).all()


@pytest.mark.parametrize("most", [100, 60])
def test_a_decompression_bomb_is_refused(images, monkeypatch, most):
    """Pillow only warns of images up to twice the limit; these have 144 pixels."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    with pytest.raises(InputError, match=r"cannot be read: .*decompression bomb"):
        loaded(images)


def test_control_characters_of_names_never_get_out(images, image):
    """A terminal obeys them: a downloaded folder could retitle a window, or worse."""
    escape = "\x1b]0;owned\x07"
    shutil.rmtree(images / "test")
    odd = images / "train" / f"cat{escape}"
    image(odd / "0.png")
    assert loaded(images).class_names == ("cat", f"cat{escape}", "dog")
    wrong = odd / f"1{escape}.png"
    wrong.write_bytes(b"no image")
    with pytest.raises(InputError, match=r"\\x1b\]0;owned\\x07") as unreadable:
        loaded(images)
    shutil.rmtree(odd)
    odd.mkdir()
    with pytest.raises(InputError, match=r"\\x1b\]0;owned\\x07 contains no images") as empty:
        loaded(images)
    odd.rmdir()
    image(images / "test" / f"bird{escape}" / "0.png")
    with pytest.raises(InputError, match=r"\\x1b\]0;owned\\x07', which train/ does not have") as unknown:
        loaded(images)
    moved = images.rename(images.with_name(f"all{escape}"))
    shutil.rmtree(moved / "train")
    with pytest.raises(InputError, match=r"\\x1b\]0;owned\\x07 has test/ but no train/") as nothing:
        loaded(moved)
    assert all(str(refused.value).isprintable() for refused in (unreadable, empty, unknown, nothing))


def test_a_class_without_an_image_is_refused_by_its_name(images):
    (images / "train" / "zebra").mkdir()
    with pytest.raises(InputError, match=r"train/zebra contains no images: add some, or remove"):
        loaded(images)


def test_a_part_without_an_image_is_refused(tmp_path):
    (tmp_path / "train" / "cat").mkdir(parents=True)
    with pytest.raises(InputError, match=r"train contains no images \(\.jpg"):
        loaded(tmp_path)


def test_one_class_only_is_refused(images):
    shutil.rmtree(images / "train" / "dog")
    shutil.rmtree(images / "test" / "dog")
    with pytest.raises(InputError, match="at least two classes are needed"):
        loaded(images)


def test_a_class_that_only_the_test_part_has_is_refused(images, image):
    image(images / "test" / "bird" / "0.png")
    with pytest.raises(InputError, match="has the class 'bird', which train/ does not have"):
        loaded(images)


def test_a_class_that_the_test_part_lacks_is_fine(images):
    shutil.rmtree(images / "test" / "cat")
    assert loaded(images).y_test.tolist() == [1, 1]


def test_a_size_that_does_not_fit_into_memory_is_refused(images):
    with pytest.raises(InputError, match="do not fit into memory: choose a smaller one"):
        loaded(images, image_size=10**9)
