"""Model soups: one checkpoint whose weights are the mean of those of several.

If checkpoints were fine-tuned from the same weights with different seeds, data or hyper-parameters, their mean is often
better than each of them, and costs no more at inference (Wortsman et al. 2022, https://arxiv.org/abs/2203.05482).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from contrastive_st.errors import InputError
from contrastive_st.files.folders import check_weights, local_folder
from contrastive_st.files.reading import JsonObject
from contrastive_st.files.redact import publishable
from contrastive_st.files.writing import atomic_write, only_writer
from contrastive_st.hub.cards import write_card
from contrastive_st.hub.convert import check_pooling
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.running import computation, model_hash
from contrastive_st.training.metadata import read_training_metadata, write_training_metadata

_OF_TRAINING = ("architectures", "auto_map", "contrastive", "dtype", "torch_dtype", "transformers_version", "use_cache")


@dataclass(frozen=True)
class Ingredient:
    """A checkpoint of a soup.

    Args:
        name: the name of its folder, or its name on the Hub.
        weight: its share of the mean.
    """

    name: str
    weight: float


def model_soup(
    checkpoints: Sequence[str | Path],
    output: str | Path,
    *,
    weights: Sequence[float] | None = None,
    pooling: str | None = None,
) -> list[Ingredient]:
    """Write a checkpoint whose weights are the mean of those of several checkpoints of one architecture.

    Sums are in float64. Checkpoints that would be used in different ways are refused: with other prompts, another
    similarity, maximum length or `truncate_dim`.

    Args:
        checkpoints: two or more folders or Hub names.
        output: a new folder.
        weights: the weight of each checkpoint, divided by their sum; by default all are equal.
        pooling: for checkpoints that record none.

    Returns:
        The checkpoints and their weights, in the order of `checkpoints`.

    Raises:
        InputError: checkpoints differ in anything except weights and dropout (the message names the first difference),
            one cannot be opened, or the folder exists already.

    Example:
        >>> model_soup(["static-minilm"], "out/soup")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: 1 checkpoints with weights 1.0: give two or more checkpoints, ...
    """
    factors = [1.0] * len(checkpoints) if weights is None else list(weights)
    total = sum(factors)
    if not (len(factors) == len(checkpoints) > 1 and 0 < total < float("inf") and min(factors) >= 0):
        what = f"{len(checkpoints)} checkpoints with weights {' '.join(map(str, factors))}"
        raise InputError(f"{what}: give two or more checkpoints, and for each a weight of 0 or more, not all 0")
    with only_writer(output, flag="", parents=True):
        encoder = SentenceEncoder(checkpoints[0], pooling=pooling)
        expected, taken = _traits(encoder), list[Ingredient]()
        sums: dict[str, Tensor] = {
            name: torch.zeros_like(tensor, dtype=torch.float64) if tensor.is_floating_point() else tensor.clone()
            for name, tensor in encoder.model.state_dict().items()
        }
        for checkpoint, weight in zip(checkpoints, factors, strict=True):
            other = SentenceEncoder(checkpoint, pooling=pooling)
            check_pooling(other.checkpoint, pooling)
            traits = _traits(other)
            for trait in dict.fromkeys([*expected, *traits]):
                here, there = traits.get(trait, "nothing"), expected.get(trait, "nothing")
                if here != there:
                    both = f"{here} in {other.name} and {there} in {encoder.name}"
                    fix = "average checkpoints that differ in their weights alone"
                    raise InputError(f"{checkpoint}: the {trait} is {both}; {fix}")
            for name, tensor in other.model.state_dict().items():
                if tensor.is_floating_point():
                    sums[name].add_(tensor.double(), alpha=weight / total)
                elif not torch.equal(sums[name], tensor):
                    raise InputError(f"{name} has integers that differ between the checkpoints, which have no mean")
            taken.append(Ingredient(other.name, weight / total))
        encoder.model.float().load_state_dict(sums)  # a mean of rounded weights is not rounded again
        with atomic_write(output, flag="", parents=True) as folder:
            folder.mkdir()
            encoder.model.save_dtype = torch.float32
            encoder.save_pretrained(folder)
            write_training_metadata(publishable(_metadata(checkpoints, taken)), folder)
            write_card(folder, name=Path(output).absolute().name, overwrite=True)  # the one of sentence-transformers
    return taken


def _traits(encoder: SentenceEncoder) -> dict[str, str]:
    """The properties that all checkpoints of a soup must share, by name."""
    if encoder.checkpoint.exported:
        check_weights(encoder.checkpoint.folder, encoder.checkpoint.name)  # which it lacks
    config: dict[str, object] = encoder.model.config.to_dict()
    of_config = {
        f"{name} of the config": str(value)
        for name, value in sorted(config.items())
        if name not in _OF_TRAINING and "drop" not in name and not name.startswith("_")
    }
    return {
        "architecture": str(config.get("model_type")),
        "pooling": encoder.pooling,
        **of_config,
        **{f"step {number} of the computation": step for number, step in enumerate(computation(encoder.model), 1)},
        "tokenizer": model_hash({}, encoder.tokenizer)[:8],
        "maximum length": str(encoder.max_length),
        "prompts": str(dict(sorted(encoder.prompts.items()))),
        "default prompt": str(encoder.default_prompt_name),
        "include_prompt": str(encoder.checkpoint.include_prompt),
        "truncate_dim": str(encoder.truncate_dim),
        "similarity": encoder.similarity_fn_name,
        **{f"shape of {name}": str(list(tensor.shape)) for name, tensor in encoder.model.state_dict().items()},
    }


def _metadata(checkpoints: Sequence[str | Path], taken: Sequence[Ingredient]) -> JsonObject:
    """The training metadata that all checkpoints share, and the checkpoints of the soup."""
    names = [name for name, item in zip(checkpoints, taken, strict=True) if item.weight]
    first, *others = [read_training_metadata(local_folder(name)) for name in names]
    common = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    return {**common, "soup": [asdict(item) for item in taken]}
