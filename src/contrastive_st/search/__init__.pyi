from .encoding import encode_file as encode_file
from .exact import ExactIndex as ExactIndex
from .in_memory import (
    community_detection as community_detection,
    paraphrase_mining as paraphrase_mining,
    paraphrase_mining_embeddings as paraphrase_mining_embeddings,
    semantic_search as semantic_search,
)
from .index import Hit as Hit, VectorIndex as VectorIndex
from .mining import mine_hard_negatives as mine_hard_negatives, write_hard_negatives as write_hard_negatives
from .opening import open_index as open_index
from .postgres.store import VectorStore as VectorStore
from .reranking import CrossEncoder as CrossEncoder, rerank as rerank
