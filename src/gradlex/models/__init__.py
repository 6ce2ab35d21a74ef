"""The networks that come with gradlex; torch is imported only when one is built or counted."""

from typing import TYPE_CHECKING

from gradlex._lazy import lazy_attributes
from gradlex.models._build import build
from gradlex.models._registry import MODELS, ModelInfo

if TYPE_CHECKING:
    from gradlex.models._count import count

__all__ = ["MODELS", "ModelInfo", "build", "count"]

__getattr__ = lazy_attributes(__name__, {"count": "gradlex.models._count"})
