"""Models: `PreTrainedModel` subclasses that encode tokens, and functions that save and open them.

The names below are imported when they are first used, so opening an encoder imports only the code of its family.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
