"""Attention on a CPU, forward and backward, without dropout: the fused kernel against plain products.

    OMP_NUM_THREADS=2 python benchmarks/attention.py

4,096 tokens in rows of each length, 12 heads of 32, as all-MiniLM-L6-v2 has; the better of three rounds of five, the
kernels in turns. `contrastive_st.models.cpu.training_attention` takes plain products in bfloat16 up to 128 tokens.
"""

import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

KERNELS = {"fused": SDPBackend.FLASH_ATTENTION, "plain": SDPBackend.MATH}


def seconds(length: int, dtype: torch.dtype, kernel: SDPBackend) -> float:
    shape = (4096 // length, 12, length, 32)
    q, k, v = (torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3))
    mask = torch.ones(shape[0], 1, length, length, dtype=torch.bool)
    with sdpa_kernel(kernel):
        started = time.perf_counter()
        for _ in range(5):
            scaled_dot_product_attention(q, k, v, attn_mask=mask).sum().backward()
    return (time.perf_counter() - started) / 5


def main() -> None:
    print("tokens | bfloat16: fused, plain, ratio | float32: fused, plain, ratio (ms)")
    for length in (8, 16, 32, 64, 128, 256):
        cells = []
        for dtype in (torch.bfloat16, torch.float32):
            rounds = [{name: seconds(length, dtype, own) for name, own in KERNELS.items()} for _ in range(3)]
            fused, plain = (1e3 * min(own[name] for own in rounds) for name in KERNELS)
            cells.append(f"{fused:.0f}, {plain:.0f}, {fused / plain:.1f}")
        print(f"{length:6} | " + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
