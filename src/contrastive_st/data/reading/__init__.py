"""One reader of tables, for training, mining, classification, evaluation and search: `open_table`."""

from contrastive_st.data.reading.content import MissingData
from contrastive_st.data.reading.memory import in_memory
from contrastive_st.data.reading.rows import Row, Table
from contrastive_st.data.reading.sources import TABLES, files_of, hub_commit, is_saved, splits_of, stored
from contrastive_st.data.reading.table import open_table
from contrastive_st.data.reading.texts import read_texts, stream_texts

__all__ = [
    "TABLES", "MissingData", "Row", "Table", "files_of", "hub_commit", "in_memory", "is_saved", "open_table",
    "read_texts", "splits_of", "stored", "stream_texts",
]  # fmt: skip
