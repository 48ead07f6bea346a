"""The `evaluator` of a trainer: this package's, sentence-transformers', or any function of the model."""

from __future__ import annotations

import contextlib
import inspect
import logging
import numbers
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from contrastive_st.distributed import from_first, unshared
from contrastive_st.errors import InputError
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.wrapped import own_module

logger = logging.getLogger(__name__)


class TrainedEncoder(SentenceEncoder):
    """The model in training as a `SentenceTransformer`, which is what evaluators of sentence-transformers call.

    Args:
        model: a model in memory.
        tokenizer: its tokenizer.
    """

    model_card_data = SimpleNamespace(set_evaluation_metrics=lambda *args: None)  # the trainer logs the metrics
    similarity_fn_name = "cosine"

    def encode(self, sentences: Any, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        """`SentenceEncoder.encode`, as sentence-transformers names the texts; an option of None is left out."""
        return super().encode(sentences, *args, **{name: own for name, own in options.items() if own is not None})

    def similarity(self, a: Any, b: Any) -> Any:
        """Cosines of vectors `[N, d]` and `[M, d]`, a tensor `[N, M]`."""
        return torch.from_numpy(super().similarity(*(torch.as_tensor(x).float().cpu().numpy() for x in (a, b))))

    def eval(self) -> TrainedEncoder:
        """The encoder itself: it encodes in evaluation mode."""
        return self


class Evaluation:
    """Calls an evaluator and flattens the mapping that it returns.

    An evaluator with sentence-transformers' signature, `(model, output_path, epoch, steps)`, gets an encoder with
    `encode`, `encode_query`, `encode_document` and `similarity`; any other one the model itself. It is called on the
    first process alone, unless its attribute `distributed` is true.

    Args:
        evaluator: a callable, or a list of them.
        tokenizer: that of the model; None if it is not known.

    Example:
        >>> Evaluation([lambda model: 0.5, lambda model: {"dev": {"mrr": 1}}], None).metrics(None)
        {'evaluator': 0.5, 'dev_mrr': 1.0}
    """

    def __init__(self, evaluator: Any, tokenizer: Any) -> None:
        self.evaluators: list[Any] = list(evaluator) if isinstance(evaluator, (list, tuple)) else [evaluator]
        self.tokenizer = tokenizer
        for own in self.evaluators:
            if not callable(own):
                raise InputError(f"evaluator: {own!r:.60} cannot be called; give a function of the model")
            if getattr(own, "tokenizer", self) is None:  # one of this package, made without a tokenizer
                own.tokenizer = tokenizer

    def metrics(self, model: Any, epoch: float = -1, step: int = -1, sharded: bool = False) -> dict[str, float]:
        """The metrics of all evaluators by name; a collective call.

        Args:
            model: the model in training.
            epoch: how far training has come.
            step: the same in optimizer steps.
            sharded: every process must take part in each forward pass (FSDP).
        """
        found: dict[str, float] = {}
        for own in self.evaluators:
            call = lambda own=own: self._call(own, own_module(model), epoch, step)
            with unshared() if sharded else contextlib.nullcontext():
                result = call() if getattr(own, "distributed", False) else from_first(call)
            found |= dict(flat(result))
        return found

    @property
    def main_names(self) -> set[str]:
        """The main metrics that evaluators name before they are called."""
        return {str(own.primary_metric) for own in self.evaluators if getattr(own, "primary_metric", None)}

    def _call(self, evaluator: Any, model: Any, epoch: float, step: int) -> Any:
        if not takes_encoder(evaluator):
            return evaluator(model)
        encoder = model if hasattr(model, "encode") else TrainedEncoder(model, self.tokenizer, name="the model")
        return evaluator(encoder, epoch=epoch, steps=step)


def takes_encoder(evaluator: Any) -> bool:
    """Whether an evaluator has the signature of sentence-transformers' evaluators."""
    try:
        return {"epoch", "steps"} <= inspect.signature(evaluator).parameters.keys()
    except (TypeError, ValueError):  # some builtins have no signature
        return False


def flat(result: Any, name: str = "") -> Iterable[tuple[str, float]]:
    """Yield the names and numbers in the result of an evaluator: a number, None, or a mapping, which may be nested.

    Example:
        >>> list(flat({"dev": {"mrr": 0.5, "by": {"cosine": 1}}})), list(flat(0.25)), list(flat(None))
        ([('dev_mrr', 0.5), ('dev_by_cosine', 1.0)], [('evaluator', 0.25)], [])
    """
    if isinstance(result, Mapping):
        for key, value in result.items():
            yield from flat(value, f"{name}_{key}" if name else str(key))
    elif isinstance(result, numbers.Number) or getattr(result, "ndim", None) == 0:
        yield name or "evaluator", float(result)
    elif result is not None:
        logger.warning(f"{name or 'evaluator'}: a {type(result).__name__} is not a metric and is not logged")
