"""Several data sets as one: batches of one of them at a time, in proportion; tables, corpora and streams alike."""

from __future__ import annotations

import copy
import heapq
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info

from contrastive_st.distributed import world_size
from contrastive_st.errors import InputError
from contrastive_st.tokens import name_number

_STREAM_ROWS = 1 << 40  # the numbers that a stream's rows have in a mixture


class Mixture(Dataset[dict[str, Any]]):
    """Rows of several data sets, each with the name of its `dataset`.

    `ContrastiveTrainer` reads it through `sampler`: every batch, of all processes together, is of one data set. Which
    one is drawn, but at no time is a data set more than a batch or two from its share. One that has run out begins its
    next pass, in another order. The order hangs on seed and epoch alone, so that a resumed run goes on where it was. An
    epoch is as many batches as all data sets hold together; with a stream among them it has no end, and `max_steps`
    sets it.

    By default every batch of every data set comes once an epoch, as by PROPORTIONAL of sentence-transformers; equal
    weights are its ROUND_ROBIN, but drawn, and without an end where the smallest ends.

    Args:
        datasets: tokenized rows of each by name: a `datasets.Dataset`, a list, a data set that has a `sampler` (a
            `SentenceCorpus`), or a stream (an `IterableDataset`), which is read forward, pass after pass.
        weights: shares of the batches, relative to each other; by default the data sets' sizes. A stream needs them.

    Raises:
        InputError: no data set, or weights that are not one positive number for each.

    Example:
        >>> mixture = Mixture({"a": [{"n": i} for i in range(6)], "b": [{"n": i} for i in range(3)]})
        >>> order = list(mixture.sampler(2, seed=0))
        >>> [mixture[i]["dataset"] for i in order]
        ['a', 'a', 'a', 'a', 'a', 'a', 'b', 'b']
        >>> sorted(mixture[i]["n"] for i in order if mixture[i]["dataset"] == "a")
        [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, datasets: Mapping[str, Any], weights: Mapping[str, float] | None = None) -> None:
        if not datasets:
            raise InputError("a mixture needs one or more data sets by name")
        self.names = list(datasets)
        self.parts = [_Forward(rows) if _is_stream(rows) else rows for rows in datasets.values()]
        streams = [name for name, part in zip(self.names, self.parts, strict=True) if isinstance(part, _Forward)]
        if weights is None and streams:
            raise InputError(f"{streams[0]} is a stream, whose length is not known; give weights, one a data set")
        if weights is not None and set(weights) != set(self.names):
            raise InputError(f"weights of {', '.join(weights)}; give one for each of {', '.join(self.names)}")
        for name, weight in (weights or {}).items():
            if not 0 < weight < math.inf:
                raise InputError(f"the weight {weight} of {name}: give a positive number, or leave the data set out")
        self.weights = None if weights is None else [float(weights[name]) for name in self.names]
        self.endless = bool(streams)
        sizes = [_STREAM_ROWS if isinstance(part, _Forward) else len(part) for part in self.parts]
        self.starts = np.cumsum([0, *sizes])

    def __len__(self) -> int:
        if self.endless:
            raise TypeError("a mixture with a stream has no length")
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of a batch, read together where they are of one data set."""
        numbers = np.searchsorted(self.starts, indices, side="right") - 1
        if len(set(numbers.tolist())) > 1:
            return [self[index] for index in indices]
        part, own = self.parts[numbers[0]], [int(index - self.starts[numbers[0]]) for index in indices]
        rows = part.__getitems__(own) if hasattr(part, "__getitems__") else [part[index] for index in own]
        return [{**row, "dataset": self.names[numbers[0]]} for row in rows]

    def sampler(self, batch_size: int, seed: int) -> MixtureSampler:
        """The order for training with batches of `batch_size` a process."""
        return MixtureSampler(self, batch_size, world_size(), seed)


class MixtureSampler(Sampler[int]):
    """Row numbers of a `Mixture`, whole batches of one data set after the other.

    Args:
        mixture: what is read.
        batch_size: of a process.
        world: processes that share a step.
        seed: of the order.

    Raises:
        InputError: a data set has fewer rows than a batch of all processes.
    """

    def __init__(self, mixture: Mixture, batch_size: int, world: int, seed: int) -> None:
        self.mixture, self.batch_size, self.step = mixture, batch_size, batch_size * world
        self.seed, self.epoch = seed, 0
        rows = np.diff(mixture.starts)
        self.batches = rows // self.step
        if not self.batches.all():
            short = int(self.batches.argmin())
            raise InputError(
                f"the data set {mixture.names[short]} has fewer rows ({rows[short]}) than a batch of {self.step}; give "
                "a smaller batch"
            )

    def set_epoch(self, epoch: int) -> None:
        """Choose the order."""
        self.epoch = epoch

    def __len__(self) -> int:
        if self.mixture.endless:
            raise TypeError("a mixture with a stream has no length")
        return int(self.batches.sum()) * self.step

    def __iter__(self) -> Iterator[int]:
        rows = [self._rows(number) for number in range(len(self.mixture.parts))]
        for number in itertools.islice(self.turns(), None if self.mixture.endless else len(self) // self.step):
            yield from itertools.islice(rows[number], self.step)

    def turns(self) -> Iterator[int]:
        """The number of each batch's data set, without end.

        The k-th batch of a data set with share s is due at a time drawn between k / s and (k + 1) / s: at any time t
        there were s t of them, rounded up or down.
        """
        weights = self.batches if self.mixture.weights is None else np.array(self.mixture.weights)

        def times(number: int) -> Iterator[tuple[float, int]]:
            random = np.random.default_rng((self.seed, self.epoch, number, 0, 1))  # the last: no seed of `_rows`
            return (((k + random.random()) * weights.sum() / weights[number], number) for k in itertools.count())

        return (number for _, number in heapq.merge(*(times(number) for number in range(len(weights)))))

    def _rows(self, number: int) -> Iterator[int]:
        """Pass after pass over a data set, whole batches only."""
        part, start = self.mixture.parts[number], int(self.mixture.starts[number])
        if isinstance(part, _Forward):
            yield from itertools.count(start)
            return
        for lap in itertools.count():
            rows: Any
            if hasattr(part, "sampler"):
                rows = part.sampler(self.batch_size, self.seed)
                rows.set_epoch(self.epoch * 1000 + lap)
            else:
                rows = np.random.default_rng((self.seed, self.epoch, number, lap)).permutation(len(part))
            for row in itertools.islice(rows, int(self.batches[number]) * self.step):
                yield start + int(row)


@dataclass
class MixtureCollator:
    """Batches of a `Mixture`: each by its data set's own collator, its `name_number` first in each row's targets.

    Args:
        collators: one a data set, by name.

    Raises:
        InputError: rows of several data sets, or of one that has no collator.

    Example:
        >>> from contrastive_st.data import LabelledPairCollator, PairCollator, word_tokenizer
        >>> tokenizer = word_tokenizer(["a", "cat"])
        >>> collate = MixtureCollator({"nli": PairCollator(tokenizer), "scores": LabelledPairCollator(tokenizer)})
        >>> rows = [{"input_ids": [[2], [3]], "score": 0.5, "dataset": "scores"}]
        >>> collate(rows)["targets"].tolist() == [[name_number("scores"), 0.5]]
        True
    """

    collators: Mapping[str, Callable[[Sequence[dict[str, Any]]], dict[str, Tensor]]]

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        names = {str(row.get("dataset")) for row in rows}
        if len(names) != 1 or not names & set(self.collators):
            found, known = " and ".join(sorted(names)), ", ".join(self.collators)
            raise InputError(f"a batch holds rows of {found}; give rows of one of {known}, in the order of a Mixture")
        (name,) = names
        batch: dict[str, Tensor] = self.collators[name](rows)
        own = batch.get("targets", torch.zeros(len(rows), 0, dtype=torch.long))
        own = own[:, None] if own.dim() == 1 else own
        batch["targets"] = torch.cat([own.new_full((len(own), 1, *own.shape[2:]), name_number(name)), own], 1)
        return batch


# --- Streams: data without a length, of which each row is known by its number once they are read again and again.


class EndlessStream(IterableDataset[Any]):
    """Pass after pass over data without a length; each is told its number, for another order.

    Each worker of a loader reads all of the data and gives every so manieth batch: the batches are those of a loader
    without workers, and a pass has each row once. (Workers that share out the shards begin their next pass when their
    own are at an end: rows of short shards come more often than those of long ones.)

    Args:
        data: an `IterableDataset` of `datasets` or of torch.
        batch_size: rows that the loader asks a worker for at a time.

    Example:
        >>> from datasets import IterableDataset
        >>> stream = EndlessStream(IterableDataset.from_generator(lambda: iter([{"n": 1}, {"n": 2}])))
        >>> [row["n"] for row in itertools.islice(stream, 5)]
        [1, 2, 1, 2, 1]
    """

    def __init__(self, data: IterableDataset[Any], batch_size: int = 1) -> None:
        self.data, self.batch_size = data, batch_size

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is None or not hasattr(self.data, "num_shards"):  # a stream of torch shares itself out, or does not
            return self._passes(iter)
        turns = (number // self.batch_size % worker.num_workers for number in itertools.count())
        mine = (turn == worker.id for turn in turns)
        return itertools.compress(self.all_rows(), mine)

    def all_rows(self) -> Iterator[Any]:
        """Every row of every pass, in a worker too.

        Raises:
            InputError: a worker reads a stream of torch, which may share itself out over workers.
        """
        if get_worker_info() is None:
            return self._passes(iter)
        if not hasattr(self.data, "num_shards"):
            raise InputError("a stream of torch in a mixture is read without workers; give dataloader_num_workers 0")
        return self._passes(_all_rows)

    def _passes(self, rows_of: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
        # data sets of `datasets` share the number of the epoch between workers, which need not be in the same pass
        data = copy.deepcopy(self.data) if get_worker_info() else self.data
        for epoch in itertools.count():
            if hasattr(data, "set_epoch"):
                data.set_epoch(epoch)
            row = None
            for row in rows_of(data):
                yield row
            if row is None:
                return  # nothing here: a worker without a share


def _all_rows(data: Any) -> Iterator[dict[str, Any]]:
    """Every row of a stream of `datasets`: iterated over by itself it gives a worker only its own shards."""
    for batch in data.iter(batch_size=64):
        for cells in zip(*batch.values(), strict=True):
            yield dict(zip(batch, cells, strict=True))


def _is_stream(data: Any) -> bool:
    return isinstance(data, IterableDataset) or not hasattr(data, "__len__")


class _Forward:
    """The rows of a stream by number, over all its passes. They are read forward; a row before begins it anew."""

    def __init__(self, data: Any) -> None:
        self.stream = EndlessStream(data)
        self._rows: Iterator[Any] | None = None
        self._next, self._process = 0, 0

    def __getitems__(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found = []
        for number in numbers:
            if self._rows is None or number < self._next or self._process != os.getpid():  # a fork shares open files
                self._rows, self._next, self._process = self.stream.all_rows(), 0, os.getpid()
            row = next(itertools.islice(self._rows, number - self._next, None), None)
            if row is None:
                raise InputError("a stream of a mixture holds no row; give one with rows, or leave it out")
            found.append(row)
            self._next = number + 1
        return found

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.__getitems__([number])[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}
