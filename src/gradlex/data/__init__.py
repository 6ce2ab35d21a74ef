"""Data: sources, samples with inputs of any structure, and augmentation of whole batches.

Names are imported on first use, those of the registry without torch; `__init__.pyi` lists them.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
