"""Work shared among processes, and candidates gathered from all of them with gradient.

Each of W processes holds its own anchors. A gathered tensor stacks the rows of all processes in rank
order, so all processes have the same candidates, and the positives of rank r start at `offset`:

                     candidates of rank 0   candidates of rank 1
    anchors, rank 0  [ P n n n              n n n n ]   offset 0, local loss 0
    anchors, rank 1  [ n n n n              P n n n ]   offset 4, local loss 1

Candidates of other ranks get gradients too: the backward pass sums the gradients that all ranks computed for them. So
the average of the local gradients, which DDP computes, is the gradient of the whole batch on one process.

If the candidates are too many for each process to hold all of them, they are passed around a ring instead (Cheng et
al. 2024, Inf-CL, https://arxiv.org/abs/2410.17243): a process holds the block of one rank at a time, adds up the
exponentials of its anchors' scores against that block, and passes it to the next rank. In the backward pass the blocks
travel around the ring again, each with its gradient.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import chain
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from contrastive_st.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

# --- Processes, and work shared among them. accelerate's helpers only know process groups that accelerate made, and if
# --- one process fails, the others wait for ever; here an error on one process is raised on all.


def processes() -> tuple[int, int]:
    """Rank of this process and number of processes; `(0, 1)` without `torch.distributed`."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def world_size() -> int:
    """Number of processes that train together; 1 without `torch.distributed`."""
    return processes()[1]


def is_first_process() -> bool:
    """Whether this process is the one that prints and writes."""
    return processes()[0] == 0


def partition(costs: Sequence[float], ranks: int) -> list[list[int]]:
    """Divide items among `ranks`: the costliest first, each goes to the rank with the lowest total so far.

    Example:
        >>> partition([5, 1, 4, 2], 2)
        [[0, 1], [2, 3]]
    """
    assigned: list[list[int]] = [[] for _ in range(ranks)]
    load = [0.0] * ranks
    for i in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        least = load.index(min(load))
        assigned[least].append(i)
        load[least] += costs[i]
    return assigned


def shared(
    work: Callable[[Item], Result], items: Sequence[Item], costs: Sequence[float], *, distributed: bool = True
) -> list[Result]:
    """`[work(item) for item in items]`, with the items divided among the processes; a collective call.

    An error on one process is raised on all, so that no process waits for one that has stopped.

    Args:
        work: must give the same result on every process, and one that can be pickled.
        items: the same on all processes.
        costs: how long each item may take, in any unit.
        distributed: if False, this process works on all items, and need not be joined by the others.

    Example:
        >>> shared(len, ["a", "bcd"], [1, 3])
        [1, 3]
    """
    rank, count = processes() if distributed and not _UNSHARED.get() else (0, 1)
    if count == 1:
        return [work(item) for item in items]
    results: dict[int, Result] = {}
    failure: Exception | None = None
    try:
        for i in partition(costs, count)[rank]:
            results[i] = work(items[i])
    except Exception as error:  # raised below, on every process
        failure = error
    outcomes: list[Any] = [None] * count
    dist.all_gather_object(outcomes, (results, failure))
    for _, failed in outcomes:
        if failed is not None:
            raise failed
    merged = {i: result for done, _ in outcomes for i, result in done.items()}
    return [merged[i] for i in range(len(items))]


_UNSHARED = ContextVar("_UNSHARED", default=False)


@contextlib.contextmanager
def unshared() -> Iterator[None]:
    """Within this block `shared` and `from_first` do all of the work on every process.

    A model that is sharded (FSDP) needs it: all processes take part in each of its forward passes, so none may have
    fewer of them.
    """
    token = _UNSHARED.set(True)
    try:
        yield
    finally:
        _UNSHARED.reset(token)


def from_first(compute: Callable[[], Result], *, distributed: bool = True) -> Result:
    """Run `compute` on the first process and return its result on all; a collective call. An error is raised on all."""
    return shared(lambda _: compute(), [None], [1.0], distributed=distributed)[0]


def any_process(flag: bool) -> bool:
    """Whether `flag` is set on any process; a collective call."""
    return flag if world_size() == 1 else any(host_numbers(int(flag), None))


def mean_over_processes(values: Mapping[str, float]) -> dict[str, float]:
    """The mean of each value over the processes that have it, unchanged where all have the same; a collective call."""
    if world_size() == 1:
        return dict(values)
    every: list[Any] = [None] * world_size()
    dist.all_gather_object(every, dict(values))
    held = {name: [one[name] for one in every if name in one] for name in dict.fromkeys(chain(*every))}
    return {name: several[0] if len(set(several)) == 1 else statistics.fmean(several) for name, several in held.items()}


def host_numbers(number: int, group: dist.ProcessGroup | None) -> list[int]:
    """The `number` of each process of `group`, in rank order; a collective call that uses no GPU.

    NCCL would send it through the GPU, and the host would have to wait for that. So a gloo group of the same processes
    is used where the backend is NCCL.
    """
    if dist.get_backend(group) == "nccl":
        key = dist.group.WORLD if group is None else group  # a new object each time that the processes are initialised
        if key not in _gloo:
            ranks = dist.get_process_group_ranks(key)
            _gloo[key] = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
        group = _gloo[key]
    numbers = torch.empty(dist.get_world_size(group), dtype=torch.long)
    dist.all_gather(list(numbers.split(1)), torch.tensor([number]), group=group)
    return numbers.tolist()


_gloo: dict[object, dist.ProcessGroup] = {}  # the gloo group of each NCCL group


# --- The rows of all processes as one batch.


class Gather:
    """Gathering on a single process: the candidates are the rows of its own batch. Base class of `ProcessGather`."""

    rank: int = 0

    def __call__(self, rows: Tensor, sizes: list[int] | None = None) -> Tensor:
        """The rows of all processes, `[N_local, ...] -> [N, ...]`, in rank order, with gradient.

        Args:
            rows: those of this process.
            sizes: what `sizes` returned for as many rows, to save asking again.
        """
        return rows

    def sizes(self, rows: int) -> list[int]:
        """The number of rows on each process; `rows` is the number on this one."""
        return [rows]

    def offset(self, rows: int) -> int:
        """Position of this process's first row among the gathered rows; `rows` is the number of rows on this one."""
        return sum(self.sizes(rows)[: self.rank])

    def total(self, count: int) -> int:
        """The sum of a count over all processes, on the host."""
        return sum(self.sizes(count))

    def sum(self, count: Tensor) -> Tensor:
        """The sum over all processes of a count, a tensor `[]` that stays on its device; without gradient."""
        return count

    def widest(self, width: int) -> int:
        """The greatest `width` of all processes."""
        return max(self.sizes(width))

    def uses_ring(self, numbers: int) -> bool:
        """Whether candidates of this many numbers in all are passed around the ring instead of gathered."""
        return False

    def without_ring(self) -> Gather:
        """The same object without the ring, for callers that need all candidates at once."""
        return self

    def logsumexp(
        self, anchors: Tensor, block: Tensor, sizes: Sequence[int], score: BlockScore
    ) -> tuple[Tensor, Tensor]:
        """The `logsumexp` of each anchor's scores over the candidates of all processes, passed around the ring.

        Args:
            anchors: `[B, d]`, the anchors of this process.
            block: `[c, d]`, the candidates of this process.
            sizes: the number of candidates c of each rank.
            score: called with some anchors `[b, d]`, the candidates `[c, d]` of a rank, that rank, and the slice of
                `anchors` that was taken; returns scores `[b, c]` and a flag for each anchor, `[b]`.

        Returns:
            The `logsumexp` `[B]`, with gradient to `anchors` and to `block`; and for each anchor whether its flag was
            set for any rank, `[B]`.
        """
        raise NotImplementedError

    @property
    def world(self) -> int:
        """Number of processes."""
        return 1

    def mean(self, loss_sum: Tensor, count: int | Tensor, total: int | None = None) -> Tensor:
        """Scale a local sum so that the average of the results over the processes is the mean over all items.

        Args:
            loss_sum: the sum over the items of this process.
            count: the number of these items; a tensor `[]` stays on its device.
            total: the number of items of all processes, if it is known.
        """
        if isinstance(count, Tensor):
            return loss_sum * self.world / self.sum(count).clamp(min=1)
        return loss_sum * (self.world / max(self.total(count) if total is None else total, 1))


class ProcessGather(Gather):
    """All processes of a `torch.distributed` group; ranks may hold different numbers of rows.

    Args:
        group: by default the group of all processes.
        gathered: most numbers that are gathered; with more candidates than that, `uses_ring` is true and the loss
            passes them around the ring. By default 2^27, which is 512 MiB in float32.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, gathered: float | None = None) -> None:
        self.group, self.gathered = group, GATHERED if gathered is None else gathered
        self.rank = dist.get_rank(group)

    @property
    def world(self) -> int:
        """The number of processes."""
        return dist.get_world_size(self.group)

    def sizes(self, rows: int) -> list[int]:
        """The number of rows of each process."""
        return host_numbers(rows, self.group)

    def __call__(self, rows: Tensor, sizes: list[int] | None = None) -> Tensor:
        """The rows of all processes, one after the other, with gradient to those of this one."""
        gathered: Tensor = _AllGather.apply(rows, sizes or self.sizes(len(rows)), self.rank, self.group)
        return gathered

    def sum(self, count: Tensor) -> Tensor:
        """The sum of a count over the processes, on its device."""
        total = count.detach().clone()
        dist.all_reduce(total, group=self.group)
        return total

    def uses_ring(self, numbers: int) -> bool:
        """Whether this many numbers are too many to gather."""
        return numbers > self.gathered

    def without_ring(self) -> Gather:
        """The same, but it always gathers and never uses the ring."""
        return ProcessGather(self.group, math.inf)

    def logsumexp(
        self, anchors: Tensor, block: Tensor, sizes: Sequence[int], score: BlockScore
    ) -> tuple[Tensor, Tensor]:
        """As `Gather.logsumexp`, with the blocks of all processes, which are passed around the ring."""
        result: tuple[Tensor, Tensor] = _Ring.apply(anchors, block, sizes, score, self)
        return result

    def round(self, sizes: Sequence[int], *blocks: Tensor, home: bool = False) -> Iterator[tuple[int, list[Tensor]]]:
        """Yield each rank and its blocks `[c, ...]`, beginning with those of this process.

        What the caller changes in the last of the blocks travels on with it. With `home`, the last block returns to its
        own rank at the end and is copied into the caller's tensor, with the changes of all ranks.
        """
        held = [block.detach().contiguous() for block in blocks]
        for step in range(self.world):
            source = (self.rank + step) % self.world
            yield source, held
            last = step == self.world - 1
            if not last or home:
                following = sizes[(source + 1) % self.world]
                moved = held[-1:] if last else held
                held = [self._handed_on(block, following) for block in moved]
        if home:
            blocks[-1].copy_(held[-1])

    def _handed_on(self, block: Tensor, size: int) -> Tensor:
        """Send `block` to the previous rank and receive the block of the next rank, which has `size` rows."""
        received = block.new_empty(size, *block.shape[1:])
        ranks = dist.get_process_group_ranks(dist.group.WORLD if self.group is None else self.group)
        before, after = ranks[(self.rank - 1) % self.world], ranks[(self.rank + 1) % self.world]
        send = dist.P2POp(dist.isend, block, before, self.group)
        receive = dist.P2POp(dist.irecv, received, after, self.group)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
        return received


GATHERED = 1 << 27
BlockScore = Callable[[Tensor, Tensor, int, slice], tuple[Tensor, Tensor]]
_SCORES = 1 << 24  # most scores held at a time


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, block: Tensor, sizes: Sequence[int], score: BlockScore, gather: ProcessGather
    ) -> tuple[Tensor, Tensor]:
        total = anchors.new_full((len(anchors),), float("-inf"))
        result = torch.zeros_like(total, dtype=torch.bool)
        for source, (held,) in gather.round(sizes, block):
            for rows in _slices(len(anchors), len(held)):
                scores, some = score(anchors[rows], held, source, rows)
                total[rows] = torch.logaddexp(total[rows], scores.logsumexp(1))
                result[rows] |= some
        ctx.save_for_backward(anchors, block, total)
        ctx.sizes, ctx.score, ctx.gather = sizes, score, gather
        ctx.mark_non_differentiable(result)
        return total, result

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: object) -> tuple[Tensor | None, ...]:
        anchors, block, total = ctx.saved_tensors
        of_anchors, gradient = torch.zeros_like(anchors), torch.zeros_like(block)
        for source, (held, received) in ctx.gather.round(ctx.sizes, block, gradient, home=True):
            leaf = held.detach().requires_grad_()
            for rows in _slices(len(anchors), len(held)):
                part = anchors[rows].detach().requires_grad_()
                with torch.enable_grad():
                    scores = ctx.score(part, leaf, source, rows)[0]
                shares = grad[rows, None] * (scores.detach() - total[rows, None]).exp()
                to_anchors, to_block = torch.autograd.grad(scores, [part, leaf], shares)
                of_anchors[rows] += to_anchors
                received += to_block
        return of_anchors, gradient, None, None, None


def _slices(rows: int, columns: int) -> list[slice]:
    size = max(_SCORES // max(columns, 1), 1)
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], rank: int, group: dist.ProcessGroup | None) -> Tensor:
        ctx.sizes, ctx.rank, ctx.group = sizes, rank, group
        padded = rows.new_zeros((max(sizes), *rows.shape[1:]))
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded.contiguous(), group=group)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)  # the sum of all ranks' gradients
        start = sum(ctx.sizes[: ctx.rank])
        return grad[start : start + ctx.sizes[ctx.rank]], None, None, None


# --- Gradients of the processes, which DDP adds up. Few rows of a word embedding have a gradient in a step.


def add_gradients(tables: Collection[int], bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Communication hook of DDP that sends only those rows of embeddings that have a gradient on any process.

    The mean is that of DDP's own `all_reduce`: the rows left out are zero on all processes. If more than half of the
    rows have a gradient, all are sent.

    Args:
        tables: the `id` of each parameter `[words, d]` of which few rows may have a gradient.
        bucket: gradients as DDP hands them over.
    """
    total, share = bucket.buffer(), 1 / dist.get_world_size()
    both = list(zip(bucket.parameters(), bucket.gradients(), strict=True))
    sparse = [gradient for parameter, gradient in both if id(parameter) in tables]
    touched = [(rows.amax(1) != 0) | (rows.amin(1) != 0) for rows in sparse]  # in a third of the time of `any`
    if sparse:
        anywhere = torch.cat(touched).byte()
        dist.all_reduce(anywhere, dist.ReduceOp.MAX)
        touched = [rows.bool() for rows in anywhere.split([len(rows) for rows in touched])]
    done: torch.futures.Future[Tensor]
    if not sparse or 2 * int(anywhere.sum()) > len(anywhere):
        done = dist.all_reduce(total.mul_(share), async_op=True).get_future().then(lambda work: work.value()[0])
        return done
    parts = [gradient for parameter, gradient in both if id(parameter) not in tables]
    sent = [*parts, *(rows[where] for rows, where in zip(sparse, touched, strict=True))]
    packed = torch.cat([part.flatten() for part in sent]).mul_(share)
    dist.all_reduce(packed)
    result = [new.view_as(part) for new, part in zip(packed.split([part.numel() for part in sent]), sent, strict=True)]
    for part, new in zip(parts, result[: len(parts)], strict=True):
        part.copy_(new)
    for rows, where, new in zip(sparse, touched, result[len(parts) :], strict=True):
        rows[where] = new
    done = torch.futures.Future()
    done.set_result(total)
    return done


def check_first_step(model: nn.Module) -> None:
    """Have the first optimizer step of a model refused if several processes train it and do not average its gradients.

    The next step of an optimizer with weights of the model compares the sums and norms of the gradients, whatever loop
    calls it, in one collective call. Weights that FSDP shards are not compared.

    Args:
        model: in its forward pass.
    """
    if not _UNCHECKED and not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(_compare_gradients))
    _UNCHECKED[model] = {name: weight.shape for name, weight in model.named_parameters() if weight.requires_grad}


_UNCHECKED: WeakKeyDictionary[nn.Module, dict[str, torch.Size]] = WeakKeyDictionary()
_hooks: list[RemovableHandle] = []


def _compare_gradients(optimizer: torch.optim.Optimizer, *step: object) -> None:
    stepped = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    for model in [model for model in _UNCHECKED if not stepped.isdisjoint(map(id, model.parameters()))]:
        shapes = _UNCHECKED.pop(model)
        local: dict[str, Tensor] = {}
        for name, weight in model.named_parameters():
            if shapes.get(name) == weight.shape and not hasattr(weight, "to_local"):  # else a shard of FSDP
                gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
                gradient = gradient.coalesce().values() if gradient.is_sparse else gradient
                norm = torch.linalg.vector_norm(gradient, dtype=torch.float64)
                local[name] = torch.stack([gradient.sum(dtype=torch.float64), norm])
        if not local:
            continue
        sums = torch.stack(list(local.values()))
        bounds = torch.cat([sums, -sums], 1)
        dist.all_reduce(bounds, dist.ReduceOp.MAX)
        spread, norms = bounds[:, :2] + bounds[:, 2:], bounds[:, 1:2]
        differing = [name for name, apart in zip(local, (spread > 1e-3 * norms).any(1).tolist(), strict=True) if apart]
        if differing:
            raise InputError(
                f"{len(differing)} of {len(local)} gradients, such as that of {differing[0]}, differ between the "
                f"{world_size()} processes: nothing averages them, and each process would train another model. Wrap "
                "the model in DistributedDataParallel. The Trainer of transformers does not do so if evaluate() is "
                "called before train(); ContrastiveTrainer does"
            )


LOCAL = Gather()


def default_gather() -> Gather:
    """`ProcessGather` where several processes train together, else the plain `Gather`."""
    return ProcessGather() if world_size() > 1 else LOCAL
