"""Networks: the paper's seven, small and fast ones, and anyone's by `module:factory`."""

from gradlex.models.build import build as build
from gradlex.models.catalog import MODELS as MODELS

__all__ = ["MODELS", "build"]
