"""The rows of STS: baselines without a teacher, and models. Spearman and Pearson over all pairs of each available set.

    python benchmarks/sts_rows.py DATA wikipedia.parquet [MODEL ...] --output model_cards/sts_rows.csv

Baselines, fitted on the sentences of Wikipedia: TF-IDF of its whole vocabulary (sublinear); SIF, averages of PPMI
vectors of its 30,000 commonest words with the weights and without the first component (Arora et al. 2017); and an
untrained table, random vectors of the words' grams with SIF weights. Sets that are not in DATA are left out.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st.data import corpus_word_vectors, sif_weights, word_counts
from contrastive_st.evaluation import evaluate
from contrastive_st.evaluation.tasks import choose
from contrastive_st.models.protocol import open_encoder

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from letters import gram_directions

ROWS = ("TF-IDF", "SIF", "untrained")
WORD = re.compile(r"\w+")
WORDS, DIM, COUNTED = 30_000, 300, 250_000  # words with a vector, their dimension, sentences whose words are counted


def tf_idf(texts: Sequence[str]) -> Callable[[Any], Callable[[Sequence[str]], np.ndarray]]:
    """TF-IDF of every word of the texts, as a function from a task to its encoder; `[N, words of the task]`."""
    model = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True, dtype=np.float32).fit(texts)
    print(f"TF-IDF: {len(model.vocabulary_):,} words", flush=True)

    def of_task(own: Sequence[str]) -> Callable[[Sequence[str]], np.ndarray]:
        kept = np.unique(model.transform(own).indices)  # the other words are 0 in all of them
        return lambda texts: model.transform(texts)[:, kept].toarray()

    return of_task


def averages(texts: Sequence[str], wanted: Sequence[str]) -> dict[str, Callable[[Sequence[str]], np.ndarray]]:
    """The encoders of SIF, and of an untrained table of the same words with the same weights, if they are wanted."""
    if not wanted:
        return {}
    split = lambda text: WORD.findall(text.lower())
    counted = Counter(word for text in texts for word in split(text))
    names = [word for word, _ in counted.most_common(WORDS)]
    ids = {word: number for number, word in enumerate(names, 2)}  # 0 and 1 are padding and the unknown word
    rows = [[ids.get(word, 1) for word in split(text)] for text in texts]
    weights = sif_weights(word_counts(iter(rows), WORDS + 2))
    weights[:2] = 0
    tables = {"untrained": gram_directions(["", "", *names], DIM).numpy() * weights[:, None]}
    if "SIF" in wanted:
        tables["SIF"] = corpus_word_vectors(iter(rows), WORDS + 2, DIM).numpy() * weights[:, None]

    def average(table: np.ndarray, rows: Sequence[Sequence[int]]) -> np.ndarray:
        return np.stack([table[row].mean(0) if len(row) else np.zeros(DIM, np.float32) for row in rows])

    wanted = sorted(wanted)  # SIF first, whose first component is removed
    sample = [rows[i] for i in np.random.default_rng(0).choice(len(rows), min(50_000, len(rows)), replace=False)]
    first = np.linalg.svd(average(tables[wanted[0]], sample), full_matrices=False)[2][0]

    def encoder(name: str) -> Callable[[Sequence[str]], np.ndarray]:
        def encode(texts: Sequence[str]) -> np.ndarray:
            own = [[ids[word] for word in split(text) if word in ids] for text in texts]
            found = average(tables[name], own)
            return found - np.outer(found @ first, first) if name == "SIF" else found

        return encode

    return {name: encoder(name) for name in wanted}


def main() -> None:
    """Write the file, and print each row's mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("wikipedia", type=Path)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--rows", nargs="*", default=ROWS, choices=ROWS, help="the baselines (default: all)")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    texts = pq.read_table(args.wikipedia, columns=["text"])["text"].to_pylist()
    lexical = tf_idf(texts) if "TF-IDF" in args.rows else None
    dense = averages(texts[:COUNTED], [name for name in args.rows if name != "TF-IDF"])
    tasks = [
        task
        for task in choose("sts7")
        if any((args.data / below / task.marker).is_dir() for below in ("senteval", "."))
    ]
    lines = []
    for task in tasks:
        encoders: dict[str, Any] = dict(dense)
        if lexical is not None:
            encoders["TF-IDF"] = lexical(sorted(set(task.load(args.data).texts())))
        encoders |= {path.name: open_encoder(path) for path in args.models}
        for name, encoder in encoders.items():
            report = evaluate([encoder], [task], args.data)
            own = [score for score in report.scores if score.split == "test" and score.aggregation == "all"]
            lines += [
                (name, task.name, score.metric, f"{100 * score.value:.2f}", score.n) for score in own if score.value
            ]
            print(name, task.name, [score.text for score in own], flush=True)
    with open(args.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("model", "set", "metric", "x100", "pairs"))
        writer.writerows(lines)


if __name__ == "__main__":
    main()
