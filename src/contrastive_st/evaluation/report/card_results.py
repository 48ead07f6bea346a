"""A report's scores as the Hub's `model-index` metadata, for the head of a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from contrastive_st.evaluation.report.report import Report
from contrastive_st.evaluation.score import Score
from contrastive_st.safety.writing import written_whole

_TYPES = {
    "sts": ("sentence-similarity", "Semantic Textual Similarity"),
    "pairs": ("sentence-similarity", "Paraphrase identification"),
    "retrieval": ("sentence-similarity", "Retrieval"),
}
_OTHER = ("text-classification", "Classification of frozen embeddings")


def model_index(report: Report, model: str, name: str | None = None) -> list[dict[str, Any]]:
    """The `model-index` of one model: a result a task with its quoted score; what was not run is left out.

    Args:
        report: of any number of models.
        model: which one.
        name: how the card calls it; by default the same.
    """
    results = []
    for task in report.tasks:
        score = report.main(model, task)
        if score.value is None or task.group == "space":
            continue
        kind, words = _TYPES.get(task.group, _OTHER)
        dataset = {"type": task.name.lower(), "name": task.name, "split": score.split}
        results.append({"task": {"type": kind, "name": words}, "dataset": dataset, "metrics": [_metric(score)]})
    return [{"name": name or model, "results": results}]


def write_metadata(report: Report, model: str, path: str | Path) -> None:
    """Put the scores into a model card's metadata; its text and its other metadata stay."""
    card = ModelCard.load(path)
    data = card.data.to_dict()
    data["model-index"] = model_index(report, model, name=data.get("model_name") or model)
    card.data = ModelCardData(ignore_metadata_errors=False, **data)
    with written_whole(path, overwrite=True) as file:
        card.save(file)


def _metric(score: Score) -> dict[str, Any]:
    how = f"{score.metric} x100, {score.aggregation}, {score.n} scored, {score.pooling} pooling"
    length = f", {score.max_length} tokens" if score.max_length else ""
    note = f" ({score.note})" if score.note else ""
    value = round(100 * score.value, 2)  # type: ignore[operator]
    return {"type": score.metric, "value": value, "name": how + length + note}
