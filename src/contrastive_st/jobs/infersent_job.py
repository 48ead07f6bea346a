"""Train InferSent: a max-pooled BiLSTM that predicts the labels of pairs, of NLI or the installed documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from transformers import set_seed

from contrastive_st.data import (
    LabelledPairCollator,
    embedding_matrix,
    installed_docs,
    lsa_word_vectors,
    read_pairs,
    read_word_vectors,
    tokenize_pairs,
    train_word_tokenizer,
    vector_tokenizer,
)
from contrastive_st.jobs.docs_search import labelled_docs
from contrastive_st.jobs.job import (
    JobArguments,
    check_data,
    finish,
    job_metadata,
    label_accuracy,
    measures,
    parse_job,
    sample,
    say_what_happens,
    split_by_first,
)
from contrastive_st.models import InferSentBiLSTM, InferSentConfig
from contrastive_st.training import ContrastiveTrainer, check_output_dir
from contrastive_st.training.callbacks import DevDecay


@dataclass
class InferSentArguments(JobArguments):
    """Data and model of the job."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": "Pairs with labels: a file of SNLI, MultiNLI, ... or a name such as SNLI (of the Hub). Without it: "
            "summaries and paragraphs of the installed documentation."
        },
    )
    max_train_samples: int | None = field(
        default=None, metadata={"help": "Number of pairs to train on, drawn at random."}
    )
    word_vectors: str | None = field(
        default=None,
        metadata={
            "help": "GloVe or fastText file; its vectors stay as they are. By default they "
            "are made of the training texts (latent semantic analysis) and trained on."
        },
    )
    vocab_size: int = field(default=20_000, metadata={"help": "Most words."})
    embedding_size: int = field(default=100, metadata={"help": "Dimension of the word vectors without a file of them."})
    hidden_size: int = field(default=256, metadata={"help": "Width of one direction; 2048 in the paper."})
    head_hidden: int = field(default=512, metadata={"help": "Hidden layers of the classifier; 0 for a linear one."})
    max_length: int = field(default=50, metadata={"help": "Longest text, in words."})


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/infersent", "per_device_train_batch_size": 64, "optim": "sgd", "learning_rate": 0.1,
    "lr_scheduler_type": "constant", "max_grad_norm": 5.0, "num_train_epochs": 3, "eval_strategy": "epoch",
    "save_strategy": "no", "logging_steps": 100, "bf16": False,
}  # fmt: skip

#: On the documentation of the installed packages: there are no vectors, so they are trained too, and SGD hardly moves
#: them in the few steps of a small corpus
DOCS_DEFAULTS: dict[str, Any] = {
    **DEFAULTS, "optim": "adamw_torch", "learning_rate": 1e-3, "max_train_samples": 12_000, "num_train_epochs": 2,
}  # fmt: skip


def main(argv: Sequence[str] | None = None, docs: bool = False) -> dict[str, float]:
    """Run the whole job, on a file or on the installed documentation; return the final figures."""
    args, training = parse_job(InferSentArguments, argv, "Train InferSent.", DOCS_DEFAULTS if docs else DEFAULTS)
    check_data(docs, args.train_file, "infersent")
    say_what_happens()
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)
    pairs = (
        labelled_docs(installed_docs()).remove_columns("score")
        if args.train_file is None
        else read_pairs(args.train_file)
    )
    train, dev, test = split_by_first(pairs)
    train = sample(train, args.max_train_samples)
    tokenizer, vectors = vocabulary(args, train)
    with training.main_process_first(desc="tokenize"):
        rows, dev_rows, test_rows = (tokenize_pairs(part, tokenizer, args.max_length) for part in (train, dev, test))
    config = InferSentConfig(
        len(tokenizer), vectors.shape[1], args.hidden_size, frozen_words=args.word_vectors is not None,
    )  # fmt: skip
    model = InferSentBiLSTM(config, head_hidden=args.head_hidden, num_labels=max(pairs["label"][:]) + 1)
    model.set_word_vectors(vectors)
    told = {name: partial(label_accuracy, tokenizer=tokenizer, rows=part) for name, part in
            (("dev_accuracy", dev_rows), ("test_accuracy", test_rows))}  # fmt: skip
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=LabelledPairCollator(tokenizer),
        processing_class=tokenizer, evaluator=measures(tokenizer, **told), callbacks=[DevDecay()],
    )  # fmt: skip
    trainer.metadata = job_metadata(args, len(rows), args.train_file)
    return finish(trainer, resume)


def vocabulary(args: InferSentArguments, train: Any) -> tuple[Any, Any]:
    """The tokenizer and its word vectors: from a file, or by latent semantic analysis of the training texts."""
    if args.word_vectors:
        vectors = read_word_vectors(args.word_vectors, limit=args.vocab_size)
        tokenizer = vector_tokenizer(vectors, args.max_length)
        return tokenizer, embedding_matrix(vectors, tokenizer)
    texts = [text for name in ("first", "second") for text in train[name][:]]
    tokenizer = train_word_tokenizer(texts, args.vocab_size, args.max_length)
    return tokenizer, lsa_word_vectors(texts, tokenizer, args.embedding_size)
