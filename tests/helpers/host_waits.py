"""Catches each value that a training step reads from the device, on a CPU too; see `test_host_waits.py`."""

import contextlib
import sys

import distributed_worker as grid
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments
from contrastive_st.losses import targets
from contrastive_st.models.architectures import quickthoughts
from contrastive_st.training import trainer as trainer_module

READS = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "equal", "bincount",
    "_coalesce", "repeat_interleave",
}  # fmt: skip
METHODS = {"cpu", "numpy", "tolist", "item", "__bool__", "__int__", "__float__", "__index__", "__array__"}
MAKERS = {torch.tensor, torch.as_tensor}  # with a device; `new_tensor` has that of its tensor


class Watch:
    """What is read while it is on; `paused` is for what is the host's own."""

    def __init__(self):
        self.on, self.found = False, []

    def note(self, name):
        if self.on:
            frame, places = sys._getframe(2), []
            while frame is not None:
                path = frame.f_code.co_filename
                if path.endswith("/rnn.py"):  # torch reads how many rows have a word at each step, which is the host's
                    return
                if "host_waits" not in path and "/torch/" not in path:
                    places.append(f"{path.split('/src/')[-1].split('site-packages/')[-1]}:{frame.f_lineno}")
                frame = frame.f_back
            self.found.append(f"{name} at {' < '.join(places[:6])}")

    @contextlib.contextmanager
    def paused(self):
        before, self.on = self.on, False
        yield
        self.on = before


class Operations(TorchDispatchMode):
    def __init__(self, watch):
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        indices = args[1] if name in ("index", "index_put", "index_put_", "_index_put_impl_") else ()
        by_mask = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
        if name in READS or by_mask:
            self.watch.note(name)
        return function(*args, **(kwargs or {}))


class Methods(TorchFunctionMode):
    def __init__(self, watch):
        super().__init__()
        self.watch = watch

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        ours = "contrastive_st/" in sys._getframe(1).f_code.co_filename
        moved = name == "to" and any(isinstance(x, torch.device) for x in (*args[1:], kwargs.get("device")))
        waits = moved and not kwargs.get("non_blocking")
        made = name == "new_tensor" or (function in MAKERS and "device" in kwargs)
        if name in METHODS or (ours and (waits or made)):
            self.watch.note(name)
        return function(*args, **kwargs)


class WatchedTrainer(ContrastiveTrainer):
    watch: Watch
    on_steps = staticmethod(lambda mode: None)  # of `torch.cuda.set_sync_debug_mode`

    def get_batch_samples(self, *args, **kwargs):
        self.on_steps("default")  # a copy from memory that is not pinned may wait for the host's own
        with self.watch.paused():
            return super().get_batch_samples(*args, **kwargs)

    def training_step(self, *args, **kwargs):
        self.watch.on = self.state.global_step > 0  # the first step tells of the run
        self.on_steps("error" if self.watch.on else "default")
        return super().training_step(*args, **kwargs)

    def _maybe_log_save_evaluate(self, *args, **kwargs):
        super()._maybe_log_save_evaluate(*args, **kwargs)
        self.watch.on = False  # the end of a run reads
        self.on_steps("default")


def watched(method, folder, monkeypatch, on_steps=None, **changes):
    """What is read in the second step and the others, one for each kind of targets, none of which is logged."""
    watch, place = Watch(), quickthoughts.Packing._place

    def placed(packing, mask):  # of a mask that is made from lengths, which are the host's
        with watch.paused() if sys._getframe(1).f_locals.get("lengths") is not None else contextlib.nullcontext():
            place(packing, mask)

    monkeypatch.setattr(quickthoughts.Packing, "_place", placed)
    monkeypatch.setattr(targets, "_on_host", lambda x: False)
    monkeypatch.setattr(trainer_module, "sparse_look_ups", lambda model: contextlib.nullcontext())  # on a CPU only
    _, make = grid.METHODS[method]
    steps = max(2, grid.steps_of(method))
    torch.manual_seed(0)
    model = make(0.1)
    ready = list(grid.batches(method, steps))
    args = ContrastiveTrainingArguments(
        str(folder), per_device_train_batch_size=1, max_steps=steps, logging_steps=100, save_strategy="no",
        report_to="none", disable_tqdm=True, **{"bf16": False, **changes},
    )  # fmt: skip
    trainer = WatchedTrainer(model, args, train_dataset=ready, data_collator=lambda rows: dict(rows[0]))
    trainer.watch, trainer.reads_late = watch, True
    if on_steps is not None:
        trainer.on_steps = on_steps
    try:
        with Operations(watch), Methods(watch):
            trainer.train()
    finally:  # the mode is that of the process
        trainer.on_steps("default")
    assert trainer.state.global_step == steps
    return watch.found


STEPS = {"plain": {}, "gradcache": {"chunk_size": 3}, "queue": {"momentum_queue": 8}}
STEPS["gradcache-queue"] = STEPS["gradcache"] | STEPS["queue"]
