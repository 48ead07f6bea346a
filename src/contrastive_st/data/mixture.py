"""Train on several data sets (tables, corpora, streams) at once; each batch comes from one of them, in proportion."""

from __future__ import annotations

import copy
import heapq
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info

from contrastive_st.data.profile import Record
from contrastive_st.distributed import world_size
from contrastive_st.errors import InputError
from contrastive_st.options import Positive, checked
from contrastive_st.tokens import name_number

_STREAM_ROWS = 1 << 40  # row numbers that a mixture reserves for a stream


class Mixture(Dataset[Record]):
    """Rows of several data sets as one data set; the column `dataset` of a row has the name of its data set.

    `ContrastiveTrainer` reads the rows in the order of `sampler`: each batch, over all processes, comes from one data
    set. The data set is drawn at random, but each stays within a batch or two of its share at any time. A data set that
    has run out begins again, in another order. The order depends only on the seed and the epoch, so a resumed run
    continues where it stopped. An epoch has as many batches as all data sets have together; with a stream among them it
    has no end, so set `max_steps`.

    By default each batch of each data set comes once per epoch, as with PROPORTIONAL in sentence-transformers. Equal
    weights are like ROUND_ROBIN there, but in random order, and the epoch does not end with the smallest data set.

    Args:
        datasets: tokenized rows of each data set, by name: a `datasets.Dataset`, a list, a data set with a method
            `sampler` (such as `SentenceCorpus`), or a stream (an `IterableDataset`), which is read again and again.
        weights: relative share of each data set in the batches; by default its size. Streams need weights.

    Raises:
        InputError: no data set, or weights that are not one positive number for each data set.

    Example:
        >>> mixture = Mixture({"a": [{"n": i} for i in range(6)], "b": [{"n": i} for i in range(3)]})
        >>> order = list(mixture.sampler(2, seed=0))
        >>> [mixture[i]["dataset"] for i in order]
        ['a', 'a', 'a', 'a', 'a', 'a', 'b', 'b']
        >>> sorted(mixture[i]["n"] for i in order if mixture[i]["dataset"] == "a")
        [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, datasets: Mapping[str, Any], weights: Mapping[str, float] | None = None) -> None:
        self.names = list(datasets)
        stream = lambda rows: isinstance(rows, IterableDataset) or not hasattr(rows, "__len__")
        self.parts = [_Forward(rows) if stream(rows) else rows for rows in datasets.values()]
        streams = [name for name, part in zip(self.names, self.parts, strict=True) if isinstance(part, _Forward)]
        if streams if weights is None else set(weights) != set(self.names):
            what = f"weights are for {', '.join(weights)}" if weights else f"{streams[0]} is a stream of unknown length"
            raise InputError(f"{what}; give a weight for each of {', '.join(self.names)}")
        for name, weight in (weights or {}).items():
            checked(f"weight of {name}", weight, Positive)
        self.weights = None if weights is None else [float(weights[name]) for name in self.names]
        self.endless = bool(streams)
        sizes = [_STREAM_ROWS if isinstance(part, _Forward) else len(part) for part in self.parts]
        self.starts = np.cumsum([0, *sizes])

    def __len__(self) -> int:
        if self.endless:
            raise TypeError("a mixture with a stream has no length")
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> Record:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Record]:
        """The rows of a batch, read with one call if they are of one data set."""
        numbers = np.searchsorted(self.starts, indices, side="right") - 1
        if len(set(numbers.tolist())) > 1:
            return [self[index] for index in indices]
        part, local = self.parts[numbers[0]], [int(index - self.starts[numbers[0]]) for index in indices]
        rows = part.__getitems__(local) if hasattr(part, "__getitems__") else [part[index] for index in local]
        return [{**row, "dataset": self.names[numbers[0]]} for row in rows]

    def sampler(self, batch_size: int, seed: int) -> MixtureSampler:
        """The order for training with batches of `batch_size` per process."""
        return MixtureSampler(self, batch_size, world_size(), seed)


class MixtureSampler(Sampler[int]):
    """Yields the row numbers of a `Mixture` so that each whole batch is of one data set.

    Args:
        mixture: the data sets.
        batch_size: batch size per process.
        world: number of processes.
        seed: seed of the order.

    Raises:
        InputError: a data set has fewer rows than the batch of all processes together.
    """

    def __init__(self, mixture: Mixture, batch_size: int, world: int, seed: int) -> None:
        self.mixture, self.batch_size, self.step = mixture, batch_size, batch_size * world
        self.seed, self.epoch = seed, 0
        rows = np.diff(mixture.starts)
        self.batches = rows // self.step
        if not self.batches.all():
            short = int(self.batches.argmin())
            what = f"the data set {mixture.names[short]} has fewer rows ({rows[short]}) than a batch of {self.step}"
            raise InputError(f"{what}; give a smaller batch")

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
        """Yield the number of each batch's data set, without end.

        The k-th batch of a data set with share s gets a random time between k / s and (k + 1) / s, and batches come in
        the order of their times. So at any time t the data set has had s * t batches, rounded up or down.
        """
        weights = self.batches if self.mixture.weights is None else np.array(self.mixture.weights)

        def times(number: int) -> Iterator[tuple[float, int]]:
            random = np.random.default_rng((self.seed, self.epoch, number, 0, 1))  # the final 1: unlike `_rows`
            return (((k + random.random()) * weights.sum() / weights[number], number) for k in itertools.count())

        return (number for _, number in heapq.merge(*(times(number) for number in range(len(weights)))))

    def _rows(self, number: int) -> Iterator[int]:
        """Yield the rows of a data set again and again, whole batches only."""
        part, start = self.mixture.parts[number], int(self.mixture.starts[number])
        if isinstance(part, _Forward):
            yield from itertools.count(start)
            return
        for lap in itertools.count():
            rows: Iterable[int]
            if hasattr(part, "sampler"):
                sampler = part.sampler(self.batch_size, self.seed)
                sampler.set_epoch(self.epoch * 1000 + lap)
                rows = sampler
            else:
                rows = np.random.default_rng((self.seed, self.epoch, number, lap)).permutation(len(part))
            for row in itertools.islice(rows, int(self.batches[number]) * self.step):
                yield start + int(row)


@dataclass
class MixtureCollator:
    """Collate each batch of a `Mixture` with the collator of its data set.

    The targets of each row begin with the `name_number` of the data set, by which `MixtureLoss` finds the loss.

    Args:
        collators: one collator per data set, by name.

    Raises:
        InputError: rows of several data sets, or of a data set without a collator.

    Example:
        >>> from contrastive_st.data import LabelledPairCollator, PairCollator, word_tokenizer
        >>> tokenizer = word_tokenizer(["a", "cat"])
        >>> collate = MixtureCollator({"nli": PairCollator(tokenizer), "scores": LabelledPairCollator(tokenizer)})
        >>> rows = [{"input_ids": [[2], [3]], "score": 0.5, "dataset": "scores"}]
        >>> collate(rows)["targets"].tolist() == [[name_number("scores"), 0.5]]
        True
    """

    collators: Mapping[str, Callable[[Sequence[Record]], dict[str, Tensor]]]

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch, all of one data set.

        Returns:
            What the collator of the data set gives, with the number of the data set first in the targets.

        Raises:
            InputError: the rows are of several data sets, or of one without a collator.
        """
        names = {str(row.get("dataset")) for row in rows}
        if len(names) != 1 or not names & set(self.collators):
            mixed, expected = " and ".join(sorted(names)), ", ".join(self.collators)
            raise InputError(f"a batch has rows of {mixed}; give rows of one of {expected}, in the order of a Mixture")
        (name,) = names
        batch: dict[str, Tensor] = self.collators[name](rows)
        cells = batch.get("targets", torch.zeros(len(rows), 0, dtype=torch.long))
        cells = cells[:, None] if cells.dim() == 1 else cells
        batch["targets"] = torch.cat([cells.new_full((len(cells), 1, *cells.shape[2:]), name_number(name)), cells], 1)
        return batch


# --- Streams: data without a length, read again and again; a row has a number, counted over all passes.


class EndlessStream(IterableDataset[Record]):
    """Yields the rows of a stream again and again; the stream gets the number of each pass, to change its order.

    With W workers in the data loader, each worker reads all of the data and gives every W-th batch. So the batches are
    those of a loader without workers, and each row comes once per pass. (If each worker had its shards, it would
    begin its next pass as soon as these end, and rows of short shards would come more often than those of long ones.)

    Args:
        data: an `IterableDataset` of `datasets` or of torch.
        batch_size: number of rows that the loader asks a worker for at a time.

    Example:
        >>> from datasets import IterableDataset
        >>> stream = EndlessStream(IterableDataset.from_generator(lambda: iter([{"n": 1}, {"n": 2}])))
        >>> [row["n"] for row in itertools.islice(stream, 5)]
        [1, 2, 1, 2, 1]
    """

    def __init__(self, data: IterableDataset[Record], batch_size: int = 1) -> None:
        self.data, self.batch_size = data, batch_size

    def __iter__(self) -> Iterator[Record]:
        worker = get_worker_info()
        if worker is None or not hasattr(self.data, "num_shards"):  # a torch stream divides its own rows, or not
            return self._passes()
        turns = (number // self.batch_size % worker.num_workers for number in itertools.count())
        mine = (turn == worker.id for turn in turns)
        return itertools.compress(self.all_rows(), mine)

    def all_rows(self) -> Iterator[Record]:
        """Yield every row of every pass, even in a worker.

        Raises:
            InputError: called in a worker with a torch stream, which may divide its rows among workers.
        """
        if get_worker_info() is not None and not hasattr(self.data, "num_shards"):
            raise InputError("workers cannot read a torch stream in a mixture; set dataloader_num_workers=0")
        return self._passes()

    def _passes(self) -> Iterator[Record]:
        data, rows_of = self.data, iter
        if get_worker_info() is not None and hasattr(data, "num_shards"):
            # streams of `datasets` share the epoch number between workers, but these may be in different passes
            data, rows_of = copy.deepcopy(data), _all_rows
        for epoch in itertools.count():
            if hasattr(data, "set_epoch"):
                data.set_epoch(epoch)
            row = None
            for row in rows_of(data):
                yield row
            if row is None:
                return  # no rows: a worker without a shard


def _all_rows(data: Any) -> Iterator[Record]:
    """Every row of a stream of `datasets`; plain iteration would give a worker only the rows of its own shards."""
    for batch in data.iter(batch_size=64):
        for cells in zip(*batch.values(), strict=True):
            yield dict(zip(batch, cells, strict=True))


class _Forward:
    """The rows of a stream by number, counted over all passes. Asking for an earlier row starts from the beginning."""

    def __init__(self, data: Any) -> None:
        self.stream = EndlessStream(data)
        self._rows: Iterator[Record] | None = None
        self._next, self._process = 0, 0

    def __getitems__(self, numbers: Sequence[int]) -> list[Record]:
        result = []
        for number in numbers:
            if self._rows is None or number < self._next or self._process != os.getpid():  # a fork shares open files
                self._rows, self._next, self._process = self.stream.all_rows(), 0, os.getpid()
            row = next(itertools.islice(self._rows, number - self._next, None), None)
            if row is None:
                raise InputError("a stream of the mixture has no rows; leave it out or check its files")
            result.append(row)
            self._next = number + 1
        return result

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_rows": None}
