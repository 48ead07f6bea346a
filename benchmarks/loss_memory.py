"""Memory of InfoNCE alone: many anchors against as many candidates, forward and backward.

    python benchmarks/loss_memory.py [--rows 32768] [--width 64]

The process's peak less what it had before the loss. The matrix of scores alone would have `4 * rows^2` bytes.
"""

import argparse

import torch

from contrastive_st import InfoNCE
from contrastive_st.memory import peak_resident


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32_768)
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()
    views = torch.randn(args.rows, 2, args.width, generator=torch.Generator().manual_seed(0), requires_grad=True)
    InfoNCE()(views[:256]).backward()  # what is loaded at first use
    before = peak_resident()
    InfoNCE()(views).backward()
    used, matrix = (size / 2**30 for size in (peak_resident() - before, 4 * args.rows**2))
    print(f"{args.rows:,} x {args.rows:,} of width {args.width}: {used:.2f} GiB; the scores alone {matrix:.2f} GiB")


if __name__ == "__main__":
    main()
