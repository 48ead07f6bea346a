"""`contrastive-st neighbors`: what one or two models take to be near, side by side."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError


def add_command(commands: Any) -> None:
    """Add it to the subparsers of the command line."""
    parser = commands.add_parser("neighbors", help="nearest sentences of a corpus, one or two models side by side")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="checkpoint folder or Hub name")
    parser.add_argument("--names", nargs="+", help="what the tables call the models")
    parser.add_argument("--corpus", required=True, help="a file with a sentence a line, or any file `train` reads")
    parser.add_argument("--column", help="column to search, by name or position, where the file has several")
    parser.add_argument("--query", nargs="+", default=[], metavar="TEXT")
    parser.add_argument("--query_file", metavar="FILE", help="also: a query a line")
    parser.add_argument("-k", type=int, default=5, help="neighbours of each query (default: 5)")
    parser.add_argument("--max_sentences", type=int, help="search the first so many of the corpus")
    parser.add_argument("--pooling", help="for checkpoints that record none: mean, cls_before_pooler, ...")
    parser.add_argument("--cache", help="folder that keeps embeddings, or none (default: ~/.cache/contrastive_st)")
    parser.add_argument("--output", "-o", metavar="FILE.md", help="write the tables to this file as well")
    parser.set_defaults(function=_neighbors)


def _neighbors(args: argparse.Namespace) -> None:
    _check(args)
    from contrastive_st.data import read_texts
    from contrastive_st.evaluation.embedding_store import default_cache
    from contrastive_st.evaluation.neighbors import as_markdown, as_text, first_of_each, neighbors
    from contrastive_st.models.encoder import open_encoder

    queries = _queries(args)
    columns = None if args.column is None else [int(args.column) if args.column.isdigit() else args.column]
    rows = read_texts(args.corpus, columns)
    if args.max_sentences is not None:
        rows = rows.select(range(min(args.max_sentences, len(rows))))
    name = rows.column_names[0]
    rows = rows.select(first_of_each(text for batch in rows.iter(4096) for text in batch[name]))
    cache = None if args.cache == "none" else args.cache or default_cache()
    found = {}
    for model, title in zip(args.models, args.names or [None] * len(args.models), strict=True):
        encoder = open_encoder(model, pooling=args.pooling, name=title)
        title = str(model) if encoder.name in found else encoder.name
        found[title] = neighbors(encoder, queries, rows[name], args.k, cache)
    print(as_text(queries, found, shutil.get_terminal_size((120, 24)).columns))
    if args.output:
        caption = f"The nearest of {len(rows):,} distinct sentences of {Path(args.corpus).name}, by cosine similarity."
        Path(args.output).write_text(as_markdown(queries, found, caption), encoding="utf-8")


def _check(args: argparse.Namespace) -> None:
    if len(set(args.models)) != len(args.models):
        raise InputError("the same model is named twice; name another to compare with, or one alone")
    if args.names and len(set(args.names)) != len(args.models):
        raise InputError(f"--names {' '.join(args.names)}: give {len(args.models)}, one a model, each another")
    for option, value in (("-k", args.k), ("--max_sentences", args.max_sentences)):
        if value is not None and value < 1:
            raise InputError(f"{option} {value}: give 1 or more")
    if args.output:
        output = Path(args.output)
        if output.suffix != ".md":
            raise InputError(f"--output {output}: the tables are Markdown; give a file that ends in .md")
        if not output.absolute().parent.is_dir():
            raise InputError(f"{output}: the folder {output.absolute().parent} does not exist; make it first")


def _queries(args: argparse.Namespace) -> list[str]:
    from contrastive_st.data.readers import read_lines

    lines = [*args.query, *(read_lines(args.query_file) if args.query_file else [])]
    queries = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not queries:
        raise InputError("nothing to look for: give --query TEXT ... or --query_file FILE with a query a line")
    return queries
