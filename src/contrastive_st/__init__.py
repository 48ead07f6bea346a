"""Contrastive sentence embeddings in the idiom of transformers: train, judge, publish and search.

The names below are imported when first used, so that `import contrastive_st` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "AutoModelForCL": "models",
    "BertForCL": "models",
    "DistilBertForCL": "models",
    "MPNetForCL": "models",
    "ModernBertForCL": "models",
    "RobertaForCL": "models",
    "XLMRobertaForCL": "models",
    "QuickThoughtsConfig": "models",
    "QuickThoughtsGRU": "models",
    "SentenceEncoder": "models",
    "InfoNCE": "losses",
    "TargetsLoss": "losses",
    "ContextWindowCollator": "data",
    "CooccurrenceCollator": "data",
    "DropoutPairCollator": "data",
    "NLITripletCollator": "data",
    "PairCollator": "data",
    "SentenceCorpus": "data",
    "read_texts": "data",
    "tokenize": "data",
    "WordVectors": "data",
    "read_word_vectors": "data",
    "embedding_matrix": "data",
    "expand_vocabulary": "data",
    "vector_tokenizer": "data",
    "train_word_tokenizer": "data",
    "word_tokenizer": "data",
    "ContrastiveTrainer": "training",
    "ContrastiveTrainingArguments": "training",
    "InputError": "errors",
}

__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from contrastive_st.data import (
        ContextWindowCollator,
        CooccurrenceCollator,
        DropoutPairCollator,
        NLITripletCollator,
        PairCollator,
        SentenceCorpus,
        WordVectors,
        embedding_matrix,
        expand_vocabulary,
        read_texts,
        read_word_vectors,
        tokenize,
        train_word_tokenizer,
        vector_tokenizer,
        word_tokenizer,
    )
    from contrastive_st.errors import InputError
    from contrastive_st.losses import InfoNCE, TargetsLoss
    from contrastive_st.models import (
        AutoModelForCL,
        BertForCL,
        DistilBertForCL,
        ModernBertForCL,
        MPNetForCL,
        QuickThoughtsConfig,
        QuickThoughtsGRU,
        RobertaForCL,
        SentenceEncoder,
        XLMRobertaForCL,
    )
    from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
