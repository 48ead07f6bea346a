"""Attention of a training step on a CPU in bfloat16, forward and backward: torch's kernels and `plain_attention`.

    OMP_NUM_THREADS=2 python benchmarks/attention.py

4,096 tokens in rows of each length, 12 heads of 32, as all-MiniLM-L6-v2 has; milliseconds, the best of five rounds with
the kernels take turns. `contrastive_st.speed.attention.training_attention` takes `plain_attention` up to 128 tokens.
"""

import time
from collections.abc import Callable
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from contrastive_st.speed.attention import plain_attention


def of_torch(backend: SDPBackend) -> Callable[..., torch.Tensor]:
    """torch's attention with one of its kernels."""

    def attention(*args: torch.Tensor, **options: float) -> torch.Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(*args, **options)

    return attention


PRODUCTS = of_torch(SDPBackend.MATH)
KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "torch, fused": of_torch(SDPBackend.FLASH_ATTENTION),
    "torch, products": PRODUCTS,
    "plain_attention": plain_attention,
    "torch, products, dropout 0.1": partial(PRODUCTS, dropout_p=0.1),
    "plain_attention, dropout 0.1": partial(plain_attention, dropout_p=0.1),
}


def milliseconds(length: int, kernel: Callable[..., torch.Tensor]) -> float:
    """Time of a forward and backward pass."""
    shape = (4096 // length, 12, length, 32)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    mask = torch.ones(shape[0], 1, length, length, dtype=torch.bool)
    started = time.perf_counter()
    kernel(q, k, v, mask).sum().backward()
    return 1e3 * (time.perf_counter() - started)


def main() -> None:
    """Measure and print."""
    print(f"| tokens | {' | '.join(KERNELS)} |\n|---:|{'---:|' * len(KERNELS)}")
    for length in (8, 16, 32, 64, 128, 256):
        rounds = [[milliseconds(length, kernel) for kernel in KERNELS.values()] for _ in range(6)][1:]
        best = [f"{min(times):.0f}" for times in zip(*rounds, strict=True)]
        print(f"| {length} | {' | '.join(best)} |", flush=True)


if __name__ == "__main__":
    main()
