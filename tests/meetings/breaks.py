"""One mechanism of each law, broken: a combination with `broken=NAME` runs without it, and must break the law.

`test_breaks.py` holds each to that, so that a law that cannot fail is seen.
"""

from contextlib import nullcontext
from dataclasses import dataclass

from contrastive_st.distributed import ProcessGather
from contrastive_st.training import checkpoints, metadata, trainer, validation
from contrastive_st.training.momentum import MomentumQueue
from contrastive_st.training.order import Order


@dataclass
class Break:
    """A mechanism to leave out.

    Args:
        law: the letter of the law that depends on it.
        line: the smallest combination in which it matters.
        holder: the class or module that has it.
        name: its name there.
        instead: what stands in its place; it gets what was there first.
    """

    law: str
    line: str
    holder: object
    name: str
    instead: object

    def __call__(self):
        setattr(self.holder, self.name, self.instead(getattr(self.holder, self.name)))


def _nothing(there):
    return lambda *args, **options: None


def _without_lower_case(write):
    def written(tokenizer, folder, types):
        normalizer, tokenizer.backend_tokenizer.normalizer = tokenizer.backend_tokenizer.normalizer, None
        write(tokenizer, folder, types)
        tokenizer.backend_tokenizer.normalizer = normalizer

    return written


BREAKS = {
    "gather_without_gradient": Break(
        "a", "processes=2", ProcessGather, "__call__",
        lambda gather: lambda self, rows, sizes=None: gather(self, rows.detach(), sizes),
    ),
    "gradients_not_averaged": Break(  # which the first step refuses
        "e", "processes=2", trainer, "add_gradients", lambda there: _own_gradients
    ),
    "evaluation_draws": Break(
        "b", "validation=rows dropout=0.1", trainer, "preserved_random_state", lambda there: nullcontext
    ),
    "evaluator_draws": Break(
        "b", "evaluator=ours dropout=0.1", validation, "preserved_random_state", lambda there: nullcontext
    ),
    "no_epochs": Break("c", "processes=2 loss=mixture resume=3", Order, "on_epoch_begin", _nothing),
    "queue_forgotten": Break("c", "queue=yes resume=1", MomentumQueue, "load", _nothing),
    "draws_forgotten": Break(
        "c", "dropout=0.1 resume=1", trainer.ContrastiveTrainer, "_load_rng_state", _nothing
    ),
    "lower_case_forgotten": Break("d", "default", checkpoints, "write_tokenizer", _without_lower_case),
    "arguments_recorded": Break(
        "e", "batch=halved", metadata, "hyper_parameters", lambda read: lambda args: _Fixed(read(args))
    ),
    "last_kept": Break("e", "validation=scored keep=best", trainer.ContrastiveTrainer, "_load_best_model", _nothing),
}  # fmt: skip


class _Fixed(dict):
    """What the arguments say, whatever the run did."""

    def __setitem__(self, name, value):
        pass


def _own_gradients(tables, bucket):
    import torch

    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
