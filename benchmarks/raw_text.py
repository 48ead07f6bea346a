"""What helps the sources' methods on raw, ordered text, and what does not: one setting changed at a time.

    python benchmarks/raw_text.py DATA [--only GROUP ...] [--seeds 0 1 2] [--output raw_text.csv] [--work out/raw_text]

DATA has novels.parquet and wikipedia.parquet (sentences in order, columns text and doc) and SentEval's STS files in
senteval/. Every row trains on 240,000 sentences of the two files, drawn again for each seed: batches are made of runs
of consecutive sentences from anywhere. The vocabulary is the 20,000 most frequent words; corpus vectors (PPMI,
truncated SVD), SIF weights and IDF are fitted to both files once, which takes no label either. A row is the settings of
its group with one setting changed, and is evaluated before and after training. Runs that are in the output file are not
repeated.

Printed are the mean and the 95% interval over the seeds (Student's t): the mean of STS12, 14 and 15, each the mean of
its subsets, Pearson x100, before and after; and STS-B, test part, Spearman x100, nothing fitted.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.feature_extraction.text import TfidfVectorizer
from transformers import set_seed

from contrastive_st import (
    ContextWindowCollator,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    CooccurrenceCollator,
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    SentenceEncoder,
    evaluate,
    train_word_tokenizer,
)
from contrastive_st.data import corpus_texts, corpus_word_vectors, fit_idf, sif_weights, word_counts
from contrastive_st.data.corpus import BlockSampler, SentenceCorpus
from contrastive_st.evaluation.tasks import chosen
from contrastive_st.models import load_tokenizer
from contrastive_st.tokens import token_ids
from contrastive_st.vectors import unit_vectors

TASKS = ("STSB", "STS12", "STS14", "STS15")
SENTENCES, WORDS, LONGEST, DIM = 240_000, 20_000, 30, 300
FIGURES = ("STS12", "STS14", "STS15", "mean STS", "STS-B")
CORPUS = ("novels.parquet", "wikipedia.parquet")


@dataclass(frozen=True)
class Cell:
    """The settings of one run; `label` says what differs from the others of its group."""

    group: str
    label: str
    targets: str = "next"
    encoder: str = "mean"
    hidden: int = 300
    readout: str = "mean"
    towers: int = 1
    shared: bool = True
    vectors: str = "corpus"
    weights: str = "sif"
    scores: str = "cosine"
    temperature: float = 0.05
    own_document: str = "mask"
    run_length: int = 8
    batch: int = 2000
    learning_rate: float = 1e-2
    row_loss: str = "kl"
    target_temperature: float = 0.1

    def key(self) -> dict[str, str]:
        """The settings as the output file has them."""
        settings = {name: str(value) for name, value in dataclasses.asdict(self).items()}
        return {name: value for name, value in settings.items() if name not in ("group", "label")}

    def model_key(self) -> dict[str, str]:
        """The settings of the model before training."""
        return {
            name: self.key()[name]
            for name in ("encoder", "hidden", "readout", "towers", "shared", "vectors", "weights")
        }


MEAN = Cell("mean", "all settings")
GRU = replace(MEAN, group="gru", encoder="gru", hidden=200, towers=2, batch=400, learning_rate=1e-3)
POSTS = replace(
    GRU, group="posts", readout="max", shared=False, vectors="random", weights="none", scores="dot", temperature=1.0,
    own_document="negatives", run_length=400, learning_rate=5e-3,
)  # fmt: skip


def cells() -> list[Cell]:
    """Every row."""
    names = {
        "next": "next sentence",
        "window": "window of 1",
        "counts": "counts",
        "tfidf": "TF-IDF",
        "tfidf_bin": "binarized TF-IDF",
    }
    softness = {"counts": 1.0, "tfidf": 0.1}
    found = [MEAN]
    found += [
        replace(MEAN, label="dot products", scores="dot", temperature=1.0),
        replace(MEAN, label="own document as negatives", own_document="negatives"),
        replace(MEAN, label="random word vectors", vectors="random"),
        replace(MEAN, label="no SIF weights", weights="none"),
        replace(MEAN, label="random word vectors, no SIF weights", vectors="random", weights="none"),
        replace(MEAN, label="two towers, a table each", towers=2, shared=False),
        replace(MEAN, label="batch 400", batch=400),
    ]
    for length, own in itertools.product((2000, 200, 50, 2), ("mask", "negatives")):
        found.append(replace(MEAN, label=f"runs of {length}, own document: {own}", run_length=length, own_document=own))
    found += [replace(MEAN, label=f"temperature {t:g}", temperature=t) for t in (0.02, 0.03, 0.07, 0.1, 0.2)]
    for target in ("window", "counts", "tfidf", "tfidf_bin"):
        own, label = {"target_temperature": softness.get(target, 0.1), "targets": target}, f"{names[target]} targets"
        found.append(replace(MEAN, label=f"{label} at temperature 0.1" if target == "tfidf" else label, **own))
    for target, t in itertools.product(("tfidf", "counts"), (0.03, 0.3, 1.0, 3.0)):
        if t == softness[target]:  # a row of the targets above
            continue
        own = {"target_temperature": t, "targets": target}
        found.append(replace(MEAN, label=f"{names[target]} targets at temperature {t:g}", **own))
    l2 = {"targets": "counts", "row_loss": "l2", "scores": "dot", "temperature": 1.0}
    found.append(replace(MEAN, label="counts as targets, L2 of dot products", **l2))
    for target in ("tfidf_bin", "next"):
        gru = replace(GRU, targets=target, group=f"gru, {names[target]}")
        found += [
            replace(gru, label="all settings"),
            replace(gru, label="dot products", scores="dot", temperature=1.0),
            replace(gru, label="max readout", readout="max"),
            replace(gru, label="random word vectors", vectors="random"),
            replace(gru, label="a word table for each tower", shared=False),
            replace(gru, label="one tower", towers=1),
            replace(gru, label="own document as negatives", own_document="negatives"),
            replace(gru, label="own document as negatives, one run", own_document="negatives", run_length=400),
            replace(gru, label="no SIF weights", weights="none", learning_rate=2e-3),
            replace(gru, label="runs of 2", run_length=2),
            replace(gru, label="batch 2000", batch=2000),
            *(replace(gru, label=f"temperature {t:g}", temperature=t) for t in (0.1, 0.2)),
            *(replace(gru, label=f"learning rate {rate:g}", learning_rate=rate) for rate in (1e-4, 3e-4, 3e-3)),
            replace(POSTS, targets=target, group=gru.group, label="none (the posts' loss)"),
        ]
    return found


# --- What all runs share: vocabulary, tokens, corpus vectors, weights.


class Corpus(torch.utils.data.Dataset):
    """The sentences as token ids, in order, with their places."""

    def __init__(self, work: Path) -> None:
        self.ids, self.ends, self.places = (
            np.load(work / f"{name}.npy", mmap_mode="r") for name in ("ids", "ends", "places")
        )

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, Any]:
        begin, end = (int(self.ends[index - 1]) if index else 0), int(self.ends[index])
        document, position = self.places[index].tolist()
        return {"input_ids": self.ids[begin:end].tolist(), "document": document, "position": position}


@dataclass
class Runs(torch.utils.data.Dataset):
    """The corpus in runs of consecutive sentences."""

    corpus: Corpus
    run_length: int

    def __len__(self) -> int:
        return len(self.corpus)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.corpus[index]

    def sampler(self, batch_size: int, seed: int) -> BlockSampler:
        """The order for training."""
        return BlockSampler(len(self), self.run_length, seed)


def prepare(data: Path, work: Path) -> None:
    """Write what all runs share into the work folder, once."""
    if (work / "vectors.npy").exists():
        return
    work.mkdir(parents=True, exist_ok=True)
    files = [data / name for name in CORPUS]
    tokenizer = train_word_tokenizer(corpus_texts(files), WORDS, LONGEST)
    tokenizer.save_pretrained(work)
    corpus = SentenceCorpus(files, tokenizer, LONGEST)
    ids: list[np.ndarray] = []
    places, lengths = np.empty((len(corpus), 2), np.int32), np.empty(len(corpus), np.int64)
    for start in range(0, len(corpus), 8192):
        rows = corpus.__getitems__(range(start, min(start + 8192, len(corpus))))
        places[start : start + len(rows)] = [(row["document"], row["position"]) for row in rows]
        lengths[start : start + len(rows)] = [len(row["input_ids"]) for row in rows]
        ids.append(np.fromiter(itertools.chain.from_iterable(row["input_ids"] for row in rows), np.int32))
    flat, ends = np.concatenate(ids), lengths.cumsum()
    np.save(work / "ids.npy", flat), np.save(work / "ends.npy", ends), np.save(work / "places.npy", places)
    sentences = lambda: (flat[a:b].tolist() for a, b in zip(np.r_[0, ends[:-1]].tolist(), ends.tolist(), strict=True))
    np.save(work / "counts.npy", word_counts(sentences(), len(tokenizer)))
    np.save(work / "idf.npy", fit_idf(sentences(), len(tokenizer)))
    began = time.perf_counter()
    np.save(work / "vectors.npy", corpus_word_vectors(sentences(), len(tokenizer), DIM).numpy())
    print(f"corpus vectors: {time.perf_counter() - began:.0f} s for {len(corpus):,} sentences", flush=True)


# --- A run.


def made(cell: Cell, work: Path, seed: int, vocabulary: int) -> QuickThoughtsGRU:
    """The model of a cell before training."""
    set_seed(seed)
    config = QuickThoughtsConfig(
        vocab_size=vocabulary, embedding_size=DIM, hidden_size=cell.hidden, encoder=cell.encoder, readout=cell.readout,
        towers=cell.towers, shared_embeddings=cell.shared, word_weights=cell.weights == "sif",
    )  # fmt: skip
    model = QuickThoughtsGRU(
        config, targets=cell.targets, row_loss=cell.row_loss, scores=cell.scores, temperature=cell.temperature,
        own_document=cell.own_document, target_temperature=cell.target_temperature,
    )  # fmt: skip
    if cell.vectors == "corpus":
        model.set_word_vectors(torch.from_numpy(np.load(work / "vectors.npy")))
    if cell.weights == "sif":
        model.set_word_weights(torch.from_numpy(sif_weights(np.load(work / "counts.npy"))))
    return model


def judged(encoder: Any, data: Path) -> dict[str, float]:
    """The scores of an encoder."""
    return figures_of(evaluate([encoder], TASKS, data / "senteval").scores)


def figures_of(scores: Sequence[Any]) -> dict[str, float]:
    """`FIGURES` from the scores of a report."""
    found = {(s.task, s.split, s.metric, s.aggregation): s.value for s in scores}
    sts = [100 * found[f"STS{year}", "test", "pearson", "mean"] for year in (12, 14, 15)]
    stsb = 100 * found["STSB", "test", "spearman", "all"]
    return dict(zip(FIGURES, [*sts, float(np.mean(sts)), stsb], strict=True))


def trained(cell: Cell, model: QuickThoughtsGRU, tokenizer: Any, work: Path, seed: int) -> None:
    """Train the model of a cell on 240,000 sentences."""
    idf = np.load(work / "idf.npy") if cell.targets.startswith("tfidf") else None
    collator: Any = ContextWindowCollator(tokenizer)
    if cell.targets in ("counts", "tfidf", "tfidf_bin"):
        collator = CooccurrenceCollator(tokenizer, cell.targets, idf)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ContrastiveTrainer(
            model=model,
            args=ContrastiveTrainingArguments(
                folder, max_steps=SENTENCES // cell.batch, per_device_train_batch_size=cell.batch, seed=seed,
                learning_rate=cell.learning_rate, lr_scheduler_type="constant", max_grad_norm=5.0, save_strategy="no",
                report_to="none", disable_tqdm=True, logging_steps=50,
            ),
            train_dataset=Runs(Corpus(work), cell.run_length), processing_class=tokenizer,
            data_collator=collator,
        )  # fmt: skip
        trainer.train()
        if trainer.sigterm.stopped:
            raise SystemExit("stopped; the runs before this one are in the output file")


class Results:
    """The output file, a line for each run."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, []
        if path.exists():
            with open(path, newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))

    def find(self, key: dict[str, str], seed: object, stage: str) -> dict[str, float] | None:
        """The scores of a run, if the file has them."""
        wanted = {**key, "seed": str(seed), "stage": stage}
        for row in self.rows:
            if wanted.items() <= row.items():
                return {name: float(row[name]) for name in (*FIGURES, "cpu seconds")}
        return None

    def add(self, key: dict[str, str], seed: object, stage: str, figures: dict[str, float]) -> None:
        """Append a run to the file."""
        names = [*MEAN.key(), "seed", "stage", *FIGURES, "cpu seconds"]
        own = {name: f"{value:.2f}" for name, value in figures.items()}
        row = dict.fromkeys(names, "") | key | {"seed": str(seed), "stage": stage} | own
        new = not self.path.exists()
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append(row)


def run(cell: Cell, seed: int, results: Results, data: Path, work: Path, tokenizer: Any) -> tuple[dict, dict]:
    """The scores of a cell before and after training, measured now if the file does not have them."""
    before = results.find(cell.model_key(), seed, "before")
    after = results.find(cell.key(), seed, "after")
    if before and after:
        return before, after
    model = made(cell, work, seed, len(tokenizer))
    if not before:
        before = judged(SentenceEncoder(model, tokenizer), data) | {"cpu seconds": 0.0}
        results.add(cell.model_key(), seed, "before", before)
    if not after:
        began = time.process_time()
        trained(cell, model.train(), tokenizer, work, seed)
        seconds = time.process_time() - began
        after = judged(SentenceEncoder(model, tokenizer), data) | {"cpu seconds": seconds}
        results.add(cell.key(), seed, "after", after)
    return before, after


# --- Rows without training.


def tfidf(data: Path, work: Path, tokenizer: Any) -> dict[str, float]:
    """The scores of TF-IDF over all words of both files."""
    model = TfidfVectorizer(token_pattern=r"\w+").fit(corpus_texts([data / name for name in CORPUS]))
    scores: list[Any] = []
    for task in chosen(TASKS):
        texts = sorted(set(task.load(data / "senteval").texts()))
        kept = np.unique(model.transform(texts).indices)  # the other words are 0 in all of them
        encode = lambda texts, kept=kept: model.transform(texts)[:, kept].toarray().astype(np.float32)
        scores += evaluate([encode], [task.name], data / "senteval").scores
    return figures_of(scores)


def sif(data: Path, work: Path, tokenizer: Any) -> dict[str, float]:
    """The scores of averages of the corpus vectors with SIF weights; the first component is of 100,000 sentences."""
    weights = sif_weights(np.load(work / "counts.npy"))
    vectors = np.load(work / "vectors.npy") * weights[:, None]

    def average(rows: Iterator[list[int]]) -> np.ndarray:
        return np.stack([vectors[row].mean(0) if row else 0 * vectors[0] for row in rows])

    corpus = Corpus(work)
    some = np.random.default_rng(0).choice(len(corpus), 100_000, replace=False)
    first = np.linalg.svd(average(corpus[int(i)]["input_ids"] for i in some), full_matrices=False)[2][0]

    def encode(texts: Sequence[str]) -> np.ndarray:
        found = average(iter(token_ids(tokenizer, list(texts))))
        return unit_vectors(found - np.outer(found @ first, first))

    return judged(encode, data)


# --- Tables.


def interval(values: Sequence[float]) -> str:
    """Mean and half width of the 95% interval of the mean.

    >>> interval([1.0, 2.0, 3.0])
    '2.0 ± 2.5'
    """
    if len(values) < 2:
        return f"{values[0]:.1f}"
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    return f"{np.mean(values):.1f} ± {half:.1f}"


def draw(rows: Sequence[tuple[str, list[float], list[float]]], lines: dict[str, float], path: Path) -> None:
    """Draw a bar for each row, from the mean before training to the mean after, with a dot for each seed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.32 * len(rows) + 1.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for place, (_, before, after) in zip(range(len(rows), 0, -1), rows, strict=True):
        start, end = float(np.mean(before)), float(np.mean(after))
        axis.barh(place, end - start, 0.6, left=start, color="tab:blue" if end > start else "tab:red", alpha=0.6)
        axis.plot(after, [place] * len(after), "k.", markersize=4)
        axis.plot([start, start], [place - 0.3, place + 0.3], "k", linewidth=1.5)
    for name, value in lines.items():
        axis.axvline(value, color="tab:gray", linestyle=":", linewidth=1)
        axis.text(value, len(rows) + 0.6, name, ha="center", fontsize=7, color="tab:gray")
    axis.set_yticks(range(len(rows), 0, -1), [label for label, _, _ in rows], fontsize=8)
    axis.set_xlabel("mean of STS12, 14 and 15, Pearson x100: before training (line), after (dots)", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="+", help="groups: those that start with one of these words")
    parser.add_argument("--labels", nargs="+", help="rows with these labels alone")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=Path("raw_text.csv"))
    parser.add_argument("--picture", type=Path, help="draw the rows into this PNG file")
    parser.add_argument("--recorded", action="store_true", help="only the runs of the output file: train nothing")
    parser.add_argument("--work", type=Path, default=Path("out/raw_text"))
    args = parser.parse_args()
    results, tokenizer = Results(args.output), None
    if not args.recorded:
        prepare(args.data, args.work)
        tokenizer = load_tokenizer(args.work)
    asked = lambda group, label: (
        (not args.only or group.startswith(tuple(args.only))) and (not args.labels or label in args.labels)
    )
    print("| | before | after | gain | STS-B | CPU seconds |\n|---|---:|---:|---:|---:|---:|")
    lines, drawn = {}, []
    for name, measure in {"TF-IDF": tfidf, "SIF": sif}.items():
        found = results.find({}, "", name)
        if not found and asked("untrained", name) and not args.recorded:
            found = measure(args.data, args.work, tokenizer) | {"cpu seconds": 0.0}
            results.add({}, "", name, found)
        if found and asked("untrained", name):
            lines[name] = found["mean STS"]
            print(f"| {name}, no training | | {found['mean STS']:.1f} | | {found['STS-B']:.1f} | |", flush=True)
    for cell in [cell for cell in cells() if asked(cell.group, cell.label)]:
        seeds = [seed for seed in args.seeds if not args.recorded or results.find(cell.key(), seed, "after")]
        if not seeds:
            continue
        both = [run(cell, seed, results, args.data, args.work, tokenizer) for seed in seeds]
        before, after = ([figures["mean STS"] for figures in one] for one in zip(*both, strict=True))
        columns = [before, after, np.subtract(after, before).tolist(), [own["STS-B"] for _, own in both]]
        seconds = np.mean([own["cpu seconds"] for _, own in both])
        print(f"| {cell.group}: {cell.label} | {' | '.join(map(interval, columns))} | {seconds:.0f} |", flush=True)
        drawn.append((f"{cell.group}: {cell.label}", before, after))
    if args.picture and drawn:
        draw(drawn, lines, args.picture)


if __name__ == "__main__":
    main()
