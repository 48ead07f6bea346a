"""The arguments of a distillation job, and their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.recipes.job import JobArguments, parse_job
from contrastive_st.training import ContrastiveTrainingArguments

ORDERS = ("shuffled", "ordered")


@dataclass
class DistillArguments(JobArguments):
    """Who teaches, on what, and whom."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": "Sentences, in any order: .txt, .csv, .json(l), .parquet or a Hub data set. Without it: the "
            "documentation of the installed Python packages."
        },
    )
    column: str | None = field(default=None, metadata={"help": "Column of the sentences; by default all of text."})
    max_train_samples: int = field(default=8_000, metadata={"help": "Sentences, drawn at random."})
    teacher: str | None = field(
        default=None,
        metadata={
            "help": "Checkpoint folder or Hub name. Without it: out/demo if there is one, else TF-IDF reduced by SVD."
        },
    )
    teacher_pooling: str | None = field(default=None, metadata={"help": "For a teacher that records none."})
    cache: str | None = field(
        default=None, metadata={"help": "Folder that keeps the teacher's embeddings, or none (default: ~/.cache)."}
    )
    similarity_weight: float = field(default=0.0, metadata={"help": "Of the softmax of similarities."})
    distance_weight: float = field(default=1.0, metadata={"help": "Of the distances."})
    angle_weight: float = field(default=2.0, metadata={"help": "Of the angles."})
    temperature: float = field(default=0.05, metadata={"help": "Of the softmax of similarities."})
    orders: list[str] = field(
        default_factory=lambda: list(ORDERS),
        metadata={"help": "A student each: shuffled, and ordered along the teacher's short path."},
    )
    order_seconds: float = field(default=60.0, metadata={"help": "Time to shorten the path."})
    num_layers: int = field(default=2, metadata={"help": "The student's transformer layers."})
    hidden_size: int = field(default=128, metadata={"help": "The student's width."})
    vocab_size: int = field(default=16_000, metadata={"help": "The student's word pieces."})
    max_length: int = field(default=64, metadata={"help": "Tokens a text is cut to."})
    dropout: float = field(default=0.0, metadata={"help": "Of the student: a target is given, so nothing overfits."})
    eval_tasks: str = field(
        default="STSB,STS12,STS14,STS15,MR,CR,SST2,TREC",
        metadata={"help": "Tasks measured where CONTRASTIVE_ST_DATA or --eval_data names their files."},
    )
    eval_data: str | None = field(default=None, metadata={"help": "Folder of SentEval's files, or hub."})

    def __post_init__(self) -> None:
        if not self.orders or set(self.orders) - set(ORDERS):
            raise InputError(f"orders {' '.join(self.orders)}: name one or both of {', '.join(ORDERS)}")


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/distill", "per_device_train_batch_size": 128, "learning_rate": 1e-3, "num_train_epochs": 2,
    "warmup_steps": 0.1, "logging_steps": 50, "save_strategy": "no", "report_to": "none",
}  # fmt: skip


def parse(argv: Sequence[str] | None = None) -> tuple[DistillArguments, ContrastiveTrainingArguments]:
    """Command-line arguments to dataclasses."""
    return parse_job(DistillArguments, argv, "Distil a teacher by its relations.", DEFAULTS)
