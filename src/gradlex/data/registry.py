"""The datasets that have names, and the settings that a recipe takes if it leaves them open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DatasetInfo:
    """One dataset and its settings. Methods with a population of p train for p + 1 times the baseline's `epochs`."""

    name: str
    description: str
    batch_size: int
    augment: str
    epochs: int


_INFOS = (
    DatasetInfo("digits", "1,797 handwritten digits, 8 x 8, 10 classes; comes with scikit-learn", 32, "none", 12),
    DatasetInfo("cifar10", "60,000 images, 32 x 32 x 3, 10 classes (Krizhevsky 2009)", 128, "crop4,flip", 200),
    DatasetInfo("cifar100", "60,000 images, 32 x 32 x 3, 100 classes (Krizhevsky 2009)", 64, "crop4,flip", 200),
    DatasetInfo("svhn", "99,289 house numbers, 32 x 32 x 3, no extra set (Netzer et al. 2011)", 64, "crop4,flip", 200),
    DatasetInfo("mnist", "70,000 handwritten digits, 28 x 28, 10 classes (LeCun et al. 1998)", 64, "none", 20),
    DatasetInfo("fashion-mnist", "70,000 images of clothing, 28 x 28, 10 classes (Xiao et al. 2017)", 64, "none", 20),
)

DATASETS = {info.name: info for info in _INFOS}
"""All but digits are downloaded when they are first used."""

OWN = DatasetInfo("your own", "a .npz archive, a folder of images, a table (.csv, .parquet), or arrays", 64, "none", 20)
"""The settings for data without an entry; files of color images in bytes are cropped by an eighth and flipped."""
