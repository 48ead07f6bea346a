"""Do the pieces add up? A student trained with all of them, and with each left out once.

    python benchmarks/modern_training.py STUDENT NLI [--sts SENTEVAL] [--steps 60] [--seeds 0]

STUDENT is the encoder to start from (model_cards/minilm-1-layer), NLI a csv of triplets (sent0, sent1, hard_neg). The
pieces:

* mixture: NLI triplets and pairs of the installed Python documentation, first line and paragraph (left out: the
  documentation alone, as many steps)
* mined: a hard negative of each first line (left out: in-batch negatives alone)
* guided: `GuidedInfoNCE` by GUIDE (left out: `InfoNCE`)
* Matryoshka: 384, 128 and 64 dimensions
* prompts: "query: " before first lines and "passage: " before paragraphs (left out: none)

Evaluated on STS-B dev (Spearman x100) and on 1,000 held-out pairs of the documentation, of which no near copy is
trained on: MRR@10 x100 with all dimensions, with the 95% bootstrap interval of what is lost without the piece, and with
64.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from scipy.stats import spearmanr
from transformers import set_seed

from contrastive_st import (
    AutoModelForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    GuidedInfoNCE,
    GuidedRows,
    InfoNCE,
    MatryoshkaLoss,
    Mixture,
    MixtureCollator,
    MixtureLoss,
    NLITripletCollator,
    PairCollator,
    SentenceEncoder,
    mine_hard_negatives,
    tokenize,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.data.reading import open_table
from contrastive_st.evaluation import EmbeddingStore
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.evaluation.scorers.retrieval import mean_interval, ranks_of_own, reciprocal_ranks
from contrastive_st.evaluation.tasks import choose
from contrastive_st.models import load_tokenizer

PIECES = ("mixture", "mined", "guided", "matryoshka", "prompts")
PROMPTS = {"query": "query: ", "document": "passage: "}
ROWS, LENGTH, DIMS = 12_000, 48, (384, 128, 64)


def rows_of(texts: Dataset, tokenizer: Any, guide: EmbeddingStore | None, prompts: Mapping[str, str] | None) -> Any:
    """Token rows of columns of texts, with the guide's vectors where there is one."""
    rows = tokenize(texts, tokenizer, LENGTH, prompts=prompts)
    return rows if guide is None else GuidedRows(rows, texts, guide)


def train(
    args: argparse.Namespace, docs: Dataset, nli: Dataset, store: EmbeddingStore, used: set[str], seed: int, folder: str
) -> None:
    """Train the student with these pieces and save it."""
    set_seed(seed)
    tokenizer = load_tokenizer(args.student)
    columns = docs.column_names if "mined" in used else docs.column_names[:2]
    data = {"docs": docs.select_columns(columns), **({"nli": nli} if "mixture" in used else {})}
    guide = store if "guided" in used else None
    asked = {name: PROMPTS["query" if name == "anchor" else "document"] for name in columns}
    prompts = {"docs": asked if "prompts" in used else None}
    rows = {name: rows_of(own, tokenizer, guide, prompts.get(name)) for name, own in data.items()}
    one: Any = InfoNCE(temperature=0.05) if guide is None else GuidedInfoNCE(temperature=0.05)
    loss = MixtureLoss({name: MatryoshkaLoss(one, DIMS) if "matryoshka" in used else one for name in rows})
    settings = {"prompts": PROMPTS} if "prompts" in used else {}
    collators = {"docs": NLITripletCollator if "mined" in used else PairCollator, "nli": NLITripletCollator}
    trainer = ContrastiveTrainer(
        model=AutoModelForCL.from_pretrained(args.student, loss=loss, **settings),
        args=ContrastiveTrainingArguments(
            folder, max_steps=args.steps, per_device_train_batch_size=64, learning_rate=args.learning_rate, seed=seed,
            warmup_steps=10, save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=50,
        ),
        train_dataset=Mixture(rows, dict.fromkeys(rows, 1.0)), processing_class=tokenizer,
        data_collator=MixtureCollator({name: collators[name](tokenizer) for name in rows}),
    )  # fmt: skip
    trainer.train()
    trainer.model.drop_heads()
    trainer.save_model()


def reciprocal(encoder: SentenceEncoder, docs: DocsSearch, dim: int | None) -> NDArray[np.float64]:
    """The reciprocal rank of each held-out paragraph, sought by its first line."""
    titles, texts = ([pair[i] for pair in docs.heldout] for i in (0, 1))
    options: Any = {"normalize_embeddings": True, "truncate_dim": dim}
    found, sought = encoder.encode_query(titles, **options), encoder.encode_document(texts, **options)
    return reciprocal_ranks(ranks_of_own(found, sought))


def judged(folder: str | Path, docs: DocsSearch, sts: Path | None) -> tuple[float, dict[Any, NDArray[np.float64]]]:
    """STS-B dev, and reciprocal ranks with all and with 64 dimensions."""
    encoder = SentenceEncoder(folder, precision="auto")
    dev = np.nan
    if sts is not None:
        rows = choose("STSB")[0].load(sts)["dev"]
        first, second = (encoder.encode(column, normalize_embeddings=True) for column in rows.columns)
        dev = spearmanr((first * second).sum(1), rows.labels).statistic
    return 100 * float(dev), {dim: reciprocal(encoder, docs, dim) for dim in (None, DIMS[-1])}


def variants() -> Iterator[tuple[str, set[str]]]:
    """What is trained: all pieces, then without each, then none."""
    yield "all pieces", set(PIECES)
    for piece in PIECES:
        yield f"without {piece}", set(PIECES) - {piece}
    yield "none of them", set()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("student")
    parser.add_argument("nli", type=Path)
    parser.add_argument("--sts", type=Path, help="folder of SentEval's files")
    parser.add_argument("--guide", default="static-minilm")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--learning_rate", type=float, default=2e-4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    args = parser.parse_args()
    docs = DocsSearch.load()
    pairs = texts_of(docs.training).shuffle(seed=0).select(range(min(ROWS, len(docs.training))))
    pairs = pairs.rename_columns({"title": "anchor", "text": "positive"})
    mined = mine_hard_negatives(pairs, args.guide, num_negatives=1, relative_margin=0.05)
    cells = [list(row.values()) for _, row in open_table(args.nli)]
    columns = map(list, zip(*cells, strict=True))
    nli = Dataset.from_dict(dict(zip(("anchor", "positive", "negative"), columns, strict=True)))
    texts = {text for rows in (mined, nli) for name in rows.column_names for text in rows[name]}
    store = EmbeddingStore(SentenceEncoder(args.guide, precision="auto"), sorted(texts))  # the guide's vectors, once
    print(f"{len(mined):,} pairs of the documentation, {len(nli):,} triplets of NLI, {args.steps} steps of 64")
    print("| | STS-B dev | MRR@10 | less than all pieces | MRR@10, 64 dimensions |\n|---|--:|--:|--:|--:|")
    dev, found = judged(args.student, docs, args.sts)
    print(f"| before | {dev:.1f} | {100 * found[None].mean():.1f} | | {100 * found[DIMS[-1]].mean():.1f} |", flush=True)
    best: dict[int, NDArray[np.float64]] = {}
    for name, used in variants():
        for seed in args.seeds:
            with tempfile.TemporaryDirectory() as folder:
                train(args, mined, nli, store, used, seed, folder)
                dev, found = judged(folder, docs, args.sts)
            best.setdefault(seed, found[None])
            _, low, high = (100 * value for value in mean_interval(best[seed] - found[None]))
            figures = [f"{dev:.1f}", f"{100 * found[None].mean():.1f}", f"{low:.1f} to {high:.1f}",
                       f"{100 * found[DIMS[-1]].mean():.1f}"]  # fmt: skip
            print(f"| {name} | " + " | ".join(figures) + " |", flush=True)


if __name__ == "__main__":
    main()
