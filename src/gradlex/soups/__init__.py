"""Soups: which of several checkpoints, or which mixture of them, chosen by cases."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
