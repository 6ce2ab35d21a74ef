"""A run is identified by its resolved recipe, with the data's fingerprint rather than its path."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from gradlex.errors import InputError
from gradlex.recipe import Recipe


def run_name(recipe: Recipe, fingerprint: str) -> str:
    """The name of the run's folder: a few words for people, and 12 digits of the hash that identifies it.

    Fields at their defaults are left out of the hash, so that a field which a later version adds changes nothing.
    """
    told = {**recipe.changed(), "dataset": fingerprint}
    if recipe.init_from is not None:
        told["init_from"] = _file_digest(Path(recipe.init_from))
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    promotion = () if recipe.promotion == "winner" else (recipe.promotion,)
    words = (recipe.model, recipe.selection, *promotion, f"seed{recipe.seed}", digest[:12])
    return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", word) for word in words)


def _file_digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"init_from {path} cannot be read: {error}.") from error
