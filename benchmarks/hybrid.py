"""Hybrid search: its speed and vectors alone, and its ranking and each of its halves.

    python benchmarks/hybrid.py speed DATA STORE [--rows 100000] [--queries 200]
    python benchmarks/hybrid.py ranking DATA [--model MODEL]

`speed` indexes passages of about 110 words of wikipedia.parquet in STORE, a new folder, and asks queries of one to
eight consecutive words of them, alternating between vectors, words and both. `ranking` prints nDCG@10, and the
difference between both and the better half with its 95% interval: questions of qqp/ that mean the same, and the
descriptions of installed manual pages.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from contrastive_st.evaluation.scorers.retrieval import mean_interval
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.filters import as_filter
from contrastive_st.search.postgres.store import VectorStore
from machine import machine

Task = tuple[list[str], list[tuple[str, int]]]  # documents; queries, each with the number of its document
SHARD = 16_384


def passages(data: Path, rows: int) -> list[str]:
    """Passages of about 110 words, of consecutive sentences."""
    result, sentences, words = list[str](), list[str](), 0
    for sentence in pq.read_table(data / "wikipedia.parquet")["text"].to_pylist():
        sentences.append(sentence)
        words += sentence.count(" ") + 1
        if words >= 105:
            result.append(" ".join(sentences))
            sentences, words = [], 0
        if len(result) == rows:
            break
    return result


def speed(data: Path, place: str, rows: int, queries: int) -> None:
    encoder, texts, draw = open_encoder(None), passages(data, rows), random.Random(0)
    started = time.perf_counter()
    vectors = encoder.encode_document(texts)
    encoded = time.perf_counter()
    made = {"model": encoder.name, "fingerprint": encoder.fingerprint, "dimension": encoder.dimension}
    with VectorStore.create(place, "speed", **made) as store:
        loader = store.loader("wikipedia", "1")
        for shard, first in enumerate(range(0, len(texts), SHARD)):
            part = slice(first, first + SHARD)
            ids = np.arange(len(texts))[part]
            loader.claim(shard)
            loader.add(shard, (ids, texts[part], [{} for _ in ids], vectors[part]))
        loader.close()
        loaded = time.perf_counter()
        store.build_index()
        built = time.perf_counter()
        print(f"{len(texts):,} documents: encode {encoded - started:.0f} s, load {loaded - encoded:.0f} s, "
              f"build {built - loaded:.0f} s")  # fmt: skip
        seconds: dict[str, list[float]] = {"vectors": [], "words": [], "both": []}
        for _ in range(queries):
            words = draw.choice(texts).split()
            first, count = draw.randrange(max(len(words) - 8, 1)), draw.randint(1, 8)
            text = " ".join(words[first : first + count])
            vector = encoder.encode_query([text])[0]

            def by_words(connection: Any, now: Any, text: str = text) -> Any:
                return now._by_words(connection, text, 10, as_filter(None), few=False)

            ways = (lambda: store.search(vector), lambda: store.read(by_words), lambda: store.search(vector, text=text))  # noqa: B023
            for name, way in zip(seconds, ways, strict=True):
                started = time.perf_counter()
                way()
                seconds[name].append(1000 * (time.perf_counter() - started))
        for name, times in seconds.items():
            print(f"{name}: p50 {np.median(times):.2f} ms, p95 {np.percentile(times, 95):.2f} ms")


def questions(data: Path) -> Task:
    """Pairs of questions that mean the same, among the second ones of all pairs."""
    numbers, queries = dict[str, int](), list[tuple[str, int]]()
    for name in ("quora_train.txt", "quora_test.txt"):
        with open(data / "qqp" / name, newline="", encoding="utf-8") as lines:
            for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                if len(row) == 3 and row[0] in "01":
                    number = numbers.setdefault(row[2].strip(), len(numbers))
                    queries += [(row[1], number)] if row[0] == "1" else []
    random.Random(0).shuffle(queries)
    return list(numbers), queries[:1000]


def manual_pages() -> Task:
    """Pages without their first section; its description is the query."""
    documents, queries = dict[str, int](), list[tuple[str, int]]()
    for path in sorted(Path("/usr/share/man").glob("man*/*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            text = re.sub(r"\\f(\[[^]]*\]|\(..|.)|\\s[-+]?\d", "", file.read()).replace("\\-", "-")
        head = re.search(r'\.SH "?NAME"?\s*\n(.*?) - (.*?)\n\.SH', text, re.DOTALL)
        body = re.sub(r"^[.'][^ \n]* ?", "", text[head.end() :], flags=re.MULTILINE)[:6000] if head else ""
        if len(body) > 200 and body not in documents:
            documents[body] = len(documents)
            queries.append((" ".join(head[2].split()), documents[body]))  # type: ignore[index]
    random.Random(0).shuffle(queries)
    return list(documents), queries[:1000]


def ranking(data: Path, model: str | None) -> None:
    encoder = open_encoder(model)
    for name, (texts, queries) in {"questions": questions(data), "manual pages": manual_pages()}.items():
        if not queries:
            continue
        index = ExactIndex(range(len(texts)), texts, encoder.encode_document(texts))
        gains: dict[str, list[float]] = {"vectors": [], "words": [], "both": []}
        for (text, wanted), vector in zip(queries, encoder.encode_query([text for text, _ in queries]), strict=True):
            if not vector.any():
                continue
            for way, ids in {
                "vectors": [hit.id for hit in index.search(vector)[0]],
                "words": index._by_words(text, 10, None)[0].tolist(),
                "both": [hit.id for hit in index.search(vector, text=text)[0]],
            }.items():
                gains[way].append(1 / np.log2(ids.index(wanted) + 2) if wanted in ids else 0.0)
        better = max(("vectors", "words"), key=lambda way: sum(gains[way]))
        mean, low, high = mean_interval(np.array(gains["both"]) - np.array(gains[better]))
        shown = ", ".join(f"{way} {np.mean(values):.3f}" for way, values in gains.items())
        print(f"{name} ({len(texts):,}, {len(gains['both']):,} queries): nDCG@10 of {shown}; "
              f"both - {better} {mean:+.3f} [{low:+.3f}, {high:+.3f}]", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "ranking"])
    parser.add_argument("data", type=Path)
    parser.add_argument("store", nargs="?")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--model")
    args = parser.parse_args()
    print(machine())
    if args.part == "speed":
        speed(args.data, args.store, args.rows, args.queries)
    else:
        ranking(args.data, args.model)


if __name__ == "__main__":
    main()
