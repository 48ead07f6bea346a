"""CERT: contrastive training on back-translations with a momentum queue, then fine-tuning on a labelled task."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
    Trainer,
    set_seed,
)

from contrastive_st.data import PairCollator, check_max_length, read_texts, train_wordpiece
from contrastive_st.data.back_translation import Translator, back_translate, write_pairs
from contrastive_st.data.tokenizers import tokenize
from contrastive_st.distributed import is_first_process
from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Rows, Splits
from contrastive_st.evaluation.tasks import Task, chosen
from contrastive_st.jobs.docs_search import DocsSearch, package_task
from contrastive_st.jobs.job import (
    JobArguments,
    job_metadata,
    own_folder,
    parse_job,
    say_what_happens,
    small_bert,
)
from contrastive_st.models import AutoModelForCL, BertForCL
from contrastive_st.models.checkpoint import load_tokenizer
from contrastive_st.models.configuration import max_positions
from contrastive_st.tokens import beginnings
from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments, check_output_dir

# --- The arguments of a CERT job, and their defaults.


@dataclass
class CERTArguments(JobArguments):
    """Pairs, model, and the labelled task of the fine-tuning."""

    pairs_file: str | None = field(
        default=None,
        metadata={
            "help": "Sentences and their back-translations, two columns of a file that `train` reads. Without it and "
            "--train_file: first line and paragraph of the documentation of the installed Python packages."
        },
    )
    columns: list[str] | None = field(default=None, metadata={"help": "The two columns, by name or position."})
    train_file: str | None = field(
        default=None, metadata={"help": "Sentences to translate there and back; the pairs are saved as a file."}
    )
    translate_there: str | None = field(
        default=None, metadata={"help": "Translation model, folder or Hub name, such as Helsinki-NLP/opus-mt-en-de."}
    )
    translate_back: str | None = field(default=None, metadata={"help": "The one back."})
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Encoder to start from; by default a small BERT from scratch."}
    )
    temperature: float = field(default=0.07, metadata={"help": "Temperature; divides the cosines."})
    max_length: int = field(default=64, metadata={"help": "Longest text, in tokens."})
    num_layers: int = field(default=2, metadata={"help": "Layers of an encoder from scratch."})
    hidden_size: int = field(default=128, metadata={"help": "Width of an encoder from scratch."})
    vocab_size: int = field(default=16_000, metadata={"help": "Vocabulary of an encoder from scratch."})
    task: str = field(default="TREC", metadata={"help": "Labelled task with a training part: TREC, SST2, MRPC, SICKE."})
    eval_data: str | None = field(default=None, metadata={"help": "Folder of SentEval's files, or hub."})
    label_samples: int = field(default=400, metadata={"help": "Labelled rows for the fine-tuning."})
    task_epochs: float = field(default=10, metadata={"help": "Epochs of the fine-tuning."})
    task_learning_rate: float = field(default=5e-4, metadata={"help": "Learning rate of the fine-tuning."})
    task_batch_size: int = field(default=32, metadata={"help": "Batch size of the fine-tuning."})
    task_seeds: int = field(
        default=3, metadata={"help": "Fine-tunings of each start, with different seeds; 0 skips the fine-tuning."}
    )


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/cert", "per_device_train_batch_size": 128, "learning_rate": 1e-3, "num_train_epochs": 2,
    "warmup_steps": 0.1, "momentum_queue": 1024, "momentum": 0.99, "logging_steps": 50, "save_strategy": "no",
    "report_to": "none",
}  # fmt: skip


def parse(argv: Sequence[str] | None = None) -> tuple[CERTArguments, ContrastiveTrainingArguments]:
    """Command-line arguments to dataclasses."""
    return parse_job(CERTArguments, argv, "Contrast back-translations, then learn a task.", DEFAULTS)


logger = logging.getLogger(__name__)
STAGES = ("before", "contrastive")


def main(argv: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Run the whole job; return the accuracies of each stage, one per seed."""
    args, training = parse(argv)
    say_what_happens()
    check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)
    folder = Path(training.output_dir)  # type: ignore[arg-type]
    with training.main_process_first(desc="pairs"):
        pairs, task = pairs_and_task(args, folder)
    parts = labelled(task, args) if args.task_seeds else None
    model, tokenizer = open_model(args, pairs)
    trainer = ContrastiveTrainer(
        model=model, args=own_folder(training, folder / "contrastive"), data_collator=PairCollator(tokenizer),
        train_dataset=tokenize(pairs, tokenizer, args.max_length), processing_class=tokenizer,
    )  # fmt: skip
    trainer.metadata = job_metadata(args, len(pairs), args.pairs_file or args.train_file)
    trainer.save_model(str(folder / "before"))
    trainer.train()
    trainer.save_model()
    if parts is None:
        return {}
    found = {
        stage: [fine_tune(args, training, folder / stage, tokenizer, parts, seed) for seed in range(args.task_seeds)]
        for stage in STAGES
    }
    if is_first_process():
        report(args, task.name, parts, found, folder)
    return found


def pairs_and_task(args: CERTArguments, folder: Path) -> tuple[Dataset, Task]:
    """Two columns of text, and the labelled task."""
    if args.pairs_file or args.train_file:
        task = chosen(args.task, 5)[0]
        file = args.pairs_file or str(folder / "pairs.csv")
        if args.pairs_file is None:
            if not (args.translate_there and args.translate_back):
                raise InputError("--train_file needs --translate_there and --translate_back; or give --pairs_file")
            there, back = Translator(args.translate_there), Translator(args.translate_back)
            folder.mkdir(parents=True, exist_ok=True)
            texts = read_texts(str(args.train_file), None)
            column = (text for batch in texts.iter(1000) for text in batch[texts.column_names[0]])
            write_pairs(back_translate(column, there, back), file)
        pairs = read_texts(file, args.columns)
        if len(pairs.column_names) != 2:
            raise InputError(
                f"{args.pairs_file} has {len(pairs.column_names)} columns of text; name two with --columns"
            )
        return pairs, task
    docs = DocsSearch.load(4000)
    return docs.training_texts(), package_task(docs.heldout)


def labelled(task: Task, args: CERTArguments) -> Splits:
    """The task's rows; of those to train on the first `label_samples`, in a fixed random order."""
    if task.hub is not None and not (args.pairs_file or args.train_file):
        parts = task.hub()
    else:
        where = args.eval_data or os.environ.get("CONTRASTIVE_ST_DATA")
        if not where:
            raise InputError("the labelled task needs data; set --eval_data or CONTRASTIVE_ST_DATA to a folder or hub")
        parts = task.load(where)
    if "train" not in parts or "test" not in parts or parts["train"].gold.dtype.kind != "i":
        raise InputError(f"{task.name} has no classes in a training and a test part; choose TREC, SST2, MRPC or SICKE")
    order = np.random.default_rng(0).permutation(len(parts["train"]))[: args.label_samples]
    return Splits({"train": parts["train"].take(order), "test": parts["test"]}, {}, parts.classes)


def open_model(args: CERTArguments, pairs: Dataset) -> tuple[Any, Any]:
    """The encoder to start from, with its head on the first token: a checkpoint, or a small BERT from scratch."""
    settings: dict[str, Any] = {"pooling": "cls", "temperature": args.temperature}
    if args.model_name_or_path:
        model = AutoModelForCL.from_pretrained(args.model_name_or_path, **settings)
        check_max_length(args.max_length, max_positions(model.config))
        return model, load_tokenizer(args.model_name_or_path)
    words = (text for name in pairs.column_names for batch in pairs.iter(10_000) for text in batch[name])
    tokenizer = train_wordpiece(words, args.vocab_size, args.max_length)
    return BertForCL(small_bert(args, len(tokenizer)), **settings), tokenizer


def fine_tune(
    args: CERTArguments, training: ContrastiveTrainingArguments, start: Path, tokenizer: PreTrainedTokenizerBase,
    parts: Splits, seed: int,
) -> float:  # fmt: skip
    """Train encoder and a new classifier on the labelled rows; returns the accuracy on the test rows."""
    set_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        start, num_labels=int(parts["train"].gold.max()) + 1, use_safetensors=True, trust_remote_code=False
    )
    settings = own_folder(
        training, start.parent / f"task-{start.name}", seed=seed, data_seed=seed, momentum_queue=0,
        num_train_epochs=args.task_epochs, learning_rate=args.task_learning_rate, max_steps=-1,
        per_device_train_batch_size=args.task_batch_size, dataloader_drop_last=False,
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=settings, train_dataset=rows_of(parts["train"], tokenizer, args.max_length),
        data_collator=DataCollatorWithPadding(tokenizer), processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    logits: Any = trainer.predict(rows_of(parts["test"], tokenizer, args.max_length)).predictions
    return float((logits.argmax(1) == parts["test"].gold).mean())


def rows_of(rows: Rows, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
    """Labelled sentences, or pairs of them, as a classifier takes them."""
    columns = (beginnings(tokenizer, column, max_length) for column in rows.columns)
    ids = tokenizer(*columns, truncation=True, max_length=max_length)
    return Dataset.from_dict({**ids, "labels": rows.gold.tolist()})


def report(args: CERTArguments, task: str, parts: Splits, found: dict[str, list[float]], folder: Path) -> None:
    """Print the accuracies, and write them beside the checkpoints."""
    test = parts["test"].gold
    most = np.bincount(test).max() / len(test)
    print(f"{task}: {len(parts['train'])} labelled rows, {len(test)} test rows, {args.task_seeds} seeds; accuracy x100")
    print(f"{'most frequent class':28}{100 * most:6.1f}")
    for stage, label in zip(STAGES, ("fine-tuned", "contrastive, then fine-tuned"), strict=True):
        mean, deviation = 100 * np.mean(found[stage]), 100 * np.std(found[stage])
        print(f"{label:28}{mean:6.1f} +- {deviation:.1f}")
    (folder / "results.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
