"""Model cards, made from what was run: `README.md` with the Hub's metadata, and the training curve."""

from __future__ import annotations

import hashlib
import logging
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from contrastive_st.errors import InputError
from contrastive_st.hub.metadata import CURVE, EVALUATION, NOT_RECORDED, RECIPE, Facts
from contrastive_st.safety.folders import check_folder, read_json

# --- How to open a checkpoint, as code that runs as it stands.

_SENTENCES = '["A sentence.", "Another one."]'
_POOLED = {
    "cls": "output.pooler_output",
    "cls_before_pooler": "output.last_hidden_state[:, 0]",
    "mean": "(output.last_hidden_state * mask).sum(1) / mask.sum(1)",
    "max": 'output.last_hidden_state.masked_fill(mask == 0, float("-inf")).amax(1)',
    "last": "output.last_hidden_state[range(len(mask)), mask[..., 0].sum(1) - 1]",
    "avg_first_last": "((output.hidden_states[1] + output.hidden_states[-1]) / 2 * mask).sum(1) / mask.sum(1)",
    "avg_top2": "((output.hidden_states[-2] + output.hidden_states[-1]) / 2 * mask).sum(1) / mask.sum(1)",
}  # of right-padded batches, as contrastive_st.models.pool does it


def snippets(facts: Facts, name: str) -> dict[str, str]:
    """Code by loader; each leaves the vectors of two sentences in `embeddings`."""
    found = {"this package": _this_package(name)}
    if facts.opens_in_sentence_transformers:
        found["sentence-transformers"] = _sentence_transformers(facts, name)
    if facts.needs_remote_code or facts.pooling in _POOLED:
        found["transformers"] = _transformers(facts, name)
    return found


def _this_package(name: str) -> str:
    return f"""from contrastive_st import SentenceEncoder

encoder = SentenceEncoder.from_pretrained("{name}")
embeddings = encoder.encode({_SENTENCES})"""


def _sentence_transformers(facts: Facts, name: str) -> str:
    flag = ", trust_remote_code=True" if facts.needs_remote_code else ""
    return f"""from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}"{flag})
embeddings = model.encode({_SENTENCES})"""


def _transformers(facts: Facts, name: str) -> str:
    flag = ", trust_remote_code=True" if facts.needs_remote_code else ""
    pooled = "output.pooler_output" if facts.needs_remote_code else _POOLED[str(facts.pooling)]
    mask = '\nmask = batch["attention_mask"][..., None]' if "mask" in pooled else ""
    return f"""import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{flag})
model = AutoModel.from_pretrained("{name}"{flag})
batch = tokenizer({_SENTENCES}, padding=True, truncation=True, return_tensors="pt")
with torch.no_grad():
    output = model(**batch){mask}
embeddings = {pooled}"""


# --- The sections of a model card, each made from a checkpoint's facts.


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
    loss = recipe.get("loss") or recipe.get("objective", {})  # as it was recorded before
    if formula := loss.get("formula"):
        yield f"The loss, `{loss.get('class')}`:\n\n{formula}\n"
    if recipe:
        yield "Hyper-parameters:\n"
        settings = {
            **loss.get("settings", {}),
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


logger = logging.getLogger(__name__)
CARD = "README.md"
_SOURCES = ("config.json", "modules.json", "tokenizer_config.json", RECIPE)  # what a card is made from
_HEAD = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_MARK = re.compile(r"\n<!-- contrastive-st card ([0-9a-f]{16}) -->\n\Z")


@dataclass(frozen=True)
class CardData:
    """What only the author of a model knows; what a generated card already says of it stays.

    Args:
        license: of the model, an identifier such as `apache-2.0`.
        language: codes such as `en`.
        datasets: names on the Hub.
        tags: beside those that every card has.
    """

    license: str | None = None
    language: Sequence[str] = field(default_factory=tuple)
    datasets: Sequence[str] = field(default_factory=tuple)
    tags: Sequence[str] = field(default_factory=tuple)


def write_card(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    name: str | None = None,
    data: CardData | None = None,
    log_history: Sequence[dict[str, Any]] | None = None,
    newer_than: float = 0.0,
    overwrite: bool = False,
) -> Path | None:
    """Write the card of a checkpoint folder, and its training curve.

    Args:
        folder: the checkpoint.
        output: another folder, that gets what the card is made from (recipe, evaluation, plots, config) and no weights.
        name: what the card calls the model, such as its name on the Hub; by default the folder's.
        data: licence, language, data sets and tags.
        log_history: of the trainer; by default what `trainer_state.json` holds.
        newer_than: an evaluation report older than that is of other weights (seconds since the epoch).
        overwrite: also replace a card that was edited by hand.

    Returns:
        The card's path, or None where one that was edited by hand was left as it is.
    """
    folder = check_folder(folder)
    if output is not None:
        log_history = _log_history(folder) if log_history is None else log_history
        folder = _copy_sources(folder, Path(output))
    files = card_files(folder, name, data, log_history, newer_than, overwrite)
    for path, content in files.items():
        (folder / path).write_bytes(content)
    return folder / CARD if CARD in files else None


def card_files(
    folder: str | Path,
    name: str | None = None,
    data: CardData | None = None,
    log_history: Sequence[dict[str, Any]] | None = None,
    newer_than: float = 0.0,
    overwrite: bool = False,
    before: Sequence[Path] = (),
) -> dict[str, bytes]:
    """The card and the training curve of a folder, by path.

    Args:
        folder, name, data, log_history, newer_than, overwrite: as for `write_card`.
        before: other cards of the model, whose licence, language, data sets and tags stay.
    """
    folder = Path(folder)
    facts, files = Facts(folder, newer_than), {}
    curve = _curve(folder, log_history)
    if curve is not None:
        files[CURVE] = curve
    if not overwrite and was_edited(folder / CARD):
        logger.warning("%s was written or edited by hand; it is left as it is", folder / CARD)
        return files
    called = name or folder.resolve().name
    kept = {name: value for card in (*before, folder / CARD) for name, value in _of_author(card).items()}
    head = ModelCardData(ignore_metadata_errors=False, **_metadata(facts, called, data or CardData(), kept))
    text = f"---\n{head.to_yaml()}\n---\n\n{body(facts, called, curve is not None or (folder / CURVE).is_file())}"
    return {CARD: _marked(text).encode(), **files}


def was_edited(card: Path) -> bool:
    """Whether a card is there that holds words of an author: not what this package wrote, to the letter.

    (Metadata without a text, and the template that transformers pushes, are nobody's words.)
    """
    if not card.is_file():
        return False
    text = card.read_text(encoding="utf-8")
    if not _HEAD.sub("", text).strip() or "[More Information Needed]" in text:
        return False
    return _marked(_MARK.sub("", text)) != text


def _marked(text: str) -> str:
    return f"{text}\n<!-- contrastive-st card {hashlib.sha256(text.encode()).hexdigest()[:16]} -->\n"


def _metadata(facts: Facts, name: str, data: CardData, before: dict[str, Any]) -> dict[str, Any]:
    base, trained_on = facts.recipe.get("base_model", {}), facts.recipe.get("data", {})
    datasets = [*data.datasets, *([trained_on["name"]] if trained_on.get("from") == "hub" else [])]
    with_modules = facts.opens_in_sentence_transformers
    tags = [
        *(["sentence-transformers"] if with_modules else []), "sentence-similarity", "feature-extraction",
        "contrastive-st", facts.method.tag, *data.tags, *before.get("tags", []),
    ]  # fmt: skip
    found = {
        "language": list(data.language) or before.get("language"),
        "license": data.license or before.get("license"),
        "library_name": "sentence-transformers" if with_modules else "transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": list(dict.fromkeys(tag for tag in tags if tag)),
        "base_model": base.get("name") if base.get("from") == "hub" else None,
        "datasets": list(dict.fromkeys([*datasets, *before.get("datasets", [])])) or None,
    }
    if facts.report:
        from contrastive_st.evaluation.report.card_results import model_index

        index = model_index(*facts.report, name=name)
        found["model-index"] = index if index[0]["results"] else None
    return {key: value for key, value in found.items() if value}


def _of_author(card: Path) -> dict[str, Any]:
    """What a card that is written anew says and only its author knows."""
    if not card.is_file() or was_edited(card):
        return {}
    found = ModelCard.load(card, ignore_metadata_errors=True).data.to_dict()
    return {name: found[name] for name in ("language", "license", "datasets", "tags") if found.get(name)}


def _curve(folder: Path, log_history: Sequence[dict[str, Any]] | None) -> bytes | None:
    log_history = _log_history(folder) if log_history is None else log_history
    if not log_history:
        return None
    from contrastive_st.evaluation.report.plots import training_curve

    with tempfile.TemporaryDirectory() as scratch:
        drawn = training_curve(log_history, Path(scratch, CURVE))
        return None if drawn is None else drawn.read_bytes()


def _log_history(folder: Path) -> list[dict[str, Any]] | None:
    state = folder / "trainer_state.json"
    return read_json(state).get("log_history") if state.is_file() else None


def _copy_sources(folder: Path, output: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} is no checkpoint folder (no config.json); give the folder of a saved model")
    output.mkdir(parents=True, exist_ok=True)
    evaluation = folder / EVALUATION
    reports = [p for p in evaluation.iterdir() if p.suffix in (".json", ".md", ".png")] if evaluation.is_dir() else []
    card = [] if was_edited(folder / CARD) or (output / CARD).exists() else [CARD]
    for path in [*(folder / name for name in (*_SOURCES, CURVE, *card)), *reports]:
        if path.is_file():
            (output / path.relative_to(folder)).parent.mkdir(exist_ok=True)
            shutil.copyfile(path, output / path.relative_to(folder))
    return output
