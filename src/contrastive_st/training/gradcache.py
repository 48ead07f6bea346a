"""The GradCache step: the loss of a whole batch, with the memory of one chunk.

    1. encode   every chunk without gradient, remembering the random state before it
    2. loss     of the views of the whole batch, and its gradient with respect to the views
    3. replay   every chunk with gradient and the same dropout masks, and backpropagate the gradient of its views

A loss of words, which are predicted from states of tokens, is a sum over rows: the replay adds that of its chunk.

By the chain rule this is exactly the gradient of the plain step. Only the activations of one chunk are in memory,
whatever the batch size. The method is from Gao et al. 2021 (GradCache, https://arxiv.org/abs/2101.06983). Under DDP,
only the last chunk synchronises gradients, so there is one all-reduce per step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import get_device_states, set_device_states

from contrastive_st.buckets import bucket_rows, in_order, on_device, row_lengths, take_rows, training_buckets

if TYPE_CHECKING:
    from transformers import Trainer

#: A batch as a collator makes it: tensors `[B, V, L]`, arrays of lengths, and the name of its data set
Batch: TypeAlias = dict[str, Any]


class Chunks(NamedTuple):
    """How a batch is cut into chunks of rows of similar length.

    Args:
        size: most texts per chunk.
        tokens: most tokens per chunk, padding included.
        most: most tokens that rows may be padded to, such as the model's `positions`; by default L.
        even: make the number of chunks depend only on the number of rows and not on their lengths. Sharded weights
            (FSDP) need this, because all processes take part in each forward pass.
    """

    size: int | None = None
    tokens: int | None = None
    most: int | None = None
    even: bool = False

    @classmethod
    def of(cls, trainer: Any) -> Chunks:
        """Those of a `ContrastiveTrainer`."""
        return cls(trainer.args.chunk_size, trainer.args.chunk_tokens, trainer.core.positions, trainer.is_fsdp_enabled)

    def cut(self, batch: Batch) -> tuple[list[Batch], list[NDArray[np.int64]]]:
        """Cut a batch `[B, V, L]` into chunks `[n, l]`; also returns the numbers of their rows."""
        rows = {name: x.reshape(-1, *x.shape[2:]) for name, x in batch.items()}
        lengths = row_lengths(rows["attention_mask"], rows.get("lengths"))
        limits = self.limits(rows["input_ids"].device, len(lengths))
        buckets = bucket_rows(lengths, **limits | ({"max_padding": 1.0} if self.even else {}))
        return take_rows(rows, buckets, lengths, self.most), buckets

    def limits(self, device: torch.device, rows: int) -> Batch:
        """Options of `bucket_rows` for cutting the rows of a batch into chunks."""
        return training_buckets(device, {"max_rows": self.size or rows, "max_tokens": self.tokens or 1 << 62})


def encoder_of(trainer: Trainer, model: nn.Module) -> Callable[..., Tensor]:
    """A function that encodes rows `[n, l]` to embeddings `[n, d]` with the wrapper and autocast of training.

    Args:
        trainer: the trainer.
        model: its model, as accelerate has wrapped it.
    """
    takes_lengths = trainer.accelerator.unwrap_model(model).takes_lengths

    def encode(lengths: NDArray[np.int64] | None = None, **rows: Tensor) -> Tensor:
        extra = {"lengths": lengths} if takes_lengths else {}
        with trainer.compute_loss_context_manager():  # a new autocast, whose cache ends with the chunk
            embeddings: Tensor = model(**rows, **extra).pooler_output
        return embeddings

    return encode


def gradcache_step(
    batch: Batch,
    encode: Callable[..., Tensor],
    loss_fn: Callable[[Tensor], Tensor],
    backward: Callable[[Tensor], None],
    no_sync: Callable[[], contextlib.AbstractContextManager[None]],
    chunks: Chunks,
    parameters: Sequence[Tensor] = (),
    words: Callable[[Tensor, NDArray[np.int64]], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Accumulate the gradient of one batch; returns the loss and the views `[B, V, d]`, both detached.

    Args:
        batch: tensors `[B, V, L]`, including `input_ids` and `attention_mask`; also the array `lengths` `[B, V]` of the
            rows, if the host knows it, so that it need not wait for the device.
        encode: returns embeddings `[n, d]` of rows `[n, l]`, with the autocast and the wrapper that train the model.
        loss_fn: returns the loss of views `[B, V, d]`.
        backward: runs the backward pass of a scalar (the accelerator's, with its loss scaling).
        no_sync: a context in which gradients are not synchronised between processes.
        chunks: how the batch is cut.
        parameters: trained parameters of `loss_fn`. Their gradients are added with those of the last chunk.
        words: returns the part of the loss that is due to the words of some rows (`models.words.Words.parts`), given
            their embeddings `[n, d]` and their numbers. A sum over rows needs no cache: it is added in the replay.
    """
    shape = batch["input_ids"].shape[:2]
    cut, buckets = chunks.cut(batch)
    states, chunk_views = [], []
    with torch.no_grad():
        for rows in cut:
            ids = rows["input_ids"]
            states.append((torch.get_rng_state(), get_device_states(ids) if ids.is_cuda else ([], [])))
            chunk_views.append(encode(**rows))
    views = in_order(chunk_views, buckets).view(*shape, -1).requires_grad_()
    loss = loss_fn(views)
    gradient, *slopes = torch.autograd.grad(loss, [views, *parameters], materialize_grads=True)
    order = on_device(np.concatenate(buckets), gradient.device)
    gradients = gradient.flatten(0, 1)[order].split([len(rows) for rows in buckets])
    loss = loss.detach()
    for i, (rows, numbers, (host, device), upstream) in enumerate(zip(cut, buckets, states, gradients, strict=True)):
        last = i == len(cut) - 1
        with contextlib.nullcontext() if last else no_sync():
            torch.set_rng_state(host)
            set_device_states(*device)
            embeddings = encode(**rows)
            total = (embeddings.to(upstream.dtype) * upstream).sum()
            if words is not None:
                words_loss = words(embeddings, numbers)
                total, loss = total + words_loss, loss + words_loss.detach()
            for parameter, slope in zip(parameters, slopes, strict=True) if last else ():
                total = total + (parameter * slope).sum()
            if total.requires_grad:  # else the encoder is frozen, and only the loss has trained weights
                backward(total)
    return loss, views.detach()


@torch.no_grad()
def encode_chunks(batch: Batch, encode: Callable[..., Tensor], chunks: Chunks) -> Tensor:
    """Encode a batch in chunks as `gradcache_step` does, without gradient: `[B, V, d]`."""
    cut, buckets = chunks.cut(batch)
    return in_order([encode(**rows) for rows in cut], buckets).view(*batch["input_ids"].shape[:2], -1)


@contextlib.contextmanager
def sparse_look_ups(model: nn.Module) -> Iterator[None]:
    """In this block, backpropagation adds to the gradient of a look-up table only the rows that were looked up.

    Otherwise torch makes a gradient as large as the table for each chunk: 384 MB for 250,000 words of 384 numbers. A
    batch of 512 in chunks of 64 took 1.32 times as long with that table on two cores, and short texts with 30,000 words
    1.05 times. The table must have a gradient, that of an earlier chunk, because optimizers take no sparse one. On a
    GPU, where the host would have to wait for the number of rows, nothing changes.

    Example:
        >>> table = nn.Embedding(9, 2)
        >>> table.weight.grad = torch.zeros(9, 2)
        >>> with sparse_look_ups(nn.Sequential(table)):
        ...     table(torch.tensor([4, 4])).sum().backward()
        >>> table.sparse, table.weight.grad.is_sparse, table.weight.grad[4].tolist()
        (False, False, [2.0, 2.0])
    """
    tables = []  # whose gradient is dense, on a CPU, so that torch can add a sparse one to it
    for module in model.modules():
        if isinstance(module, nn.Embedding) and not module.sparse and not module.scale_grad_by_freq:
            gradient = getattr(dict(module.named_parameters(recurse=False)).get("weight"), "grad", None)
            if gradient is not None and gradient.layout == torch.strided and gradient.device.type == "cpu":
                tables.append(module)
    for table in tables:
        table.sparse = True
    try:
        yield
    finally:
        for table in tables:
            table.sparse = False
