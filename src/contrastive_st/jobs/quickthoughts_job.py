"""Train a QuickThoughts encoder on an ordered corpus, by neighbours or by shared words."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from transformers import set_seed

from contrastive_st.data import (
    ContextWindowCollator,
    CooccurrenceCollator,
    SentenceCorpus,
    corpus_texts,
    embedding_matrix,
    fit_idf,
    read_word_vectors,
    train_word_tokenizer,
    vector_tokenizer,
)
from contrastive_st.errors import InputError
from contrastive_st.evaluation.suite import SuiteEvaluator
from contrastive_st.evaluation.tasks import Task
from contrastive_st.jobs.docs_search import package_task, write_docs_corpus
from contrastive_st.jobs.job import (
    CorpusArguments,
    check_data,
    finish,
    fit_batch,
    job_metadata,
    parse_job,
    say_what_happens,
)
from contrastive_st.losses.targets import BAGS
from contrastive_st.models import QuickThoughtsConfig, QuickThoughtsGRU
from contrastive_st.models.checkpoint import load_tokenizer
from contrastive_st.tokens import token_ids
from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments, check_output_dir

logger = logging.getLogger(__name__)


@dataclass
class QuickThoughtsArguments(CorpusArguments):
    """Data, targets and model of the job."""

    targets: str = field(
        default="window",
        metadata={
            "help": "Targets of a sentence: next (the sentences after it), window (around it), counts or tfidf "
            "(softmax of shared words), tfidf_bin (the one most similar by TF-IDF)."
        },
    )
    row_loss: str = field(default="kl", metadata={"help": "kl, cross_entropy, l2, block (CURL) or pairwise."})
    context_size: int = field(default=1, metadata={"help": "Sentences on each side in the window."})
    context_weights: list[float] | None = field(
        default=None, metadata={"help": "One weight for each distance, nearest first; by default all 1."}
    )
    temperature: float | None = field(
        default=None,
        metadata={"help": "Temperature of the targets of counts (default 1) and tfidf (default 0.1)."},
    )
    label_smoothing: float = field(
        default=0.0, metadata={"help": "Total mass of each row of targets that is spread evenly."}
    )
    surrogate: str = field(
        default="logistic", metadata={"help": "Surrogate of the block and pairwise losses: logistic or hinge."}
    )
    encoder: str = field(default="gru", metadata={"help": "gru, lstm, bigru, bilstm or transformer."})
    hidden_size: int = field(default=300, metadata={"help": "Width of one tower; the embedding has twice that."})
    embedding_size: int = field(default=200, metadata={"help": "Dimension of the word vectors."})
    num_layers: int = field(default=1, metadata={"help": "Layers of a tower."})
    readout: str = field(default="last", metadata={"help": "last, max or mean."})
    dropout: float = field(
        default=0.0, metadata={"help": "Dropout on word vectors, between layers and on the readout."}
    )
    shared_embeddings: bool = field(default=False, metadata={"help": "Share the word vectors of f and g."})
    word_vectors: str | None = field(
        default=None, metadata={"help": "GloVe, word2vec or fastText file: its words and vectors to start from."}
    )
    word_vectors_use: str = field(
        default="trained", metadata={"help": "trained, frozen, or multichannel (a frozen and a trained channel)."}
    )
    vocab_size: int = field(
        default=20_000, metadata={"help": "Size of the vocabulary: the most frequent words, or the first of a file."}
    )
    max_length: int = field(default=50, metadata={"help": "Longest sentence, in words."})
    idf_sentences: int = field(default=200_000, metadata={"help": "Sentences from which IDF is computed."})
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
#: On the documentation of the installed packages: several passes over the small corpus, measured after each
DOCS_DEFAULTS: dict[str, Any] = {**DEFAULTS, "num_train_epochs": 3, "learning_rate": 2e-3, "eval_strategy": "epoch"}


def main(argv: Sequence[str] | None = None, docs: bool = False) -> dict[str, float]:
    """Run the whole job, on files or on the installed documentation; returns the final figures."""
    defaults = DOCS_DEFAULTS if docs else DEFAULTS
    args, training = parse_job(QuickThoughtsArguments, argv, "Train a QuickThoughts encoder.", defaults)
    check_data(docs, args.train_file, "quickthoughts")
    say_what_happens()
    resume = check_output_dir(training, args.overwrite_output_dir)
    trainer = make_trainer(args, training, resume)
    return finish(trainer, resume)


def make_trainer(
    args: QuickThoughtsArguments, training: ContrastiveTrainingArguments, resume: str | None = None
) -> ContrastiveTrainer:
    """The trainer, with corpus, vocabulary, model, collator and evaluator."""
    set_seed(training.seed)
    tasks: str | list[Task] = args.eval_tasks
    from_documentation = args.train_file is None
    if args.train_file is None:
        path = Path(training.output_dir, "corpus.txt")  # type: ignore[arg-type]
        with training.main_process_first(desc="read the documentation"):
            tasks = [package_task(write_docs_corpus(path))]
        args.train_file, args.eval_data = [str(path)], "hub"
    elif args.eval_data is None:
        args.eval_data = os.environ.get("CONTRASTIVE_ST_DATA")
    tokenizer, vectors = vocabulary(args, resume)
    corpus = SentenceCorpus(args.train_file, tokenizer, args.max_length, args.text_column, args.document_column)
    check_batch(args, training, len(corpus))
    evaluator = SuiteEvaluator(tokenizer, tasks, args.eval_data, folds=5) if args.eval_data else None
    if evaluator is None:
        training.eval_strategy = "no"
        logger.info("no evaluation during training: set --eval_data or CONTRASTIVE_ST_DATA to a folder")
    trainer = ContrastiveTrainer(
        model=new_model(args, len(tokenizer), vectors), args=training, train_dataset=corpus,
        data_collator=collator(args, tokenizer), processing_class=tokenizer, evaluator=evaluator,
    )  # fmt: skip
    trainer.metadata = job_metadata(args, len(corpus), None if from_documentation else args.train_file)
    return trainer


def vocabulary(args: QuickThoughtsArguments, resume: str | None) -> tuple[Any, Any]:
    """The tokenizer, and the matrix of its word vectors if a file is given."""
    if args.word_vectors:
        vectors = read_word_vectors(args.word_vectors, limit=args.vocab_size)
        tokenizer: Any = load_tokenizer(resume) if resume else vector_tokenizer(vectors, args.max_length)
        return tokenizer, embedding_matrix(vectors, tokenizer)
    if args.word_vectors_use != "trained":
        raise InputError(f"--word_vectors_use {args.word_vectors_use} needs a file of vectors; give --word_vectors")
    texts = corpus_texts(args.train_file or [], args.text_column, args.document_column)
    tokenizer = load_tokenizer(resume) if resume else train_word_tokenizer(texts, args.vocab_size, args.max_length)
    return tokenizer, None


def check_batch(args: QuickThoughtsArguments, training: ContrastiveTrainingArguments, sentences: int) -> None:
    """Refuse a batch that is smaller than a window; reduce it to the size of the corpus."""
    batch = fit_batch(training, sentences, "sentences")
    if args.targets in ("next", "window") and batch <= args.context_size:
        raise InputError(
            f"a batch of {batch} sentences is smaller than a window of {args.context_size} and the sentence itself; "
            "give a larger --per_device_train_batch_size, or a smaller --context_size"
        )


def new_model(args: QuickThoughtsArguments, vocab_size: int, vectors: Any) -> QuickThoughtsGRU:
    """A new model, with the word vectors of the file if one is given."""
    try:
        config = QuickThoughtsConfig(
            vocab_size=vocab_size,
            embedding_size=args.embedding_size if vectors is None else vectors.shape[1],
            hidden_size=args.hidden_size,
            encoder=args.encoder.removeprefix("bi"),
            bidirectional=args.encoder.startswith("bi"),
            num_layers=args.num_layers,
            readout=args.readout,
            word_vectors=args.word_vectors_use,
            shared_embeddings=args.shared_embeddings,
            dropout=args.dropout,
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    temperature = args.temperature or (0.1 if args.targets == "tfidf" else 1.0)
    model = QuickThoughtsGRU(
        config, targets=args.targets, row_loss=args.row_loss, context_size=args.context_size,
        context_weights=args.context_weights and tuple(args.context_weights), temperature=temperature,
        label_smoothing=args.label_smoothing, surrogate=args.surrogate,
    )  # fmt: skip
    if vectors is not None:
        model.set_word_vectors(vectors)
    return model


def collator(args: QuickThoughtsArguments, tokenizer: Any) -> ContextWindowCollator | CooccurrenceCollator:
    """The collator: positions for windows, or bags of words with IDF computed on the corpus."""
    if args.targets not in BAGS:
        return ContextWindowCollator(tokenizer)
    idf = None
    if args.targets != "counts":
        texts = corpus_texts(args.train_file or [], args.text_column, args.document_column)
        ids = _ids_of(itertools.islice(texts, args.idf_sentences), tokenizer, args.max_length)
        idf = np.asarray(fit_idf(ids, len(tokenizer)))
    return CooccurrenceCollator(tokenizer, args.targets, idf)


def _ids_of(texts: Iterable[str], tokenizer: Any, max_length: int) -> Iterator[list[int]]:
    """Token ids of each text, tokenized a thousand at a time."""
    texts = iter(texts)
    while some := list(itertools.islice(texts, 1000)):
        yield from token_ids(tokenizer, some, max_length)
