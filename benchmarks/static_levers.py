"""What improves the static encoder of the package, after its training: one change per row, on four STS sets.

    python benchmarks/static_levers.py DATA --output docs/static_levers.csv
    python benchmarks/static_levers.py --table docs/static_levers.csv        # print the file's table, measure nothing

DATA is a folder with `senteval/` and `wikipedia.parquet`. Spearman x100 over all pairs of each set; a change may be
chosen by STS-B dev. Shares of tokens, mean and principal directions are those of 100,000 sentences of Wikipedia.
A change is made to the rows of the matrix or the vectors of the sentences; nothing is trained.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.stats import spearmanr

from contrastive_st.evaluation.tasks import choose
from contrastive_st.files.folders import SHIPPED
from contrastive_st.models.static_encoder import StaticEncoder, count_rows
from contrastive_st.static_vectors import StaticVectors
from contrastive_st.vectors import unit_vectors

SETS = ("STS12", "STS14", "STS15", "STS-B")
COLUMNS = ("STS-B dev", *SETS, "mean")
Array = NDArray[np.float32]
Lever = tuple[
    str, Array, Callable[[Array], Array]
]  # its name, the table, and what becomes of a sentence's unit vectors


def same(vectors: Array) -> Array:
    """No change."""
    return vectors


def int4(table: Array, group: int) -> Array:
    """The table as four bits a number and a scale for each group of a row, read back."""
    parts = table.reshape(len(table), -1, group)
    scales = np.abs(parts).max(2, keepdims=True) / 7
    return (np.round(parts / np.where(scales > 0, scales, 1)) * scales).reshape(table.shape).astype(np.float32)


def levers(table: Array, counts: Any, shares: Array) -> Iterator[Lever]:
    """Each change; `counts [n, V]` are those of sentences that no set has, `shares [V]` those of their tokens."""
    yield "none", table, same
    for a, power in ((1e-2, 0.25), (1e-2, 1), (1e-3, 0.25), (1e-3, 1)):
        weights = (a / (a + shares)) ** power
        yield f"rarer tokens weigh more, (a / (a + p))^{power:g}, a = {a:g}", table * weights[:, None], same
    norms = np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    for power in (-0.2, 0.2):
        yield f"rows times their norm^{power:g}", table * norms**power, same
    vectors = unit_vectors(np.asarray(counts @ table, np.float32))
    mean, (values, directions) = vectors.mean(0), np.linalg.eigh(np.cov(vectors.T))
    values, directions = values[::-1], directions[:, ::-1]
    yield "mean embedding subtracted", table, lambda x: x - mean
    for k, label in ((1, "first component removed"), (2, "first 2 components removed")):
        first = directions[:, :k]
        yield label, table, lambda x, first=first: x - x @ first @ first.T
    for power in (0.1, 0.3):
        yield (
            f"whitened to the power {power:g}",
            table,
            lambda x, power=power: (x @ directions) * values ** (-power / 2),
        )
    for dim in (64, 128, 192):
        yield f"{dim} of 256 dimensions", table @ directions[:, :dim], same
    for group in (32, 256):
        yield f"int4, a scale for {group} numbers", int4(table, group), same


def figures(lever: Lever, sets: dict[str, tuple[Any, Any, NDArray[Any]]]) -> dict[str, str]:
    """The row of a change."""
    name, table, change = lever
    found = {}
    for of, (first, second, gold) in sets.items():
        a, b = (unit_vectors(change(unit_vectors(np.asarray(own @ table, np.float32)))) for own in (first, second))
        found[of] = 100 * spearmanr((a * b).sum(1), gold).statistic
    found["mean"] = np.mean([found[of] for of in SETS])
    return {"change": name, **{column: f"{found[column]:.2f}" for column in COLUMNS}}


def read_sets(data: Path, count: Callable[[list[str]], Any]) -> dict[str, tuple[Any, Any, NDArray[Any]]]:
    """The token counts of both sides of all pairs of each set, and the scores."""
    found = {}
    for name in COLUMNS[:-1]:
        splits = choose(name.partition(" ")[0].replace("-", ""))[0].load(data)
        dev, test = name.endswith("dev"), name.startswith("STS-B")
        parts = [splits["dev" if dev else "test"]] if test else list(splits.rows.values())
        sides = ([text for part in parts for text in part.columns[side]] for side in (0, 1))
        first, second = map(count, sides)
        found[name] = first, second, np.concatenate([part.labels for part in parts])
    return found


def table_of(path: Path) -> str:
    """The file as a table of a page."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = [f"| {' | '.join(rows[0])} |", "|---|" + "--:|" * len(COLUMNS)]
    return "\n".join([*lines, *(f"| {' | '.join(row.values())} |" for row in rows)])


def main() -> None:
    """Measure each change, write the file and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="folder of the data sets")
    parser.add_argument("--output", type=Path, default=Path("static_levers.csv"))
    parser.add_argument("--table", type=Path, help="print the table of this file, and measure nothing")
    args = parser.parse_args()
    if not args.table:
        encoder = StaticVectors.from_pretrained(SHIPPED)
        count = lambda texts: count_rows(encoder.token_rows(texts), encoder.vocabulary_size)
        column = pq.read_table(args.data / "wikipedia.parquet", columns=["text"])["text"]
        drawn = np.random.default_rng(0).choice(len(column), 100_000, replace=False)
        texts, sets = column.take(drawn).to_pylist(), read_sets(args.data, count)
        tokens = np.concatenate(encoder.token_rows(texts))
        shares = np.bincount(tokens, minlength=encoder.vocabulary_size) / len(tokens)
        table = StaticEncoder.from_pretrained(SHIPPED).table().detach().numpy()
        with open(args.output, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ("change", *COLUMNS))
            writer.writeheader()
            writer.writerows(figures(lever, sets) for lever in levers(table, count(texts), shares))
    print(table_of(args.table or args.output))


if __name__ == "__main__":
    main()
