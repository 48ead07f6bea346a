"""Run tasks on models: data read once, each distinct sentence encoded once a model, work shared over the processes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrastive_st.data.readers import MissingData
from contrastive_st.distributed import shared
from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Splits
from contrastive_st.evaluation.embedding_store import EmbeddingStore, Encoder, as_encoder
from contrastive_st.evaluation.report.report import Report
from contrastive_st.evaluation.scorers import Score
from contrastive_st.evaluation.scorers.sts import SPLIT, similarity_histogram
from contrastive_st.evaluation.tasks import Task, chosen

Data = Mapping[str, Splits | str]  # a task's data by its name, or why it is not there


def evaluate(
    models: Sequence[Any],
    tasks: str | Sequence[str] | Sequence[Task] = "sts",
    data: str | Path = "hub",
    *,
    cache: str | Path | None = None,
    distributed: bool = True,
    folds: int = 10,
    names: Sequence[str] | None = None,
    **options: Any,
) -> Report:
    """Evaluate models on tasks; under `accelerate launch` a collective call, with the same report on every process.

    Args:
        models: functions from texts to vectors, and whatever `SentenceEncoder` opens.
        tasks: names and groups ("sts,transfer", ["STSB", "MR"]), or `Task` objects.
        data: the folder of SentEval's files, or "hub".
        cache: folder that keeps embeddings from one run to the next; None keeps none.
        distributed: False does all the work here, whatever the process group.
        folds: of the cross-validations, SentEval's 10 or 5.
        names: what the report calls the models.
        options: for `SentenceEncoder` (`pooling`, `max_length`, `device`).

    Returns:
        The report. A task whose data is not there, and all tasks of a model that cannot be opened or returns NaN, are
        in it as not run, with the reason.

    Raises:
        InputError: an unknown task, damaged data, or no data for any task.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> lengths = lambda texts: np.array([[len(text), 1.0] for text in texts])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     evaluate([lengths], "STSB", folder)
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: nothing to evaluate on: no folder STS/STSBenchmark in ...
    """
    asked = chosen(tasks, folds)
    loaded = load(asked, data)
    report = Report(source="hub" if str(data) == "hub" else "files", tasks=asked)
    for model, given in zip(models, names or (None,) * len(models), strict=True):
        started = time.perf_counter()
        encoder = None
        try:
            encoder = as_encoder(model, name=given, **options)
            scores, histogram = run(encoder, asked, loaded, cache=cache, distributed=distributed)
        except InputError as error:
            name = _unused(encoder.name if encoder else given or str(model), report)
            report.failures[name] = str(error)
            scores = [replace(not_run(task, str(error)), model=name) for task in asked]
        else:
            name = _unused(encoder.name, report)
            scores = [replace(score, model=name) for score in scores]
            report.histograms |= {name: histogram} if histogram else {}
        report.scores += scores
        report.seconds[name] = time.perf_counter() - started
    return report


def load(tasks: Sequence[Task], data: str | Path) -> dict[str, Splits | str]:
    """The data of each task by its name, or the reason why it is not there.

    Raises:
        InputError: there is no data for any of them, or some is damaged.
    """
    loaded: dict[str, Splits | str] = {}
    for task in tasks:
        try:
            loaded[task.name] = task.load(data)
        except MissingData as error:
            loaded[task.name] = str(error)
    reasons = [why for why in loaded.values() if isinstance(why, str)]
    if reasons and len(reasons) == len(loaded):
        raise InputError(f"nothing to evaluate on: {reasons[0]}; is {data} the folder of SentEval's files?")
    return loaded


def run(
    encoder: Encoder,
    tasks: Sequence[Task],
    loaded: Data,
    *,
    cache: str | Path | None = None,
    distributed: bool = True,
) -> tuple[list[Score], dict[str, Any] | None]:
    """All scores of one model, each with what the model is; and the histogram of its STS-B similarities.

    Raises:
        InputError: the model returns NaN or the wrong shape; names it.
    """
    present = {name: splits for name, splits in loaded.items() if isinstance(splits, Splits)}
    texts = (text for splits in present.values() for text in splits.texts())
    store = EmbeddingStore(encoder, texts, cache, distributed)

    def work(task: Task) -> list[Score]:
        splits = loaded[task.name]
        return task.score(splits, store) if isinstance(splits, Splits) else [not_run(task, splits)]

    scored = shared(work, tasks, [task.cost for task in tasks], distributed=distributed)
    about = {"model": encoder.name, "pooling": encoder.pooling, "max_length": encoder.max_length}
    scores = [replace(score, **about) for own in scored for score in own]  # type: ignore[arg-type]
    stsb = next((splits for name, splits in present.items() if name in ("STSB", "space") and SPLIT in splits), None)
    return scores, similarity_histogram(stsb, store) if stsb else None


def not_run(task: Task, why: str) -> Score:
    """A task's score when there is none."""
    split, metric, aggregation = task.main
    return Score(task.name, split, metric, None, aggregation, note=why)


def _unused(name: str, report: Report) -> str:
    known = {score.model for score in report.scores}
    return name if name not in known else next(f"{name} ({i})" for i in range(2, 1000) if f"{name} ({i})" not in known)
