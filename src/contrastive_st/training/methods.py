"""The name of a training method, and the works that a model card cites for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from contrastive_st.citations import cited
from contrastive_st.files.reading import JsonObject


@dataclass(frozen=True)
class Method:
    """A training method.

    Args:
        name: for use in a sentence.
        tag: tag on the Hub.
        citations: BibTeX entries of the works to cite.
    """

    name: str
    tag: str = ""
    citations: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the entries."""
        return tuple(map(_key, self.citations))


def method_of(architecture: str, settings: JsonObject, training: JsonObject | None = None) -> Method:
    """The training method of a model, from its architecture, its loss and its training metadata.

    Args:
        architecture: the `model_type` of the config.
        settings: `config.contrastive`, under its present names; without a loss the method is "not recorded".
        training: the training metadata; its collator tells how pairs are made.

    Example:
        >>> method_of("bert", {"loss": "info_nce"}, {"collator": "DropoutPairCollator"}).name
        'SimCSE, unsupervised'
        >>> method_of("infersent", {"loss": "softmax"}).keys
        ('conneau2017supervised',)
        >>> method_of("bert", {"loss": "softmax"}).keys
        ('reimers2019sentence', 'devlin2019bert')
    """
    from contrastive_st.models.families import family  # which takes seconds to import

    training = training or {}
    method = _SYSTEMS.get((architecture, str(settings.get("loss")))) or _of_loss(settings, training)
    soup = _works("wortsman2022model") if training.get("soup") else ()
    lora = _works("hu2022lora") if training.get("adapter") else ()
    works = _entries(getattr(family(architecture), "citation", ""))
    return Method(method.name, method.tag, tuple(dict.fromkeys((*method.citations, *soup, *lora, *works))))


def references() -> dict[str, str]:
    """Every work that a card may cite, by its key: of all losses, architectures and methods."""
    from contrastive_st.losses import LOSSES
    from contrastive_st.models.families import FAMILIES, family

    classes = [*LOSSES.values(), *map(family, FAMILIES)]
    of_classes = (entry for kind in classes if kind is not None for entry in _entries(kind.citation))
    return {**_of_methods(), **{_key(entry): entry for entry in of_classes}}


@cache
def _of_methods() -> dict[str, str]:
    """The works of methods that are neither a loss nor an architecture: the entries of `references.bib`."""
    text = (resources.files(__package__) / "references.bib").read_text(encoding="utf-8")
    return {_key(entry): entry for entry in _entries(text)}


def _entries(text: str) -> tuple[str, ...]:
    """The works in a text of BibTeX entries, or of the key of one."""
    text = cited(text) if text and "@" not in text else text
    return tuple(text.strip().split("\n\n")) if text.strip() else ()


def _key(entry: str) -> str:
    return re.split("[{,]", entry, maxsplit=2)[1]


def _works(*keys: str) -> tuple[str, ...]:
    return tuple(_of_methods()[key] for key in keys)


def _of_loss(settings: JsonObject, training: JsonObject) -> Method:
    from contrastive_st.losses import LOSSES

    of_run = (training.get("loss") or {}).get("settings") or {}  # a trained encoder is saved without cutoff
    cut = settings.get("cutoff") or of_run.get("cutoff")
    loss = "consistent_info_nce" if cut else str(settings.get("loss") or "not recorded")
    kind = LOSSES.get(loss)
    works = _entries(kind.citation) if kind else ()
    if loss == "info_nce" and (training.get("hyper_parameters") or {}).get("momentum_queue"):
        return Method("CERT", "cert", _works("fang2020cert", "he2020momentum"))
    if loss == "info_nce" and (result := _PAIRS.get(str(training.get("collator")))):
        return Method(*result, _works("gao2021simcse") if result[1] == "simcse" else works)
    if loss == "targets" and settings.get("row_loss") in ("block", "pairwise"):
        return Method("CURL", "curl", _works("arora2019theoretical"))
    if loss == "targets" and (named := _TARGETS.get(str(settings.get("targets")))):
        return Method(*named, works)
    if loss == "matryoshka":
        inner = _of_loss(settings.get("inner") or {}, training)
        return Method(f"{inner.name}, Matryoshka", "matryoshka", (*inner.citations, *works))
    if loss in ("mixture", "multi_task"):
        tasks = [_of_loss(task, {}) for task in (settings.get("tasks") or {}).values()]
        return Method("Several tasks", "multi-task", tuple(work for method in tasks for work in method.citations))
    return Method(vars(kind).get("words", loss), vars(kind).get("tag", ""), works) if kind else Method(loss)


_PAIRS = {
    "DropoutPairCollator": ("SimCSE, unsupervised", "simcse"),
    "CropPairCollator": ("InfoNCE on crops", "info-nce"),
    "PairCollator": ("InfoNCE on pairs", "info-nce"),
    "NLITripletCollator": ("SimCSE, supervised", "simcse"),
}
_TARGETS = {
    "next": ("QuickThoughts", "quickthoughts"),
    "window": ("QuickThoughts", "quickthoughts"),
    "counts": ("Co-occurrence counts", "co-occurrence"),
    "tfidf": ("TF-IDF targets", "tf-idf"),
    "tfidf_bin": ("Binarized TF-IDF targets", "tf-idf"),
}  # the last three replace the targets of QuickThoughts and keep the rest of it
_SYSTEMS = {  # published as one: an architecture with its loss
    ("infersent", "softmax"): Method("InferSent", "infersent"),
    ("universal", "multi_task"): Method("Universal Sentence Encoder", "universal-sentence-encoder"),
}
