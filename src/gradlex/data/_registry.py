"""What datasets there are, by name, and how the paper trains on each. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """One dataset and the settings a recipe takes where it leaves them open."""

    name: str
    description: str
    batch_size: int
    augment: str
    train_samples: int | None
    """Training samples; None if known only after loading."""
    baseline_generations: int
    """Epochs of the SGD baseline; methods with a population of p get p + 1 times as many generations."""


_INFOS = (
    DatasetInfo(
        name="digits",
        description="1,797 handwritten digits, 8 x 8, 10 classes; comes with scikit-learn",
        batch_size=32,
        augment="none",
        train_samples=1_438,
        baseline_generations=12,
    ),
    DatasetInfo(
        name="cifar10",
        description="60,000 images, 32 x 32 x 3, 10 classes (Krizhevsky 2009); downloaded",
        batch_size=128,
        augment="crop4,flip",
        train_samples=50_000,
        baseline_generations=200,
    ),
    DatasetInfo(
        name="cifar100",
        description="60,000 images, 32 x 32 x 3, 100 classes (Krizhevsky 2009); downloaded",
        batch_size=64,
        augment="crop4,flip",
        train_samples=50_000,
        baseline_generations=200,
    ),
    DatasetInfo(
        name="svhn",
        description="99,289 house-number digits, 32 x 32 x 3, without the extra set (Netzer et al. 2011); downloaded",
        batch_size=64,
        augment="crop4,flip",
        train_samples=73_257,
        baseline_generations=200,
    ),
)

DATASETS = {info.name: info for info in _INFOS}

OWN = DatasetInfo(
    name="your own",
    description="a .npz archive, a folder of images, or arrays",
    batch_size=64,
    augment="none",
    train_samples=None,
    baseline_generations=20,
)
"""What a recipe takes for data that has no entry of its own."""


def dataset_info(name: str) -> DatasetInfo:
    """The settings of a named dataset, or those of one's own data.

    Examples:
        >>> from gradlex.data import dataset_info
        >>> dataset_info("cifar10").augment, dataset_info("cifar10").batch_size
        ('crop4,flip', 128)
        >>> dataset_info("mine.npz").name  # your own data
        'your own'
    """
    return DATASETS.get(name, OWN)
