"""Data: readers and corpora give tokenized rows, collators make batches of them.

The names below are imported when they are first used: reading a file needs neither torch nor transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastive_st.data.installed_docs import DocPair, installed_docs, split_pairs
from contrastive_st.lazy import lazy

if TYPE_CHECKING:
    from contrastive_st.data.back_translation import Translator, back_translate, write_pairs
    from contrastive_st.data.collators import (
        ContextWindowCollator,
        CooccurrenceCollator,
        DeletionCollator,
        DropoutPairCollator,
        LabelledPairCollator,
        NLITripletCollator,
        PairCollator,
        TeacherCollator,
        TemplatePairCollator,
        fit_idf,
    )
    from contrastive_st.data.corpus import SentenceCorpus, corpus_texts
    from contrastive_st.data.guided import GuidedRows
    from contrastive_st.data.mixture import Mixture, MixtureCollator
    from contrastive_st.data.ordering import TeacherRows, lower_bound, order_corpus, path_length, path_lengths
    from contrastive_st.data.pair_sets import PAIR_SETS
    from contrastive_st.data.pairs import read_pairs, tokenize_pairs
    from contrastive_st.data.roles import ColumnRoles, column_roles, pairs_of_labels, read_examples
    from contrastive_st.data.sequences import (
        FramePairCollator,
        kmer_tokenizer,
        overlapping,
        read_fasta,
        reading_frames,
        tokenize_frames,
    )
    from contrastive_st.data.splits import sample, split_by_first, split_rows
    from contrastive_st.data.tables import read_texts
    from contrastive_st.data.tokenizers import (
        Template,
        check_max_length,
        read_template,
        tokenize,
        train_word_tokenizer,
        train_wordpiece,
        with_template,
        word_tokenizer,
    )
    from contrastive_st.data.word_vectors import (
        WordVectors,
        embedding_matrix,
        expand_vocabulary,
        lsa_word_vectors,
        read_word_vectors,
        vector_tokenizer,
    )

__getattr__, __dir__ = lazy(
    __name__,
    {
        "collators": [
            "ContextWindowCollator",
            "CooccurrenceCollator",
            "DeletionCollator",
            "DropoutPairCollator",
            "LabelledPairCollator",
            "NLITripletCollator",
            "PairCollator",
            "TeacherCollator",
            "TemplatePairCollator",
            "fit_idf",
        ],
        "back_translation": ["Translator", "back_translate", "write_pairs"],
        "guided": ["GuidedRows"],
        "corpus": ["SentenceCorpus", "corpus_texts"],
        "mixture": ["Mixture", "MixtureCollator"],
        "ordering": ["TeacherRows", "lower_bound", "order_corpus", "path_length", "path_lengths"],
        "pair_sets": ["PAIR_SETS"],
        "pairs": ["read_pairs", "tokenize_pairs"],
        "roles": ["ColumnRoles", "column_roles", "pairs_of_labels", "read_examples"],
        "sequences": [
            "FramePairCollator",
            "kmer_tokenizer",
            "overlapping",
            "read_fasta",
            "reading_frames",
            "tokenize_frames",
        ],
        "splits": ["sample", "split_by_first", "split_rows"],
        "tables": ["read_texts"],
        "tokenizers": [
            "Template",
            "check_max_length",
            "read_template",
            "tokenize",
            "train_word_tokenizer",
            "train_wordpiece",
            "with_template",
            "word_tokenizer",
        ],
        "word_vectors": [
            "WordVectors",
            "embedding_matrix",
            "expand_vocabulary",
            "lsa_word_vectors",
            "read_word_vectors",
            "vector_tokenizer",
        ],
    },
)

__all__ = [
    "PAIR_SETS",
    "ColumnRoles",
    "ContextWindowCollator",
    "CooccurrenceCollator",
    "DeletionCollator",
    "DocPair",
    "DropoutPairCollator",
    "FramePairCollator",
    "GuidedRows",
    "LabelledPairCollator",
    "Mixture",
    "MixtureCollator",
    "NLITripletCollator",
    "PairCollator",
    "SentenceCorpus",
    "TeacherCollator",
    "TeacherRows",
    "Template",
    "TemplatePairCollator",
    "Translator",
    "WordVectors",
    "back_translate",
    "check_max_length",
    "column_roles",
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
    "pairs_of_labels",
    "path_length",
    "path_lengths",
    "read_examples",
    "read_fasta",
    "read_pairs",
    "read_template",
    "read_texts",
    "read_word_vectors",
    "reading_frames",
    "sample",
    "split_by_first",
    "split_pairs",
    "split_rows",
    "tokenize",
    "tokenize_frames",
    "tokenize_pairs",
    "train_word_tokenizer",
    "train_wordpiece",
    "vector_tokenizer",
    "with_template",
    "word_tokenizer",
    "write_pairs",
]
