"""Evaluation of embeddings: tasks, scores, reports and metrics of the embedding space."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
