"""Two named columns of a table of 30 columns: time and peak memory of `read_examples` and of pyarrow alone.

    python benchmarks/reading.py --rows 1000000

Both read the same file and end with Python strings; pyarrow with `include_columns`, or `columns` for Parquet. Each
round is a process per system and format, in alternating order; memory is what the process grows by after its imports.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

NAMES = {"anchor": 1, "positive": 7}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        system, path = args.worker
        print(json.dumps(write(args.rows, path) if system == "write" else measure(system, path)))
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/rows.csv", f"{folder}/rows.parquet"]
        for path in paths:
            subprocess.run([sys.executable, __file__, "--rows", str(args.rows), "--worker", "write", path], check=True)
        runs: dict[tuple[str, str], list[list[float]]] = {}
        for number in range(args.rounds):
            for path in paths:
                for system in ("pyarrow", "read_examples")[:: 1 if number % 2 else -1]:
                    command = [sys.executable, __file__, "--worker", system, path]
                    result = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                    runs.setdefault((Path(path).suffix, system), []).append(result)
        for kind in (".csv", ".parquet"):
            ours, theirs = (np.array(runs[kind, system]) for system in ("read_examples", "pyarrow"))
            seconds, cpu, memory = (statistics.median(column) for column in (ours / theirs).T)
            print(f"{kind}: {seconds:.2f} times the seconds, {cpu:.2f} the CPU seconds, {memory:.2f} the memory")


def write(rows: int, path: str) -> None:
    """Write two columns of sentences, a third of them with a comma, and 28 of numbers and words; and ten such rows."""
    random = np.random.default_rng(0)
    words = np.array(["the", "of", "a", "cat", "runs", "over", "hill", "river", "says", "yes", "whose", "book", "lies"])
    texts = [" ".join(words[random.integers(0, len(words), 7)]) + ", so" * (i % 3 == 0) for i in range(5000)]
    columns = {name: [f"{texts[i * step % 5000]} {i}" for i in range(rows)] for name, step in NAMES.items()}
    for number in range(28):
        values = np.arange(rows) % (97 + number)
        columns[f"c{number}"] = values if number % 2 else np.char.add("word", (values % 13).astype(str))
    for name, table in ((path, pa.table(columns)), (f"{path}.warm{Path(path).suffix}", pa.table(columns).slice(0, 10))):
        pa.csv.write_csv(table, name) if path.endswith(".csv") else pq.write_table(table, name)


def measure(system: str, path: str) -> list[float]:
    """Seconds, CPU seconds and MiB of reading a file, after ten rows have been read."""
    read = {"read_examples": with_read_examples, "pyarrow": with_pyarrow}[system]
    read(f"{path}.warm{Path(path).suffix}")
    before, began, cpu = memory(), time.perf_counter(), time.process_time()
    texts = read(path)
    result = [time.perf_counter() - began, time.process_time() - cpu, memory() - before]
    assert len(texts[0]) == len(texts[1]) > 10
    return result


def with_read_examples(path: str) -> list[list[str]]:
    from contrastive_st.data import read_examples

    rows, _ = read_examples(path, list(NAMES))
    return [rows[name][:] for name in NAMES]


def with_pyarrow(path: str) -> list[list[str]]:
    if path.endswith(".csv"):
        table = pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(include_columns=list(NAMES)))
    else:
        table = pq.read_table(path, columns=list(NAMES))
    return [table[name].to_pylist() for name in NAMES]


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
