"""Data: readers and corpora to tokenized rows, collators to batches."""

from contrastive_st.data.back_translation import Translator, back_translate, write_pairs
from contrastive_st.data.collators import DropoutPairCollator, NLITripletCollator, PairCollator
from contrastive_st.data.installed_docs import DocPair, installed_docs, split_pairs
from contrastive_st.data.kmers import FramePairCollator, kmer_tokenizer, overlapping, reading_frames, tokenize_frames
from contrastive_st.data.labelled_collators import LabelledPairCollator, TaskCollator
from contrastive_st.data.lsa import lsa_word_vectors
from contrastive_st.data.ordering import lower_bound, order_corpus, path_length, path_lengths
from contrastive_st.data.pair_sets import PAIR_SETS, read_pairs, tokenize_pairs
from contrastive_st.data.readers import read_texts
from contrastive_st.data.sentence_collators import ContextWindowCollator, CooccurrenceCollator, fit_idf
from contrastive_st.data.sentence_corpus import SentenceCorpus, corpus_texts
from contrastive_st.data.sequences import read_fasta
from contrastive_st.data.task_mix import TaskMix
from contrastive_st.data.teacher import TeacherCollator, TeacherRows
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
    "FramePairCollator",
    "LabelledPairCollator",
    "NLITripletCollator",
    "PairCollator",
    "SentenceCorpus",
    "TaskCollator",
    "TaskMix",
    "TeacherCollator",
    "TeacherRows",
    "Translator",
    "WordVectors",
    "back_translate",
    "check_max_length",
    "corpus_texts",
    "embedding_matrix",
    "expand_vocabulary",
    "fit_idf",
    "installed_docs",
    "kmer_tokenizer",
    "lower_bound",
    "lsa_word_vectors",
    "order_corpus",
    "overlapping",
    "path_length",
    "path_lengths",
    "read_fasta",
    "read_pairs",
    "read_texts",
    "read_word_vectors",
    "reading_frames",
    "split_pairs",
    "tokenize",
    "tokenize_frames",
    "tokenize_pairs",
    "train_word_tokenizer",
    "train_wordpiece",
    "vector_tokenizer",
    "word_tokenizer",
    "write_pairs",
]
