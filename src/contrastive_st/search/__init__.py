"""Semantic search: bulk encoding, exact search over files, and vectors inside PostgreSQL."""

from typing import TYPE_CHECKING

from contrastive_st.lazy import lazy

__all__ = ["ExactIndex", "Hit", "VectorIndex", "VectorStore", "open_index"]
__getattr__, __dir__ = lazy(
    __name__,
    {
        "exact": ["ExactIndex"],
        "index": ["Hit", "VectorIndex"],
        "opening": ["open_index"],
        "postgres.store": ["VectorStore"],
    },
)

if TYPE_CHECKING:
    from contrastive_st.search.exact import ExactIndex
    from contrastive_st.search.index import Hit, VectorIndex
    from contrastive_st.search.opening import open_index
    from contrastive_st.search.postgres.store import VectorStore
