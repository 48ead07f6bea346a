"""A report's figures as the Hub's `model-index` metadata, for the head of a model card; and reports read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Parts
from contrastive_st.evaluation.report.report import Report
from contrastive_st.evaluation.score import Figure
from contrastive_st.evaluation.tasks import Task, tasks

_TYPES = {
    "sts": ("sentence-similarity", "Semantic Textual Similarity"),
    "pairs": ("sentence-similarity", "Paraphrase identification"),
    "retrieval": ("sentence-similarity", "Retrieval"),
}
_PAIRS_MAIN = ("test", "average_precision", "all")
_OTHER = ("text-classification", "Classification of frozen embeddings")


def model_index(report: Report, model: str, name: str | None = None) -> list[dict[str, Any]]:
    """The `model-index` of one model: a result a task with its quoted figure; what was not run is left out.

    Args:
        report: of any number of models.
        model: which one.
        name: how the card calls it; by default the same.
    """
    results = []
    for task in report.tasks:
        figure = report.main(model, task)
        if figure.value is None or task.group == "space":
            continue
        kind, words = _TYPES.get(task.group, _OTHER)
        dataset = {"type": task.name.lower(), "name": task.name, "split": figure.split}
        results.append({"task": {"type": kind, "name": words}, "dataset": dataset, "metrics": [_metric(figure)]})
    return [{"name": name or model, "results": results}]


def write_metadata(report: Report, model: str, path: str) -> None:
    """Put the figures into a model card's metadata; its text and its other metadata stay."""
    card = ModelCard.load(path)
    data = card.data.to_dict()
    data["model-index"] = model_index(report, model, name=data.get("model_name") or model)
    card.data = ModelCardData(ignore_metadata_errors=False, **data)
    card.save(path)


def read_report(path: str | Path) -> Report:
    """The report that a `report.json` holds.

    Raises:
        InputError: it is no report.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        figures = [Figure(**row) for row in content["figures"]]
        known, names = tasks(), dict.fromkeys(figure.task for figure in figures)
        chosen = [known.get(name) or _own_task(name, [f for f in figures if f.task == name]) for name in names]
        return Report(
            content["source"], chosen, figures, content["histograms"], content["failures"], content["seconds"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no report of `contrastive-st evaluate`: {error!r}") from error


def _own_task(name: str, figures: Sequence[Figure]) -> Task:
    """A task of the user's own (`--pairs`, `--retrieval`): what its figures tell of it, and no data."""
    searched = next((f.metric for f in figures if f.metric.startswith("mrr@")), None)
    group, main = ("retrieval", ("test", searched, "among")) if searched else ("pairs", _PAIRS_MAIN)
    return Task(name, group, lambda _: Parts({}, {}), lambda parts, embed: [], main, ".")


def _metric(figure: Figure) -> dict[str, Any]:
    how = f"{figure.metric} x100, {figure.aggregation}, {figure.n} scored, {figure.pooling} pooling"
    length = f", {figure.max_length} tokens" if figure.max_length else ""
    note = f" ({figure.note})" if figure.note else ""
    value = round(100 * figure.value, 2)  # type: ignore[operator]
    return {"type": figure.metric, "value": value, "name": how + length + note}
