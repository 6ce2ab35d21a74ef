"""One generation's candidates: the parent, the disjoint split, SubGD, and momentum between generations.

What Algorithm 1 itself uses is free of torch; the rest is imported on first use.
"""

from typing import TYPE_CHECKING

from gradlex._lazy import lazy_attributes
from gradlex.population._parent import Cost, OptimizerState, Parent, State
from gradlex.population._split import batches, split

if TYPE_CHECKING:
    from gradlex.population._optimizer import (
        export_state,
        import_state,
        make_optimizer,
        optimizer_keywords,
    )
    from gradlex.population._promotion import averaged, move_to_mean, moving_average, outer_step, pieces
    from gradlex.population._state import (
        batch_norm_layers,
        capture,
        channels_last,
        copy,
        install,
        moved,
        same_buffers,
        shielded,
        statistics_of,
    )
    from gradlex.population._subgd import Batch, all_finite, subgd

__all__ = [
    "Batch",
    "Cost",
    "OptimizerState",
    "Parent",
    "State",
    "all_finite",
    "averaged",
    "batch_norm_layers",
    "batches",
    "capture",
    "channels_last",
    "copy",
    "export_state",
    "import_state",
    "install",
    "make_optimizer",
    "move_to_mean",
    "moved",
    "moving_average",
    "optimizer_keywords",
    "outer_step",
    "pieces",
    "same_buffers",
    "shielded",
    "split",
    "statistics_of",
    "subgd",
]

_MODULES = {
    "_optimizer": ("export_state", "import_state", "make_optimizer", "optimizer_keywords"),
    "_promotion": ("averaged", "move_to_mean", "moving_average", "outer_step", "pieces"),
    "_state": (
        "batch_norm_layers",
        "capture",
        "channels_last",
        "copy",
        "install",
        "moved",
        "same_buffers",
        "statistics_of",
        "shielded",
    ),
    "_subgd": ("Batch", "all_finite", "subgd"),
}
__getattr__ = lazy_attributes(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)
