"""What the training scripts in `examples/` share: `start`, the encoder, the rows, and `finish`.

`contrastive-st train NAME` runs the scripts themselves.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
