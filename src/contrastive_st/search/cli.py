"""`contrastive-st index`, `search` and `similar`."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.terminal import Parser, run, snake_case_flags

_FILTER = re.compile(r"(?P<key>[^<>=!]+)(?P<compare>>=|<=|!=|==|=|<|>)(?P<value>.*)", re.DOTALL)


def add_commands(commands: Any) -> None:
    """Add the commands to the subparsers of the command line."""
    index = commands.add_parser("index", help="encode a corpus and put it into the store, or into parquet shards")
    index_arguments(index)
    index.set_defaults(function=run_index)

    search = commands.add_parser("search", help="find the documents nearest to a query")
    search.add_argument("query", help="what to look for; - reads it from stdin")
    search.add_argument("--hybrid", action="store_true", help="rank by nearness and by full text, fused")
    search.add_argument(
        "--exact", action="store_true", help="compare with every document, also where there is an index"
    )
    search.add_argument("--ef_search", type=int, help="candidates that the index keeps: more find more, slower")
    _index_to_read(search)
    search.set_defaults(function=_search)

    similar = commands.add_parser("similar", help="find the documents nearest to a document")
    similar.add_argument("id", type=int, help="its id, as search prints it")
    _index_to_read(similar)
    similar.set_defaults(function=_similar)


def store_arguments(parser: argparse.ArgumentParser) -> None:
    """Which store, and which collection of it."""
    parser.add_argument("--store", metavar="WHERE", help="a folder for the embedded database, or postgresql://... "
                        "(default: $CONTRASTIVE_ST_STORE, or one of your data folders)")  # fmt: skip
    parser.add_argument("--collection", default="documents", help="its name (default: documents)")


def index_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `index`, which `python -m contrastive_st.search.cli` takes too."""
    parser.add_argument("corpus", nargs="?", help="a .txt (a document a line), .csv, .tsv, .jsonl, .json or .parquet "
                        "file, a folder of such or of encoded shards, or a data set of the Hub")  # fmt: skip
    parser.add_argument("--installed_docs", action="store_true", help="the documentation of the installed packages")
    parser.add_argument("--model", "-m", help="checkpoint folder or Hub name (default: out/demo)")
    parser.add_argument("--output", "-o", metavar="FOLDER", help="write parquet shards there, not into the store")
    store_arguments(parser)
    parser.add_argument("--column", help="holds the text (default: text, or the only one with text)")
    parser.add_argument("--metadata", nargs="*", metavar="COLUMN", help="columns to keep (default: all that are short)")
    parser.add_argument("--hub_split", default="train", help="of a data set of the Hub")
    parser.add_argument("--split_into", default="whole", choices=("whole", "sentences", "passages"),
                        help="cut documents up; each part is a document of its own")  # fmt: skip
    parser.add_argument("--pool", action="store_true", help="keep documents, with the mean vector of their parts")
    parser.add_argument("--index", default="hnsw", choices=("hnsw", "binary", "none"), help="built after loading")
    parser.add_argument("--build_memory", default="1GB", help="for building the index (default: 1GB)")
    parser.add_argument("--storage", default="halfvec", choices=("halfvec", "vector"), help="16 or 32 bits a number")
    parser.add_argument("--partitions", type=int, default=1, help="tables that the vectors are spread over")
    parser.add_argument("--precision", default="auto", choices=("auto", "bf16", "fp32"), help="of the model")
    parser.add_argument("--pooling", help="for checkpoints that record none: mean, cls_before_pooler, ...")
    parser.add_argument("--shard_rows", type=int, default=16_384, help="rows encoded and committed together")
    parser.add_argument("--replace", action="store_true", help="index a corpus anew that has changed")


def run_index(args: argparse.Namespace) -> None:
    """Encode what is not there yet, write it, and build the index when all is there."""
    from contrastive_st.search.ingest import index_corpus, load_shards
    from contrastive_st.search.shards import RECORD, ShardFolder

    if bool(args.corpus) == args.installed_docs:
        raise InputError("which corpus? Name a file, a folder or a data set, or give --installed_docs (not both)")
    started, bar = time.perf_counter(), sys.stderr.isatty()
    if args.corpus and Path(args.corpus).expanduser().joinpath(RECORD).is_file():
        shards = ShardFolder(args.corpus)
        encoding = shards.encoding
        made = (encoding.model, encoding.fingerprint, encoding.dimension)
        with _created(args, *made) as store:
            loader = _loader(store, encoding.corpus, encoding.mark, encoding.shard_rows, args.replace)
            outcome = load_shards(shards, loader, progress=bar)
            loader.close()
            _report(outcome, started, _finished(store, outcome, args))
        return
    corpus = _corpus(args)
    encoder = _encoder(args)
    model = str(encoder.opened.folder.absolute()) if encoder.opened.folder else encoder.name
    if args.output:
        from contrastive_st.search.shards import Encoding

        rank, world = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
        made = Encoding(
            model, encoder.fingerprint, encoder.dimension, corpus.name, corpus.mark, shard_rows=args.shard_rows
        )
        folder = ShardFolder(args.output, made, rank, world)
        outcome = index_corpus(corpus, encoder, folder, shard_rows=args.shard_rows, progress=bar)
        _report(outcome, started, f"shards in {args.output}")
        return
    with _created(args, model, encoder.fingerprint, encoder.dimension) as store:
        loader = _loader(store, corpus.name, corpus.mark, args.shard_rows, args.replace)
        outcome = index_corpus(corpus, encoder, loader, shard_rows=args.shard_rows, progress=bar)
        loader.close()
        _report(outcome, started, _finished(store, outcome, args))


def parse_filter(conditions: Sequence[str]) -> dict[str, Any]:
    """`key=value`, `key>=value` and the like as a filter; numbers match numbers and the same digits as text.

    Example:
        >>> parse_filter(["source=torch", "year>=2020", "year<2030"])
        {'source': ['torch'], 'year': {'>=': 2020, '<': 2030}}
    """
    found: dict[str, Any] = {}
    for condition in conditions:
        match = _FILTER.fullmatch(condition)
        if match is None:
            raise InputError(f"--filter {condition}: write key=value, or key>=number and the like")
        key, compare, value = match["key"].strip(), match["compare"], match["value"].strip()
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        if compare in ("=", "=="):
            alternatives = [parsed] if parsed == value else [parsed, value]
            if not isinstance(found.setdefault(key, []), list):
                raise InputError(f"--filter {condition}: {key} is compared already; give one kind of condition a key")
            found[key] += alternatives
        else:
            if not isinstance(found.setdefault(key, {}), dict):
                raise InputError(f"--filter {condition}: {key} is compared already; give one kind of condition a key")
            found[key][compare] = parsed
    return found


# ---------------------------------------------------------------------- inside


def _index_to_read(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-k", type=int, default=10, help="how many (default: 10)")
    parser.add_argument("--filter", action="append", default=[], metavar="KEY=VALUE",
                        help="on metadata; also KEY>=NUMBER and the like; several must all hold")  # fmt: skip
    parser.add_argument("--model", "-m", help="the model that made the index (default: the one it names)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a hit")
    store_arguments(parser)


def _corpus(args: argparse.Namespace) -> Any:
    from contrastive_st.search.documents import cut, installed_docs_corpus, open_corpus

    if args.installed_docs:
        corpus = installed_docs_corpus()
    else:
        corpus = open_corpus(args.corpus, column=args.column, metadata=args.metadata, hub_split=args.hub_split)
    if args.pool and args.split_into == "whole":
        raise InputError("--pool averages the parts of a document; say which with --split_into")
    return cut(corpus, args.split_into, args.pool)


def _encoder(args: argparse.Namespace) -> Any:
    import torch

    from contrastive_st.models.encoder import BulkEncoder
    from contrastive_st.search.opening import default_model

    # oneDNN keeps the code of a product for each shape that it met: by default of 1024, a gigabyte of them
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else None
    model = args.model or default_model()
    return BulkEncoder(model, precision=args.precision, pooling=args.pooling, device=device)


def _created(args: argparse.Namespace, model: str, fingerprint: str, dimension: int) -> Any:
    from contrastive_st.search.opening import vector_store

    options = {"storage": args.storage, "partitions": args.partitions}
    return vector_store().create(
        args.store, args.collection, model=model, fingerprint=fingerprint, dimension=dimension, **options
    )


def _loader(store: Any, corpus: str, mark: str, shard_rows: int, replace: bool) -> Any:
    from contrastive_st.search.ingest import StoreLoader

    return StoreLoader(store, corpus, f"{mark} {shard_rows}", replace)


def _finished(store: Any, outcome: Any, args: argparse.Namespace) -> str:
    """Build the index where all rows are there; words on what is where."""
    words = f"{len(store):,} in collection {store.collection!r} of {store.database.shown}"
    if not outcome.complete or (args.index == store.index and not outcome.encoded):
        return f"{words}, index {store.index}"
    started = time.perf_counter()
    store.build_index(args.index, memory=args.build_memory)
    return f"{words}, index {args.index} in {time.perf_counter() - started:.0f} s"


def _report(outcome: Any, started: float, where: str) -> None:
    from contrastive_st.safety.memory import peak_resident

    seconds, memory = time.perf_counter() - started, f"{peak_resident() / 2**30:.2f} GiB of memory at most"
    print(f"{outcome.encoded:,} of {outcome.rows:,} rows added in {seconds:.0f} s, {memory}; {where}", file=sys.stderr)
    if not outcome.complete:
        print("other processes are at the rest; if one died, run the command again", file=sys.stderr)


def _search(args: argparse.Namespace) -> None:
    from contrastive_st.search.opening import open_encoder_for, open_index

    query = sys.stdin.buffer.read().decode("utf-8", "replace") if args.query == "-" else args.query
    if not query.strip():
        raise InputError("the query is empty; say what to look for")
    index: Any = open_index(args.store, args.collection)
    try:
        vector = open_encoder_for(index, args.model).encode([query])[0]
        options: dict[str, Any] = {"exact": True} if args.exact else {}
        options |= {"ef_search": args.ef_search} if args.ef_search else {}
        text = query if args.hybrid else None
        _print(index.search(vector, args.k, filter=parse_filter(args.filter), text=text, **options)[0], args.json)
    finally:
        index.close()


def _similar(args: argparse.Namespace) -> None:
    from contrastive_st.search.opening import open_index

    index: Any = open_index(args.store, args.collection)
    try:
        _print(index.similar(args.id, args.k, filter=parse_filter(args.filter)), args.json)
    finally:
        index.close()


def _print(hits: Sequence[Any], as_json: bool) -> None:
    width = shutil.get_terminal_size((120, 24)).columns
    for hit in hits:
        if as_json:
            score = None if math.isnan(hit.score) else hit.score
            row = {"id": hit.id, "score": score, "text": hit.text, "metadata": hit.metadata}
            print(json.dumps(row, ensure_ascii=False))
            continue
        print(_cut(f"{hit.score:.3f}  {hit.id}  {' '.join(hit.text.split())}", width))
        if hit.metadata:
            print(_cut("       " + _shown(hit.metadata), width))
    if not hits:
        print("nothing found", file=sys.stderr)


def _shown(metadata: Mapping[str, Any]) -> str:
    return "  ".join(f"{key}={' '.join(str(value).split())}" for key, value in metadata.items())


def _cut(line: str, width: int) -> str:
    line = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return line if len(line) <= width else line[: width - 1] + "…"


# --- `contrastive-st trends`, `duplicates` and `serve`.


def add_front_commands(commands: Any) -> None:
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
    from contrastive_st.search.analysis.topics import find_trends, table

    with _opened(args) as index:
        trends = find_trends(index, args.by, args.clusters, args.seed)
        print("\n".join(table(trends)))
        if folder is None:
            return
        from contrastive_st.search.analysis.projection import draw_map, draw_sizes, lay_out

        folder.mkdir(parents=True, exist_ok=True)
        written = [trends.save(folder / f"trends.{kind}") for kind in ("csv", "md", "json")]
        written.append(draw_map(lay_out(index, trends, seed=args.seed), folder / "map.png"))
        if trends.values:
            written.append(draw_sizes(trends, folder / "sizes.png"))
        print("written: " + ", ".join(map(str, written)), file=sys.stderr)


def _duplicates(args: argparse.Namespace) -> None:
    if args.output and Path(args.output).suffix not in (".csv", ".json"):
        raise InputError(f"--output {args.output}: write .csv or .json")
    from contrastive_st.search.analysis.duplicates import find_duplicates, save
    from contrastive_st.search.analysis.topics import one_line

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
    from contrastive_st.search.app.page import import_gradio
    from contrastive_st.search.app.serving import check_token, is_loopback, serve
    from contrastive_st.search.app.session import SearchSession, Source
    from contrastive_st.search.opening import open_encoder_for, open_index
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


# --- Bulk encoding over processes and machines: `accelerate launch -m contrastive_st.search.cli CORPUS ...`.


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0, or 2 after one line on what to mend."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    index_arguments(parser)
    argv = snake_case_flags(sys.argv[1:] if argv is None else argv)
    return run(lambda: run_index(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
