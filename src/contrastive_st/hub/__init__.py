"""Models to and from the Hub: cards, training metadata, push, pull, and conversion of published checkpoints."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
