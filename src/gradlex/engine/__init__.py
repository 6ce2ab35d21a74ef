"""Who computes: a worker alone, or a team of them; cases are evaluated lazily."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
