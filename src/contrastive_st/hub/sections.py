"""The sections of a model card, each made from a checkpoint's facts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from contrastive_st.hub.facts import CURVE, NOT_RECORDED, Facts
from contrastive_st.hub.snippets import snippets


def body(facts: Facts, name: str, curve: bool) -> str:
    """The text of the card: what it is, use, training, evaluation, limits, citation."""
    parts = [
        *_summary(facts, name), *_use(facts, name), *_training(facts, curve), *_evaluation(facts), *_limits(facts),
        *_citation(facts),
    ]  # fmt: skip
    return "\n".join(parts).rstrip() + "\n"


def data_name(facts: Facts) -> str:
    """The training data in words: name, rows, licence."""
    data = facts.recipe.get("data", {})
    rows = f"{data['rows']:,} rows" if isinstance(data.get("rows"), int) else f"rows {NOT_RECORDED}"
    return f"{data.get('name') or NOT_RECORDED}, {rows}, licence {data.get('licence') or NOT_RECORDED}"


def _summary(facts: Facts, name: str) -> Iterator[str]:
    pooling = f"{facts.pooling} pooling" if facts.pooling else "a pooling of its own"
    length = f", of at most {facts.max_length} tokens" if facts.max_length else ""
    yield f"# {name}\n"
    yield f"A sentence encoder: a text{length}, becomes one vector ({facts.config.get('model_type')}, {pooling})."
    yield f"Trained with contrastive-st; method: {facts.method.name}.\n"


def _use(facts: Facts, name: str) -> Iterator[str]:
    yield "## Use\n"
    for loader, code in snippets(facts, name).items():
        yield f"With {loader}:\n\n```python\n{code}\n```\n"
    if facts.needs_remote_code:
        yield (
            "The architecture is in this repository's own Python files. Read them first: with `trust_remote_code=True` "
            "they run on your machine. Where contrastive-st is installed, its loader needs no such flag.\n"
        )


def _training(facts: Facts, curve: bool) -> Iterator[str]:
    recipe = facts.recipe
    yield "## Training\n"
    if not recipe:
        yield f"The training of this checkpoint was {NOT_RECORDED} (no training_recipe.json).\n"
    rows = {"method": facts.method.name}
    if recipe:
        rows |= {
            "base model": _base(recipe.get("base_model", {})),
            "data": data_name(facts),
            "run": _run(recipe.get("run", {})),
            "launch": _launch(recipe.get("launch", {})),
            "seed": str(recipe.get("seed", NOT_RECORDED)),
            "hardware": _hardware(recipe.get("hardware", {})),
            "versions": ", ".join(f"{k} {v}" for k, v in recipe.get("versions", {}).items()),
        }
    yield from _table({"what": "as run", **{name: text or NOT_RECORDED for name, text in rows.items()}})
    if formula := recipe.get("objective", {}).get("formula"):
        yield f"The objective, `{recipe['objective'].get('class')}`:\n\n{formula}\n"
    if recipe:
        yield "Hyper-parameters:\n"
        settings = {
            **recipe.get("objective", {}).get("settings", {}),
            **recipe.get("hyper_parameters", {}),
            **recipe.get("arguments", {}),
        }
        yield from _table({"name": "value", **{name: _code(_plain(value)) for name, value in settings.items()}})
    if curve:
        yield f"![training curve]({CURVE})\n"


def _evaluation(facts: Facts) -> Iterator[str]:
    yield "## Evaluation\n"
    if facts.report is None:
        yield f"{NOT_RECORDED.capitalize()}.\n"
        return
    report, model = facts.report
    yield "| task | split | metric | aggregation | scored | value |\n|---|---|---|---|--:|--:|"
    for task in report.tasks:
        figure = report.main(model, task)
        yield (
            f"| {task.name} | {figure.split} | {figure.metric} | {figure.aggregation} | {figure.n or ''} "
            f"| {figure.text} |"
        )
    notes = [f"{f.task}: {f.note}" for f in (report.main(model, task) for task in report.tasks) if f.note]
    source = "data sets of the Hub" if report.source == "hub" else "SentEval's files"
    yield f"\nCorrelations and shares are x100. Data: {source}. " + " ".join(f"{note}." for note in notes) + "\n"
    yield from (f"![{path}]({path})\n" for path in facts.plots)


def _limits(facts: Facts) -> Iterator[str]:
    yield "## Limits\n"
    if facts.max_length:
        yield f"* A text is cut to {facts.max_length} tokens; what comes after is not in its vector."
    run = facts.recipe.get("run", {})
    if run.get("steps", 0) < run.get("of_steps", 0):
        yield f"* A checkpoint of a run under way: step {run['steps']} of {run['of_steps']}."
    if facts.pooling not in (None, "cls"):
        yield "* `pooler_output` of plain transformers is not the embedding; pool as above."
    if facts.recipe:
        yield (
            f"* It was trained on the data above ({data_name(facts)}), on top of its base model; how it does on other "
            "kinds of text and in other languages was not looked at."
        )
    yield "* Measured on the tasks above alone." if facts.report else "* No evaluation is recorded."
    yield ""


def _citation(facts: Facts) -> Iterator[str]:
    if facts.method.citation:
        yield f"## Citation\n\n```bibtex\n{facts.method.citation}\n```\n"


def _base(base: Mapping[str, Any]) -> str:
    if base.get("from") == "scratch":
        return "none: trained from scratch"
    if base.get("from") == "folder":
        return f"a local checkpoint, `{base.get('name')}`"
    commit = f" (commit {base['commit']})" if base.get("commit") else ""
    return f"{base['name']}{commit}" if base.get("name") else NOT_RECORDED


def _run(run: Mapping[str, Any]) -> str:
    words = f"{run.get('steps', NOT_RECORDED)} steps, {run.get('epochs', NOT_RECORDED)} epochs"
    if "seconds" in run:
        words += f", {run['seconds']} s (evaluation and saving included)"
        words += (
            f", {run['texts_encoded']:,} sentences encoded (each view counted), {run['texts_per_second']} sentences/s"
        )
    if "resumed_from_step" in run:
        words += f"; time and sentences are since it was resumed at step {run['resumed_from_step']}"
    return words


def _launch(launch: Mapping[str, Any]) -> str:
    if not launch.get("argv"):
        return NOT_RECORDED
    processes = launch.get("processes", 1)
    return f"{_code(shlex.join(launch['argv']))} in {processes} process{'es' if processes > 1 else ''}"


def _hardware(hardware: Mapping[str, Any]) -> str:
    gpus = f", {', '.join(hardware['gpus'])}" if hardware.get("gpus") else ""
    return f"{hardware['cpu']}, {hardware.get('cores')} cores{gpus}" if hardware.get("cpu") else NOT_RECORDED


def _table(rows: Mapping[str, str]) -> Iterator[str]:
    (head, *others) = [f"| {name} | {text} |" for name, text in rows.items()]
    yield "\n".join([head, "|---|---|", *others]) + "\n"


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("`", "'") + "`" if text else ""


def _plain(value: Any) -> str:
    return "none" if value is None else str(value)
