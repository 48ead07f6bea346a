"""Semantic search: bulk encoding, exact search over files, and vectors inside PostgreSQL."""

from contrastive_st.search.index import Hit, VectorIndex

__all__ = ["Hit", "VectorIndex"]
