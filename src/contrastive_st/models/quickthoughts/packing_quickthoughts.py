"""Batches without padding, and a GRU over them. Saved beside checkpoints: it imports torch alone."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence


class Packing:
    """The T real words of a batch in the order of a `PackedSequence`: rows by falling length, word after word.

    Every first word comes first, then every second word, and so on. Padding may stand anywhere in a row. Rows
    without a word are left out.

    Args:
        attention_mask: `[N, L]`, not zero on real words.

    Example:
        >>> packing = Packing(torch.tensor([[1, 0, 0], [1, 1, 1], [0, 0, 0]]))
        >>> packing.source.tolist(), packing.sizes.tolist()
        ([3, 0, 4, 5], [2, 1, 1])
    """

    def __init__(self, attention_mask: Tensor) -> None:
        mask = attention_mask != 0
        self.shape = mask.shape
        lengths = mask.sum(1)
        self.order = lengths.argsort(descending=True, stable=True)[: int((lengths > 0).sum())]  # [n], longest first
        self.lengths = lengths[self.order]
        steps = torch.arange(int(self.lengths[0]) if len(self.lengths) else 0, device=mask.device)
        self.sizes = (self.lengths > steps[:, None]).sum(1)  # [steps] rows that have a word there
        starts = self.sizes.cumsum(0) - self.sizes
        rank = torch.zeros_like(lengths)
        rank[self.order] = torch.arange(len(self.order), device=mask.device)
        row, column = mask.nonzero(as_tuple=True)
        step = (mask.cumsum(1) - 1)[row, column]
        place = starts[step] + rank[row]
        back = place.argsort()
        self.source = (row * mask.shape[1] + column)[back]  # [T] places in the flat batch
        self.rank, step = rank[row][back], step[back]  # [T] place of the row in `order`
        self.cell = self.rank * len(steps) + step  # [T] places in the flat `pad`
        self.flip = starts[self.lengths[self.rank] - 1 - step] + self.rank  # [T] the same rows read backwards
        self.last = starts[self.lengths - 1] + torch.arange(len(self.order), device=mask.device)  # [n]

    def pad(self, packed: Tensor, value: float = 0.0) -> Tensor:
        """Packed `[T, d]` to `[n, steps, d]`, the rows in the order of `order`."""
        rows, steps, width = len(self.order), len(self.sizes), packed.shape[1]
        return packed.new_full((rows * steps, width), value).index_copy(0, self.cell, packed).view(rows, steps, width)

    def unpack(self, packed: Tensor) -> Tensor:
        """Packed `[T, d]` to the batch's own `[N, L, d]`, zero on padding."""
        flat = packed.new_zeros(self.shape.numel(), packed.shape[1]).index_copy(0, self.source, packed)
        return flat.view(*self.shape, packed.shape[1])

    def rows(self, found: Tensor) -> Tensor:
        """One vector for each row of `order`, `[n, d]`, to `[N, d]`; zero for a row without words."""
        return found.new_zeros(self.shape[0], found.shape[1]).index_copy(0, self.order, found)


class PackedGRU(nn.GRU):
    """`nn.GRU` on packed words `[T, d]`: the same parameters, values and gradients, faster on a CPU.

    The input projection is one product, and so is the gradient of the recurrent weight, which torch adds up step by
    step. Under bf16 autocast the products are in bf16 and the state stays in float32.
    """

    def forward(self, words: Tensor, packing: Packing) -> Tensor:  # type: ignore[override]
        if words.device.type != "cpu":
            return run_packed(super().forward, words, packing)
        sizes = packing.sizes.tolist()
        for layer in range(self.num_layers):
            if layer:
                words = functional.dropout(words, self.dropout, self.training)
            read = [self._read(words, sizes, f"l{layer}")]
            if self.bidirectional:
                read.append(self._read(words[packing.flip], sizes, f"l{layer}_reverse")[packing.flip])
            words = torch.cat(read, dim=1)
        return words

    def _read(self, words: Tensor, sizes: list[int], name: str) -> Tensor:
        inputs, recurrent = (
            (getattr(self, f"weight_{kind}_{name}"), getattr(self, f"bias_{kind}_{name}")) for kind in ("ih", "hh")
        )
        half = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else words.dtype
        return _Recurrence.apply(functional.linear(words, *inputs), *recurrent, sizes, half)


class PackedLSTM(nn.LSTM):
    """`nn.LSTM` on packed words `[T, d]`."""

    def forward(self, words: Tensor, packing: Packing) -> Tensor:  # type: ignore[override]
        return run_packed(super().forward, words, packing)


def run_packed(module: Any, words: Tensor, packing: Packing) -> Tensor:
    """Run one of torch's recurrent modules on packed words `[T, d]`."""
    if not len(words):
        words = torch.cat([words, words.new_zeros(1, words.shape[1])])  # torch refuses a batch without words
        return module(PackedSequence(words, torch.ones(1, dtype=torch.long)))[0].data[:0]
    return module(PackedSequence(words, packing.sizes.cpu()))[0].data


class _Recurrence(torch.autograd.Function):
    """The states `[T, h]` of a GRU layer, from its projected inputs `[T, 3h]` (reset, update, new)."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, sizes: list[int], product: torch.dtype
    ) -> Tensor:
        width = weight.shape[1]
        exact = torch.promote_types(weight.dtype, torch.float32)
        states = inputs.new_empty(len(inputs), width, dtype=exact)
        gates, hidden = torch.empty_like(inputs), inputs.new_empty(len(inputs), width)
        weight_, bias_ = weight.to(product), bias.to(product)
        state, start = states.new_zeros(sizes[0] if sizes else 0, width), 0
        for size in sizes:
            at, state = slice(start, start + size), state[:size]
            seen, gate = functional.linear(state.to(product), weight_, bias_), gates[at]
            hidden[at] = seen[:, 2 * width :]
            gate[:, : 2 * width] = (inputs[at, : 2 * width] + seen[:, : 2 * width]).sigmoid_()
            gate[:, 2 * width :] = torch.addcmul(inputs[at, 2 * width :], gate[:, :width], hidden[at]).tanh_()
            _, update, new = gate.to(exact).chunk(3, 1)
            states[at] = state = torch.lerp(new, state, update)
            start += size
        ctx.save_for_backward(weight_, gates, hidden, states)
        ctx.sizes, ctx.parameter = sizes, weight.dtype
        return states.to(weight.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        weight, gates, hidden, states = ctx.saved_tensors
        width, end = weight.shape[1], len(grad)
        before = torch.zeros_like(states, dtype=weight.dtype)  # the state that each step starts from
        d_inputs, d_seen = torch.empty_like(gates), torch.empty_like(gates, dtype=weight.dtype)
        carried = states.new_zeros(0, width)
        for step in reversed(range(len(ctx.sizes))):
            size = ctx.sizes[step]
            at = slice(end - size, end)
            end -= size
            d_state = grad[at].to(states.dtype, copy=True)
            d_state[: len(carried)] += carried
            reset, update, new = gates[at].to(states.dtype).chunk(3, 1)
            state = torch.zeros_like(d_state)
            if step:
                state = states[end - ctx.sizes[step - 1] :][:size]
                before[at] = state
            d_new = d_state * (1 - update) * (1 - new * new)
            d_update = d_state * (state - new) * update * (1 - update)
            d_reset = d_new * hidden[at] * reset * (1 - reset)
            d_inputs[at] = torch.cat([d_reset, d_update, d_new], 1)
            d_seen[at] = torch.cat([d_reset, d_update, d_new * reset], 1)
            if step:
                carried = d_state * update + d_seen[at] @ weight
        d_weight = (d_seen.T @ before).to(ctx.parameter)
        return d_inputs, d_weight, d_seen.sum(0, dtype=states.dtype).to(ctx.parameter), None, None
