"""Model cards, made from what was run: `README.md` with the Hub's metadata, and the training curve.

The texts are Jinja templates (`templates/`). They are filled with values that others wrote, so every expression in a
Markdown template is escaped to plain text, and every expression in a Python template becomes a literal.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from urllib.parse import quote

import jinja2
from huggingface_hub import ModelCardData, hf_hub_url

from contrastive_st.errors import InputError, about
from contrastive_st.evaluation.report.report import Report, eval_results, model_index
from contrastive_st.files.cards import (
    CARD,
    CURVE,
    EVALUATION,
    STATE,
    TRAINING_METADATA,
    is_head_alone,
    marked,
    read_head,
    was_edited,
    with_head,
)
from contrastive_st.files.folders import ADAPTER, CLASSIFIER, check_folder, folder_name, read_export
from contrastive_st.files.markdown import as_block, as_code, as_text
from contrastive_st.files.reading import JsonObject, read_json
from contrastive_st.files.writing import write_files
from contrastive_st.models import SentenceEncoder
from contrastive_st.models.checkpoint import PROMPTS_FILE, Checkpoint, of_settings
from contrastive_st.plots import training_curve_png
from contrastive_st.training.metadata import read_training_metadata
from contrastive_st.training.methods import Method, method_of


@dataclass
class CheckpointMetadata:
    """A checkpoint folder's config, modules, training and evaluation, read from its files.

    Entries that the files do not have are not guessed.

    Args:
        folder: the checkpoint folder.
        newer_than: seconds since the epoch; an older evaluation is of other weights and is ignored.

    Raises:
        InputError: the folder is not a checkpoint, or a file is damaged.
    """

    folder: Path
    newer_than: float = 0.0
    config: JsonObject = field(init=False)
    training: JsonObject = field(init=False)

    def __post_init__(self) -> None:
        path, self.training = self.folder / "config.json", read_training_metadata(self.folder)
        if path.is_file():
            self.config = read_json(path, dict)
        elif (self.folder / ADAPTER).is_file():  # the config is its base's; training has recorded what a card says
            loss = self.training.get("loss", {})
            settings = {**(loss.get("settings") or {}), "loss": loss["name"]} if loss.get("name") else {}
            kind = self.training.get("model", {}).get("type", "an adapter")
            self.config = {"model_type": kind, "contrastive": settings}
        elif (self.folder / "modules.json").is_file():  # as sentence-transformers saves static embeddings
            self.config = {"model_type": read_json(self.folder / "modules.json", list)[0]["type"].rpartition(".")[2]}
        else:
            raise InputError(f"{self.folder} is not the folder of a saved model: it has no config.json")

    @cached_property
    def adapter_base(self) -> str | None:
        """The Hub name of the base of an adapter; None for a whole model, or if the base is a folder."""
        path = self.folder / ADAPTER
        base = str(read_json(path, dict).get("base_model_name_or_path") or "") if path.is_file() else ""
        return base if base and not (os.path.isabs(base) or os.path.isdir(base)) else None

    @property
    def architecture(self) -> str:
        """The family of models."""
        return str(self.config.get("model_type"))

    @cached_property
    def settings(self) -> JsonObject:
        """Pooling, loss and the rest, as this package's config holds them; empty for other checkpoints."""
        with about(self.folder / "config.json"):
            return dict(self.config.get("contrastive", {}))

    @cached_property
    def recorded(self) -> Checkpoint:
        """What the folder says of how a text becomes a vector; of an adapter, nothing of its base."""
        return Checkpoint.of_folder(self.folder)

    @property
    def pooling(self) -> str | None:
        """How the embedding is pooled when the model is used."""
        is_adapter = (self.folder / ADAPTER).is_file()
        by_settings = is_adapter or self.recorded.settings_hold
        return of_settings(self.settings)["pooling"] if by_settings else self.recorded.pooling

    @property
    def has_dense_layers(self) -> bool:
        """Whether there are layers after the pooling."""
        return bool(self.recorded.dense if self.recorded.modules else self.settings.get("dense"))

    @property
    def is_normalized(self) -> bool:
        """Whether vectors are normalized after the pooling; an architecture that pools itself does it itself."""
        return bool(self.recorded.normalized if self.recorded.modules else self.settings.get("normalize"))

    @property
    def default_prompt(self) -> str:
        """The prompt that is put before every text."""
        return self.recorded.prompts.get(self.recorded.default_prompt_name or "", "")

    @property
    def opens_in_transformers(self) -> bool:
        """Whether a few lines of transformers give its vectors.

        It opens no graph, puts the base's head in the place of an adapter's, and knows nothing of layers after the
        pooling, of prompts that are not pooled, and of texts that are lowercased before the tokenizer.
        """
        if (self.folder / ADAPTER).is_file() and self.pooling == "cls":
            return False
        prompt_is_left_out = bool(self.default_prompt) and not self.recorded.include_prompt
        beyond = self.has_dense_layers or self.recorded.foreign or self.recorded.lower_case or prompt_is_left_out
        return not (self.backend or beyond)

    @cached_property
    def _tokenizer_config(self) -> JsonObject:
        path = self.folder / "tokenizer_config.json"
        return read_json(path, dict) if path.is_file() else {}

    @property
    def pads_left(self) -> bool:
        """Whether its tokenizer puts the padding first; embeddings are of texts that are padded at the end."""
        return self._tokenizer_config.get("padding_side") == "left"

    @property
    def module_length(self) -> int | None:
        """Maximum number of tokens if modules say another one than the tokenizer."""
        length = self.recorded.max_length
        return None if length == self._tokenizer_config.get("model_max_length") else length

    @property
    def method(self) -> Method:
        """The training method; its name is "not recorded" if the config has no loss."""
        return method_of(self.architecture, self.settings, self.training)

    @property
    def hyper_parameters(self) -> dict[str, object]:
        """Hyper-parameters of the loss, the trainer and the job, in that order."""
        settings = self.training.get("loss", {}).get("settings") or {}
        return {**settings, **self.training.get("hyper_parameters", {}), **self.training.get("arguments", {})}

    @property
    def needs_remote_code(self) -> bool:
        """Whether plain transformers opens it only with `trust_remote_code=True`."""
        return "auto_map" in self.config

    @property
    def backend(self) -> str | None:
        """What runs the graph of an exported folder: `onnx` or `openvino`; None for a checkpoint."""
        return read_export(self.folder).get("backend")

    @property
    def opens_in_sentence_transformers(self) -> bool:
        """Whether the folder has the files that `SentenceTransformer(folder)` reads."""
        return (self.folder / "modules.json").is_file()

    @cached_property
    def max_length(self) -> int | None:
        """Number of tokens to which a text is truncated."""
        length = self.training.get("max_length") or self._tokenizer_config.get("model_max_length")
        return int(length) if isinstance(length, (int, float)) and 0 < length < 1 << 29 else None

    @cached_property
    def report(self) -> tuple[Report, str] | None:
        """The evaluation report and the name of this model in it.

        Of several models it is that with the fingerprint of the folder, as several folders may have a name. Models
        without a fingerprint are known by the name of the folder or of where it links to; one alone may have any.

        Raises:
            InputError: the report does not say which of its models this is, or that it is none of them.
        """
        path = self.folder / EVALUATION / "report.json"
        if not path.is_file() or path.stat().st_mtime < self.newer_than:
            return None
        report = Report.read(path)
        models = self._models_in(report)
        if len(models) != 1:
            several, name = "several" if models else "none", folder_name(self.folder)
            raise InputError(
                f"{path} is a report on {', '.join(report.models)}, and {several} of them may be {name}; evaluate "
                f"{name} alone, under this name"
            )
        return report, models[0]

    def _models_in(self, report: Report) -> list[str]:
        """The models of a report that this may be: the one with its fingerprint, or else those with its name."""
        names = [folder_name(self.folder), self.folder.resolve().name]  # the folder may be a link
        if len(report.models) == 1 and report.models[0] in names:
            return report.models
        fingerprint = cache(partial(_fingerprint, self.folder))
        untold = []
        for model in report.models:
            score = next(score for score in report.scores if score.model == model)
            recorded = report.fingerprints.get(model)
            current = fingerprint(score.pooling, score.max_length) if recorded else None
            if current and current == recorded:
                return [model]
            untold += [] if current else [model]
        if len(report.models) == 1:
            return untold
        for models in untold, report.models:  # prompts that an encoder was given also make another fingerprint
            for name in names:
                if called := [model for model in report.called(name) if model in models]:
                    return called
        return []

    @cached_property
    def classifiers(self) -> dict[str, dict[str, object]]:
        """What the folder says of each `SentenceClassifier` in it, by its name."""
        paths = sorted(self.folder.glob(f"*{CLASSIFIER[0]}"))
        return {path.name.removesuffix(CLASSIFIER[0]): read_json(path, dict) for path in paths}


logger = logging.getLogger(__name__)
_SOURCES = ("config.json", ADAPTER, "modules.json", PROMPTS_FILE, "sentence_bert_config.json", "tokenizer_config.json",
            TRAINING_METADATA, CURVE)  # fmt: skip
_SENTENCES = ["A sentence.", "Another one."]
#: What the Hub's page offers to try an English model on
_WIDGET = {
    "sentence-similarity": [
        {
            "source_sentence": "A cat sat on the mat.",
            "sentences": ["A feline rested on a rug.", "A dog barked at the cat.", "Taxes rose again this year."],
        }
    ],
    "text-classification": [{"text": "A cat sat on the mat."}, {"text": "Taxes rose again this year."}],
}
#: Entries of a card that are written again each time; of a card that has metadata alone, they are its owner's
_MADE = ("library_name", "pipeline_tag", "base_model", "base_model_relation", "thumbnail")
_ADDED = ("datasets", "tags")  # lists to which entries are added
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class CardData:
    """Entries of a card that only the author of a model knows; those of an earlier card are kept.

    Args:
        license: licence of the model, an identifier such as `apache-2.0`.
        language: codes such as `en`.
        datasets: names on the Hub.
        tags: tags to add to those that every card has.
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
    log_history: Sequence[Mapping[str, object]] | None = None,
    newer_than: float = 0.0,
    overwrite: bool = False,
) -> Path | None:
    """Write the card of a checkpoint folder, its training curve, and its scores as the Hub's `.eval_results`.

    Args:
        folder: the checkpoint.
        output: another folder to write to: card, training metadata, evaluation, training curve and config, but
            no weights.
        name: what the card calls the model, such as its name on the Hub; by default the folder's.
        data: licence, language, data sets and tags.
        log_history: log history of the trainer; by default that of `trainer_state.json`.
        newer_than: ignore an evaluation report older than this (seconds since the epoch); it is of other weights.
        overwrite: also replace a card that was edited by hand.

    Returns:
        The path of the card, or None if a card that was edited by hand was left as it is.

    Raises:
        InputError: the folder is not a checkpoint, a file in it is damaged, or writing fails; then nothing is written.
    """
    folder = check_folder(folder)
    target = folder if output is None else Path(output)
    files = {} if output is None else _sources(folder)
    files |= card_files(folder, name, data, log_history, newer_than, overwrite, target / CARD)
    write_files(target, files)
    return target / CARD if CARD in files else None


def card_files(
    folder: str | Path,
    name: str | None = None,
    data: CardData | None = None,
    log_history: Sequence[Mapping[str, object]] | None = None,
    newer_than: float = 0.0,
    overwrite: bool = False,
    target: Path | None = None,
    before: Sequence[Path] = (),
) -> dict[str, bytes]:
    """The card, the training curve and the Hub's `.eval_results` of a folder, by path.

    Args:
        folder: the checkpoint.
        name: what the card calls the model; by default the name of the folder.
        data: licence, language, data sets and tags.
        log_history: log history of the trainer; by default that of `trainer_state.json`.
        newer_than: ignore an evaluation report older than this (seconds since the epoch).
        overwrite: also replace a card that was edited by hand.
        target: where the card will be, if not in the folder.
        before: other cards of the model, as on the Hub. What only their author knows is kept (licence, language,
            gating and so on), as it is of the card that is replaced; where the two differ, a line says which one stays:
            that of these cards, or of a card here that was edited by hand.

    Returns:
        The content of each file by its path in the folder.

    Raises:
        InputError: it is not a checkpoint folder, or a file of it is damaged.
    """
    folder = Path(folder)
    target, checkpoint = target or folder / CARD, CheckpointMetadata(folder, newer_than)
    curve = _curve(folder, log_history)
    files = {} if curve is None else {CURVE: curve}
    here = _of_author(folder / CARD) | _of_author(target)
    there: JsonObject = {}
    for card in before:
        there |= _of_author(card)
    there.pop("model-index", None)  # which may be of other weights
    if not overwrite and was_edited(target):
        logger.warning("%s was written or edited by hand; it is left as it is", target)
        _say_which(there, here, f"stays in {target}")
        if missing := {name: value for name, value in there.items() if name not in here}:
            files[CARD] = with_head(target, read_head(target) | missing)
        return files
    called = name or folder_name(folder)
    given = {name: value for name, value in vars(data or CardData()).items() if value}
    _say_which(here, {name: value for name, value in there.items() if name not in given}, f"of {called} stays")
    kept = here | there | {name: [*there.get(name, ()), *here.get(name, ())] for name in _ADDED}
    with about(f"{folder}: the records of the model in this folder"):
        drawn = curve is not None or (folder / CURVE).is_file()
        head = ModelCardData(
            ignore_metadata_errors=False, **_metadata(checkpoint, called, data or CardData(), kept, drawn)
        )
        text = body(checkpoint, called, drawn)
    if checkpoint.report:
        files |= eval_results(*checkpoint.report)
    return {CARD: marked(f"---\n{head.to_yaml()}\n---\n\n{text}").encode(), **files}


def body(checkpoint: CheckpointMetadata, name: str, curve: bool) -> str:
    """The text of the card: what it is, use, training, evaluation, limits, citation.

    Args:
        checkpoint: what its folder records.
        name: what the card calls the model.
        curve: whether there is a training curve.

    Returns:
        Markdown.
    """
    shown = _templates(_shown).get_template("card.md.jinja").render(
        checkpoint=checkpoint, name=name, curve=CURVE if curve else None, snippets=snippets(checkpoint, name),
        training_file=TRAINING_METADATA, classifier_code=partial(classifier_code, name),
    )  # fmt: skip
    return re.sub(r"\n{3,}", "\n\n", shown).strip() + "\n"


def snippets(checkpoint: CheckpointMetadata, name: str) -> dict[str, str]:
    """Code by loader; each leaves the vectors of two sentences in `embeddings`.

    Args:
        checkpoint: what its folder records.
        name: of the model, as code opens it.

    Returns:
        Python code by the name of the loader.
    """
    loaders = ["this package", "transformers"]
    if checkpoint.opens_in_sentence_transformers:
        loaders.insert(1, "sentence-transformers")
    if not checkpoint.opens_in_transformers:
        loaders.remove("transformers")
    filled = {"name": name, "sentences": _SENTENCES, "checkpoint": checkpoint}
    files = {loader: f"{re.sub('[ -]', '_', loader)}.py.jinja" for loader in loaders}
    code = {loader: _templates(_literal).get_template(file).render(filled).strip() for loader, file in files.items()}
    return {loader: text for loader, text in code.items() if "embeddings = " in text}


def classifier_code(name: str, classifier: str) -> str:
    """Code that labels two sentences with a classifier of the folder.

    Args:
        name: of the model, as code opens it.
        classifier: its name in the folder.

    Returns:
        Python code.
    """
    filled = {"name": name, "classifier": classifier, "sentences": _SENTENCES}
    return _templates(_literal).get_template("classifier.py.jinja").render(filled).strip()


class _Markdown(str):
    """A string that is already Markdown and is not escaped."""


def _shown(value: object) -> str:
    return value if isinstance(value, _Markdown) else as_text(value)


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # strings and lists of strings are those of Python


@cache
def _templates(finalize: Callable[[object], str]) -> jinja2.Environment:
    result = jinja2.Environment(
        loader=jinja2.PackageLoader("contrastive_st.hub"), finalize=finalize, trim_blocks=True, lstrip_blocks=True
    )
    result.filters |= {
        "block": lambda text, language: _Markdown(as_block(text, language)),
        "code": lambda text: _Markdown(as_code(text)),
        "link": lambda path: _Markdown(quote(str(path))),
        "number": lambda value: f"{value:,}" if isinstance(value, (int, float)) else value,
        "shell": lambda argv: shlex.join(map(str, argv)),
    }
    return result


def _metadata(checkpoint: CheckpointMetadata, name: str, data: CardData, before: JsonObject, curve: bool) -> JsonObject:
    base, trained_on = checkpoint.training.get("base_model", {}), checkpoint.training.get("data", {})
    datasets = [*data.datasets, *([trained_on["name"]] if trained_on.get("from") == "hub" else [])]
    with_modules, classifies = checkpoint.opens_in_sentence_transformers, bool(checkpoint.classifiers)
    tags = [
        *(["sentence-transformers"] if with_modules else []), *(["text-classification"] if classifies else []),
        "sentence-similarity", "feature-extraction",
        "contrastive-st", checkpoint.backend, checkpoint.method.tag, *data.tags, *before.get("tags", []),
    ]  # fmt: skip
    language = list(data.language) or before.get("language")
    pipeline = "text-classification" if classifies else "sentence-similarity"
    result = {
        "language": language,
        "license": data.license or before.get("license"),
        "library_name": "sentence-transformers" if with_modules else "transformers",
        "pipeline_tag": pipeline,
        "tags": list(dict.fromkeys(tag for tag in tags if tag)),
        "base_model": checkpoint.adapter_base or (base.get("name") if base.get("from") == "hub" else None),
        "base_model_relation": "adapter" if checkpoint.adapter_base else None,
        "datasets": list(dict.fromkeys([*datasets, *before.get("datasets", [])])) or None,
        "widget": before.get("widget") or (_WIDGET[pipeline] if language in ("en", ["en"]) else None),
        "thumbnail": hf_hub_url(name, CURVE) if curve and _REPOSITORY.fullmatch(name) else None,
    }
    result["thumbnail"] = before.get("thumbnail") or result["thumbnail"]
    if checkpoint.report:
        index = model_index(*checkpoint.report, name=name, before=before.get("model-index", ()))
        result["model-index"] = index if index[0]["results"] else None
    else:  # of `evaluate --card`
        result["model-index"] = [{**one, "name": name} for one in before.get("model-index", ())]
    others = {key: value for key, value in before.items() if key not in (*_ADDED, "model-index")}
    return others | {key: value for key, value in result.items() if value}


def _fingerprint(folder: Path, pooling: str, max_length: int | None) -> str | None:
    """The fingerprint of a folder that is evaluated with these settings; None if it cannot be opened with them."""
    for asked in (None, pooling):  # the recorded pooling, or that of `evaluate --pooling`
        with suppress(InputError):
            encoder = SentenceEncoder(folder, pooling=asked)
            if encoder.pooling == pooling:
                if encoder.max_length != max_length:
                    encoder.max_length = max_length
                return encoder.fingerprint
    return None


def _of_author(card: Path) -> JsonObject:
    """The entries of an earlier card that only its author knows; a new card keeps them."""
    if not card.is_file():
        return {}
    head = {name: value for name, value in read_head(card).items() if isinstance(name, str) and value is not None}
    head |= {name: [head[name]] for name in ("language", *_ADDED) if isinstance(head.get(name), str)}
    made = () if is_head_alone(card) else (*_MADE, "model-index") if was_edited(card) else _MADE
    return {name: value for name, value in head.items() if name not in made}


def _say_which(other: JsonObject, kept: JsonObject, where: str) -> None:
    """Warn of the entries that two cards have and that differ."""
    names = [name for name in kept if name not in _ADDED and other.get(name, kept[name]) != kept[name]]
    if names:
        logger.warning(f"the card on the Hub and the one here differ in {', '.join(names)}: what {where}")


def _curve(folder: Path, log_history: Sequence[Mapping[str, object]] | None) -> bytes | None:
    state = folder / STATE
    if log_history is None and state.is_file():
        log_history = read_json(state).get("log_history")
    return training_curve_png(log_history or ())


def _sources(folder: Path) -> dict[str, bytes]:
    """The files that a card is made from, by their path in the folder."""
    evaluation = folder / EVALUATION
    reports = [p for p in evaluation.iterdir() if p.suffix in (".json", ".md")] if evaluation.is_dir() else []
    modules = folder.glob("[0-9]*_*/config.json")
    paths = [path for path in [*(folder / name for name in _SOURCES), *modules, *reports] if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
