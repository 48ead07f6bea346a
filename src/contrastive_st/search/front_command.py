"""`contrastive-st trends`, `duplicates` and `serve`."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.search.command import store_arguments


def add_commands(commands: Any) -> None:
    """Add the commands to the subparsers of the command line."""
    trends = commands.add_parser("trends", help="clusters of an index, named, with their sizes over time or source")
    store_arguments(trends)
    trends.add_argument("--by", metavar="COLUMN", help="metadata column to count by, such as year or source")
    trends.add_argument("--clusters", type=int, help="how many (default: one for 50 documents, from 2 to 16)")
    trends.add_argument("--seed", type=int, default=0, help="of the sample and of k-means")
    trends.add_argument("--output", "-o", metavar="FOLDER", help="for trends.csv, .md and .json, map.png and sizes.png")
    trends.set_defaults(function=_trends)

    duplicates = commands.add_parser("duplicates", help="groups of documents that say the same, every pair looked at")
    store_arguments(duplicates)
    duplicates.add_argument("--threshold", type=float, default=0.95, help="cosine from which on two are the same")
    duplicates.add_argument("--limit", type=int, default=20, help="groups to print (default: 20); a file holds all")
    duplicates.add_argument("--output", "-o", metavar="FILE", help="all groups as .csv or .json")
    duplicates.set_defaults(function=_duplicates)

    serve = commands.add_parser("serve", help="a page to search on, in the browser")
    serve.add_argument("index", nargs="*", help="collections of the store, or folders of encoded shards; several are "
                       "searched side by side (default: documents)")  # fmt: skip
    serve.add_argument("--store", metavar="WHERE", help="a folder for the embedded database, or postgresql://...")
    serve.add_argument("--model", "-m", action="append", default=[],
                       help="the model of each index, in their order (default: those that they name)")  # fmt: skip
    serve.add_argument("--host", default="127.0.0.1", help="address to serve on (default: this machine alone)")
    serve.add_argument("--port", type=int, default=7860, help="0 takes a free one")
    serve.add_argument("--token", nargs="?", const="", help="ask for a token: this one, or one made here")
    serve.set_defaults(function=_serve)


def _trends(args: argparse.Namespace) -> None:
    folder = _new_folder(args.output)
    from contrastive_st.search.trends import find_trends, table

    with _opened(args) as index:
        trends = find_trends(index, args.by, args.clusters, args.seed)
        print("\n".join(table(trends)))
        if folder is None:
            return
        from contrastive_st.search.maps import draw_map, draw_sizes, lay_out

        folder.mkdir(parents=True, exist_ok=True)
        written = [trends.save(folder / f"trends.{kind}") for kind in ("csv", "md", "json")]
        written.append(draw_map(lay_out(index, trends, seed=args.seed), folder / "map.png"))
        if trends.values:
            written.append(draw_sizes(trends, folder / "sizes.png"))
        print("written: " + ", ".join(map(str, written)), file=sys.stderr)


def _duplicates(args: argparse.Namespace) -> None:
    if args.output and Path(args.output).suffix not in (".csv", ".json"):
        raise InputError(f"--output {args.output}: write .csv or .json")
    from contrastive_st.search.duplicates import find_duplicates, save
    from contrastive_st.search.trends import one_line

    with _opened(args) as index:
        limit = None if args.output else args.limit
        groups = find_duplicates(index, args.threshold, progress=sys.stderr.isatty(), limit=limit)
    for group in groups[: args.limit]:
        print(f"{len(group)} documents")
        for member in group:
            print(f"  {member.similarity:.3f}  {member.id}  {one_line(member.text)}")
    if args.output:
        print(f"{len(groups):,} groups in {save(groups, args.output)}", file=sys.stderr)
    elif not groups:
        print(f"no two documents are as near as {args.threshold}", file=sys.stderr)


def _serve(args: argparse.Namespace) -> None:
    names = list(dict.fromkeys(args.index or ["documents"]))
    if args.model and len(args.model) != len(names):
        raise InputError(f"{len(args.model)} --model for {len(names)} indices; give one each, in their order, or none")
    from contrastive_st.search.opening import open_encoder_for, open_index
    from contrastive_st.search.page import import_gradio
    from contrastive_st.search.serving import check_token, is_loopback, serve
    from contrastive_st.search.session import SearchSession, Source
    from contrastive_st.search.shards import RECORD

    import_gradio()
    token = check_token(secrets.token_urlsafe(24) if args.token == "" else args.token)
    if token is None and not is_loopback(args.host):
        print(f"{args.host}: whoever reaches this machine can read these documents; --token asks for one",
              file=sys.stderr)  # fmt: skip
    with ExitStack() as stack:
        sources = []
        for i, name in enumerate(names):
            folder = Path(name).expanduser()
            place = (folder,) if folder.joinpath(RECORD).is_file() else (args.store, name)
            index = stack.enter_context(closing(open_index(*place)))  # type: ignore[type-var]
            encoder = open_encoder_for(index, args.model[i] if args.model else None)
            sources.append(Source(folder.name, index, encoder))
        serve(SearchSession(sources), args.host, args.port, token)


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[Any]:
    from contrastive_st.search.opening import open_index

    with closing(open_index(args.store, args.collection)) as index:  # type: ignore[type-var]
        yield index


def _new_folder(path: str | None) -> Path | None:
    if path is not None and Path(path).exists() and not Path(path).is_dir():
        raise InputError(f"--output {path} is a file; name a folder")
    return None if path is None else Path(path)
