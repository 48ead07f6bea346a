"""The arguments of a training job, and their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from contrastive_st.recipes.job import JobArguments, parse_job
from contrastive_st.training import ContrastiveTrainingArguments


@dataclass
class SimCSEArguments(JobArguments):
    """What to train on, and what to train."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": ".txt, .csv, .tsv, .json(l), .parquet or a Hub data set; one column trains dropout pairs, two "
            "pairs, three or more add hard negatives. Without it: the documentation of the installed Python packages."
        },
    )
    columns: list[str] | None = field(
        default=None, metadata={"help": "Columns to use, by name or position: anchor, positive, hard negatives."}
    )
    strict: bool = field(
        default=False, metadata={"help": "Stop at a blank cell instead of dropping and counting its row."}
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Train on the first rows only."})
    shuffle_buffer: int = field(
        default=0,
        metadata={
            "help": "Read a .parquet or .txt file of one text column from disk while training, tokenized on the way "
            "and mixed by a buffer of this many sentences (10000, say). By default every row is tokenized first, once, "
            "and rows are drawn from the whole file."
        },
    )
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Encoder to start from; by default a small BERT from scratch."}
    )
    max_length: int = field(
        default=32, metadata={"help": "Tokens a text is cut to, in training and by the saved tokenizer."}
    )
    pooling: str = field(
        default="cls",
        metadata={"help": "cls (with projection head), cls_before_pooler, mean, max, avg_first_last, avg_top2, last."},
    )
    temperature: float = field(default=0.05, metadata={"help": "Divides the cosine scores."})
    hard_negative_weight: float = field(
        default=0.0, metadata={"help": "Log of the weight on an anchor's own hard negatives."}
    )
    mlp_only_train: bool = field(
        default=False, metadata={"help": "Use the projection head in training only (unsupervised SimCSE)."}
    )
    objective: str = field(
        default="info_nce", metadata={"help": "info_nce, or info_nce_symmetric: also pick anchors from positives."}
    )
    cutoff: str | None = field(
        default=None, metadata={"help": "Take away a part of each sentence in training: token, span or feature."}
    )
    cutoff_ratio: float = field(default=0.1, metadata={"help": "The share that a cutoff takes away."})
    js_weight: float = field(
        default=0.0, metadata={"help": "Weight of the Jensen-Shannon divergence of the two views beside the loss."}
    )
    do_mlm: bool = field(default=False, metadata={"help": "Add a masked-language-model loss."})
    mlm_weight: float = field(default=0.1, metadata={"help": "Weight of the masked-language-model loss."})
    mlm_probability: float = field(default=0.15, metadata={"help": "Share of tokens that loss predicts."})
    new_head: bool | None = field(
        default=None, metadata={"help": "Draw a new projection head; by default when starting from a plain encoder."}
    )
    dropout: float | None = field(
        default=None, metadata={"help": "Dropout of the encoder; by default its own, 0.1 from scratch."}
    )
    num_layers: int = field(default=2, metadata={"help": "From scratch: transformer layers."})
    hidden_size: int = field(default=256, metadata={"help": "From scratch: width."})
    vocab_size: int = field(
        default=16_000, metadata={"help": "From scratch: word pieces, learned from the training text."}
    )
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenize."})


#: Defaults where they differ from those of transformers: (any text, the documentation corpus)
TEXT_DEFAULTS: dict[str, Any] = {
    "output_dir": "out", "per_device_train_batch_size": 64, "learning_rate": 3e-5, "num_train_epochs": 1,
    "logging_steps": 50, "metric_for_best_model": "stsb_spearman", "greater_is_better": True,
}  # fmt: skip
DOCS_DEFAULTS: dict[str, Any] = {
    **TEXT_DEFAULTS,
    "per_device_train_batch_size": 1024, "learning_rate": 3e-3, "num_train_epochs": 5, "warmup_steps": 0.1,
    "logging_steps": 5, "eval_strategy": "epoch", "save_strategy": "epoch", "save_total_limit": 1,
    "metric_for_best_model": "mrr@10", "max_length": 96, "pooling": "mean",
    "objective": "info_nce_symmetric", "num_layers": 1,
}  # fmt: skip


def parse(argv: Sequence[str] | None = None) -> tuple[SimCSEArguments, ContrastiveTrainingArguments]:
    """Command-line arguments to dataclasses; the defaults depend on whether a training file is given."""
    return parse_job(SimCSEArguments, argv, "Train a SimCSE encoder.", TEXT_DEFAULTS, DOCS_DEFAULTS)
