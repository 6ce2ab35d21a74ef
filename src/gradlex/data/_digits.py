"""scikit-learn's handwritten digits: real data that needs no download."""

from __future__ import annotations

import numpy as np

from gradlex.data._arrays import Arrays


def digits() -> Arrays:
    """1,797 pictures of 8 x 8 in bytes, without a test part of its own."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  # a second's import, needed here only

    bunch = load_digits()
    pictures = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
    names = tuple(str(name) for name in bunch.target_names)
    return Arrays(
        x_train=pictures, y_train=bunch.target.astype(np.int64), x_test=None, y_test=None, class_names=names
    )
