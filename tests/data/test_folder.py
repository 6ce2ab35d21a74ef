from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

from gradlex.data import load
from gradlex.errors import InputError
from gradlex.recipe import Recipe


def loaded(path, **fields):
    return load(Recipe(dataset=str(path), **fields))


def test_classes_are_the_folders_in_the_order_of_their_names(pictures):
    arrays = loaded(pictures)
    assert arrays.class_names == ("cat", "dog")
    assert arrays.y_train.tolist() == [0] * 4 + [1] * 4
    assert arrays.y_test.tolist() == [0] * 2 + [1] * 2
    assert (arrays.x_train[0] == (250, 0, 0)).all()
    assert (arrays.x_train[3] == (247, 0, 0)).all()
    assert (arrays.x_train[4] == (0, 0, 250)).all()


def test_pictures_are_resized_to_32_or_to_the_size_asked_for(pictures):
    assert loaded(pictures).x_train.shape == (8, 32, 32, 3)
    assert loaded(pictures, image_size=10).x_test.shape == (4, 10, 10, 3)


def test_a_picture_that_has_the_size_already_keeps_its_pixels(pictures):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(pictures / "train" / "cat" / "0.png")
    assert np.array_equal(loaded(pictures, image_size=12).x_train[0], pixels)


@pytest.mark.parametrize(("mode", "colour"), [("L", 90), ("LA", (90, 255)), ("1", 1), ("RGBA", (9, 9, 9, 0))])
def test_pictures_of_other_kinds_become_three_channels(pictures, picture, mode, colour):
    picture(pictures / "train" / "cat" / "0.png", colour, mode)
    grey = {"1": 255, "RGBA": 9}.get(mode, 90)
    assert (loaded(pictures).x_train[0] == grey).all()


def test_a_grey_picture_of_16_bits_keeps_its_shades(pictures):
    Image.fromarray(np.full((32, 32), 128 * 256, np.uint16)).save(pictures / "train" / "cat" / "0.png")
    assert (loaded(pictures).x_train[0] == 128).all()


@pytest.mark.parametrize("values", [(0, 255), (0, 1 << 20), (-5, 300)])
def test_whole_numbers_of_an_unknown_range_are_refused(pictures, values):
    pixels = np.linspace(*values, 64, dtype=np.int32).reshape(8, 8)
    Image.fromarray(pixels).save(pictures / "train" / "cat" / "0.tiff")
    with pytest.raises(
        InputError, match=rf"unknown range, {values[0]} to {values[1]}; store it with 8 or 16 bits"
    ):
        loaded(pictures)


def test_a_picture_stands_as_its_camera_was_held(pictures):
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[:16] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it to the right
    Image.fromarray(pixels).save(pictures / "train" / "cat" / "0.png", exif=exif)
    found = loaded(pictures).x_train[0]
    assert (found[:, 16:].min(), found[:, :16].max()) == (255, 0)


def test_a_picture_of_floats_is_refused(pictures):
    Image.fromarray(np.ones((8, 8), np.float32)).save(pictures / "train" / "cat" / "0.tiff")
    with pytest.raises(InputError, match=r"0\.tiff cannot be read: its pixels are floats"):
        loaded(pictures)


def test_a_palette_with_transparency_is_read_without_a_warning(pictures):
    palette = Image.new("RGB", (12, 12), (200, 100, 50)).convert("P", palette=Image.Palette.ADAPTIVE)
    palette.save(pictures / "train" / "cat" / "0.png", transparency=bytes(256))
    assert (loaded(pictures).x_train[0] == (200, 100, 50)).all()


def test_extensions_may_be_upper_case_and_pictures_lie_deeper(pictures, picture):
    picture(pictures / "train" / "cat" / "9.JPG")
    picture(pictures / "train" / "cat" / "more" / "a.Png")
    assert loaded(pictures).y_train.tolist() == [0] * 6 + [1] * 4


def test_hidden_files_other_files_and_folders_named_like_pictures_are_left_out(pictures, picture):
    cat = pictures / "train" / "cat"
    (cat / "._0.png").write_bytes(b"resource fork")
    (cat / "notes.txt").write_text("none")
    picture(cat / ".thumbnails" / "0.png")
    picture(pictures / "train" / ".hidden" / "0.png")
    (cat / "album.png").mkdir()
    assert len(loaded(pictures).y_train) == 8


def test_without_a_test_folder_a_share_is_kept_for_testing(pictures):
    shutil.rmtree(pictures / "test")
    arrays = loaded(pictures, test_fraction=0.25)
    assert arrays.y_train.tolist() == [0] * 3 + [1] * 3
    assert arrays.y_test.tolist() == [0, 1]


def test_an_unreadable_picture_is_refused_by_its_name(pictures):
    (pictures / "train" / "dog" / "2.png").write_bytes(b"not a picture")
    with pytest.raises(InputError, match=r"the picture .*train/dog/2\.png cannot be read.*Mend or remove"):
        loaded(pictures)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "webp", "tiff", "ppm"])
def test_a_truncated_picture_is_refused_by_its_name(pictures, suffix):
    path = pictures / "test" / "cat" / f"cut.{suffix}"
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(InputError, match=rf"cut\.{suffix} cannot be read"):
        loaded(pictures)


def test_a_link_out_of_the_folder_is_refused(pictures, picture, tmp_path):
    outside = picture(tmp_path / "elsewhere" / "0.png")
    link = pictures / "train" / "cat" / "link.png"
    link.symlink_to(outside)
    with pytest.raises(InputError, match=r"link\.png is a link that leads out of"):
        loaded(pictures)
    link.unlink()
    link.symlink_to(pictures / "test" / "cat" / "0.png")
    with pytest.raises(InputError, match=r"link\.png is a link that leads out of"):
        loaded(pictures)


def test_linked_folders_are_refused(pictures, picture, tmp_path):
    picture(tmp_path / "elsewhere" / "0.png")
    for place in (pictures / "train" / "bird", pictures / "train" / "cat" / "more"):
        place.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(InputError, match=f"{place.name} is a link to a folder"):
            loaded(pictures)
        place.unlink()
    (pictures / "test").rename(tmp_path / "moved")
    (pictures / "test").symlink_to(tmp_path / "moved")
    with pytest.raises(InputError, match="test is a link to a folder"):
        loaded(pictures)


def test_a_link_within_the_part_and_a_link_to_the_whole_folder_are_fine(pictures, tmp_path):
    (pictures / "train" / "cat" / "again.png").symlink_to(pictures / "train" / "cat" / "0.png")
    (tmp_path / "linked").symlink_to(pictures)
    assert len(loaded(tmp_path / "linked").y_train) == 9


def test_a_broken_link_is_refused_by_its_name(pictures):
    (pictures / "train" / "cat" / "gone.png").symlink_to(pictures / "train" / "cat" / "nowhere.png")
    with pytest.raises(InputError, match=r"gone\.png cannot be read: it is not a file"):
        loaded(pictures)


def test_a_folder_without_train_is_refused(tmp_path):
    (tmp_path / "cat").mkdir()
    with pytest.raises(
        InputError, match=r"there is no folder .*train: a folder of pictures has train/<class>/"
    ):
        loaded(tmp_path)


def test_a_train_folder_without_classes_is_refused(tmp_path, picture):
    picture(tmp_path / "train" / "0.png")
    with pytest.raises(InputError, match=r"has no class folders: put pictures into train/<class>/"):
        loaded(tmp_path)


def test_a_class_without_a_picture_is_refused_by_its_name(pictures):
    (pictures / "train" / "zebra").mkdir()
    with pytest.raises(InputError, match=r"train/zebra holds no picture: add some, or remove"):
        loaded(pictures)


def test_a_part_without_a_picture_is_refused(tmp_path):
    (tmp_path / "train" / "cat").mkdir(parents=True)
    with pytest.raises(InputError, match=r"train holds no picture \(\.jpg"):
        loaded(tmp_path)


def test_one_class_only_is_refused(pictures):
    shutil.rmtree(pictures / "train" / "dog")
    shutil.rmtree(pictures / "test" / "dog")
    with pytest.raises(InputError, match="at least two classes are needed"):
        loaded(pictures)


def test_a_class_that_only_the_test_part_has_is_refused(pictures, picture):
    picture(pictures / "test" / "bird" / "0.png")
    with pytest.raises(InputError, match="has the class 'bird', which train/ has not"):
        loaded(pictures)


def test_a_class_that_the_test_part_lacks_is_fine(pictures):
    shutil.rmtree(pictures / "test" / "cat")
    assert loaded(pictures).y_test.tolist() == [1, 1]


def test_a_size_that_does_not_fit_into_memory_is_refused(pictures):
    with pytest.raises(InputError, match="do not fit into memory: choose a smaller one"):
        loaded(pictures, image_size=10**9)
