"""The arguments of a QuickThoughts job, and their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from contrastive_st.recipes.job import CorpusArguments, parse_job
from contrastive_st.training import ContrastiveTrainingArguments


@dataclass
class QuickThoughtsArguments(CorpusArguments):
    """What to train on, what to pick, and what to train."""

    targets: str = field(
        default="window",
        metadata={
            "help": "What a sentence is to pick: next (the sentences after it), window (around it), counts or tfidf "
            "(softmax of shared words), tfidf_bin (the one most similar by TF-IDF)."
        },
    )
    loss: str = field(default="kl", metadata={"help": "kl, cross_entropy, l2, block (CURL) or pairwise."})
    context_size: int = field(default=1, metadata={"help": "Sentences to a side in the window."})
    context_weights: list[float] | None = field(
        default=None, metadata={"help": "One weight a distance, nearest first; all 1 by default."}
    )
    target_temperature: float | None = field(
        default=None,
        metadata={"help": "Of the softmax of counts (default 1) and of TF-IDF similarities (default 0.1)."},
    )
    label_smoothing: float = field(default=0.0, metadata={"help": "Total mass of a row of targets given to all alike."})
    link: str = field(default="logistic", metadata={"help": "logistic or hinge, of the block and pairwise losses."})
    encoder: str = field(default="gru", metadata={"help": "gru, lstm, bigru, bilstm or transformer."})
    hidden_size: int = field(default=300, metadata={"help": "Width of one tower; the embedding has twice that."})
    embedding_size: int = field(default=200, metadata={"help": "Width of a word vector."})
    num_layers: int = field(default=1, metadata={"help": "Layers of a tower."})
    readout: str = field(default="last", metadata={"help": "last, max or mean."})
    dropout: float = field(default=0.0, metadata={"help": "On word vectors, between layers and on the readout."})
    shared_embeddings: bool = field(default=False, metadata={"help": "f and g share their word vectors."})
    word_vectors: str | None = field(
        default=None, metadata={"help": "GloVe, word2vec or fastText file: its words and vectors to start from."}
    )
    word_vectors_use: str = field(
        default="trained", metadata={"help": "trained, frozen, or multichannel (a frozen and a trained channel)."}
    )
    vocab_size: int = field(default=20_000, metadata={"help": "Most words; the most frequent, or a file's first."})
    max_length: int = field(default=50, metadata={"help": "Words a sentence is cut to."})
    idf_sentences: int = field(default=200_000, metadata={"help": "Sentences of the corpus that IDF is fitted on."})
    eval_tasks: str = field(
        default="MR,CR,SST2,TREC",
        metadata={
            "help": "Tasks measured during training, where CONTRASTIVE_ST_DATA or --eval_data names their files."
        },
    )
    eval_data: str | None = field(default=None, metadata={"help": "Folder of SentEval's files, or hub."})


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/quickthoughts", "per_device_train_batch_size": 400, "learning_rate": 5e-4, "max_grad_norm": 5.0,
    "num_train_epochs": 1, "logging_steps": 20, "lr_scheduler_type": "constant", "save_strategy": "no",
}  # fmt: skip
#: Where no file is given: several passes over the small corpus, measured after each
DOCS_DEFAULTS: dict[str, Any] = {**DEFAULTS, "num_train_epochs": 3, "learning_rate": 2e-3, "eval_strategy": "epoch"}


def parse(argv: Sequence[str] | None = None) -> tuple[QuickThoughtsArguments, ContrastiveTrainingArguments]:
    """Command-line arguments to dataclasses; the defaults depend on whether a training file is given."""
    return parse_job(QuickThoughtsArguments, argv, "Train a QuickThoughts encoder.", DEFAULTS, DOCS_DEFAULTS)
