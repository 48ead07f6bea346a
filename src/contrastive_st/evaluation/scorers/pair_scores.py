"""Same or not: labelled pairs judged by cosine similarity against a threshold, and the NLI probe."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, f1_score

from contrastive_st.data.readers import MissingData
from contrastive_st.evaluation.datasets.senteval import Embed, Splits, read_labelled_pairs
from contrastive_st.evaluation.score import Score
from contrastive_st.evaluation.scorers.probes import GRID, TOLERANCE, fit_path
from contrastive_st.vectors import cosine

NLI_CLASSES = ("entailment", "neutral", "contradiction")
NLI_TRAINING = 10_000  # pairs a probe is fitted to: more change the third digit only, and take minutes


def score_pairs(splits: Splits, embed: Embed, task: str) -> list[Score]:
    """QQP and other files of pairs labelled 0 or 1.

    `best_accuracy` and `best_f1` are at the threshold that is best on the split itself (as sentence-transformers
    reports them: a ceiling), `average_precision` is over all thresholds, and `accuracy` and `f1` are at the
    thresholds that are best on the train split, where there is one.
    """
    if "test" not in splits:
        return [Score(task, "test", "average_precision", None, note=splits.missing.get("test", "no test split"))]
    test = splits["test"]
    similarity, gold = (cosine(*(embed(column) for column in test.columns)), test.gold.astype(bool))
    if gold.all() or not gold.any():
        return [Score(task, "test", "average_precision", None, n=len(gold), note="undefined: all pairs have one label")]
    best = best_thresholds(similarity, gold)
    values = {"average_precision": float(average_precision_score(gold, similarity))}
    values |= {f"best_{name}": value for name, (value, _) in best.items()}
    if "train" in splits:
        train = splits["train"]
        chosen = best_thresholds(cosine(*(embed(column) for column in train.columns)), train.gold.astype(bool))
        values["accuracy"] = float(np.mean((similarity >= chosen["accuracy"][1]) == gold))
        values["f1"] = float(f1_score(gold, similarity >= chosen["f1"][1]))
    return [Score(task, "test", name, value, n=len(gold)) for name, value in values.items()]


def best_thresholds(scores: NDArray[np.floating], gold: NDArray[np.bool_]) -> dict[str, tuple[float, float]]:
    """The best accuracy and the best F1 that "same if score >= threshold" reaches, each with its threshold.

    Equal scores are on one side of every threshold. Thresholds lie half way between two scores.

    Example:
        >>> best_thresholds(np.array([0.9, 0.8, 0.4]), np.array([True, True, False]))["accuracy"]
        (1.0, 0.6...)
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.concatenate([[0], np.cumsum(gold[order])])
    taken = np.arange(len(scores) + 1)
    possible = np.concatenate([[True], ranked[1:] != ranked[:-1], [True]])
    edges = np.concatenate([[ranked[0] + 1], (ranked[1:] + ranked[:-1]) / 2, [ranked[-1] - 1]])
    accuracy = (hits + (len(gold) - hits[-1]) - (taken - hits)) / len(gold)
    f1 = 2 * hits / np.maximum(taken + hits[-1], 1)
    found = {}
    for name, values in (("accuracy", accuracy), ("f1", f1)):
        i = int(np.where(possible, values, -1).argmax())
        found[name] = float(values[i]), float(edges[i])
    return found


def read_nli(path: Path) -> Splits:
    """A tab-separated file with a header: premise, hypothesis, label; a tenth of the premises is dev, a tenth test.

    A premise and all its hypotheses fall on one side, by a checksum of its text.
    """
    if not path.is_file():
        raise MissingData(f"{path.name} is missing; an NLI probe reads premise, hypothesis and label from it")
    rows = read_labelled_pairs(path, (2, 0, 1), NLI_CLASSES)
    bucket = np.array([zlib.crc32(premise.encode()) % 10 for premise in rows.columns[0]])
    train = np.flatnonzero(bucket > 1)
    train = train[:: max(-(-len(train) // NLI_TRAINING), 1)]
    index = {"train": train, "dev": np.flatnonzero(bucket == 1), "test": np.flatnonzero(bucket == 0)}
    index["dev"] = index["dev"][: NLI_TRAINING // 4]
    return Splits({name: rows.take(i) for name, i in index.items()}, {}, NLI_CLASSES)


def score_nli(splits: Splits, embed: Embed, task: str) -> list[Score]:
    """Accuracy of logistic regression over three classes on InferSent's features [u, v, |u - v|, u * v]."""
    names = ("train", "dev", "test")
    blocks = []
    for name in names:
        u, v = (embed(column) for column in splits[name].columns)
        blocks.append(np.concatenate([u, v, np.abs(u - v), u * v], axis=1))
    part = np.repeat(names, [len(block) for block in blocks])
    y = np.concatenate([splits[name].gold for name in names])
    path = fit_path(np.concatenate(blocks), y, np.array([part == "train"]), GRID, TOLERANCE)
    right = [solution.classes()[:, 0] == y for solution in path]
    best = right[int(np.argmax([r[part == "dev"].mean() for r in right]))]
    note = f"fitted to {len(splits['train'])} pairs"
    return [
        Score(task, name, "accuracy", float(best[part == name].mean()), note, int((part == name).sum()))
        for name in ("test", "dev")
    ]
