"""A static encoder from raw text, compared with TF-IDF of words and of characters, in the usual protocol of STS.

    python benchmarks/raw_static.py DATA wikipedia.parquet novels.parquet [--seeds 0 1 2] [-- OPTIONS]
    python benchmarks/raw_static.py DATA wikipedia.parquet novels.parquet --folders out/0 out/1 out/2

Each seed is one run of `contrastive-st train --train_file ... --seed N OPTIONS` in a process of its own; with
`--folders` the encoders are there already. Printed and written to `--output`: Spearman x100 over all pairs of STS12,
STS14, STS15, the test part of STS-B and SICK-R, and their mean; that of STS-B's dev part, which is not in the mean;
accuracies x100 of MR, CR, SST2, TREC and MRPC. STS13, STS16 and the test part of SICK are used where DATA has them
(SICK-R is otherwise its training and trial parts). TF-IDF is that of scikit-learn, sublinear, fitted to 100,000
sentences of the text; its probes read the 2,048 commonest terms. The last lines compare the mean of the seeds with
TF-IDF, by 2,000 draws of the pairs of each set.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st import evaluate
from contrastive_st.data import corpus_texts
from contrastive_st.evaluation.datasets.senteval import Rows
from contrastive_st.evaluation.tasks import tasks
from contrastive_st.static_vectors import StaticVectors

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from held_out_neighbors import TFIDF

SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "SICKR")
PROBES = ("MR", "CR", "SST2", "TREC", "MRPC")
FITTED, TERMS, DRAWS = 100_000, 2048, 2000  # sentences of the corpus, terms that a probe reads, draws of the pairs
Embed = Callable[[Sequence[str]], Any]


def pairs(data: Path) -> dict[str, tuple[list[str], list[str], NDArray[np.float64]]]:
    """Both sides and the scores of each available set, and of STS-B's dev part."""
    found = {}
    for name in SETS:
        task = tasks(10)[name]
        root = next((data / below for below in ("senteval", ".") if (data / below / task.marker).is_dir()), None)
        if root is None:
            continue
        splits = dict(task.read(root))
        if name == "STSB":
            found["STS-B dev"] = joined([splits["dev"]])
        own = [splits["test"]] if "test" in splits else list(splits.values())
        found["STS-B" if name == "STSB" else name] = joined(own)
    return found


def joined(parts: Sequence[Rows]) -> tuple[list[str], list[str], NDArray[np.float64]]:
    """All pairs of the parts."""
    first, second = ([text for rows in parts for text in rows.columns[i]] for i in (0, 1))
    return first, second, np.concatenate([np.asarray(rows.labels, np.float64) for rows in parts])


def similarities(embed: Embed, sets: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """The cosine of each pair of each set."""
    found = {}
    for name, (first, second, _) in sets.items():
        a, b = (sparse.csr_array(embed(texts)) for texts in (first, second))
        products, squares = (a * b).sum(1), (a * a).sum(1) * (b * b).sum(1)
        found[name] = np.asarray(products / np.sqrt(np.maximum(squares, 1e-24)), np.float64)
    return found


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The rank correlation, x100."""
    return 100 * float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def scores(cosines: dict[str, NDArray[np.float64]], sets: dict[str, Any]) -> dict[str, float]:
    """Spearman of each set, and the mean of those that are not for development."""
    found = {name: spearman(cosines[name], sets[name][2]) for name in sets}
    return {**found, "mean": mean(value for name, value in found.items() if name != "STS-B dev")}


def difference(ours: Sequence[dict[str, Any]], theirs: dict[str, Any], sets: dict[str, Any]) -> tuple[float, ...]:
    """The difference of the means of the sets, ours averaged over seeds, and its 95% interval over pairs."""
    rng = np.random.default_rng(0)
    names = [name for name in sets if name != "STS-B dev"]

    def drawn(rows: dict[str, Any]) -> float:
        parts = []
        for name in names:
            gold, at = sets[name][2], rows[name]
            other = spearman(theirs[name][at], gold[at])
            parts.append(mean(spearman(own[name][at], gold[at]) for own in ours) - other)
        return mean(parts)

    sizes = {name: len(sets[name][2]) for name in names}
    value = drawn({name: np.arange(size) for name, size in sizes.items()})
    draws = [drawn({name: rng.integers(size, size=size) for name, size in sizes.items()}) for _ in range(DRAWS)]
    return value, *np.percentile(draws, (2.5, 97.5)).tolist()


def probes(model: Any, data: Path) -> dict[str, float]:
    """Accuracies of a linear classifier of the embeddings."""
    known = tasks(10)
    report = evaluate([model], ",".join(PROBES), data)
    return {score.task: 100 * score.value for score in report.scores
            if score.value is not None and known[score.task].is_main(score)}  # fmt: skip


def main() -> None:
    """Train where there are no folders, score, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of SentEval's files")
    parser.add_argument("files", nargs="+", help="text in documents")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folders", nargs="*", default=[])
    parser.add_argument("--no_probes", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("raw_static.csv"))
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    sets, made = pairs(args.data), tempfile.TemporaryDirectory()
    folders = args.folders or [str(Path(made.name, str(seed))) for seed in args.seeds]
    for seed, folder in zip(args.seeds, folders, strict=True) if not args.folders else ():
        command = [sys.executable, "-m", "contrastive_st.cli", "train", "--train_file", *args.files, "--output_dir"]
        subprocess.run([*command, folder, "--seed", str(seed), "--disable_tqdm", "true", *options], check=True)

    total = sum(1 for _ in corpus_texts(args.files))
    texts = list(itertools.islice(corpus_texts(args.files), 0, None, max(total // FITTED, 1)))
    rows: dict[str, dict[str, float]] = {}
    lexical = {}
    for name, how in TFIDF.items():
        model = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **how).fit(texts)
        lexical[name] = similarities(model.transform, sets)
        rows[name] = scores(lexical[name], sets)
        if not args.no_probes:
            few = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, max_features=TERMS, **how).fit(texts)
            rows[name] |= probes(lambda some, few=few: few.transform(some).toarray(), args.data)
    ours = []
    for folder in folders:
        encoder = StaticVectors.from_pretrained(folder)
        ours.append(similarities(encoder.encode, sets))
        rows[folder] = scores(ours[-1], sets) | ({} if args.no_probes else probes(encoder, args.data))
    columns = [*sets, "mean", *([] if args.no_probes else PROBES)]
    with open(args.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", *columns])
        for number, (name, found) in enumerate(rows.items()):
            label = name if name in TFIDF else f"seed {args.seeds[number - len(TFIDF)]}"
            writer.writerow([label, *(f"{found[column]:.2f}" for column in columns)])
    print(f"| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name in TFIDF:
        print(f"| {name} | {' | '.join(f'{rows[name][column]:.2f}' for column in columns)} |")
    cells = [[rows[folder][column] for folder in folders] for column in columns]
    shown = [f"{mean(cell):.2f}" + (f" ± {stdev(cell):.2f}" if len(cell) > 1 else "") for cell in cells]
    print(f"| trained, {len(folders)} seeds | {' | '.join(shown)} |")
    for name, theirs in lexical.items():
        value, low, high = difference(ours, theirs, sets)
        print(f"trained - {name}: {value:.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
