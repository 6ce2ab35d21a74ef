"""One generation's candidates: the parent, the disjoint split, SubGD, the optimizer's state, promotion.

What Algorithm 1 itself uses is free of torch; the rest is imported on first use.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
