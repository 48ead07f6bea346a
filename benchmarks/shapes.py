"""What a shape costs that oneDNN has not met: the first product of it against the next ones, on a CPU.

    python benchmarks/shapes.py [--width 384]

Prints milliseconds of the linear layers of a transformer layer, in bfloat16, for about 1,024 tokens: medians over
shapes. This is why `tokens.py` gives buckets few different shapes.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import torch


def milliseconds(layer: torch.nn.Linear, x: torch.Tensor, repeats: int = 1) -> float:
    """Of one product."""
    started = time.perf_counter()
    for _ in range(repeats):
        layer(x)
    return 1000 * (time.perf_counter() - started) / repeats


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--shapes", type=int, default=20)
    args = parser.parse_args()
    random.seed(0)
    print("| layer | first of its shape, ms | next, ms | ratio |\n|---|--:|--:|--:|")
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        for name, d, out in (("attention", 1, 1), ("feed-forward, up", 1, 4), ("feed-forward, down", 4, 1)):
            layer = torch.nn.Linear(d * args.width, out * args.width)
            layer(torch.randn(8, layer.in_features))  # the weights are cast before the clock runs
            inputs = [
                torch.randn(n, layer.in_features).bfloat16() for n in random.sample(range(960, 1088), args.shapes)
            ]
            first, after = zip(*[(milliseconds(layer, x), milliseconds(layer, x, 5)) for x in inputs], strict=True)
            before, then = statistics.median(first), statistics.median(after)
            print(f"| {name} | {before:.1f} | {then:.1f} | {before / then:.1f} |")


if __name__ == "__main__":
    main()
