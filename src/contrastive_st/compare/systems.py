"""The systems that are compared: BM25, encoders, and an encoder that is tuned within a budget of time."""

from __future__ import annotations

import contextlib
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import TrainerCallback, TrainerControl, TrainerState

from contrastive_st.compare.queries import Search
from contrastive_st.data import PairCollator, tokenize
from contrastive_st.data.docs_sets import positive_pairs
from contrastive_st.errors import InputError
from contrastive_st.evaluation.scorers.retrieval import lexical_scores, reciprocal_ranks
from contrastive_st.models import SentenceEncoder, StaticEncoder
from contrastive_st.models.base import ForCL
from contrastive_st.scripts.arguments import EncoderArguments
from contrastive_st.scripts.encoder import open_encoder
from contrastive_st.search.bm25 import Segment, norms_of, shares
from contrastive_st.search.index import FUSED, Hit, fuse
from contrastive_st.search.lexemes import language_of, query_keys
from contrastive_st.search.reranking import rerank
from contrastive_st.tokens import column_prompts
from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.training.trainer import ContrastiveTrainer
from contrastive_st.vectors import unit_vectors

Scores = NDArray[np.floating]
_BATCH, _LENGTH = 128, 128  # texts between two looks at the clock; tokens that a tuned transformer reads
_EPOCHS, _LEAST_STEPS = 3, 60  # of a static model
_FORWARDS = 3  # a step of training takes about as long as so many times the encoding of its texts


@dataclass
class System:
    """A system and its scores.

    Args:
        name: its name in tables.
        scores: `[Q, D]`, of each document for each query.
        model: the folder or the name to index with; "" for BM25.
        rate: texts that it encodes in a second; NaN for BM25 and a cross-encoder.
        curve: the log of its training.
        options: those of `search` that it needs.
        length: of BM25 over words, the mean number of words of a document.
    """

    name: str
    scores: Scores
    model: str = ""
    rate: float = math.nan
    curve: list[dict[str, float]] = field(default_factory=list)
    options: tuple[str, ...] = ()
    length: float = 0.0


def lexical_systems(search: Search) -> Iterator[System]:
    """BM25 over stemmed words, as full-text search has it, and over characters; yields the systems."""
    language, count = language_of(search.documents), len(search.documents)
    segment = Segment.of(np.arange(count), search.documents, language)
    length = float(segment.lengths.mean())
    norms = norms_of(segment.lengths, length)
    by_query = [list(segment.postings(query_keys(query, language))) for query in search.queries]
    scores = np.array([shares(postings, norms, count, np.arange(count)) for postings in by_query])
    yield System("BM25, words", scores, length=length)
    every = lexical_scores(search.queries, search.documents, search.documents, ("characters",))
    yield System("BM25, characters", every["BM25, characters"])


def encoder_system(search: Search, encoder: SentenceEncoder, name: str, deadline: float) -> System:
    """An encoder, compared by cosine, as `search` does, whatever similarity it records.

    Args:
        search: the test.
        encoder: the model.
        name: its name in tables, and to open it by.
        deadline: the `time.perf_counter()` at which it must be done.

    Raises:
        InputError: it is not; the message says how long it takes.
    """
    started, total, vectors = time.perf_counter(), len(search.documents) + len(search.queries), list[Scores]()
    for encode, texts in ((encoder.encode_document, search.documents), (encoder.encode_query, search.queries)):
        for start in range(0, len(texts), _BATCH):
            vectors.append(np.asarray(encode(texts[start : start + _BATCH])))
            done, now = sum(map(len, vectors)), time.perf_counter()
            if now > deadline and done < total:
                needed = (now - started) / done * total / 60
                raise InputError(f"{name} takes about {needed:.1f} minutes for {total:,} texts; --minutes gives time")
    units = unit_vectors(np.concatenate(vectors).astype(np.float32))
    documents, queries = units[: len(search.documents)], units[len(search.documents) :]
    return System(name, queries @ documents.T, name, total / (time.perf_counter() - started))


def hybrid_system(system: System, words: System) -> System:
    """An encoder with BM25 over words, as `search --hybrid` ranks."""
    scores = np.zeros(system.scores.shape, np.float32)
    for row, cosines, by_words in zip(scores, system.scores, words.scores, strict=True):
        nearest, best = (np.argsort(-values, kind="stable")[:FUSED] for values in (cosines, by_words))
        union = np.union1d(nearest, best[by_words[best] > 0])
        row[union[fuse(union, cosines[union], by_words[union], words.length)]] = np.arange(len(union), 0, -1)
    return System(f"{system.name}, hybrid", scores, system.model, system.rate, options=("--hybrid",))


def reranked_system(search: Search, system: System, model: Any, name: str, top: int, deadline: float) -> System:
    """A system whose first hits a cross-encoder reorders, as `search --rerank` does.

    Args:
        search: the test.
        system: of the first hits.
        model: the cross-encoder.
        name: its folder or name.
        top: hits of each query that it scores.
        deadline: the `time.perf_counter()` at which it must be done.

    Raises:
        InputError: it is not; the message says how long it takes.
    """
    started, scores = time.perf_counter(), np.zeros(system.scores.shape, np.float32)
    for done, (row, query, first) in enumerate(zip(scores, search.queries, system.scores, strict=True)):
        if done and (now := time.perf_counter()) > deadline:
            needed = (now - started) / done * len(scores) / 60
            raise InputError(
                f"{name} takes about {needed:.1f} minutes for {top} hits of {len(scores):,} queries; --minutes gives "
                "time, and --rerank_top takes fewer hits"
            )
        hits = [Hit(i, float(first[i]), search.documents[i]) for i in np.argsort(-first, kind="stable").tolist()]
        row[[hit.id for hit in rerank(query, hits, model, top, math.inf)]] = np.arange(len(hits), 0, -1)
    options = (*system.options, "--rerank", name, "--rerank_top", str(top))
    return System(f"{system.name}, reranked by {name}", scores, system.model, options=options)


class _Deadline(TrainerCallback):
    """Ends a training at a time, after a last evaluation."""

    def __init__(self, at: float) -> None:
        self.at = at

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        if time.perf_counter() > self.at:
            control.should_evaluate = control.should_save = control.should_training_stop = True


def tuned_system(search: Search, base: System, folder: Path, deadline: float) -> System:
    """A model tuned on the pairs of a test, by InfoNCE in both directions over the batch; saved in a folder.

    It is evaluated on the queries that choose, and the best of five checkpoints is kept.

    Args:
        search: the test.
        base: the model to start from, evaluated.
        folder: where the tuned model is saved.
        deadline: the `time.perf_counter()` at which training ends.

    Raises:
        InputError: the time is not enough for training, or the base cannot be trained.
    """
    rows = positive_pairs(search.training)
    loss: dict[str, Any] = {"loss": "info_nce", "temperature": 0.05, "symmetric": True}
    model, tokenizer = open_encoder(EncoderArguments(model_name_or_path=base.model), (), **loss)
    static = isinstance(model, StaticEncoder)
    if not static:
        tokenizer.model_max_length = min(tokenizer.model_max_length, _LENGTH)
    batch = min(2048 if static else 64, max(16, len(rows) // 4))
    steps = max(_LEAST_STEPS, _EPOCHS * len(rows) // batch)
    if not static:
        steps = min(steps, int((deadline - time.perf_counter()) * base.rate / (2 * _FORWARDS * batch)))
    if steps < 5 or time.perf_counter() > deadline:
        raise InputError(f"the time that is left is too short to tune {base.name}; --minutes gives more")
    half, recorded = search.half, model.settings.prompts
    named = column_prompts(rows.column_names, recorded, model.settings.default_prompt_name)
    prompts = {name: prompt for name, prompt in named.items() if prompt}

    def evaluate(trained: ForCL) -> dict[str, float]:
        chosen = Search(search.queries[:half], search.documents, search.relevant[:half], [], "")
        scores = encoder_system(chosen, SentenceEncoder(trained, tokenizer), base.name, math.inf).scores
        return {"mrr@10": float(reciprocal_ranks(chosen.ranks(scores)).mean())}

    with tempfile.TemporaryDirectory(prefix="contrastive_st") as scratch, contextlib.redirect_stdout(sys.stderr):
        every = -(-steps // 5)
        args = ContrastiveTrainingArguments(
            output_dir=scratch, per_device_train_batch_size=batch, learning_rate=1e-2 if static else 5e-5,
            max_steps=steps, warmup_steps=0.1, logging_steps=max(1, steps // 20), eval_strategy="steps",
            eval_steps=every, save_strategy="steps", save_steps=every, save_total_limit=1,
            load_best_model_at_end=True, metric_for_best_model="mrr@10", report_to="none",
        )  # fmt: skip
        trainer = ContrastiveTrainer(
            model=model, args=args, processing_class=tokenizer, data_collator=PairCollator(tokenizer),
            train_dataset=tokenize(rows, tokenizer, tokenizer.model_max_length, None, prompts), evaluator=evaluate,
            callbacks=[_Deadline(deadline)],
        )  # fmt: skip
        trainer.train()
        trainer.save_model(str(folder))
    tuned = encoder_system(search, SentenceEncoder(str(folder)), str(folder), math.inf)
    tuned.name, tuned.curve = f"{base.name}, tuned", trainer.state.log_history
    return tuned
