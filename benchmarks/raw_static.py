"""A static encoder from raw text alone: what it scores, what it costs. Three seeds, beside TF-IDF and its own start.

    python benchmarks/raw_static.py SENTEVAL wikipedia.parquet novels.parquet [--seeds 0 1 2] [-- OPTIONS]

Each seed is one run of `contrastive-st train --train_file ... --seed N OPTIONS` in a process of its own. Printed, and
written to `--output`: STS12, 14, 15 (Pearson, mean of the subsets) and their mean, STS-B (Spearman), the tasks of
SentEval that are at hand (accuracy), x100; MRR of held-out neighbours, x100; seconds of the whole command, sentences/s
in training, and the peak memory of the process. TF-IDF has every word of the task, with document frequencies of the
whole corpus.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from contrastive_st import evaluate
from contrastive_st.data import corpus_texts
from contrastive_st.evaluation.tasks import tasks

STS = ("STS12", "STS14", "STS15")
OTHERS = ("MR", "CR", "SST2", "TREC", "MRPC")
COLUMNS = (*STS, "mean STS", "STS-B dev", "STS-B", *OTHERS, "neighbours MRR", "seconds", "sentences/s", "peak GiB")
_WORD = re.compile(r"\w+")


def figures(model: Any, data: Path, names: Sequence[str]) -> dict[str, float]:
    """The scores of a model on some of the tasks."""
    known = tasks(10)
    scores = evaluate([model], ",".join(names), data).scores
    found = {}
    for score in scores:
        value = None if score.value is None else 100 * score.value
        if score.task in STS and (score.metric, score.aggregation) == ("pearson", "mean"):
            found[score.task] = value
        elif score.task == "STSB" and score.metric == "spearman":
            found["STS-B dev" if score.split == "dev" else "STS-B"] = value
        elif score.task in OTHERS and known[score.task].is_main(score):
            found[score.task] = value
    if set(STS) <= set(found):
        found["mean STS"] = mean(found[name] for name in STS)
    return {name: value for name, value in found.items() if value is not None}


def tfidf(data: Path, files: Sequence[str]) -> dict[str, float]:
    """The scores of TF-IDF on STS."""
    names, known = (*STS, "STSB"), tasks(10)
    texts = {name: [text for rows in known[name].load(data).values() for column in rows.columns for text in column]
             for name in names}  # fmt: skip
    vocabulary = {name: sorted({word for text in own for word in words(text)}) for name, own in texts.items()}
    wanted = {word for own in vocabulary.values() for word in own}
    frequency: Counter[str] = Counter()
    sentences = 0
    for text in corpus_texts(files):
        sentences += 1
        frequency.update(wanted.intersection(words(text)))
    found: dict[str, float] = {}
    for name, own in vocabulary.items():
        idf = np.array([np.log((1 + sentences) / (1 + frequency[word])) + 1 for word in own], np.float32)
        found |= figures(counts_times({word: i for i, word in enumerate(own)}, idf), data, [name])
    return {**found, "mean STS": mean(found[name] for name in STS)}


def words(text: str) -> list[str]:
    """The words of a text."""
    return _WORD.findall(text.lower())


def counts_times(place: dict[str, int], weights: Any) -> Callable[[Sequence[str]], Any]:
    """An encoder: counts of words times weights."""

    def encode(texts: Sequence[str]) -> Any:
        vectors = np.zeros((len(texts), len(place)), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            np.add.at(row, [place[word] for word in words(text) if word in place], 1)
        return vectors * weights

    return encode


def run(args: argparse.Namespace, seed: int, folder: str, steps: int | None = None) -> dict[str, float]:
    """Run the command with a seed, and judge what it made."""
    command = [
        sys.executable, "-m", "contrastive_st.cli", "train", "--train_file", *args.files, "--output_dir", folder,
        "--seed", str(seed), "--overwrite_output_dir", "--disable_tqdm", "true", *args.options,
        *(["--max_steps", str(steps), "--learning_rate", "1e-12"] if steps else []),
    ]  # fmt: skip
    began = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the command ended with {os.waitstatus_to_exitcode(status)}")
    seconds = time.monotonic() - began
    state = json.loads(Path(folder, "trainer_state.json").read_text())["log_history"]
    speed = [2 * row["train_samples_per_second"] for row in state if "train_samples_per_second" in row]
    after = json.loads(Path(folder, "results.json").read_text())["after"]
    return {
        **figures(folder, args.senteval, (*STS, "STSB", *OTHERS)),
        "neighbours MRR": 100 * after["eval_neighbors_mrr"],
        **({} if steps else {"seconds": seconds, "sentences/s": speed[-1], "peak GiB": usage.ru_maxrss / 2**20}),
    }


def main() -> None:
    """Run, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("senteval", type=Path, help="folder of SentEval's files")
    parser.add_argument("files", nargs="+", help="text in documents")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=Path("raw_static.csv"))
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own, argparse.Namespace(options=options))

    rows: list[tuple[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in args.seeds:
            rows.append((f"seed {seed}", run(args, seed, folder)))
            write(args.output, rows)
        rows.append(("before training", run(args, args.seeds[0], folder, steps=1)))
    rows.append(("TF-IDF", tfidf(args.senteval, args.files)))
    write(args.output, rows)
    print(f"| | {' | '.join(COLUMNS)} |\n|---|{'---:|' * len(COLUMNS)}")
    seeds = [found for name, found in rows if name.startswith("seed")]
    for name, found in rows[len(seeds) :][::-1]:
        print(f"| {name} | {' | '.join(f'{found[c]:,.1f}' if c in found else '' for c in COLUMNS)} |")
    cells = [[found[c] for found in seeds if c in found] for c in COLUMNS]
    shown = [f"{mean(own):,.1f}" + (f" ± {stdev(own):.1f}" if len(own) > 1 else "") if own else "" for own in cells]
    print(f"| trained, {len(seeds)} seeds | {' | '.join(shown)} |")


def write(path: Path, rows: Sequence[tuple[str, dict[str, float]]]) -> None:
    """Write the rows."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", *COLUMNS])
        writer.writerows([name, *(f"{found[c]:.4g}" if c in found else "" for c in COLUMNS)] for name, found in rows)


if __name__ == "__main__":
    main()
