"""Former names of public methods, and former places of arguments: they still work, with a `FutureWarning`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
#: Of each class its former methods, with what to write now and what that does; and its methods that took a tokenizer by
#: position, with the place of that among the arguments
FORMER: dict[str, dict[str, tuple[str, Callable[..., Any]] | int]] = {
    "Loss": {
        "whole": ("in_use()", lambda loss: loss.in_use()),
        "for_part": ("in_use(part)[0]", lambda loss, part: loss.in_use(part)[0]),
        "needed_head": ("losses.base.head_of", lambda loss: import_module("contrastive_st.losses.base").head_of(loss)),
        "predicted": ("the attribute generates", lambda loss, targets: targets if loss.generates else None),
    },
    "ContrastiveTrainer": {
        "encoder_of": ("training.gradcache.encoder_of", lambda trainer, model: (
            import_module("contrastive_st.training.gradcache").encoder_of(trainer, model)
        )),
    },
    "BinaryClassificationEvaluator": {"__init__": 4},
    "EmbeddingSimilarityEvaluator": {"__init__": 4, "from_file": 2},
    "InformationRetrievalEvaluator": {"__init__": 5, "from_folder": 3},
    "PairEvaluator": {"__init__": 2},
    "TripletEvaluator": {"__init__": 6},
}  # fmt: skip


def with_former_names(cls: Class) -> Class:
    """A class with its former methods and arguments."""
    for name, now in FORMER[cls.__name__].items():
        if isinstance(now, tuple):
            setattr(cls, name, _renamed(f"{cls.__name__}.{name}", *now))
        else:
            held = vars(cls)[name]
            taken = _with_tokenizer_by_name(getattr(held, "__func__", held), now)
            setattr(cls, name, classmethod(taken) if isinstance(held, classmethod) else taken)
    return cls


def _renamed(name: str, now: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def renamed(*args: Any, **options: Any) -> Any:
        warnings.warn(f"{name} is gone; use {now}", FutureWarning, stacklevel=2)
        return call(*args, **options)

    renamed.__doc__ = f"The former name of `{now}`."
    return renamed


def _with_tokenizer_by_name(method: Callable[..., Any], index: int) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(instance: Any, *args: Any, **options: Any) -> Any:
        if len(args) > index and (args[index] is None or callable(args[index])):  # other arguments are not functions
            warnings.warn("give the tokenizer of an evaluator by name: tokenizer=...", FutureWarning, stacklevel=2)
            args, options = (*args[:index], *args[index + 1 :]), {"tokenizer": args[index], **options}
        return method(instance, *args, **options)

    return called
