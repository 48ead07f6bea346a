"""The order in which a run reads its data, which depends only on seed, epoch and step, also after it was resumed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import DataLoader, IterableDataset
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_utils import seed_worker

from contrastive_st.data.mixture import EndlessStream
from contrastive_st.distributed import world_size

_OF_LOADERS = (
    "num_workers", "pin_memory", "persistent_workers", "multiprocessing_context", "prefetch_factor", "in_order",
    "drop_last",
)  # fmt: skip


def leave_sigterm(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Let the workers of a loader leave SIGTERM to the main process (`begin_worker`), from their first moment on.

    It is blocked while they are started, so that threads which libraries start in them at once do not get it either.
    """
    read: Any = getattr(loader, "base_dataloader", loader)  # without what accelerate has wrapped around it
    read.worker_init_fn = partial(begin_worker, read.worker_init_fn)
    make = read._get_iterator

    def started() -> Any:
        if read.num_workers == 0 or not hasattr(signal, "sigwaitinfo"):
            return make()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            return make()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    read._get_iterator = started
    return loader


def begin_worker(begin: Callable[[int], None] | None, number: int) -> None:
    """Begin worker `number` by what its loader calls, and let it leave SIGTERM to the main process, which it reads for.

    The signal reaches workers too where a group of processes gets it (systemd, `torchrun`, `kill -- -PGID`), and torch
    would end the run without a checkpoint. If the main process itself sends it, the worker ends.
    """
    if hasattr(signal, "sigwaitinfo"):  # not on macOS, where no handler can tell who sends a signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        threading.Thread(target=_end_if_asked, daemon=True).start()
    if begin is not None:
        begin(number)


def _end_if_asked() -> None:
    main = getattr(multiprocessing.parent_process(), "pid", None)
    while signal.sigwaitinfo([signal.SIGTERM]).si_pid != main:
        pass
    os._exit(0)


def share_last_batch(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Let the processes share the rows of the last batch too, which accelerate fills with the first rows of the epoch.

    Args:
        loader: what accelerate has prepared. It is not changed if there is one process, no last batch, or a stream.
    """
    shard = getattr(loader, "batch_sampler", None)
    if isinstance(shard, BatchSamplerShard) and not shard.drop_last:
        shard.__class__, shard.even_batches = _EqualShares, True  # torch refuses another sampler
        read: Any = getattr(loader, "base_dataloader", loader)
        read.collate_fn = partial(_collate, read.collate_fn, read.dataset)
    return loader


class _EqualShares(BatchSamplerShard):
    """Yields the share of this process in each batch: as accelerate does, but equal parts of the last one, or []."""

    def __iter__(self) -> Iterator[list[Any]]:
        batches, count = iter(self.batch_sampler), self.num_processes
        while several := list(itertools.islice(batches, 1 if self.split_batches else count)):
            rows = [row for batch in several for row in batch]
            start, end = (-(-len(rows) * rank // count) for rank in (self.process_index, self.process_index + 1))
            yield rows[start:end]


def _collate(collator: Callable[[Any], dict[str, Any]], data: Any, rows: list[Any]) -> dict[str, Any]:
    """The batch of a process; without rows, it is a row that does not count."""
    return collator(rows) if rows else {**collator([data[0]]), "counts": False}


class Order(TrainerCallback):
    """The order of the training data of a trainer.

    * A data set with a method `sampler(batch_size, seed)` is read in the order of that sampler.
    * The order of an epoch depends on its number, the same on every process and in resumed runs.
    * A stream (an `IterableDataset` without a length) is read as a single epoch with as many passes as `max_steps`
      needs, so that a run can resume after the first pass too. Each process reads the whole stream and takes its share
      of the rows of each batch.

    Args:
        trainer: any `transformers.Trainer`.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        data = trainer.train_dataset
        if isinstance(data, IterableDataset) and not hasattr(data, "__len__"):
            together = 1 if trainer.accelerator.split_batches else world_size()
            trainer.train_dataset = EndlessStream(data, trainer.args.train_batch_size * together)

    def read_for_itself(self) -> None:
        """Let each process read a stream, unless the arguments say otherwise: else rank 0 reads for all, unpadded."""
        accelerator = self.trainer.args.accelerator_config
        if isinstance(self.trainer.train_dataset, EndlessStream) and accelerator.dispatch_batches is None:
            self.trainer.accelerator.dataloader_config.dispatch_batches = False

    def loader(self, batch_size: int) -> DataLoader[object] | None:
        """The batches of a data set that has a `sampler`; None for another, of which transformers makes them."""
        data, args = self.trainer.train_dataset, self.trainer.args
        if not hasattr(data, "sampler"):
            return None
        options = {name: getattr(args, f"dataloader_{name}") for name in _OF_LOADERS}
        options["worker_init_fn"] = partial(seed_worker, num_workers=options["num_workers"], rank=args.process_index)
        order, collator = data.sampler(batch_size, args.order_seed), self.trainer.data_collator
        loader = DataLoader(data, batch_size, sampler=order, collate_fn=collator, **options)
        prepared: DataLoader[object] = self.trainer.accelerator.prepare(loader)
        return prepared

    def on_epoch_begin(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Set the epoch of the sampler, and draw the random number that each epoch draws, also with persistent workers.

        The Trainer does this too. But with several processes, the wrapper by which a resumed run skips batches hides
        the sampler from it, and the run would continue in the order of the first epoch. The number is the seed of new
        workers; those that persist are asked for another epoch, and a resumed run, which has none yet, would draw more.
        """
        loader = kwargs.get("train_dataloader")
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(int(state.epoch or 0))
        read: Any = getattr(loader, "base_dataloader", loader)
        if getattr(read, "persistent_workers", False) and read._iterator is not None:
            torch.empty((), dtype=torch.int64).random_()  # as a new iterator would
