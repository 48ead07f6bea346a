"""Semantic search: bulk encoding, exact search over files, vectors inside PostgreSQL, hard negatives."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
