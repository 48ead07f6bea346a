"""Data: readers and corpora to tokenized rows, collators to batches."""

from contrastive_st.data.collators import DropoutPairCollator, NLITripletCollator, PairCollator
from contrastive_st.data.installed_docs import DocPair, installed_docs, split_pairs
from contrastive_st.data.labelled_collators import LabelledPairCollator, TaskCollator
from contrastive_st.data.pair_sets import PAIR_SETS, read_pairs, tokenize_pairs
from contrastive_st.data.readers import read_texts
from contrastive_st.data.sentence_collators import ContextWindowCollator, CooccurrenceCollator, fit_idf
from contrastive_st.data.sentence_corpus import SentenceCorpus, corpus_texts
from contrastive_st.data.task_mix import TaskMix
from contrastive_st.data.tokenize import check_max_length, tokenize
from contrastive_st.data.word_embeddings import embedding_matrix, expand_vocabulary, vector_tokenizer
from contrastive_st.data.word_vectors import WordVectors, read_word_vectors
from contrastive_st.data.wordpiece import train_wordpiece
from contrastive_st.data.words import train_word_tokenizer, word_tokenizer

__all__ = [
    "PAIR_SETS",
    "ContextWindowCollator",
    "CooccurrenceCollator",
    "DocPair",
    "DropoutPairCollator",
    "LabelledPairCollator",
    "NLITripletCollator",
    "PairCollator",
    "SentenceCorpus",
    "TaskCollator",
    "TaskMix",
    "WordVectors",
    "check_max_length",
    "corpus_texts",
    "embedding_matrix",
    "expand_vocabulary",
    "fit_idf",
    "installed_docs",
    "read_pairs",
    "read_texts",
    "read_word_vectors",
    "split_pairs",
    "tokenize",
    "tokenize_pairs",
    "train_word_tokenizer",
    "train_wordpiece",
    "vector_tokenizer",
    "word_tokenizer",
]
