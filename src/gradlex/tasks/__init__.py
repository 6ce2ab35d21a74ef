"""What is learnt: loss, error per case, metrics. Nothing else knows what accuracy is."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
