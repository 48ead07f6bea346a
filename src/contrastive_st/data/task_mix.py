"""Several data sets as one, whose batches are of one task at a time, in a fixed proportion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch.distributed as dist
from torch.utils.data import Dataset, Sampler

from contrastive_st.errors import InputError


class TaskMix(Dataset[dict[str, Any]]):
    """Rows of several data sets, each with the number of its `task`.

    `ContrastiveTrainer` reads it through `sampler`: every batch, of all processes together, is of one task. The tasks
    take turns evenly in proportion to their weights; a task that has run out begins its next pass. The order hangs on
    seed and epoch alone, so a resumed run goes on where it was.

    Args:
        tasks: rows of each task by name; data sets that have a `sampler` (a `SentenceCorpus`) are read in its order.
        weights: how many batches of each, relative to the others; by default alike.

    Example:
        >>> mix = TaskMix({"a": [{"n": i} for i in range(6)], "b": [{"n": i} for i in range(3)]}, {"a": 2, "b": 1})
        >>> batches = list(mix.sampler(2, seed=0))
        >>> [mix[i]["task"] for i in batches]
        [0, 0, 1, 1, 0, 0, 0, 0]
    """

    def __init__(self, tasks: Mapping[str, Any], weights: Mapping[str, float] | None = None) -> None:
        self.names, self.parts = list(tasks), list(tasks.values())
        self.weights = [float(1 if weights is None else weights[name]) for name in self.names]
        if not self.parts or min(self.weights) <= 0:
            raise InputError("a mix needs one or more tasks, each with a positive weight")
        self.starts = np.cumsum([0, *(len(part) for part in self.parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        """The rows of a batch, read together where they are of one task."""
        tasks = np.searchsorted(self.starts, indices, side="right") - 1
        if len(set(tasks.tolist())) > 1:
            return [self[index] for index in indices]
        part, own = self.parts[tasks[0]], [index - int(self.starts[tasks[0]]) for index in indices]
        rows = part.__getitems__(own) if hasattr(part, "__getitems__") else [part[index] for index in own]
        return [{**row, "task": int(tasks[0])} for row in rows]

    def sampler(self, batch_size: int, seed: int) -> TaskSampler:
        """The order for training with batches of `batch_size` a process."""
        world = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
        return TaskSampler(self, batch_size, world, seed)


class TaskSampler(Sampler[int]):
    """Row numbers of a `TaskMix`, whole batches of one task after the other.

    An epoch is as long as all the tasks' whole batches together.

    Args:
        mix: what is read.
        batch_size: of a process.
        world: processes that share a step.
        seed: of the order.
    """

    def __init__(self, mix: TaskMix, batch_size: int, world: int, seed: int) -> None:
        self.mix, self.batch_size, self.step, self.seed, self.epoch = mix, batch_size, batch_size * world, seed, 0
        short = [name for name, part in zip(mix.names, mix.parts, strict=True) if len(part) < self.step]
        if short:
            raise InputError(f"the task {short[0]} has fewer rows than a batch of {self.step}; give a smaller batch")

    def set_epoch(self, epoch: int) -> None:
        """Choose the order."""
        self.epoch = epoch

    def __len__(self) -> int:
        return sum(len(part) // self.step for part in self.mix.parts) * self.step

    def __iter__(self) -> Iterator[int]:
        streams = [self._rows(number) for number in range(len(self.mix.parts))]
        share = np.array(self.mix.weights) / sum(self.mix.weights)
        taken = np.zeros(len(streams))
        for done in range(len(self) // self.step):
            number = int(np.argmax(share * (done + 1) - taken))  # the task most behind its share
            taken[number] += 1
            for _ in range(self.step):
                yield next(streams[number])

    def _rows(self, number: int) -> Iterator[int]:
        """Pass after pass over a task, whole batches only."""
        part, start = self.mix.parts[number], int(self.mix.starts[number])
        whole, lap = len(part) // self.step * self.step, 0
        while True:
            if hasattr(part, "sampler"):
                order = part.sampler(self.batch_size, self.seed)
                order.set_epoch(self.epoch * 1000 + lap)
                rows: Any = order
            else:
                rows = np.random.default_rng((self.seed, self.epoch, number, lap)).permutation(len(part))
            for count, row in enumerate(rows):
                if count == whole:
                    break
                yield start + int(row)
            lap += 1
