"""Train Skip-Thoughts and QuickThoughts on the same corpus, and print their neighbours side by side."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from transformers import set_seed

from contrastive_st.data import ContextWindowCollator, SentenceCorpus, corpus_texts, train_word_tokenizer
from contrastive_st.distributed import is_first_process
from contrastive_st.errors import InputError
from contrastive_st.evaluation.neighbors import as_markdown, as_text, neighbors
from contrastive_st.evaluation.suite import SuiteEvaluator
from contrastive_st.evaluation.tasks import Task
from contrastive_st.jobs.docs_search import package_task, write_docs_corpus
from contrastive_st.jobs.job import (
    CorpusArguments,
    job_metadata,
    own_folder,
    parse_job,
    say_what_happens,
)
from contrastive_st.models import (
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    SentenceEncoder,
    SkipThoughts,
    SkipThoughtsConfig,
)
from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments, check_output_dir

MODELS = ("skipthoughts", "quickthoughts")


@dataclass
class SkipThoughtsArguments(CorpusArguments):
    """Data and models of the job."""

    models: list[str] = field(
        default_factory=lambda: list(MODELS),
        metadata={"help": "Models to train on the same budget: one or both."},
    )
    hidden_size: int = field(
        default=240, metadata={"help": "Width of the sentence embedding; QuickThoughts has half in each tower."}
    )
    embedding_size: int = field(default=100, metadata={"help": "Dimension of the word vectors."})
    bidirectional: bool = field(default=False, metadata={"help": "bi-skip: half of the width in each direction."})
    vocab_size: int = field(default=20_000, metadata={"help": "Size of the vocabulary: the most frequent words."})
    max_length: int = field(default=30, metadata={"help": "Longest sentence, in words, as in the paper."})
    queries: list[str] | None = field(
        default=None, metadata={"help": "Sentences to find neighbours of; by default four of the corpus."}
    )
    k: int = field(default=4, metadata={"help": "Neighbours per sentence."})
    search_sentences: int = field(default=100_000, metadata={"help": "Number of sentences to search for neighbours."})
    eval_tasks: str = field(
        default="MR,CR,SST2,TREC,STSB",
        metadata={"help": "Tasks measured where CONTRASTIVE_ST_DATA or --eval_data names their files."},
    )
    eval_data: str | None = field(default=None, metadata={"help": "Folder of SentEval's files, or hub."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.models or set(self.models) - set(MODELS):
            raise InputError(f"models {' '.join(self.models)}: name one or both of {', '.join(MODELS)}")


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/skipthoughts", "per_device_train_batch_size": 128, "learning_rate": 1e-3, "max_grad_norm": 5.0,
    "num_train_epochs": 1, "logging_steps": 50, "lr_scheduler_type": "constant", "save_strategy": "no",
    "report_to": "none", "max_steps": 200,
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the whole job; return the figures of each model."""
    args, training = parse_job(SkipThoughtsArguments, argv, "Train Skip-Thoughts and QuickThoughts.", DEFAULTS)
    say_what_happens()
    check_output_dir(training, args.overwrite_output_dir)
    tasks: str | list[Task] = args.eval_tasks
    files = args.train_file
    if args.train_file is None:
        path = Path(str(training.output_dir), "corpus.txt")
        with training.main_process_first(desc="read the documentation"):
            tasks = [package_task(write_docs_corpus(path))]
        args.train_file, args.eval_data = [str(path)], "hub"
    where = args.eval_data or os.environ.get("CONTRASTIVE_ST_DATA")
    texts = lambda: corpus_texts(args.train_file, args.text_column, args.document_column)
    tokenizer = train_word_tokenizer(texts(), args.vocab_size, args.max_length)
    evaluate = SuiteEvaluator(tokenizer, tasks, where, folds=5) if where else None
    trained, table = {}, {}
    for name in args.models:
        trainer = make_trainer(args, training, tokenizer, name)
        trainer.metadata = job_metadata(args, len(trainer.train_dataset), files)
        started = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - started
        if name == "skipthoughts":
            model: Any = trainer.model
            model.drop_heads()
        trainer.save_model()
        trained[name] = trainer.model
        loss = next((row["loss"] for row in reversed(trainer.state.log_history) if "loss" in row), float("nan"))
        table[name] = {"seconds": seconds, "loss": loss, **(evaluate(trainer.model) if evaluate else {})}
    if is_first_process():
        searched = list(itertools.islice(texts(), args.search_sentences))
        report(args, table, trained, tokenizer, searched, str(training.output_dir))
    return table


def make_trainer(
    args: SkipThoughtsArguments, training: ContrastiveTrainingArguments, tokenizer: Any, name: str
) -> ContrastiveTrainer:
    """The trainer of one model: the same sentences in the same batches."""
    set_seed(training.seed)
    own = own_folder(training, Path(training.output_dir, name))  # type: ignore[arg-type]
    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "embedding_size": args.embedding_size,
        "bidirectional": args.bidirectional,
    }
    model: Any
    try:
        if name == "skipthoughts":
            model = SkipThoughts(SkipThoughtsConfig(hidden_size=args.hidden_size, **shape))
        else:
            model = QuickThoughtsGRU(QuickThoughtsConfig(hidden_size=args.hidden_size // 2, **shape))
    except ValueError as error:
        raise InputError(str(error)) from error
    corpus = SentenceCorpus(args.train_file or [], tokenizer, args.max_length, args.text_column, args.document_column)
    return ContrastiveTrainer(
        model=model, args=own, train_dataset=corpus, data_collator=ContextWindowCollator(tokenizer),
        processing_class=tokenizer,
    )  # fmt: skip


def report(
    args: SkipThoughtsArguments, table: dict[str, dict[str, float]], trained: dict[str, Any], tokenizer: Any,
    sentences: list[str], folder: str,
) -> None:  # fmt: skip
    """Print figures and neighbours, and write both beside the checkpoints."""
    for name, figures in table.items():
        print(f"{name:14}" + "  ".join(f"{key} {value:.4g}" for key, value in figures.items()))
    distinct = list(dict.fromkeys(sentences))
    long = [sentence for sentence in distinct if 6 <= len(sentence.split()) <= 16]
    queries = args.queries or [long[i] for i in np.random.default_rng(0).choice(len(long), min(4, len(long)), False)]
    found = {}
    for name, model in trained.items():
        encoder = SentenceEncoder(model, tokenizer, name=name)
        found[name] = neighbors(encoder, queries, distinct, args.k)
    print(as_text(queries, found, shutil.get_terminal_size((120, 24)).columns))
    caption = f"The nearest of {len(distinct):,} distinct sentences, by cosine similarity."
    Path(folder, "neighbors.md").write_text(as_markdown(queries, found, caption), encoding="utf-8")
    Path(folder, "results.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    print(f"checkpoints and neighbors.md in {folder}/")
