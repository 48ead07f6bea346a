"""Run tasks on models: data are read once, each model encodes each distinct sentence once, processes share the work.

An evaluation during training does not change the training: the final weights are bit-equal to those without it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.reading import MissingData
from contrastive_st.distributed import shared
from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Splits, find_stsb, read_stsb_file
from contrastive_st.evaluation.embedding_store import EmbeddingStore
from contrastive_st.evaluation.report.report import Report
from contrastive_st.evaluation.scorers import Score
from contrastive_st.evaluation.scorers.retrieval import ranking_metrics, relevant_rows
from contrastive_st.evaluation.tasks import Task, chosen, similarity_task, unused
from contrastive_st.models import SentenceEncoder
from contrastive_st.models.protocol import Encoder, as_encoder
from contrastive_st.random_state import preserved_random_state

logger = logging.getLogger(__name__)
Data = Mapping[str, Splits | str]  # the data of each task by its name, or the reason why it is missing


def evaluate(
    models: Sequence[object],
    tasks: str | Sequence[str] | Sequence[Task] = "sts",
    data: str | Path = "hub",
    *,
    cache: str | Path | None = None,
    distributed: bool = True,
    folds: int = 10,
    names: Sequence[str] | None = None,
    **options: object,
) -> Report:
    """Evaluate models on tasks; under `accelerate launch` a collective call, with the same report on every process.

    Args:
        models: functions from texts to vectors, or models that `SentenceEncoder` opens.
        tasks: names and groups ("sts,transfer", ["STSB", "MR"]), or `Task` objects.
        data: the folder of SentEval's files, or "hub".
        cache: folder that keeps embeddings from one run to the next; None keeps none.
        distributed: False does all the work in this process, even inside a process group.
        folds: folds of the cross-validations, 10 or 5 as in SentEval.
        names: names of the models in the report.
        options: for `SentenceEncoder` (`pooling`, `max_length`, `device`).

    Returns:
        The report. A task whose data are missing, and all tasks of a model that cannot be opened or returns NaN, are
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
    for model, alias in zip(models, names or (None,) * len(models), strict=True):
        started = time.perf_counter()
        name, failure, fingerprint = alias or str(model), "", None
        try:
            encoder = as_encoder(model, name=alias, **options)
            name = encoder.name
            scores = run(encoder, asked, loaded, cache=cache, distributed=distributed)
            fingerprint = encoder.fingerprint
        except InputError as error:
            failure, scores = str(error), [not_run(task, str(error)) for task in asked]
        name = unused(name, report.models)
        report.failures |= {name: failure} if failure else {}
        report.fingerprints |= {name: fingerprint} if fingerprint else {}
        report.scores += [replace(score, model=name) for score in scores]
        report.seconds[name] = time.perf_counter() - started
    return report


def load(tasks: Sequence[Task], data: str | Path) -> dict[str, Splits | str]:
    """The data of each task by its name, or the reason why they are missing.

    Args:
        tasks: the tasks.
        data: the folder of SentEval's files, or "hub".

    Returns:
        `Splits`, or the reason, by the name of the task.

    Raises:
        InputError: none of them has data, or a file is damaged.
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
    encoder: Encoder, tasks: Sequence[Task], loaded: Data, *, cache: str | Path | None = None, distributed: bool = True
) -> list[Score]:
    """All scores of one model, each with the model's settings.

    A task that cannot be scored, such as one with too few rows for its folds, is logged and does not stop the others.

    Args:
        encoder: the model.
        tasks: the tasks.
        loaded: what `load` returned for them.
        cache: folder that keeps embeddings; None keeps none.
        distributed: divide the work among the processes.

    Returns:
        The scores, in the order of the tasks.

    Raises:
        InputError: the model returns NaN or the wrong shape; names it. Or no task can be scored.
    """
    present = {name: splits for name, splits in loaded.items() if isinstance(splits, Splits)}
    texts = (text for splits in present.values() for text in splits.texts())
    store = EmbeddingStore(encoder, texts, cache, distributed)

    def work(task: Task) -> list[Score] | InputError:
        splits = loaded[task.name]
        if not isinstance(splits, Splits):
            return [not_run(task, splits)]
        try:
            return [replace(score, task=task.name) for score in task.of_encoder(encoder).score(splits, store)]
        except MissingData as error:
            return [not_run(task, str(error))]
        except InputError as error:
            return error

    scored = shared(work, tasks, [task.cost for task in tasks], distributed=distributed)
    about: dict[str, Any] = {"model": encoder.name, "pooling": encoder.pooling, "max_length": encoder.max_length}
    errors, scores = [result for result in scored if isinstance(result, InputError)], []
    for task, result in zip(tasks, scored, strict=True):
        if isinstance(result, InputError):
            if len(errors) == len(present):
                raise result
            logger.warning(f"{task.name} is not run: {result}")
            result = [not_run(task, str(result))]
        scores += [replace(score, **about, **_undefined(score)) for score in result]
    return scores


def _undefined(score: Score) -> dict[str, Any]:
    """What to change of a score that is NaN or infinite, which JSON cannot hold and a mean must not."""
    values = {"value": score.value, "deviation": score.deviation}
    changes: dict[str, Any] = {name: None for name, x in values.items() if x is not None and not math.isfinite(x)}
    return changes | ({"note": f"undefined: the scorer returned {score.value}"} if "value" in changes else {})


def not_run(task: Task, why: str) -> Score:
    """The score of a task that was not run.

    Args:
        task: the task.
        why: the reason, for the note.

    Returns:
        The main score of the task, without a value.
    """
    split, metric, aggregation = task.main
    return Score(task.name, split, metric, None, aggregation, note=why)


# --- In the middle of training.


class SuiteEvaluator:
    """Evaluates tasks during training: `ContrastiveTrainer(evaluator=SuiteEvaluator(tokenizer, "STSB,CR", data))`.

    The data is read once, when this is made. Names are like `stsb_spearman` and `cr_accuracy`; with `dev=True` (the
    default) metrics of the dev split replace those of the test split if a task has both, as the name says
    (`stsb_dev_spearman`): a run that picks its checkpoint by the test split reports a wrong test metric.

    Args:
        tokenizer: the model's.
        tasks: names and groups, or `Task` objects, as for `evaluate`.
        data: folder, or "hub".
        dev: prefer dev splits.
        folds: folds of the cross-validations; by default SentEval's quick setting.
        distributed: divide the work among the processes, which must all call it then. `ContrastiveTrainer` calls its
            evaluator on one process, so leave this off there.

    Raises:
        InputError: an unknown task, or no data for any.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        tasks: str | Sequence[str] | Sequence[Task] = "STSB",
        data: str | Path = "hub",
        *,
        dev: bool = True,
        folds: int = 5,
        distributed: bool = False,
    ) -> None:
        self.tokenizer, self.dev, self.distributed = tokenizer, dev, distributed
        self.tasks = chosen(tasks, folds)
        self.data = load(self.tasks, data)

    def __call__(self, model: nn.Module) -> dict[str, float]:
        """The main metric of each task, by `TASK_METRIC`."""
        with preserved_random_state():
            encoder = SentenceEncoder(model, self.tokenizer, name="the model")
            metrics = run(encoder, self.tasks, self.data, distributed=self.distributed)
        result = {}
        for task in self.tasks:
            scores = [f for f in metrics if f.task == task.name]
            main = next((f for f in scores if task.is_main(f)), None)
            dev = [f for f in scores if self.dev and f.split == "dev" and (main is None or f.metric == main.metric)]
            chosen = dev[0] if dev else main
            if chosen is not None and chosen.value is not None:
                middle = "_dev_" if chosen.split == "dev" else "_"
                result[f"{task.name.lower()}{middle}{chosen.metric}"] = chosen.value
        return result


def retrieval_evaluator(
    tokenizer: PreTrainedTokenizerBase, queries: Sequence[str], documents: Sequence[str]
) -> Callable[[nn.Module], dict[str, float]]:
    """An evaluator for `ContrastiveTrainer`: MRR@10 and recall@10 of the document of each query among all documents.

    Args:
        tokenizer: the model's.
        queries: N texts.
        documents: N texts; document i belongs to query i.

    Returns:
        A function from a model in training to its metrics.
    """

    relevant = relevant_rows([[number] for number in range(len(queries))])

    def evaluate(model: nn.Module) -> dict[str, float]:
        encoder = SentenceEncoder(model, tokenizer)
        asked, sought = encoder.encode_query(list(queries)), encoder.encode_document(list(documents))
        metrics = [("mrr", 10), ("recall", 10)]
        return ranking_metrics(asked, sought, relevant, similarity=encoder.similarity_fn_name, metrics=metrics)

    return evaluate


def sts_evaluator(tokenizer: PreTrainedTokenizerBase) -> SuiteEvaluator | None:
    """An evaluator for `ContrastiveTrainer`: Spearman of STS-B dev; None if SentEval's file is missing."""
    path = find_stsb("dev")
    if path is None:
        return None
    rows = read_stsb_file(path)
    return SuiteEvaluator(tokenizer, [similarity_task("stsb", lambda: Splits({"test": rows}))], ".")
