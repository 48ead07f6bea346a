"""Texts and pairs to distil on: Wikipedia, novels, SNLI, MultiNLI, less the sentences of evaluation sets.

    python benchmarks/distillation_texts.py DATA OUT [--wikipedia 24000] [--novels 12000]

reads DATA/wikipedia.parquet, novels.parquet (columns text, doc), nli/pairs.tsv (premise, hypothesis, label),
nli/triplets.csv, senteval/ and qqp/, and writes OUT/texts.parquet and OUT/pairs.jsonl. A training sentence whose
letters and digits are those of a sentence of any evaluation set, whatever its case and punctuation, is dropped; the
counts are printed.
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = (4, 50)  # of a sentence of Wikipedia or a novel


def normal(text: str) -> str:
    """Letters and digits alone."""
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def lines(path: Path) -> list[str]:
    """Lines of a file in UTF-8, or in Latin-1 where it is not."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        return data.decode("latin-1").splitlines()


def evaluation_sentences(data: Path) -> dict[str, set[str]]:
    """The normalised sentences of each evaluation set."""
    downstream = data / "senteval"
    cells: dict[str, tuple[Iterator[Path], Callable[[str], list[str]]]] = {
        "STS12-16": ((downstream / "STS").rglob("STS.input.*.txt"), lambda line: line.split("\t")[:2]),
        "STSB": ((downstream / "STS" / "STSBenchmark").glob("*.csv"), lambda line: line.split("\t")[5:7]),
        "SICK": ((downstream / "SICK").glob("*.txt"), lambda line: line.split("\t")[1:3]),
        "MR": ((downstream / "MR").glob("*"), lambda line: [line]),
        "CR": ((downstream / "CR").glob("*"), lambda line: [line]),
        "SST2": ((downstream / "SST" / "binary").glob("*"), lambda line: line.split("\t")[:1]),
        "TREC": ((downstream / "TREC").glob("*"), lambda line: [line.partition(" ")[2]]),
        "MRPC": ((downstream / "MRPC").glob("*.txt"), lambda line: line.split("\t")[3:5]),
        "QQP": ((data / "qqp").glob("*.txt"), lambda line: line.split("\t")[1:3]),
    }
    found = {
        name: {normal(cell) for file in files for line in lines(file) for cell in split(line)} - {""}
        for name, (files, split) in cells.items()
    }
    return {name: texts for name, texts in found.items() if texts}


class Filter:
    """Lets each text through once, and no evaluation sentence."""

    def __init__(self, evaluation: dict[str, set[str]]) -> None:
        self.evaluation, self.every = evaluation, set().union(*evaluation.values())
        self.seen: set[str] = set()
        self.dropped: collections.Counter[str] = collections.Counter()

    def __call__(self, text: str, source: str) -> bool:
        own = normal(text)
        if not own or own in self.seen:
            return False
        self.seen.add(own)
        if own in self.every:
            self.dropped[source] += 1
            return False
        return True


def sampled(path: Path, most: int, keep: Filter, rng: np.random.Generator) -> list[str]:
    """At most `most` sentences of a parquet file, at random."""
    texts = pq.read_table(path, columns=["text"])["text"].to_pylist()
    found: list[str] = []
    order = rng.permutation(len(texts))
    for number in order:
        if len(found) == most:
            break
        text = texts[number]
        if WORDS[0] <= len(text.split()) <= WORDS[1] and keep(text, path.stem):
            found.append(text)
    return found


def main() -> None:
    """Write the texts and the pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wikipedia", type=int, default=24_000)
    parser.add_argument("--novels", type=int, default=12_000)
    args = parser.parse_args()
    keep = Filter(evaluation_sentences(args.data))
    pairs = [line.split("\t") for line in lines(args.data / "nli" / "pairs.tsv")[1:]]
    with open(args.data / "nli" / "triplets.csv", encoding="utf-8", newline="") as file:
        triplets = list(csv.reader(file))[1:]
    nli = [text for row in (*(pair[:2] for pair in pairs), *triplets) for text in row if keep(text, "nli")]
    rng = np.random.default_rng(15)
    wikipedia = sampled(args.data / "wikipedia.parquet", args.wikipedia, keep, rng)
    novels = sampled(args.data / "novels.parquet", args.novels, keep, rng)
    rows = [pair[:2] for pair in pairs if pair[2] == "entailment"] + [row[:3] for row in triplets]
    rows = [row for row in rows if not {normal(text) for text in row} & keep.every]
    args.out.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": [*nli, *wikipedia, *novels]}), args.out / "texts.parquet")
    with open(args.out / "pairs.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            names = ("anchor", "positive", "negative")[: len(row)]
            file.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n")
    print(f"{len(nli):,} of NLI, {len(wikipedia):,} of Wikipedia, {len(novels):,} of novels")
    print(f"{len(rows):,} pairs and triplets")
    print(f"dropped, for being evaluation sentences: {dict(keep.dropped)}")


if __name__ == "__main__":
    main()
