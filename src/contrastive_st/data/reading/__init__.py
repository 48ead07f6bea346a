"""One reader of tables, for training, mining, classification, evaluation and search: `open_table`."""

from contrastive_st.data.reading.content import (
    MissingData,
    check_file,
    decode,
    numbered_lines,
    path_of,
    reading,
    utf8,
)  # fmt: skip
from contrastive_st.data.reading.memory import in_memory, of_dataset
from contrastive_st.data.reading.objects import parse_json
from contrastive_st.data.reading.rows import Row, Table
from contrastive_st.data.reading.sources import TABLES, files_of, hub_commit, is_saved, splits_of, stored
from contrastive_st.data.reading.table import open_table
from contrastive_st.data.reading.texts import read_texts, stream_texts

__all__ = [
    "TABLES", "MissingData", "Row", "Table", "check_file", "decode", "files_of",
    "hub_commit", "in_memory", "is_saved", "numbered_lines", "of_dataset", "open_table", "parse_json",
    "path_of", "read_texts", "reading", "splits_of", "stored", "stream_texts", "utf8",
]  # fmt: skip
