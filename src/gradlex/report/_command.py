"""The command that makes a run again, from its recipe."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from gradlex.recipe import GIVEN, Recipe


def train_command(recipe: Recipe, *, out: str | None = None) -> str | None:
    """`gradlex train` with every field that is not a default; None where objects were passed in from Python."""
    if GIVEN in recipe.to_dict().values():
        return None
    defaults = Recipe().to_dict()
    words = ["gradlex", "train"]
    for name, value in recipe.to_dict().items():
        if value == defaults[name] or value is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [flag] * value
        elif isinstance(value, Mapping):
            words += [flag, *(f"{key}={_value(each)}" for key, each in value.items())]
        else:
            words += [flag, str(value)]
    return shlex.join([*words, *(() if out is None else ("--out", out))])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
