"""The time and memory of two named columns of a table of a million rows and 30 columns, and of pyarrow alone.

python benchmarks/reading.py [--rows N] [--rounds N]

Each way is a process, and they alternate; the rows of pyarrow become Python strings. The last line has the ratios.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

NAMES = ["anchor", "positive"]


def peak() -> float:
    """The peak memory of this process so far, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def read(way: str, path: str) -> tuple[float, float]:
    """The seconds and the peak memory (MiB) of one way."""
    if way == "ours":
        import datasets  # noqa: F401 - as pyarrow, it is imported before the clock runs

        from contrastive_st.data.reading.examples import read_examples
    before, started = peak(), time.perf_counter()
    if way == "ours":
        rows = read_examples(path, NAMES)[0]
    elif path.endswith(".csv"):
        types = pyarrow.csv.ConvertOptions(include_columns=NAMES, column_types=dict.fromkeys(NAMES, pa.string()))
        rows = pyarrow.csv.read_csv(path, convert_options=types).to_pydict()
    else:
        rows = pq.read_table(path, columns=NAMES).to_pydict()
    seconds = time.perf_counter() - started
    del rows
    return seconds, peak() - before


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", nargs=2)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(read(*args.way)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        with path.open("w") as file:
            file.write(",".join([*NAMES, *(f"c{i}" for i in range(28))]) + "\n")
            for i in range(args.rows):
                texts = f'"why, then, is number {i} so?",because of {i * 7} and the rest'
                file.write(",".join([texts, *(str(i * k % 9973) for k in range(1, 29))]) + "\n")
        pq.write_table(pyarrow.csv.read_csv(path), path.with_suffix(".parquet"))
        for source in (path, path.with_suffix(".parquet")):
            found: dict[str, list[tuple[float, float]]] = {"pyarrow": [], "ours": []}
            for _ in range(args.rounds):
                for way, results in found.items():
                    command = [sys.executable, __file__, "--way", way, str(source)]
                    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                    results.append(json.loads(out.splitlines()[-1]))
            best = {way: [min(column) for column in zip(*results, strict=True)] for way, results in found.items()}
            shown = {way: f"{seconds:.2f} s, {memory:.0f} MiB" for way, (seconds, memory) in best.items()}
            ratios = [ours / theirs for ours, theirs in zip(best["ours"], best["pyarrow"], strict=True)]
            print(source.suffix, shown, f"ratios: time {ratios[0]:.2f}, memory {ratios[1]:.2f}")


if __name__ == "__main__":
    main()
