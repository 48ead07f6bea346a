"""What the training of a checkpoint is called, and whom to cite: those of its loss and those of its architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Method:
    """A training method.

    Args:
        name: in a sentence.
        tag: for the Hub.
        keys: of the works to cite, in `templates/references.bib`.
    """

    name: str
    tag: str = ""
    keys: tuple[str, ...] = ()

    @property
    def citations(self) -> list[str]:
        """The BibTeX entries of `keys`."""
        return [references()[key] for key in self.keys]


def method_of(architecture: str, settings: Mapping[str, Any], training: Mapping[str, Any] | None = None) -> Method:
    """The method that an architecture, a loss and the way it was trained make.

    Args:
        architecture: the `model_type` of the config.
        settings: `config.contrastive`, under its present names; without a loss the method is "not recorded".
        training: the training metadata: its collator tells what a pair is.

    Example:
        >>> method_of("bert", {"loss": "info_nce"}, {"collator": "DropoutPairCollator"}).name
        'SimCSE, unsupervised'
        >>> method_of("infersent", {"loss": "softmax"}).keys
        ('conneau2017supervised',)
        >>> method_of("bert", {"loss": "softmax"}).keys
        ('reimers2019sentence', 'devlin2019bert')
    """
    method = _SYSTEMS.get((architecture, str(settings.get("loss")))) or _of_loss(settings, training or {})
    keys = dict.fromkeys((*method.keys, *_ARCHITECTURES.get(architecture, ())))
    return Method(method.name, method.tag, tuple(keys))


@cache
def references() -> dict[str, str]:
    """Every entry of `templates/references.bib` by its key."""
    text = (resources.files(__package__) / "templates" / "references.bib").read_text(encoding="utf-8")
    return {re.split("[{,]", entry, maxsplit=2)[1]: entry for entry in text.strip().split("\n\n")}


def _of_loss(settings: Mapping[str, Any], training: Mapping[str, Any]) -> Method:
    loss = str(settings.get("loss") or "not recorded")
    if loss == "consistent_info_nce" or settings.get("cutoff"):
        return Method("Cutoff", "cutoff", ("shen2020simple",))
    if loss == "info_nce":
        if (training.get("hyper_parameters") or {}).get("momentum_queue"):
            return Method("CERT", "cert", ("fang2020cert", "he2020momentum"))
        return _PAIRS.get(str(training.get("collator")), _INFO_NCE)
    if loss == "targets":
        if settings.get("row_loss") in ("block", "pairwise"):
            return Method("CURL", "curl", ("arora2019theoretical",))
        return _TARGETS.get(str(settings.get("targets")), Method("Targets"))
    if loss == "multi_task":
        own = [_of_loss(task, {}) for task in (settings.get("tasks") or {}).values()]
        return Method("Several tasks", "multi-task", tuple(key for method in own for key in method.keys))
    return _LOSSES.get(loss, Method(loss))


_INFO_NCE = Method("InfoNCE", "info-nce", ("oord2018representation",))
_PAIRS = {
    "DropoutPairCollator": Method("SimCSE, unsupervised", "simcse", ("gao2021simcse",)),
    "PairCollator": Method("InfoNCE on pairs", "info-nce", ("oord2018representation",)),
    "NLITripletCollator": Method("SimCSE, supervised", "simcse", ("gao2021simcse",)),
}
_TARGETS = {
    "next": Method("QuickThoughts", "quickthoughts", ("logeswaran2018efficient",)),
    "window": Method("QuickThoughts", "quickthoughts", ("logeswaran2018efficient",)),
    "counts": Method("Co-occurrence counts", "co-occurrence", ("logeswaran2018efficient",)),
    "tfidf": Method("TF-IDF targets", "tf-idf", ("logeswaran2018efficient",)),
    "tfidf_bin": Method("Binarized TF-IDF targets", "tf-idf", ("logeswaran2018efficient",)),
}  # the last three replace the targets of QuickThoughts and keep the rest of it
_LOSSES = {
    "softmax": Method("Classification of pairs", "sentence-bert", ("reimers2019sentence",)),
    "cosine_similarity": Method("Regression on pairs", "sentence-bert", ("reimers2019sentence",)),
    "triplet": Method("Triplets", "sentence-bert", ("reimers2019sentence",)),
    "relational_distillation": Method("Relational distillation", "distillation", ("park2019relational",)),
    "skip_thoughts": Method("Skip-Thoughts", "skip-thoughts", ("kiros2015skip",)),
}
_SYSTEMS = {  # published as one: an architecture with its loss
    ("infersent", "softmax"): Method("InferSent", "infersent"),
    ("universal", "multi_task"): Method("Universal Sentence Encoder", "universal-sentence-encoder"),
}
_ARCHITECTURES = {
    "bert": ("devlin2019bert",),
    "distilbert": ("sanh2019distilbert",),
    "infersent": ("conneau2017supervised",),
    "modernbert": ("warner2024smarter",),
    "mpnet": ("song2020mpnet",),
    "quickthoughts": ("logeswaran2018efficient",),
    "roberta": ("liu2019roberta",),
    "skipthoughts": ("kiros2015skip",),
    "static": ("tulkens2024model2vec",),
    "universal": ("cer2018universal",),
    "xlm-roberta": ("conneau2020unsupervised",),
}
