"""A report's figures as the Hub's `model-index` metadata, for the head of a model card."""

from __future__ import annotations

from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from contrastive_st.evaluation.figures import Figure
from contrastive_st.evaluation.report import Report

_TYPES = {
    "sts": ("sentence-similarity", "Semantic Textual Similarity"),
    "pairs": ("sentence-similarity", "Paraphrase identification"),
    "retrieval": ("sentence-similarity", "Retrieval"),
}
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


def _metric(figure: Figure) -> dict[str, Any]:
    how = f"{figure.metric} x100, {figure.aggregation}, {figure.n} scored, {figure.pooling} pooling"
    length = f", {figure.max_length} tokens" if figure.max_length else ""
    note = f" ({figure.note})" if figure.note else ""
    value = round(100 * figure.value, 2)  # type: ignore[operator]
    return {"type": figure.metric, "value": value, "name": how + length + note}
