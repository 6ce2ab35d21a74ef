"""gradlex trains neural networks by gradient lexicase selection (Ding and Spector, ICLR 2022).

`import gradlex` imports no torch: names are imported on first use.
"""

import lazy_loader as lazy

from gradlex._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
