"""The paper's experiments as grids of recipes, one's own comparison, and the running of many runs.

What only says which runs there are is free of torch; what runs them is imported on first use.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
