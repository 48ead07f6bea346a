"""Model cards, made from what was run: `README.md` with the Hub's metadata, and the training curve."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from contrastive_st.errors import InputError
from contrastive_st.hub.facts import CURVE, EVALUATION, Facts
from contrastive_st.hub.recipe import RECIPE
from contrastive_st.hub.sections import body
from contrastive_st.storage.folders import check_folder, read_json

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
        from contrastive_st.evaluation.model_card import model_index

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
    from contrastive_st.evaluation.plots import training_curve

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
