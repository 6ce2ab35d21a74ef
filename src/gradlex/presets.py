"""Presets: recipes that have a name. They are sets of a Recipe's fields, and what is stored is the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from gradlex.errors import unknown_name

Name: TypeAlias = Literal["paper", "branched"]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One recipe that has a name.

    Examples:
        >>> from gradlex.presets import PRESETS
        >>> PRESETS["paper"].sentence
        'gradient lexicase selection as in Ding & Spector 2022, which is the default'
        >>> PRESETS["paper"].fields["lr"]
        0.1
    """

    sentence: str
    """What it does, in a few words."""
    fields: Mapping[str, Any]
    """The recipe's fields that it sets; the others have their defaults."""


PRESETS: Mapping[Name, Preset] = MappingProxyType(
    {
        # Population and momentum are left open, so that --selection sgd makes it the paper's baseline.
        "paper": Preset(
            sentence="gradient lexicase selection as in Ding & Spector 2022, which is the default",
            fields=MappingProxyType(
                {
                    "optimizer": "sgd",
                    "lr": 0.1,
                    "schedule": "cosine",
                    "weight_decay": 1e-4,
                    "branch_at": 0.0,
                    "tail": "continue",
                    "tail_mean": False,
                    "selection": "lexicase",
                    "parts": "disjoint",
                    "cases": "clean",
                    "promotion": "winner",
                }
            ),
        ),
        "branched": Preset(
            sentence="one network for three quarters of the generations, then the average of the candidates at a high, "
            "constant learning rate, keeping momentum; the final model is the mean of the parents since",
            # Where a cosine schedule is at three quarters, a factor of 7 is about the initial learning rate.
            fields=MappingProxyType(
                {
                    "branch_at": 0.75,
                    "tail": "constant",
                    "tail_options": {"factor": 7},
                    "tail_mean": True,
                    "promotion": "average",
                    "momentum": "inherit",
                }
            ),
        ),
    }
)


def find_preset(name: str) -> Preset:
    """The preset of this name.

    Examples:
        >>> import gradlex
        >>> preset = gradlex.presets.find_preset("branched")
        >>> recipe = gradlex.Recipe(**preset.fields, generations=100)
        >>> recipe.branch_at, recipe.promotion
        (0.75, 'average')
    """
    for known, preset in PRESETS.items():
        if known == name:
            return preset
    raise unknown_name("preset", name, PRESETS)
