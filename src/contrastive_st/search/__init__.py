"""Semantic search: bulk encoding, exact search over files, vectors inside PostgreSQL, hard negatives."""

from typing import TYPE_CHECKING

from contrastive_st.lazy import lazy

__all__ = [
    "ExactIndex",
    "Hit",
    "VectorIndex",
    "VectorStore",
    "encode_file",
    "mine_hard_negatives",
    "open_index",
    "write_hard_negatives",
]
__getattr__, __dir__ = lazy(
    __name__,
    {
        "encoding": ["encode_file"],
        "exact": ["ExactIndex"],
        "index": ["Hit", "VectorIndex"],
        "mining": ["mine_hard_negatives", "write_hard_negatives"],
        "opening": ["open_index"],
        "postgres.store": ["VectorStore"],
    },
)

if TYPE_CHECKING:
    from contrastive_st.search.encoding import encode_file
    from contrastive_st.search.exact import ExactIndex
    from contrastive_st.search.index import Hit, VectorIndex
    from contrastive_st.search.mining import mine_hard_negatives, write_hard_negatives
    from contrastive_st.search.opening import open_index
    from contrastive_st.search.postgres.store import VectorStore
