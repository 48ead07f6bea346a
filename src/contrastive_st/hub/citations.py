"""What a recorded loss is called, and whom to cite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Method:
    """A training method: its name, a tag for the Hub, and a BibTeX entry."""

    name: str
    tag: str = ""
    citation: str = ""


def method_of(settings: Mapping[str, Any], collator: str = "") -> Method:
    """The method that a model's settings and the collator of its training data make.

    Args:
        settings: `config.contrastive`; without a loss the method is "not recorded".
        collator: class name of the collator.

    Example:
        >>> method_of({"loss": "info_nce"}, "DropoutPairCollator").name
        'SimCSE, unsupervised'
        >>> method_of({"loss": "targets", "targets": "window", "row_loss": "block"}).name
        'CURL'
    """
    loss = str(settings.get("loss") or "not recorded")
    if loss == "info_nce":
        return _PAIRS.get(collator, Method("InfoNCE", "info-nce", _SIMCSE))
    if loss == "targets":
        if settings.get("row_loss") in ("block", "pairwise"):
            return Method("CURL", "curl", _CURL)
        return _TARGETS[str(settings.get("targets", "next"))]
    return _METHODS.get(loss, Method(loss))


def _entry(key: str, title: str, authors: str, where: str, year: int) -> str:
    return (
        f"@inproceedings{{{key},\n  title = {{{title}}},\n  author = {{{authors}}},\n"
        f"  booktitle = {{{where}}},\n  year = {{{year}}}\n}}"
    )


_SIMCSE = _entry(
    "gao2021simcse", "{SimCSE}: Simple Contrastive Learning of Sentence Embeddings",
    "Gao, Tianyu and Yao, Xingcheng and Chen, Danqi", "Empirical Methods in Natural Language Processing", 2021,
)  # fmt: skip
_QUICKTHOUGHTS = _entry(
    "logeswaran2018efficient", "An efficient framework for learning sentence representations",
    "Logeswaran, Lajanugen and Lee, Honglak", "International Conference on Learning Representations", 2018,
)  # fmt: skip
_CURL = _entry(
    "arora2019theoretical", "A Theoretical Analysis of Contrastive Unsupervised Representation Learning",
    "Arora, Sanjeev and Khandeparkar, Hrishikesh and Khodak, Mikhail and Plevrakis, Orestis and Saunshi, Nikunj",
    "International Conference on Machine Learning", 2019,
)  # fmt: skip
_CUTOFF = _entry(
    "shen2020simple", "A Simple but Tough-to-Beat Data Augmentation Approach for Natural Language Understanding and "
    "Generation", "Shen, Dinghan and Zheng, Mingzhi and Shen, Yelong and Qu, Yanru and Chen, Weizhu",
    "arXiv:2009.13818", 2020,
)  # fmt: skip
_RELATIONAL = _entry(
    "park2019relational", "Relational Knowledge Distillation",
    "Park, Wonpyo and Kim, Dongju and Lu, Yan and Cho, Minsu", "Computer Vision and Pattern Recognition", 2019,
)  # fmt: skip
_SBERT = _entry(
    "reimers2019sentence", "Sentence-{BERT}: Sentence Embeddings using Siamese {BERT}-Networks",
    "Reimers, Nils and Gurevych, Iryna", "Empirical Methods in Natural Language Processing", 2019,
)  # fmt: skip
_PAIRS = {
    "DropoutPairCollator": Method("SimCSE, unsupervised", "simcse", _SIMCSE),
    "PairCollator": Method("InfoNCE on pairs", "info-nce", _SIMCSE),
    "NLITripletCollator": Method("SimCSE, supervised", "simcse", _SIMCSE),
}
_TARGETS = {
    "next": Method("QuickThoughts", "quickthoughts", _QUICKTHOUGHTS),
    "window": Method("QuickThoughts", "quickthoughts", _QUICKTHOUGHTS),
    "counts": Method("Co-occurrence counts", "co-occurrence"),
    "tfidf": Method("TF-IDF targets", "tf-idf"),
    "tfidf_bin": Method("Binarized TF-IDF targets", "tf-idf"),
}
_METHODS = {
    "consistent_info_nce": Method("Cutoff", "cutoff", _CUTOFF),
    "relational_distillation": Method("Relational distillation", "distillation", _RELATIONAL),
    "softmax": Method("Classification of pairs", "sentence-bert", _SBERT),
    "cosine_similarity": Method("Regression on pairs", "sentence-bert", _SBERT),
    "triplet": Method("Triplets", "sentence-bert", _SBERT),
    "multi_task": Method("Several tasks"),
}
