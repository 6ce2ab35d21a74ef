"""Records -> tables, plots, a page. Everything here is made from the files of runs, and can be made again."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
