"""Paraphrase mining, communities and search in memory, compared with sentence-transformers: results, time and memory.

    python benchmarks/mining_functions.py wikipedia.parquet [--sentences 20000] [--model all-MiniLM-L6-v2]

The sentences are encoded once. Then each function of each library runs in separate processes, which take turns, with
the embeddings read from a file; `--rounds` times, of which the fastest counts. Printed are its seconds and the greatest
resident memory of its process (imports included), and how far the results agree: the pairs, members or hits that only
one of them has; those of them that are not ties (ties are within 1e-6 of the last score that a limit lets through); and
the greatest difference of scores of the others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

QUERIES = 2000
LIBRARIES = ("sentence-transformers", "this package")
FUNCTIONS = ("paraphrase_mining_embeddings", "community_detection", "semantic_search")


def measured(library: str, function: str, path: Path, out: Path) -> None:
    """Run one function in this process; write its results, seconds and memory."""
    if library == LIBRARIES[0]:
        from sentence_transformers import util
    else:
        from contrastive_st.search import in_memory as util  # type: ignore[no-redef]
    from contrastive_st.memory import peak_resident

    vectors = np.load(path)
    given: Any = vectors
    if library == LIBRARIES[0]:
        import torch

        given = torch.from_numpy(vectors)
    call = getattr(util, function)
    started = time.perf_counter()
    if function == "semantic_search":
        found = call(given[:QUERIES], given, top_k=10)
    elif function == "community_detection":
        found = call(given, threshold=0.75, min_community_size=3)
    else:
        found = call(given)
    seconds = time.perf_counter() - started
    out.write_text(json.dumps({"seconds": seconds, "memory": peak_resident(), "found": found}))


def scores_of(function: str, found: Any) -> dict[Any, float]:
    """The results as scores of keys: pairs, pairs of query and hit, or members with the first of their community."""
    if function == "semantic_search":
        return {(query, hit["corpus_id"]): hit["score"] for query, hits in enumerate(found) for hit in hits}
    if function == "community_detection":
        return {(group[0], member): 0.0 for group in found for member in group}
    return {(i, j): score for score, i, j in found}


def untied(function: str, theirs: dict[Any, float], ours: dict[Any, float], vectors: Any) -> int:
    """How many results only one library has, whose scores do not equal the last that a limit lets through.

    The limits are the hits of a query; and for pairs their number, and the 100 nearest of each sentence.
    """
    last: dict[Any, float] = {}  # the ties are among their last ones too
    group = (lambda key: key[0]) if function == "semantic_search" else (lambda key: None)
    for key in theirs:
        last[group(key)] = min(last.get(group(key), 2.0), theirs[key])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    count = 0
    for key in theirs.keys() ^ ours.keys():
        score = {**theirs, **ours}[key]
        limits = [last.get(group(key), -1.0)]
        if function == "paraphrase_mining_embeddings":  # the first of 101 is the sentence itself
            limits += [np.partition(unit @ unit[i], -101)[-101] for i in key]
        count += all(abs(score - limit) > 1e-6 for limit in limits)
    return count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences_file", type=Path)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--model", help="by default the static model of the package")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)  # library, function and output of one process
    args = parser.parse_args()
    if args.run:
        library, function, out = args.run
        measured(library, function, args.sentences_file, Path(out))
        return
    from contrastive_st.data import read_texts
    from contrastive_st.models.protocol import open_encoder

    texts = read_texts(str(args.sentences_file), ["text"])[: args.sentences]["text"]
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "vectors.npy"), Path(folder, "found.json")
        encoder = open_encoder(args.model)
        vectors = np.asarray(encoder.encode(texts), dtype=np.float32)
        np.save(path, vectors)
        print(f"{len(texts):,} sentences, {encoder.name}, {vectors.shape[1]} dimensions\n")
        print(f"| | {' | '.join(LIBRARIES)} | only in one | scores differ by |")
        print("|---|--:|--:|--:|--:|")
        for function in FUNCTIONS:
            runs: dict[str, list[dict[str, Any]]] = {library: [] for library in LIBRARIES}
            for _ in range(args.rounds):
                for library in LIBRARIES:
                    command = [sys.executable, __file__, str(path), "--run", library, function, str(out)]
                    subprocess.run(command, check=True)
                    runs[library].append(json.loads(out.read_text()))
            cells = []
            for own in runs.values():
                seconds, memory = (min(run[name] for run in own) for name in ("seconds", "memory"))
                cells.append(f"{seconds:.2f} s, {memory / 2**30:.2f} GiB")
            theirs, ours = (scores_of(function, own[0]["found"]) for own in runs.values())
            both = theirs.keys() & ours.keys()
            apart = max((abs(theirs[key] - ours[key]) for key in both), default=0.0)
            alone = len(theirs.keys() ^ ours.keys())
            only = f"{alone} of {len(theirs):,}, {untied(function, theirs, ours, vectors)} no ties"
            print(f"| {function} | {' | '.join(cells)} | {only} | {apart:.1e} |", flush=True)


if __name__ == "__main__":
    main()
