"""One run: put together from names or objects, carried out, recorded on disk, resumed, evaluated again."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
