"""Networks: the paper's seven, small and fast ones, and anyone's by `module:factory`."""

from gradlex.models.build import build as build
from gradlex.models.catalog import MODELS as MODELS
from gradlex.models.catalog import ModelInfo as ModelInfo

__all__ = ["MODELS", "ModelInfo", "build"]
