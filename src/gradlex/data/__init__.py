"""What is learnt from: sources, arrays on the device, augmentation of whole batches.

The registry of names is free of torch; everything else is imported on first use.
"""

from typing import TYPE_CHECKING

from gradlex._lazy import lazy_attributes
from gradlex.data._registry import DATASETS, OWN, DatasetInfo

if TYPE_CHECKING:
    from gradlex.data._array_samples import ArraySamples
    from gradlex.data._arrays import Arrays, check_samples
    from gradlex.data._augment import Augmentation, crop, crop_flip, flip, parse_augment
    from gradlex.data._dataset_samples import DatasetSamples
    from gradlex.data._load import dataset_info, is_folder, load
    from gradlex.data._normalization import Normalization
    from gradlex.data._samples import Samples

__all__ = [
    "DATASETS",
    "OWN",
    "ArraySamples",
    "Arrays",
    "Augmentation",
    "DatasetInfo",
    "DatasetSamples",
    "Normalization",
    "Samples",
    "check_samples",
    "crop",
    "crop_flip",
    "dataset_info",
    "flip",
    "is_folder",
    "load",
    "parse_augment",
]

_MODULES = {
    "_array_samples": ("ArraySamples",),
    "_arrays": ("Arrays", "check_samples"),
    "_augment": ("Augmentation", "crop", "crop_flip", "flip", "parse_augment"),
    "_dataset_samples": ("DatasetSamples",),
    "_load": ("dataset_info", "is_folder", "load"),
    "_normalization": ("Normalization",),
    "_samples": ("Samples",),
}
__getattr__ = lazy_attributes(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)
