"""The arguments of a CERT job, and their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from contrastive_st.recipes.job import JobArguments, parse_job
from contrastive_st.training import ContrastiveTrainingArguments


@dataclass
class CERTArguments(JobArguments):
    """What to contrast, what to train, and the labelled task that follows."""

    pairs_file: str | None = field(
        default=None,
        metadata={
            "help": "Sentences and their back-translations, two columns of a file that `train` reads. Without it and "
            "--train_file: first line and paragraph of the documentation of the installed Python packages."
        },
    )
    columns: list[str] | None = field(default=None, metadata={"help": "The two columns, by name or position."})
    train_file: str | None = field(
        default=None, metadata={"help": "Sentences that are translated and back first; the pairs are kept as a file."}
    )
    translate_there: str | None = field(
        default=None, metadata={"help": "Translation model, folder or Hub name, such as Helsinki-NLP/opus-mt-en-de."}
    )
    translate_back: str | None = field(default=None, metadata={"help": "The one back."})
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Encoder to start from; by default a small BERT from scratch."}
    )
    temperature: float = field(default=0.07, metadata={"help": "Divides the cosine scores."})
    max_length: int = field(default=64, metadata={"help": "Tokens a text is cut to."})
    num_layers: int = field(default=2, metadata={"help": "From scratch: transformer layers."})
    hidden_size: int = field(default=128, metadata={"help": "From scratch: width."})
    vocab_size: int = field(default=16_000, metadata={"help": "From scratch: word pieces."})
    task: str = field(default="TREC", metadata={"help": "Labelled task with a training part: TREC, SST2, MRPC, SICKE."})
    eval_data: str | None = field(default=None, metadata={"help": "Folder of SentEval's files, or hub."})
    label_samples: int = field(default=400, metadata={"help": "Labelled rows to train on."})
    task_epochs: float = field(default=10, metadata={"help": "Passes over them."})
    task_learning_rate: float = field(default=5e-4, metadata={"help": "Of the fine-tuning."})
    task_batch_size: int = field(default=32, metadata={"help": "Of the fine-tuning."})
    task_seeds: int = field(
        default=3, metadata={"help": "Fine-tunings of each start, from other seeds; 0 ends after the contrast."}
    )


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/cert", "per_device_train_batch_size": 128, "learning_rate": 1e-3, "num_train_epochs": 2,
    "warmup_steps": 0.1, "momentum_queue": 1024, "momentum": 0.99, "logging_steps": 50, "save_strategy": "no",
    "report_to": "none",
}  # fmt: skip


def parse(argv: Sequence[str] | None = None) -> tuple[CERTArguments, ContrastiveTrainingArguments]:
    """Command-line arguments to dataclasses."""
    return parse_job(CERTArguments, argv, "Contrast back-translations, then learn a task.", DEFAULTS)
