"""What watches a run: the seam, the records it is shown, progress, and loggers."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
