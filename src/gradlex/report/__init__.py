"""From records to a data frame, a verdict, tables, figures and pages."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
