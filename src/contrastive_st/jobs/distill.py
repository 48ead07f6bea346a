"""Distil a teacher's relations into small students, on the shuffled corpus and on the corpus ordered by the teacher."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from transformers import set_seed

from contrastive_st.data import TeacherCollator, TeacherRows, read_texts, train_wordpiece
from contrastive_st.data.ordering import order_corpus, path_lengths
from contrastive_st.distributed import from_first, is_first_process
from contrastive_st.errors import InputError
from contrastive_st.evaluation.embedding_store import default_cache
from contrastive_st.evaluation.neighbors import embedding_blocks
from contrastive_st.evaluation.scorers.retrieval import ranks_of_own, retrieval_metrics
from contrastive_st.evaluation.suite import load, run
from contrastive_st.evaluation.tasks import chosen
from contrastive_st.jobs.docs_search import DocsSearch
from contrastive_st.jobs.job import (
    JobArguments,
    job_metadata,
    own_folder,
    parse_job,
    say_what_happens,
    small_bert,
)
from contrastive_st.models import BertForCL, SentenceEncoder
from contrastive_st.models.protocol import Encoder, as_encoder
from contrastive_st.tokens import token_ids
from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments, check_output_dir
from contrastive_st.vectors import unit_vectors

# --- The arguments of a distillation job, and their defaults.

ORDERS = ("shuffled", "ordered")


@dataclass
class DistillArguments(JobArguments):
    """Teacher, data and students of the job."""

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
    teacher_pooling: str | None = field(default=None, metadata={"help": "Pooling of a teacher that records none."})
    cache: str | None = field(
        default=None, metadata={"help": "Folder that keeps the teacher's embeddings, or none (default: ~/.cache)."}
    )
    similarity_weight: float = field(default=0.0, metadata={"help": "Weight of the similarities."})
    distance_weight: float = field(default=1.0, metadata={"help": "Weight of the distances."})
    angle_weight: float = field(default=2.0, metadata={"help": "Weight of the angles."})
    temperature: float = field(default=0.05, metadata={"help": "Temperature of the similarities."})
    orders: list[str] = field(
        default_factory=lambda: list(ORDERS),
        metadata={"help": "Train a student for each order: shuffled, ordered (along a short path of the teacher)."},
    )
    order_seconds: float = field(default=60.0, metadata={"help": "Seconds to shorten the path."})
    num_layers: int = field(default=2, metadata={"help": "The student's transformer layers."})
    hidden_size: int = field(default=128, metadata={"help": "The student's width."})
    vocab_size: int = field(default=16_000, metadata={"help": "The student's vocabulary, in word pieces."})
    max_length: int = field(default=64, metadata={"help": "Longest text, in tokens."})
    dropout: float = field(
        default=0.0, metadata={"help": "Dropout of the student; by default 0, since every sentence has a target."}
    )
    eval_tasks: str = field(
        default="STSB,STS12,STS14,STS15,MR,CR,SST2,TREC",
        metadata={"help": "Tasks measured where CONTRASTIVE_ST_DATA or --eval_data names their files."},
    )
    eval_data: str | None = field(default=None, metadata={"help": "Folder of SentEval's files, or hub."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.orders or set(self.orders) - set(ORDERS):
            raise InputError(f"orders {' '.join(self.orders)}: name one or both of {', '.join(ORDERS)}")


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/distill", "per_device_train_batch_size": 128, "learning_rate": 1e-3, "num_train_epochs": 2,
    "warmup_steps": 0.1, "logging_steps": 50, "save_strategy": "no", "report_to": "none",
}  # fmt: skip


def parse(argv: Sequence[str] | None = None) -> tuple[DistillArguments, ContrastiveTrainingArguments]:
    """Command-line arguments to dataclasses."""
    return parse_job(DistillArguments, argv, "Distil a teacher by its relations.", DEFAULTS)


Measure = Callable[[Encoder], dict[str, float]]
DEMO = Path("out/demo")


def main(argv: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the whole job; returns the figures of the teacher and of each student."""
    args, training = parse(argv)
    say_what_happens()
    check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)
    docs = DocsSearch.load() if args.train_file is None else None
    with training.main_process_first(desc="read"):
        texts = training_texts(args, docs)
    teacher = open_teacher(args, texts)
    with training.main_process_first(desc="teacher"):
        embeddings = teacher_embeddings(teacher, texts, args.cache)
    measure = measure_of(args, docs)
    table = {"teacher": {**measure(teacher), **size_and_speed(teacher, texts)}}
    tokenizer = train_wordpiece(texts, args.vocab_size, args.max_length)
    ids = token_ids(tokenizer, texts, args.max_length)
    orders: dict[str, NDArray[np.int64] | None] = {"shuffled": None}
    if "ordered" in args.orders:
        started = time.monotonic()
        # that of the first process: the number of moves depends on the clock
        order = from_first(lambda: order_corpus(embeddings, seconds=args.order_seconds, seed=training.seed))
        orders["ordered"] = order
        if is_first_process():
            seconds = time.monotonic() - started
            print(f"{len(texts):,} sentences in order in {seconds:.0f} s: {path_lengths(embeddings, order)}")
    for name in args.orders:
        own = own_folder(training, Path(training.output_dir, name))  # type: ignore[arg-type]
        trainer = make_trainer(args, own, tokenizer, TeacherRows(ids, embeddings, orders[name]))
        trainer.metadata = job_metadata(args, len(texts), args.train_file)
        if "untrained" not in table:
            table["untrained"] = measure(student_of(trainer, tokenizer))
        trainer.train()
        trainer.save_model()
        student = student_of(trainer, tokenizer)
        table[name] = {**measure(student), **size_and_speed(student, texts)}
    if is_first_process():
        report(table, Path(training.output_dir))  # type: ignore[arg-type]
    return table


def training_texts(args: DistillArguments, docs: DocsSearch | None) -> list[str]:
    """At most `max_train_samples` distinct sentences, drawn at random, in random order."""
    if docs is not None:
        texts = docs.training_texts()
    else:
        texts = read_texts(str(args.train_file), [args.column] if args.column else None)
    drawn = texts.select(np.random.default_rng(0).permutation(len(texts))[: args.max_train_samples])
    return list(dict.fromkeys(text for row in drawn for text in row.values()))[: args.max_train_samples]


def open_teacher(args: DistillArguments, texts: Sequence[str]) -> Encoder:
    """The given teacher; else the checkpoint in `out/demo`; else TF-IDF reduced to 256 dimensions."""
    if args.teacher or DEMO.joinpath("config.json").is_file():
        return as_encoder(args.teacher or DEMO, pooling=args.teacher_pooling)
    counts = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    found = counts.fit_transform(texts)
    svd = TruncatedSVD(min(256, found.shape[1]), random_state=0).fit(found)
    return as_encoder(lambda given: svd.transform(counts.transform(given)).astype(np.float32), name="TF-IDF + SVD")


def teacher_embeddings(teacher: Encoder, texts: Sequence[str], cache: str | None) -> NDArray[np.float32]:
    """Embeddings `[N, D]`, computed once: kept on disk by the teacher's hash and the texts, unless it is a callable."""
    return np.concatenate(list(embedding_blocks(teacher, texts, folder_of(cache))))


def folder_of(cache: str | None) -> str | None:
    """Where embeddings are kept."""
    return None if cache == "none" else cache or str(default_cache())


def make_trainer(
    args: DistillArguments, training: ContrastiveTrainingArguments, tokenizer: Any, rows: TeacherRows
) -> ContrastiveTrainer:
    """The trainer of a new student, which is the same for every order."""
    set_seed(training.seed)
    config = small_bert(args, len(tokenizer), hidden_dropout_prob=args.dropout)
    model = BertForCL(
        config, loss="relational_distillation", pooling="mean", similarity_weight=args.similarity_weight,
        distance_weight=args.distance_weight, angle_weight=args.angle_weight, temperature=args.temperature,
    )  # fmt: skip
    return ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=TeacherCollator(tokenizer),
        processing_class=tokenizer,
    )  # fmt: skip


def student_of(trainer: ContrastiveTrainer, tokenizer: Any) -> Encoder:
    """The model in training, to measure."""
    model = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)  # measured in float32
    return SentenceEncoder(model, tokenizer, name="student")


def measure_of(args: DistillArguments, docs: DocsSearch | None) -> Measure:
    """The evaluator: search in held-out documentation, or the main score of each task whose data are available."""
    if docs is not None:

        def search(encoder: Encoder) -> dict[str, float]:
            titles, texts = (unit_vectors(encoder.encode([pair[i] for pair in docs.heldout])) for i in (0, 1))
            return retrieval_metrics(ranks_of_own(titles, texts))

        return search
    where = args.eval_data or os.environ.get("CONTRASTIVE_ST_DATA")
    if not where:
        return lambda encoder: {}
    tasks = chosen(args.eval_tasks, 5)
    data = load(tasks, where)

    def suite(encoder: Encoder) -> dict[str, float]:
        figures, _ = run(
            encoder, tasks, data, cache=None if encoder.name == "student" else folder_of(args.cache), distributed=False
        )
        main = {task.name: [f for f in figures if f.task == task.name and task.is_main(f)] for task in tasks}
        return {name: 100 * found[0].value for name, found in main.items() if found and found[0].value is not None}

    return suite


def size_and_speed(encoder: Encoder, texts: Sequence[str]) -> dict[str, float]:
    """Parameters in millions, if there are any, and sentences encoded per second."""
    some = list(texts[:1000])
    encoder.encode(some[:32])
    started = time.perf_counter()
    encoder.encode(some)
    speed = {"sentences/s": len(some) / (time.perf_counter() - started)}
    model: torch.nn.Module | None = getattr(encoder, "model", None)
    if model is None:
        return speed
    return {"M parameters": sum(p.numel() for p in model.parameters()) / 1e6, **speed}


def report(table: dict[str, dict[str, float]], folder: Path) -> None:
    """Print the figures, and write them beside the checkpoints."""
    names = list(dict.fromkeys(name for figures in table.values() for name in figures))
    print(f"{'':10}" + "".join(f"{name:>14}" for name in names))
    for row, figures in table.items():
        cells = [f"{figures[name]:>14.4g}" if name in figures else f"{'':14}" for name in names]
        print(f"{row:10}" + "".join(cells))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    print(f"checkpoints in {folder}/")
