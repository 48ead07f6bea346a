"""Words and vectors: `classify` with and without `--lexical`, and TF-IDF alone, on MR, CR, SST2 and TREC.

    python benchmarks/lexical.py SENTEVAL MODEL ... [--sets MR CR SST2 TREC]

Accuracy x100: SST2 (20,000 of its phrases) and TREC on their test parts, MR and CR as means over five folds. For each
row the strength of the penalty, C of 0.5, 2, 8 or 32, is the best on 15% of the training texts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline

from contrastive_st import SentenceClassifier
from contrastive_st.evaluation.tasks import tasks
from contrastive_st.models.protocol import as_encoder

PENALTIES = (0.5, 2.0, 8.0, 32.0)
MOST = 20_000
Texts = NDArray[Any]


def splits(name: str, folder: Path) -> Iterator[tuple[Texts, Texts, Texts, Texts]]:
    """Training texts and labels, test texts and labels of each split of a data set."""
    data = tasks()[name].load(folder)
    if "test" in data:
        train, test = data["train"], data["test"]
        some = np.random.default_rng(0).permutation(len(train))[:MOST]
        yield np.array(train.columns[0])[some], train.labels[some], np.array(test.columns[0]), test.labels
        return
    [rows] = data.values()
    texts = np.array(rows.columns[0])
    for fit, held in StratifiedKFold(5, shuffle=True, random_state=0).split(texts, rows.labels):
        yield texts[fit], rows.labels[fit], texts[held], rows.labels[held]


def accuracy(model: Any, split: tuple[Texts, Texts, Texts, Texts], name: str) -> float:
    """Accuracy on the test texts, with the best penalty on held-out training texts."""
    x, y, test, gold = split
    fit, held, fit_y, held_y = train_test_split(x, y, test_size=0.15, random_state=0, stratify=y)
    of_penalty = {C: clone(model).set_params(**{name: C}).fit(fit, fit_y).score(held, held_y) for C in PENALTIES}
    best = max(of_penalty, key=lambda C: of_penalty[C])
    return 100 * float(clone(model).set_params(**{name: best}).fit(x, y).score(test, gold))


class Remembered:
    """An encoder that encodes each text once."""

    def __init__(self, name: str) -> None:
        self.encoder, self.name, self.vectors = as_encoder(name), name, {}

    def __call__(self, texts: list[str]) -> NDArray[np.floating]:
        if new := [text for text in dict.fromkeys(texts) if text not in self.vectors]:
            self.vectors |= dict(zip(new, self.encoder.encode(new), strict=True))
        return np.array([self.vectors[text] for text in texts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("senteval", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--sets", nargs="+", default=["MR", "CR", "SST2", "TREC"])
    args = parser.parse_args()
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, token_pattern=r"\w+|[^\w\s]")
    characters = TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(3, 5), min_df=2)
    rows: dict[str, tuple[Any, str]] = {
        f"TF-IDF of {name}": (Pipeline([("terms", how), ("head", LogisticRegression(max_iter=1000))]), "head__C")
        for name, how in (("words and pairs", words), ("characters", characters))
    }
    for name in args.models:
        encoder = Remembered(name)
        rows |= {f"{name}{how}": (SentenceClassifier(encoder, lexical=bool(how)), "C") for how in ("", " and words")}
    print(f"| | {' | '.join(args.sets)} |\n|---|{'---:|' * len(args.sets)}")
    for name, (model, penalty) in rows.items():
        found = [
            np.mean([accuracy(model, split, penalty) for split in splits(own, args.senteval)]) for own in args.sets
        ]
        print(f"| {name} | {' | '.join(f'{value:.1f}' for value in found)} |", flush=True)


if __name__ == "__main__":
    main()
