"""What a run computes, as a record in each of its checkpoints, so that a resumed run computes the same.

Compared is whatever changes the mathematics: batches, loss, model, dropout, optimizer, schedule, precision, seeds and
data. Left out is what does not: chunks, buckets, logging, evaluation, saving, paths.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow
import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from transformers import SchedulerType

from contrastive_st.data.mixture import EndlessStream, Mixture
from contrastive_st.files.reading import JsonObject

#: Training arguments that change what a run computes, under the names of their flags
ARGUMENTS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "dataloader_drop_last",
    "train_sampling_strategy", "learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon",
    "max_grad_norm", "optim", "optim_args", "optim_target_modules", "lr_scheduler_type",
    "lr_scheduler_kwargs", "warmup_steps", "max_steps", "num_train_epochs", "bf16", "fp16", "tf32", "seed",
    "data_seed", "label_smoothing_factor", "neftune_noise_alpha", "momentum_queue", "momentum",
)  # fmt: skip
#: Differences in words; others are "NAME was THEN and is NOW"
MESSAGES = {
    "data": "other data",
    "processes": "the number of processes was {then} and is {now}",
    "model": "the model was a {then} and is a {now}",
    "trained": "{then} weights were trained and {now} are",
}
_LISTED = 3  # most names of entries that a record lacks, in a message
_SAMPLED = 256  # rows that a fingerprint reads from data without Arrow tables
_WITH_WARMUP = (SchedulerType.CONSTANT_WITH_WARMUP, SchedulerType.INVERSE_SQRT)  # and then independent of the end
_NOT_TRAINED = ("prompts", "default_prompt_name", "truncate_dim", "with_head")  # settings that only encoding uses


def settings_record(trainer: Any, given_optimizer: torch.optim.Optimizer | None = None) -> JsonObject:
    """The settings of a trainer's run that change what it computes: a flat dict of JSON values.

    Args:
        trainer: a `ContrastiveTrainer` that has not begun to train.
        given_optimizer: the optimizer that it was made with, if any.
    """
    args, model = trainer.args, trainer.accelerator.unwrap_model(trainer.model)
    result = {name: getattr(args, name, None) for name in ARGUMENTS} | {"data_seed": args.order_seed}
    if args.max_steps > 0:
        result["num_train_epochs"] = None
    share = 0 < args.warmup_steps < 1  # of all steps
    endless = args.lr_scheduler_type in _WITH_WARMUP and not share
    if endless or args.lr_scheduler_type == SchedulerType.CONSTANT:  # such a run may be prolonged
        result["max_steps"] = result["num_train_epochs"] = None
    if not args.momentum_queue:
        result["momentum"] = None
    result["processes"] = args.world_size
    result["split_batches"] = trainer.accelerator.split_batches
    if given_optimizer is not None:
        result["optimizer"] = [type(given_optimizer).__name__, given_optimizer.defaults]
    result["trained"] = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    result |= _model(model) | dict(_flat("collator", _object(trainer.data_collator)))
    plain: JsonObject = json.loads(json.dumps(result, default=_plain))
    return plain


def _model(model: nn.Module) -> JsonObject:
    """Class, settings (with those of the loss), adapters and dropout of a model."""
    result: JsonObject = {"model": type(model).__name__}
    settings: Any = getattr(model, "settings", None)
    if hasattr(settings, "section"):
        for name, value in settings.section().items():
            result |= {} if name in _NOT_TRAINED else dict(_flat(name, value))
    elif (loss := getattr(model, "loss_fn", None)) is not None:
        result |= dict(_flat("loss", _object(loss)))
    holder = model if hasattr(model, "peft_config") else getattr(model, "backbone", None)
    for adapter, config in (getattr(holder, "peft_config", None) or {}).items():
        result |= {f"{adapter}.{name}": getattr(config, name, None) for name in ("r", "lora_alpha", "use_rslora")}
    for name, value in vars(getattr(model, "config", None) or object).items():
        if "drop" in name and isinstance(value, int | float):
            result[name] = value
    layers = [module.p for module in model.modules() if isinstance(module, _DropoutNd)]
    result["dropout"] = sorted(set(layers))  # also where a config does not say
    return result


def _flat(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        for part, item in value.items():
            yield from _flat(f"{name}.{part}" if part else name, item)
    else:
        yield name, value


def _object(value: object) -> object:
    """A collator or a loss in plain values: its class, and its public attributes that are plain themselves."""
    if isinstance(value, Mapping):
        return {name: _object(item) for name, item in value.items()}
    result: JsonObject = {"": getattr(value, "__qualname__", type(value).__name__)}
    for name, item in getattr(value, "__dict__", {}).items():
        if not name.startswith("_") and isinstance(item, bool | int | float | str | None):
            result[name] = item
        elif not name.startswith("_") and isinstance(item, Mapping):
            result[name] = {str(key): _object(part) for key, part in item.items() if hasattr(part, "__dict__")}
    return result


def _plain(value: object) -> object:
    return value.value if isinstance(value, enum.Enum) else type(value).__name__


def differences(then: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """In what two records differ, in words.

    Example:
        >>> differences({"seed": 1, "processes": 1}, {"seed": 7, "processes": 2})
        ['seed was 1 and is 7', 'the number of processes was 1 and is 2']
        >>> differences({}, {"seed": 7})
        ['its record lacks seed']
    """
    result = [
        MESSAGES.get(name, f"{name} was {{then}} and is {{now}}").format(then=then[name], now=now[name])
        for name in now
        if name in then and then[name] != now[name]
    ]
    result += [f"{name} was {then[name]} and is gone" for name in then if name not in now]
    if missing := [name for name in now if name not in then]:
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        result.append(f"its record lacks {', '.join(missing[:_LISTED])}{more}")
    return result


def fingerprint(data: object) -> str | None:
    """A hash of a data set: of its Arrow tables if it has some (`datasets.Dataset`), else of its length and some rows.

    For a mixture it is a hash of its data sets and their weights; for a stream, and for data whose rows cannot be read
    by number, it is None.

    Example:
        >>> fingerprint([{"input_ids": [2, 5]}]) == fingerprint([{"input_ids": [2, 5]}])
        True
        >>> fingerprint([{"input_ids": [2, 5]}]) == fingerprint([{"input_ids": [2, 6]}])
        False
    """
    if isinstance(data, EndlessStream):
        return None
    if isinstance(data, Mixture):
        held = [data.names, data.weights, [fingerprint(part) for part in data.parts]]
        return hashlib.blake2b(repr(held).encode(), digest_size=16).hexdigest()
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        return None
    digest = hashlib.blake2b(str(len(data)).encode(), digest_size=16)
    if hasattr(data, "with_format") and hasattr(data, "data"):
        for table in data.with_format("arrow").iter(10_000):
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, table.schema.remove_metadata()) as stream:
                stream.write_table(table.replace_schema_metadata(None).combine_chunks())
            digest.update(sink.getvalue())
        return digest.hexdigest()
    step = max(len(data) // _SAMPLED, 1)
    with torch.random.fork_rng(devices=[]):
        for i in range(0, len(data), step):
            digest.update(repr(data[i]).encode())
    return digest.hexdigest()
