"""`contrastive-st curl`: the contrastive loss of an encoder, and what it says of classifiers."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError


def add_command(commands: Any) -> None:
    """Add it to the subparsers of the command line."""
    parser = commands.add_parser(
        "curl", help="contrastive and classification losses on labelled sentences, and the bound between them"
    )
    parser.add_argument("model", metavar="MODEL", help="checkpoint folder or Hub name")
    parser.add_argument("--task", required=True, help="MR, CR, SUBJ, MPQA, SST2 or TREC; several parted by commas")
    parser.add_argument("--data", help="the folder of SentEval's files, or hub (default: $CONTRASTIVE_ST_DATA, or hub)")
    parser.add_argument("--draws", type=int, default=100_000, help="anchors drawn for the blocks (default: 100,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--pooling", help="for checkpoints that record none: mean, cls_before_pooler, ...")
    parser.add_argument("--cache", help="folder that keeps embeddings, or none (default: ~/.cache/contrastive_st)")
    parser.set_defaults(function=_curl)


def _curl(args: argparse.Namespace) -> None:
    data = args.data or os.environ.get("CONTRASTIVE_ST_DATA") or "hub"
    if data != "hub" and not Path(data).is_dir():
        raise InputError(f"--data {data}: no such folder; give the folder of SentEval's files, or hub")
    if args.draws < 2:
        raise InputError(f"--draws {args.draws}: give 2 or more, or there is no standard error")
    from contrastive_st.evaluation.curl import LOSSES, curl, table
    from contrastive_st.evaluation.embedding_store import EmbeddingStore, default_cache
    from contrastive_st.evaluation.encoders import open_encoder
    from contrastive_st.evaluation.tasks import choose

    sets = [(task.name, *_labelled(task, data)) for task in choose(args.task)]
    encoder = open_encoder(args.model, pooling=args.pooling)
    cache = None if args.cache == "none" else args.cache or default_cache()
    for number, (name, texts, labels) in enumerate(sets):
        embeddings = EmbeddingStore(encoder, texts, cache)(texts)
        found = [curl(embeddings, labels, loss, draws=args.draws, seed=args.seed) for loss in LOSSES]
        print(("\n" if number else "") + f"{encoder.name}, {name}: {table(found)}")


def _labelled(task: Any, data: str) -> tuple[list[str], list[int]]:
    parts = task.load(data)
    if any(len(rows.columns) != 1 for rows in parts.values()) or not parts.classes:
        raise InputError(
            f"{task.name} is not a task of single sentences in classes; take MR, CR, SUBJ, MPQA, SST2, TREC"
        )
    return list(parts.texts()), [int(label) for rows in parts.values() for label in rows.gold]
