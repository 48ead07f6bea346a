"""The `evaluator` of a trainer: this package's, sentence-transformers', or any function of the model."""

from __future__ import annotations

import contextlib
import inspect
import logging
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from contrastive_st.distributed import from_first, unshared
from contrastive_st.errors import InputError
from contrastive_st.models.base import ForCL
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.wrapped import own_module

logger = logging.getLogger(__name__)


class TrainedEncoder(SentenceEncoder):
    """The model in training as a `SentenceTransformer`, which is what evaluators of sentence-transformers call.

    Prompts, maximum length, dimensions and similarity are those that the model records, as after it is saved.

    Args:
        model: a model in memory.
        tokenizer: its tokenizer.
    """

    model_card_data = SimpleNamespace(set_evaluation_metrics=lambda *args: None)  # the trainer logs the metrics

    def encode(self, sentences: str | Sequence[str], *args: Any, **options: Any) -> Any:  # type: ignore[override]
        """`SentenceEncoder.encode`, as sentence-transformers names the texts; an option of None is left out."""
        return super().encode(sentences, *args, **{name: value for name, value in options.items() if value is not None})

    def similarity(self, a: object, b: object) -> Tensor:  # type: ignore[override]
        """Similarities of vectors `[N, d]` and `[M, d]`, a tensor `[N, M]`."""
        return torch.from_numpy(super().similarity(*(torch.as_tensor(x).float().cpu().numpy() for x in (a, b))))

    def similarity_pairwise(self, a: object, b: object) -> Tensor:  # type: ignore[override]
        """Similarities of the vectors in the rows of `[N, d]` and `[N, d]`, a tensor `[N]`."""
        pairs = (torch.as_tensor(x).float().cpu().numpy() for x in (a, b))
        return torch.from_numpy(super().similarity_pairwise(*pairs))

    def eval(self) -> TrainedEncoder:
        """The encoder itself: it encodes in evaluation mode."""
        return self


def similarity_of(model: nn.Module) -> str:
    """How the vectors of a model in training are compared, as the model records; else by cosine."""
    of_model = getattr(own_module(model), "similarity_fn_name", None)  # a SentenceTransformer
    name = of_model or getattr(getattr(model, "settings", None), "similarity", None) or "cosine"
    return str(getattr(name, "value", name))


def truncate_dim_of(model: nn.Module) -> int | None:
    """How many first dimensions of its vectors a model in training gives once it encodes; None for all."""
    dim: int | None = getattr(own_module(model), "truncate_dim", None)  # a SentenceTransformer
    return dim or getattr(getattr(model, "settings", None), "truncate_dim", None)


class Evaluation:
    """Calls an evaluator and flattens the mapping that it returns.

    An evaluator that can be called as those of sentence-transformers, `(model, output_path=, epoch=, steps=)`, gets an
    encoder with `encode`, `encode_query`, `encode_document` and `similarity`; any other one the model itself. It is
    called on the first process alone, unless its attribute `distributed` is true.

    Args:
        evaluator: a callable, or a list of them.
        tokenizer: that of the model; None if it is not known.
        output_path: the folder in which evaluators write files.

    Example:
        >>> Evaluation([lambda model: 0.5, lambda model: {"dev": {"mrr": 1}}], None).metrics(None)
        {'evaluator': 0.5, 'dev_mrr': 1.0}
    """

    def __init__(
        self, evaluator: object, tokenizer: PreTrainedTokenizerBase | None, output_path: str | Path | None = None
    ) -> None:
        self.evaluators: list[Any] = list(evaluator) if isinstance(evaluator, (list, tuple)) else [evaluator]
        self.tokenizer, self.output_path = tokenizer, output_path
        for one in self.evaluators:
            if not callable(one):
                raise InputError(f"evaluator: {one!r:.60} cannot be called; give a function of the model")
            if getattr(one, "tokenizer", self) is None:  # one of this package, made without a tokenizer
                one.tokenizer = tokenizer

    def metrics(self, model: ForCL, epoch: float = -1, step: int = -1, sharded: bool = False) -> dict[str, float]:
        """The metrics of all evaluators by name; a collective call.

        Args:
            model: the model in training.
            epoch: how far training has come.
            step: the same in optimizer steps.
            sharded: every process must take part in each forward pass (FSDP).
        """
        metrics: dict[str, float] = {}
        for evaluator in self.evaluators:
            call = lambda evaluator=evaluator: self._call(evaluator, own_module(model), epoch, step)
            with unshared() if sharded else contextlib.nullcontext():
                result = call() if getattr(evaluator, "distributed", False) else from_first(call)
            result = dict(flat(result))
            if twice := sorted(metrics.keys() & result.keys()):
                logger.warning(f"two evaluators give {', '.join(twice)}, of which the later is kept; give them names")
            metrics |= result
        return metrics

    @property
    def main_names(self) -> dict[str, bool]:
        """The main metrics that evaluators name before they are called, and whether greater ones are better."""
        named = [evaluator for evaluator in self.evaluators if getattr(evaluator, "primary_metric", None)]
        return {str(evaluator.primary_metric): getattr(evaluator, "greater_is_better", True) for evaluator in named}

    def _call(self, evaluator: Any, model: ForCL, epoch: float, step: int) -> object:
        taken = options_of(evaluator)
        if not {"epoch", "steps"} <= taken:
            return evaluator(model)
        encoder = model  # a user's own; the `encode` of a model of this package makes states of tokens
        if isinstance(model, PreTrainedModel) or not hasattr(model, "encode"):
            encoder = TrainedEncoder(model, self.tokenizer, name="the model")
        options: dict[str, object] = {"epoch": epoch, "steps": step}
        if self.output_path is not None and "output_path" in taken:
            Path(self.output_path).mkdir(parents=True, exist_ok=True)
            options["output_path"] = str(self.output_path)
        return evaluator(encoder, **options)


def options_of(evaluator: Callable[..., object]) -> set[str]:
    """Those arguments of sentence-transformers' evaluators that an evaluator takes by name.

    Example:
        >>> sorted(options_of(lambda model, **options: 0)), options_of(lambda model, split="dev": 0)
        (['epoch', 'output_path', 'steps'], set())
    """
    try:
        parameters = inspect.signature(evaluator).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return set()
    options = {"output_path", "epoch", "steps"}
    any_name = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return options if any_name else options & parameters.keys()


def flat(result: object, name: str = "") -> Iterable[tuple[str, float]]:
    """Yield the names and numbers in the result of an evaluator: a number, None, or a mapping, which may be nested.

    Example:
        >>> list(flat({"dev": {"mrr": 0.5, "by": {"cosine": 1}}})), list(flat(0.25)), list(flat(None))
        ([('dev_mrr', 0.5), ('dev_by_cosine', 1.0)], [('evaluator', 0.25)], [])
    """
    if isinstance(result, Mapping):
        for key, value in result.items():
            yield from flat(value, f"{name}_{key}" if name else str(key))
    elif isinstance(result, numbers.Number) or getattr(result, "ndim", None) == 0:
        yield name or "evaluator", float(result)  # type: ignore[arg-type]
    elif result is not None:
        logger.warning(f"{name or 'evaluator'}: a {type(result).__name__} is not a metric and is not logged")
