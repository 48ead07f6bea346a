from .collators import (
    CandidatesCollator as CandidatesCollator,
    ContextWindowCollator as ContextWindowCollator,
    CooccurrenceCollator as CooccurrenceCollator,
    CropPairCollator as CropPairCollator,
    DeletionCollator as DeletionCollator,
    DropoutPairCollator as DropoutPairCollator,
    LabelledPairCollator as LabelledPairCollator,
    NLITripletCollator as NLITripletCollator,
    PairCollator as PairCollator,
    TeacherCollator as TeacherCollator,
    fit_idf as fit_idf,
)
from .cooccurrence import (
    corpus_word_vectors as corpus_word_vectors,
    sif_weights as sif_weights,
    word_counts as word_counts,
)
from .corpus import SentenceCorpus as SentenceCorpus, corpus_texts as corpus_texts, in_documents as in_documents
from .documentation import DocPair as DocPair, installed_docs as installed_docs, split_pairs as split_pairs
from .guided import GuidedRows as GuidedRows, TeacherRows as TeacherRows
from .label_pairs import pairs_of_labels as pairs_of_labels
from .mixture import Mixture as Mixture, MixtureCollator as MixtureCollator
from .neighbor_pairs import (
    Documents as Documents,
    NeighborPairCollator as NeighborPairCollator,
    NeighborPairs as NeighborPairs,
    TokenFile as TokenFile,
)
from .pair_sets import PAIR_SETS as PAIR_SETS
from .reading.examples import read_examples as read_examples
from .reading.memory import column_roles as column_roles
from .reading.texts import read_texts as read_texts
from .roles import ColumnRoles as ColumnRoles
from .splits import sample as sample, split_by_first as split_by_first, split_rows as split_rows
from .tokenization import tokenize as tokenize
from .tokenizers import (
    check_max_length as check_max_length,
    train_subword_tokenizer as train_subword_tokenizer,
    train_word_tokenizer as train_word_tokenizer,
    train_wordpiece as train_wordpiece,
    word_tokenizer as word_tokenizer,
)
from .word_vectors import (
    WordVectors as WordVectors,
    embedding_matrix as embedding_matrix,
    expand_vocabulary as expand_vocabulary,
    lsa_word_vectors as lsa_word_vectors,
    read_word_vectors as read_word_vectors,
    vector_tokenizer as vector_tokenizer,
)
