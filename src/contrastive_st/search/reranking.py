"""A second stage of search: a cross-encoder, which reads the query with each text, reorders the first hits."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrastive_st.device import DEVICE
from contrastive_st.errors import InputError, about
from contrastive_st.files.folders import check_weights, local_folder
from contrastive_st.files.reading import read_json
from contrastive_st.tokens import without_surrogates

if TYPE_CHECKING:
    from contrastive_st.search.index import Hit

TOP, SECONDS = 50, 5.0  # hits that are reordered by default, and the time for it
_AT_A_TIME, _BATCH = 16, 32  # hits between two looks at the clock, pairs of a batch
_SIGMOID, _IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"


class PairScorer(Protocol):
    """What scores pairs of texts: `CrossEncoder`, or that of sentence-transformers."""

    def predict(self, pairs: Sequence[tuple[str, str]], show_progress_bar: bool) -> ArrayLike:
        """The scores `[N]` of pairs."""


class CrossEncoder:
    """A model of transformers with one score for a pair of texts; scores are those of sentence-transformers.

    Args:
        model: a folder, or a name on the Hub.

    Raises:
        InputError: it cannot be opened, is not a trained cross-encoder, has several scores, or needs what only
            sentence-transformers has.
    """

    def __init__(self, model: str | Path) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from contrastive_st.models.checkpoint import most_tokens

        folder = local_folder(model)
        check_weights(folder, model)
        with about(model):
            local = {"trust_remote_code": False, "local_files_only": True}
            self.model, loaded = AutoModelForSequenceClassification.from_pretrained(
                folder, use_safetensors=True, output_loading_info=True, **local
            )
            config = self.model.config
            if missing := sorted(loaded["missing_keys"]):
                raise InputError(f"it is not a cross-encoder: it has no {missing[0]}")
            if config.num_labels != 1:
                raise InputError(f"it has {config.num_labels} scores per pair; use a cross-encoder with a single score")
            # the function of the score that sentence-transformers recorded, or its default
            names = "config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"
            recorded, modules, texts = (
                read_json(folder / name, kind) if (folder / name).is_file() else kind()
                for name, kind in zip(names, (dict, list, dict), strict=True)
            )
            if len(modules) > 1 or recorded.get("default_prompt_name"):
                raise InputError("only sentence-transformers can run its modules or its prompt; use a model without")
            calls = texts.get("processing_kwargs") or {}
            of_texts = {"truncation": True, **(calls.get("text") or {})}
            if calls.keys() - {"text"} or of_texts.keys() - {"max_length", "truncation"} or not of_texts["truncation"]:
                raise InputError(f"only sentence-transformers can read texts by its processing_kwargs: {calls}")
            of_config = (getattr(config, "sentence_transformers", None) or {}).get("activation_fn")
            former = getattr(config, "sbert_ce_default_activation_function", None)
            name = str(recorded.get("activation_fn") or of_config or former or _SIGMOID)
            if name not in (_SIGMOID, _IDENTITY):
                raise InputError(f"its scores are transformed by {name}; use one with a sigmoid, or with none")
            self.sigmoid = name == _SIGMOID
            self.tokenizer = AutoTokenizer.from_pretrained(folder, **local)
        limits = (of_texts.get("max_length"), texts.get("max_seq_length"), self.tokenizer.model_max_length)
        self.max_length = most_tokens(next(filter(None, limits)), config)
        there = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
        self.model.eval().to(os.environ.get(DEVICE) or there)

    def predict(self, pairs: Sequence[tuple[str, str]], show_progress_bar: bool = False) -> NDArray[np.float32]:
        """The scores of pairs; of a pair that is too long, the longer text is truncated.

        Args:
            pairs: N queries, each with a text.
            show_progress_bar: not used; as in sentence-transformers.

        Returns:
            float32 `[N]`.
        """
        import torch

        scores = np.empty(len(pairs), np.float32)
        order = np.argsort([-len(query) - len(text) for query, text in pairs], kind="stable")
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            queries, texts = zip(*(pairs[row] for row in rows), strict=True)
            batch = self.tokenizer(
                without_surrogates(queries), without_surrogates(texts), padding=True, max_length=self.max_length,
                truncation=self.max_length is not None, return_tensors="pt",
            )  # fmt: skip
            with torch.inference_mode():
                logits = self.model(**batch.to(self.model.device)).logits[:, 0].float()
                scores[rows] = (logits.sigmoid() if self.sigmoid else logits).cpu().numpy()
        return scores


def rerank(
    query: str, hits: Sequence[Hit], model: str | Path | PairScorer, top: int = TOP, seconds: float = SECONDS
) -> list[Hit]:
    """Hits by the scores of a cross-encoder, highest first; each has its score.

    Args:
        query: the query.
        hits: the hits of a search, best first.
        model: a folder, a name on the Hub, a `CrossEncoder`, or another object with `predict` of pairs, such as the
            `CrossEncoder` of sentence-transformers.
        top: so many hits are scored. The others come last in their order, with the score NaN.
        seconds: when the time is up, hits that have no score yet come last, too.

    Returns:
        All hits; of equal scores, the earlier one first.

    Raises:
        InputError: the model gives a score that is NaN.

    Example:
        >>> from contrastive_st.search.index import Hit
        >>> class Longest:
        ...     def predict(self, pairs, show_progress_bar):
        ...         return [len(text) for _, text in pairs]
        >>> [hit.text for hit in rerank("tide", [Hit(1, 0.9, "a"), Hit(2, 0.8, "abc")], Longest())]
        ['abc', 'a']
    """
    scorer = open_cross_encoder(model)
    started, scores = time.perf_counter(), list[float]()
    for start in range(0, min(top, len(hits)), _AT_A_TIME):
        if start and time.perf_counter() - started > seconds:
            break
        pairs = [(query, hit.text) for hit in hits[start : min(start + _AT_A_TIME, top)]]
        found = np.asarray(scorer.predict(pairs, show_progress_bar=False), np.float32).reshape(len(pairs))
        if np.isnan(found).any():
            raise InputError(
                f"a score of the cross-encoder is NaN, of {pairs[int(np.isnan(found).argmax())][1][:40]!r}"
            )
        scores += found.tolist()
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    rest = [replace(hit, score=math.nan) for hit in hits[len(scores) :]]
    return [replace(hits[i], score=scores[i]) for i in order] + rest


def open_cross_encoder(model: str | Path | PairScorer) -> PairScorer:
    """A `CrossEncoder`, by folder or name; an object with `predict` is returned as it is."""
    return CrossEncoder(model) if isinstance(model, (str, Path)) else model


def unscored(hits: Sequence[Hit]) -> list[str]:
    """A note on the hits without a score, if there are any."""
    count = sum(math.isnan(hit.score) for hit in hits)
    reason = f"were not among the first that are reranked, or not scored within {SECONDS:g} s"
    return [f"{count} of {len(hits)} hits {reason}, and come last"] if count else []
