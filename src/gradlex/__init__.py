"""gradlex trains neural networks by gradient lexicase selection (Ding and Spector, ICLR 2022).

`import gradlex` imports no torch: names are imported on first use.
"""

import lazy_loader as lazy

__version__ = "1.0.0"

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
