"""Data: readers and corpora give tokenized rows, collators make batches of them.

The names below are imported when they are first used: reading a file needs neither torch nor transformers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
