"""Training: a thin subclass of the Trainer of transformers, its arguments and callbacks, and what scripts share."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
