"""Data: readers and corpora to tokenized rows, collators to batches."""

from contrastive_st.data.collators import DropoutPairCollator, NLITripletCollator, PairCollator
from contrastive_st.data.installed_docs import DocPair, installed_docs, split_pairs
from contrastive_st.data.readers import read_texts
from contrastive_st.data.tokenize import check_max_length, tokenize
from contrastive_st.data.wordpiece import train_wordpiece

__all__ = [
    "DocPair",
    "DropoutPairCollator",
    "NLITripletCollator",
    "PairCollator",
    "check_max_length",
    "installed_docs",
    "read_texts",
    "split_pairs",
    "tokenize",
    "train_wordpiece",
]
