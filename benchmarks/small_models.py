"""Small models side by side: quality, size, speed, start-up. Baselines: TF-IDF and averaged GloVe.

    python benchmarks/small_models.py DATA FOLDER [FOLDER ...] [--tasks STS12,STS14,STS15,STSB,MR,CR,SST2,TREC,MRPC]

DATA is a folder with SentEval's files, qqp/ (pairs of questions) and vocab/glove*.txt. Retrieval is that of 1,000
held-out paragraphs of the installed Python documentation by their first lines. Speed is sentences a second, of 1,000
sentences of STS-B (20,000 for static models), the models taken in turn three times, the median; start-up is the wall
time of `contrastive-st similarity a b --model FOLDER`.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st import evaluate
from contrastive_st.data.word_vectors import read_word_vectors
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.evaluation.suite import load
from contrastive_st.evaluation.tasks import choose, own_pairs_task, retrieval_task
from contrastive_st.models.protocol import FunctionEncoder, open_encoder
from contrastive_st.static_vectors import StaticVectors

TASKS = "STS12,STS14,STS15,STSB,MR,CR,SST2,TREC,MRPC"
MEAN = ("STS12", "STS14", "STS15", "STSB")


def tf_idf(tasks: list[Any], data: Path) -> Any:
    """TF-IDF of the 2,048 commonest words of all texts of these tasks."""
    texts = {text for splits in load(tasks, data).values() if not isinstance(splits, str) for text in splits.texts()}
    words = TfidfVectorizer(sublinear_tf=True, max_features=2048, dtype=np.float32).fit(texts)
    return lambda texts: words.transform(texts).toarray()


def glove(path: Path) -> Any:
    """The mean of GloVe's vectors of the words of a text that are among the 2,717 commonest."""
    vectors = read_word_vectors(path, limit=2717)  # of our sample of GloVe, whose last row is cut short
    rows = {word: row for row, word in enumerate(vectors.words)}
    tokens = re.compile(r"\w+|[^\w\s]")

    def encode(texts: list[str]) -> Any:
        found = [[rows[word] for word in tokens.findall(text.lower()) if word in rows] for text in texts]
        nothing = np.zeros(vectors.vectors.shape[1], np.float32)
        return np.stack([vectors.vectors[own].mean(0) if own else nothing for own in found])

    return encode


def speeds(encoders: dict[str, Any], texts: list[str]) -> dict[str, float]:
    """Sentences a second, the median of three rounds in turn."""
    rates: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(3):
        for name, encoder in encoders.items():
            own = texts * 20 if isinstance(encoder, StaticVectors) else texts
            encoder.encode(own[:64])
            started = time.perf_counter()
            encoder.encode(own)
            rates[name].append(len(own) / (time.perf_counter() - started))
    return {name: statistics.median(own) for name, own in rates.items()}


def start_up(folder: Path) -> float:
    """Seconds of `contrastive-st similarity a b --model FOLDER`, the least of three."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        command = [sys.executable, "-m", "contrastive_st.cli", "similarity", "a", "b", "--model", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--cache", help="folder that keeps embeddings")
    args = parser.parse_args()
    docs = DocsSearch.load()
    tasks = choose(args.tasks)
    tasks += [own_pairs_task(args.data / "qqp" / "quora_test.txt")]
    tasks += [retrieval_task("docs", [(pair.title, pair.text) for pair in docs.heldout])]
    encoders = {folder.name: open_encoder(folder, precision="auto") for folder in args.folders}
    texts = list(dict.fromkeys(choose("STSB")[0].load(args.data)["test"].columns[0]))[:1000]
    rates = speeds(encoders, texts)
    [vectors] = (args.data / "vocab").glob("glove*.txt")
    baselines = [FunctionEncoder("TF-IDF", tf_idf(tasks, args.data)), FunctionEncoder("GloVe", glove(vectors))]
    report = evaluate([*baselines, *encoders.values()], tasks, args.data, cache=args.cache)
    print("| model |", " | ".join(["mean STS", *(task.name for task in tasks), "MiB", "sentences/s", "start, s"]), "|")
    print("|---|" + "--:|" * (len(tasks) + 4))
    for name in report.models:
        values = {task.name: 100 * (report.main(name, task).value or np.nan) for task in tasks}
        cells = [f"{np.mean([values[task] for task in MEAN]):.2f}", *(f"{value:.1f}" for value in values.values())]
        if name in encoders:
            folder = next(folder for folder in args.folders if folder.name == name)
            size = sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 2**20
            cells += [f"{size:.1f}", f"{rates[name]:,.0f}", f"{start_up(folder):.1f}"]
        else:
            cells += ["", "", ""]
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
