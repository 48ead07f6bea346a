"""The GradCache step: the loss of a whole batch, with the memory of one chunk.

    1. encode   every chunk without gradient, remembering the random state before it
    2. loss     of the views of the whole batch, and its gradient with respect to them
    3. replay   every chunk with gradient and the same dropout masks, and push its views' gradients through it

The chain rule makes that the gradient of the plain step, exactly. What is held of the encoder is one chunk's
activations, whatever the batch size. The idea is GradCache's (Gao et al. 2021, https://arxiv.org/abs/2101.06983).
Under DDP only the last chunk synchronises: one gradient all-reduce a step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contrastive_st.tokens import bucket_rows


def gradcache_step(
    batch: dict[str, Tensor],
    encode: Callable[..., Tensor],
    loss_fn: Callable[[Tensor], Tensor],
    backward: Callable[[Tensor], None],
    no_sync: Callable[[], contextlib.AbstractContextManager[Any]],
    chunk_size: int | None = None,
    chunk_tokens: int | None = None,
    parameters: Sequence[Tensor] = (),
    even: bool = False,
) -> tuple[Tensor, Tensor]:
    """Accumulate the gradient of one batch; returns the loss and the views `[B, V, d]`, both detached.

    Args:
        batch: tensors `[B, V, L]`, `input_ids` and `attention_mask` among them.
        encode: rows `[n, l]` to embeddings `[n, d]`, under whatever autocast or wrapper trains the model.
        loss_fn: views `[B, V, d]` to the loss.
        backward: runs the backward pass of a scalar (the accelerator's, with its loss scaling).
        no_sync: a context in which gradients are not synchronised between processes.
        chunk_size: most texts a chunk.
        chunk_tokens: most tokens a chunk, padding included.
        parameters: what `loss_fn` has of its own to train. Their gradients go with the last chunk's.
        even: as many chunks on every process that holds as many rows, whatever their lengths: where weights are
            sharded (FSDP), each forward pass is one of all processes.
    """
    shape = batch["input_ids"].shape[:2]
    chunks, order = cut_chunks(batch, chunk_size, chunk_tokens, even)
    states, chunk_views = [], []
    with torch.no_grad():
        for rows in chunks:
            states.append(random_state(order.device))
            chunk_views.append(encode(**rows))
    views = torch.cat(chunk_views)[order.argsort()].view(*shape, -1).requires_grad_()
    loss = loss_fn(views)
    gradient, *own = torch.autograd.grad(loss, [views, *parameters], materialize_grads=True)
    gradients = gradient.flatten(0, 1)[order].split([len(rows) for rows in chunk_views])
    for i, (rows, state, wanted) in enumerate(zip(chunks, states, gradients, strict=True)):
        last = i == len(chunks) - 1
        with contextlib.nullcontext() if last else no_sync(), replayed(state):
            embeddings = encode(**rows)
            total = (embeddings.to(wanted.dtype) * wanted).sum()
            for parameter, slope in zip(parameters, own, strict=True) if last else ():
                total = total + (parameter * slope).sum()
            backward(total)
    return loss.detach(), views.detach()


@torch.no_grad()
def encode_chunks(
    batch: dict[str, Tensor],
    encode: Callable[..., Tensor],
    chunk_size: int | None = None,
    chunk_tokens: int | None = None,
) -> Tensor:
    """Views `[B, V, d]` without gradient, a chunk at a time; for the arguments see `gradcache_step`."""
    chunks, order = cut_chunks(batch, chunk_size, chunk_tokens)
    flat = torch.cat([encode(**rows) for rows in chunks])
    return flat[order.argsort()].view(*batch["input_ids"].shape[:2], -1)


def cut_chunks(
    batch: dict[str, Tensor], chunk_size: int | None = None, chunk_tokens: int | None = None, even: bool = False
) -> tuple[list[dict[str, Tensor]], Tensor]:
    """The rows of a batch `[B, V, L]` in chunks `[n, l]` of similar length, and the rows' numbers in that order."""
    rows = {name: tensor.flatten(0, 1) for name, tensor in batch.items()}
    lengths = rows["attention_mask"].sum(1).cpu().numpy()
    limits = {"max_rows": chunk_size or len(lengths), "max_tokens": chunk_tokens or 1 << 62}
    buckets = bucket_rows(lengths, max_padding=1.0, **limits) if even else bucket_rows(lengths, **limits)
    order = torch.from_numpy(np.concatenate(buckets)).to(rows["input_ids"].device)
    chunks = []
    for bucket, index in zip(buckets, order.split([len(bucket) for bucket in buckets]), strict=True):
        longest = max(int(lengths[bucket[0]]), 1)
        chunks.append({name: tensor[index, :longest] for name, tensor in rows.items()})
    return chunks, order


def random_state(device: torch.device) -> list[Tensor]:
    """The state of the generators that dropout on `device` draws from."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return states


@contextlib.contextmanager
def replayed(states: list[Tensor]) -> Iterator[None]:
    """Draw the same random numbers as from `states` on, then go on from there as the first time did."""
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1])
    yield
