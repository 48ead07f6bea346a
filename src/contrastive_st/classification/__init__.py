"""Texts to labels: a classifier over sentence embeddings, whose encoder may first be trained on a few of the texts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
