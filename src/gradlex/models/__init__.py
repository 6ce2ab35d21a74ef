"""The networks that come with gradlex; torch is imported only when one is built or counted.

What there is stands in `__init__.pyi`; each name is imported from its module on first use.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
