"""The order in which a run sees its data, and how a resumed run finds its place in it."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset, Sampler, get_worker_info
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class OrderedTrainer(Trainer):
    """The Trainer of transformers, with an order of the data that hangs on seed, epoch and step alone.

    * A data set that has a method `sampler(batch_size, seed)` is read in that order.
    * An epoch's order is that of its number on every process, for resumed runs too.
    * A stream (an `IterableDataset` without a length) is one epoch of as many passes as `max_steps` wants, so that a
      resumed run finds its place after the first pass too. Each process reads it by itself and takes its share of
      each batch's rows.

    Args:
        args, kwargs: as for `transformers.Trainer`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(EpochOrder())
        if isinstance(self.train_dataset, IterableDataset) and not hasattr(self.train_dataset, "__len__"):
            self.train_dataset: Any = EndlessStream(self.train_dataset)
            if self.args.accelerator_config.dispatch_batches is None:  # else rank 0 reads for all, and pads for none
                self.accelerator.dataloader_config.dispatch_batches = False

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler | None:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        if hasattr(dataset, "sampler"):
            return dataset.sampler(self._train_batch_size, self.args.data_seed)
        return super()._get_train_sampler(train_dataset)


class EpochOrder(TrainerCallback):
    """Tell the sampler its epoch before it is asked.

    (The Trainer does so too, but what it wraps around the sampler to skip what a resumed run has seen hides the
    sampler, where several processes train: they would go on in the order of the first epoch.)
    """

    def on_epoch_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        train_dataloader: Any = None,
        **kwargs: Any,
    ) -> None:
        if hasattr(train_dataloader, "set_epoch"):
            train_dataloader.set_epoch(int(state.epoch or 0))


class EndlessStream(IterableDataset[Any]):
    """Pass after pass over data without a length; each is told its number, for another order.

    Example:
        >>> from datasets import IterableDataset
        >>> stream = EndlessStream(IterableDataset.from_generator(lambda: iter([{"n": 1}, {"n": 2}])))
        >>> [row["n"] for row in itertools.islice(stream, 5)]
        [1, 2, 1, 2, 1]
    """

    def __init__(self, data: IterableDataset[Any]) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        # data sets of `datasets` share the number of the epoch between workers, which need not be in the same pass
        data = copy.deepcopy(self.data) if get_worker_info() else self.data
        for epoch in itertools.count():
            if hasattr(data, "set_epoch"):
                data.set_epoch(epoch)
            row = None
            for row in data:
                yield row
            if row is None:
                return  # nothing here: a worker without a share
