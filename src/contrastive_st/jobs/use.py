"""Train the Universal Sentence Encoder: neighbours, answers and labelled pairs; a batch comes from one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import set_seed

from contrastive_st.data import (
    ContextWindowCollator,
    LabelledPairCollator,
    Mixture,
    MixtureCollator,
    PairCollator,
    SentenceCorpus,
    installed_docs,
    read_pairs,
    read_texts,
    split_pairs,
    tokenize,
    tokenize_pairs,
    train_word_tokenizer,
)
from contrastive_st.data.corpus import corpus_texts
from contrastive_st.jobs.docs_search import docs_mrr, labelled_docs, write_docs_corpus
from contrastive_st.jobs.job import (
    JobArguments,
    finish,
    job_metadata,
    measures,
    parse_job,
    say_what_happens,
    split_by_first,
)
from contrastive_st.models import UniversalConfig, UniversalSentenceEncoder
from contrastive_st.training import ContrastiveTrainer, check_output_dir

#: Each task, with the settings of its loss
TASKS = {
    "neighbours": {"loss": "targets", "targets": "next"},
    "answers": {"loss": "info_nce"},
    "nli": {"loss": "softmax", "features": ("u", "v", "abs(u-v)", "u*v")},
}


@dataclass
class UniversalArguments(JobArguments):
    """Data and model of the job."""

    corpus_file: str | None = field(
        default=None, metadata={"help": "For neighbours: sentences in order, .txt or .parquet. Default: documentation."}
    )
    answer_file: str | None = field(
        default=None, metadata={"help": "For answers: two columns, input and response. Default: documentation."}
    )
    nli_file: str | None = field(
        default=None, metadata={"help": "For nli: a file of SNLI, MultiNLI, ... or a name. Default: documentation."}
    )
    task_weights: list[float] = field(
        default_factory=lambda: [1.0, 1.0, 1.0], metadata={"help": "Shares of the batches: neighbours, answers, nli."}
    )
    encoder: str = field(default="dan", metadata={"help": "dan or transformer."})
    hidden_size: int = field(default=256, metadata={"help": "Width of the embedding; 512 in the paper."})
    embedding_size: int = field(default=256, metadata={"help": "Dimension of the word vectors of a dan."})
    num_layers: int = field(default=2, metadata={"help": "Feed-forward layers, or layers of the transformer."})
    vocab_size: int = field(default=20_000, metadata={"help": "Most words."})
    max_length: int = field(default=50, metadata={"help": "Longest text, in words."})


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/use", "per_device_train_batch_size": 256, "learning_rate": 1e-3, "max_steps": 600,
    "warmup_steps": 0.1, "save_strategy": "no", "logging_steps": 50, "bf16": False,
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Run the whole job; return the final figures."""
    args, training = parse_job(UniversalArguments, argv, "Train the Universal Sentence Encoder.", DEFAULTS)
    say_what_happens()
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)
    own_corpus = Path(str(training.output_dir), "corpus.txt")
    given = args.corpus_file and args.answer_file and args.nli_file
    pairs, heldout = ([], []) if given else split_pairs(installed_docs(), 1000)
    with training.main_process_first(desc="read"):
        if args.corpus_file is None:
            write_docs_corpus(own_corpus)
        corpus = args.corpus_file or str(own_corpus)
        answers = read_texts(args.answer_file) if args.answer_file else Dataset.from_dict(
            {"input": [pair.title for pair in pairs], "response": [pair.text for pair in pairs]}
        )  # fmt: skip
        labelled = read_pairs(args.nli_file) if args.nli_file else labelled_docs(pairs).remove_columns("score")
        train, dev, _ = split_by_first(labelled)
        texts = (text for rows in (answers, train) for name in rows.column_names[:2] for text in rows[name][:])
        tokenizer = train_word_tokenizer((*texts, *_first(corpus, 200_000)), args.vocab_size, args.max_length)
        mixture = Mixture(
            {
                "neighbours": SentenceCorpus(corpus, tokenizer, args.max_length),
                "answers": tokenize(answers, tokenizer, args.max_length),
                "nli": tokenize_pairs(train, tokenizer, args.max_length),
            },
            dict(zip(TASKS, args.task_weights, strict=True)),
        )
        dev_rows = tokenize_pairs(dev, tokenizer, args.max_length)
    config = UniversalConfig(
        len(tokenizer), args.encoder, args.embedding_size, args.hidden_size, args.num_layers, num_attention_heads=4,
        intermediate_size=4 * args.hidden_size,
    )  # fmt: skip
    model = UniversalSentenceEncoder(config, loss="multi_task", tasks=TASKS)
    kinds = dict(zip(TASKS, (ContextWindowCollator, PairCollator, LabelledPairCollator), strict=True))
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=mixture, processing_class=tokenizer,
        data_collator=MixtureCollator({name: kind(tokenizer) for name, kind in kinds.items()}),
        evaluator=measures(
            tokenizer,
            nli_accuracy=partial(nli_accuracy, tokenizer=tokenizer, rows=dev_rows),
            **({"docs_mrr": docs_mrr(tokenizer, heldout)} if heldout else {}),
        ),
    )  # fmt: skip
    files = [file for file in (args.corpus_file, args.answer_file, args.nli_file) if file]
    trainer.metadata = job_metadata(args, len(mixture), files)
    return finish(trainer, resume)


@torch.no_grad()
def nli_accuracy(model: Any, tokenizer: Any, rows: Dataset) -> float:
    """Accuracy of the task's head on the labelled pairs."""
    collate, was_training, right = MixtureCollator({"nli": LabelledPairCollator(tokenizer)}), model.training, 0.0
    model.eval()
    for start in range(0, len(rows), 256):
        some = rows.select(range(start, min(start + 256, len(rows))))
        batch = collate([{**row, "dataset": "nli"} for row in some])
        views = model.embed(batch["input_ids"].to(model.device), batch["attention_mask"].to(model.device))
        right += model.loss_fn.metrics(views, batch["targets"].to(model.device))["nli_accuracy"] * len(some)
    model.train(was_training)
    return right / len(rows)


def _first(corpus: str, count: int) -> Any:
    return (text for _, text in zip(range(count), corpus_texts(corpus), strict=False))
