"""`contrastive-st index`, `search`, `similar`, `delete`, `collections`, `trends`, `duplicates` and `mine`."""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from contrastive_st.commands import MODEL_HELP, POOLING_HELP
from contrastive_st.errors import InputError, first_line
from contrastive_st.precision import MODEL_PRECISIONS, VECTOR_PRECISIONS
from contrastive_st.terminal import note, progress_is_shown, say

Command = Callable[[argparse.Namespace], None]
FILTER_HELP = (
    "condition on metadata, such as topic=sea,sky (one of them), topic!=sea, year>=2000 or day<2024-05-01; of several, "
    'all must hold; quote a value with a comma: title="Hello, world"'
)


def add_commands(commands: Any) -> None:
    """Add the commands to the subparsers of the command line."""
    _add_index(commands)
    search = commands.add_parser("search", help="find the documents nearest to a query")
    search.add_argument("query", help="the query; - reads it from stdin")
    search.add_argument("--hybrid", action="store_true", help="combine the rankings by cosine and by full text")
    search.add_argument("--exact", action="store_true", help="compare with every document, even if there is an index")
    search.add_argument("--ef_search", type=int, help="candidates in the index; more: better recall, slower")
    _add_hits(search)
    search.set_defaults(function=_search)

    similar = commands.add_parser("similar", help="find the documents nearest to a document")
    similar.add_argument("id", help="id of the document, as search prints it, or that of its corpus")
    _add_hits(similar)
    similar.set_defaults(function=_similar)

    collections = commands.add_parser("collections", help="list the collections of a store; describe or delete one")
    collections.add_argument("name", nargs="?", help="collection to describe or delete (default: list all)")
    collections.add_argument("--delete", action="store_true", help="delete the collection and its documents")
    add_store(collections)
    collections.set_defaults(function=_collections)

    delete = commands.add_parser("delete", help="delete documents of a collection, by a filter or by their ids")
    delete.add_argument("collection", help="name of the collection")
    which = delete.add_mutually_exclusive_group(required=True)
    which.add_argument("--filter", action="append", default=[], metavar="CONDITION", help=FILTER_HELP)
    which.add_argument("--ids", metavar="FILE", help="a file with an id a line, as search prints it, or that of its "
                       "corpus (- is stdin)")  # fmt: skip
    delete.add_argument("--yes", action="store_true", help="delete without asking; needed without a terminal")
    add_store(delete)
    delete.set_defaults(function=_delete)

    trends = commands.add_parser("trends", help="name the clusters of an index; count them by year, source, ...")
    _add_collection(trends)
    trends.add_argument("--by", metavar="COLUMN", help="metadata column to count by, such as year or source")
    trends.add_argument("--clusters", type=int, help="number of clusters (default: one per 50 documents, from 2 to 16)")
    trends.add_argument("--seed", type=int, default=0, help="seed of the sample and of k-means")
    trends.add_argument("--output", "-o", metavar="FOLDER", help="folder for trends.csv, .md, .json and the plots")
    trends.add_argument("--overwrite", action="store_true", help="replace files of these names in a folder in use")
    trends.set_defaults(function=_trends)

    duplicates = commands.add_parser("duplicates", help="find near-duplicate documents; every pair is compared")
    _add_collection(duplicates)
    duplicates.add_argument("--threshold", type=float, default=0.95, help="lowest cosine of two duplicates")
    duplicates.add_argument("--ignore_numbers", action="store_true",
                            help="leave out texts that differ in nothing but their numbers")  # fmt: skip
    duplicates.add_argument("--limit", type=int, default=20, help="groups to print (default: 20); --output writes all")
    duplicates.add_argument("--output", "-o", metavar="FILE", help="all groups as .csv or .json")
    duplicates.add_argument("--overwrite", action="store_true", help="replace an output file that exists")
    duplicates.set_defaults(function=_duplicates)
    _add_group(commands)
    _add_mine(commands)


def _add_index(commands: Any) -> None:
    index = commands.add_parser("index", help="encode a corpus and put it into the store, or into parquet shards")
    index.add_argument("corpus", nargs="?", help="a table (.csv, .jsonl, .parquet ...), a text file, a document (.md, "
                       ".html, .pdf, .docx ...), a folder of these or of shards, or a data set of the Hub")  # fmt: skip
    index.add_argument("--installed_docs", action="store_true", help="index the docs of the installed packages")
    index.add_argument("--model", "-m", help=MODEL_HELP)
    index.add_argument("--output", "-o", metavar="FOLDER", help="write parquet shards here, not into the store")
    _add_collection(index)
    index.add_argument("--column", "--columns", help="column of the texts (default: text, or the only one with text)")
    index.add_argument(
        "--metadata", nargs="*", metavar="COLUMN", help="metadata columns (default: all with short values)"
    )
    index.add_argument("--id_column", help="column of ids, by which a row that has changed replaces the former one "
                       "(default: id, if there is one; '' numbers the rows)")  # fmt: skip
    index.add_argument("--hub_split", default="train", help="split of a data set of the Hub")
    index.add_argument("--split_into", default="whole", choices=("whole", "files", "lines", "sentences", "passages"),
                       help="split documents into chunks, each of which becomes a document; files keeps text "
                       "files whole (default: whole, and of a text file that is a list, each line)")  # fmt: skip
    index.add_argument("--pool", action="store_true", help="keep documents whole, with the mean vector of their chunks")
    index.add_argument("--index", default="hnsw", choices=("hnsw", "binary", "none"), help="built after loading")
    index.add_argument("--build_memory", help="for building the index, such as 4GB (default: what it takes, up to half "
                       "of this machine's, in the embedded database; 1GB in another)")  # fmt: skip
    index.add_argument("--storage", choices=("halfvec", "vector", *VECTOR_PRECISIONS),
                       help="16 or 32 bits a number in the store (default: halfvec); 32, 8 or 1 in shards "
                       "(default: float32)")  # fmt: skip
    index.add_argument("--partitions", type=int, default=1, help="number of tables for the vectors")
    index.add_argument("--precision", default="auto", choices=MODEL_PRECISIONS, help="of the model")
    index.add_argument("--pooling", help=POOLING_HELP)
    index.add_argument("--shard_rows", type=int, default=16_384, help="number of rows encoded and committed together")
    index.add_argument("--replace", action="store_true", help="index the corpus afresh, with what was deleted from it")
    index.add_argument("--restore", action="store_true", help="add again what was deleted from the corpus")
    index.add_argument("--strict", action="store_true", help="stop at the first row or file that would be left out")
    index.set_defaults(function=_index)


def _add_group(commands: Any) -> None:
    group = commands.add_parser("group", help="group the texts of a file by what they say, each with a typical text")
    group.add_argument("file", help="texts: any file or data set that train reads")
    group.add_argument("--column", "--columns", help="column of the texts, if there are several")
    group.add_argument("--model", "-m", help=MODEL_HELP)
    group.add_argument("--pooling", help=POOLING_HELP)
    group.add_argument(
        "--threshold", type=float, default=0.75, help="lowest cosine to the typical text (default: 0.75)"
    )
    group.add_argument(
        "--min_community_size", type=int, default=10, help="smallest number of texts in a group (default: 10)"
    )
    group.add_argument("--limit", type=int, default=20, help="groups to print (default: 20); --output writes all")
    group.add_argument("--examples", type=int, default=2, help="other texts of each group to print (default: 2)")
    group.add_argument("--output", "-o", metavar="FILE", help="all groups as .csv, .jsonl or .parquet: a row per text")
    group.add_argument("--overwrite", action="store_true", help="replace an output file that exists")
    group.set_defaults(function=_group)


def _add_mine(commands: Any) -> None:
    mine = commands.add_parser("mine", help="add hard negatives to pairs: the texts nearest to each anchor that "
                               "are not its positives")  # fmt: skip
    add = mine.add_argument
    add("pairs", help="anchors and positives: any file or data set that train reads")
    add("--output", "-o", required=True, help="a .jsonl, .csv or .parquet file; train reads it")
    add("--overwrite", action="store_true", help="replace an output file that exists")
    add("--model", "-m", help=MODEL_HELP)
    add("--pooling", help=POOLING_HELP)
    add("--precision", default="auto", choices=MODEL_PRECISIONS, help="of the model (default: auto)")
    add("--columns", nargs=2, metavar=("ANCHOR", "POSITIVE"), help="the columns of the pairs, by name or position")
    add("--corpus", metavar="FILE", help="take negatives from these texts (default: from the positives)")
    add("--corpus_column", help="column of a corpus with several columns of text")
    add("--num_negatives", type=int, default=3, help="negatives per anchor (default: 3)")
    add("--range_min", type=int, default=0, help="skip this many of the nearest texts (default: 0)")
    add("--range_max", type=int, help="highest rank, exclusive (default: range_min + 10 x num_negatives)")
    add("--max_score", type=float, help="highest score of a negative")
    add("--min_score", type=float, help="lowest score of a negative")
    add("--absolute_margin", type=float, help="a negative scores at least this much less than the positive")
    add("--relative_margin", type=float, help="the same as a share of the positive's score: 0.05 allows 95%% of it")
    add("--sampling_strategy", "--sampling", choices=("top", "random"), default="top", help="(default: top)")
    add("--seed", type=int, default=0, help="seed of random sampling (default: 0)")
    add("--guide", metavar="MODEL", help="another encoder, whose scores are used for limits and sampling")
    add("--cross_encoder", metavar="MODEL", help="as --guide, a CrossEncoder of sentence-transformers")
    for option, of in (("query_prompt", "anchors"), ("corpus_prompt", "documents")):
        add(f"--{option}", metavar="TEXT", help=f"prompt of {of} (default: as the model records)")
        add(f"--{option}_name", metavar="NAME", help=f"name of a recorded prompt for {of}")
    add("--batch_size", type=int, help="most texts that a model encodes at a time")
    add("--output_format", "--format", choices=("n-tuple", "triplet", "labeled-pair", "labeled-list"),
        default="n-tuple", help="a row per pair, with all negatives; per negative; per document of an anchor, with a "
        "label; or per pair, with lists of documents and labels (default: n-tuple)")  # fmt: skip
    add("--include_positives", action="store_true", help="rank the positives too, among the negatives")
    add("--scores", dest="output_scores", action="store_true",
        help="add a column of scores, of the positive and the negatives, for train to distill")  # fmt: skip
    mine.set_defaults(function=_mine)


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the flag that says where the store is."""
    parser.add_argument("--store", metavar="WHERE", help="a folder for the embedded database, or postgresql://... "
                        "(default: $CONTRASTIVE_ST_STORE, or one of your data folders)")  # fmt: skip


def _add_collection(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    parser.add_argument("--collection", default="documents", help="name of the collection (default: documents)")


def _add_hits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-k", type=int, default=10, help="number of hits (default: 10)")
    parser.add_argument("--filter", action="append", default=[], metavar="CONDITION", help=FILTER_HELP)
    parser.add_argument("--model", "-m", help="the model that made the index (default: the one that it records)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per hit")
    _add_collection(parser)


def closes_the_store(command: Command) -> Command:
    """Make SIGTERM end the command as Ctrl-C does, so that an embedded database stops with its last user."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    @functools.wraps(command)
    def run(args: argparse.Namespace) -> None:
        before = signal.signal(signal.SIGTERM, interrupt)
        try:
            command(args)
        finally:
            signal.signal(signal.SIGTERM, before)

    return run


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[Any]:
    from contrastive_st.search.opening import open_index

    with closing(open_index(args.store, args.collection)) as index:
        yield index


# --- index

_KILOBYTES = {"kB": 0, "MB": 10, "GB": 20, "TB": 30}  # powers of two


@closes_the_store
def _index(args: argparse.Namespace) -> None:
    """Encode and write the missing shards; build the index when all shards are there."""
    from contrastive_st.search.shards import RECORD, Encoding, ShardFolder

    if bool(args.corpus) == args.installed_docs:
        raise InputError("give a corpus: a file, a folder, a data set, or --installed_docs (only one of them)")
    _check_flags(args)
    if args.corpus and Path(args.corpus).expanduser().joinpath(RECORD).is_file():
        _load(args, ShardFolder(args.corpus))
        return
    from contrastive_st.files.folders import SHIPPED
    from contrastive_st.search.ingest import index_corpus
    from contrastive_st.search.report import Report

    started = time.perf_counter()
    corpus = _corpus(args, Report(args.strict))
    encoder = _encoder(args)
    report = Report(args.strict)
    options = {"shard_rows": args.shard_rows, "progress": progress_is_shown(), "report": report}
    own = encoder.folder in (None, SHIPPED)  # recorded by name, because the folder of the package may move
    model = encoder.name if own else str(encoder.folder.absolute())
    if args.output:
        rank, world = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
        made_by = (model, encoder.fingerprint, encoder.dimension)
        encoding = Encoding(*made_by, corpus.name, corpus.fingerprint, args.shard_rows,
                            args.storage or "float32", corpus.own_ids)  # fmt: skip
        outcome = index_corpus(corpus, encoder, ShardFolder(args.output, encoding, rank, world), **options)
        _report(outcome, started, f"shards in {args.output}", report)
        return
    with _created(args, model, encoder.fingerprint, encoder.dimension) as store:
        known = corpus.name, corpus.fingerprint, args.shard_rows, corpus.own_ids
        with _loader(store, args, *known) as loader:
            outcome = index_corpus(corpus, encoder, loader, **options)
        _finished(store, outcome, args, started, report)


def _check_flags(args: argparse.Namespace) -> None:
    """Check the flags as the store will, before a corpus is read and a model is loaded."""
    from contrastive_st.search.postgres.names import STORAGES, check_name
    from contrastive_st.search.shards import FIRST

    check_name(args.collection)
    amount = re.fullmatch(r"(\d{1,12})(kB|MB|GB|TB)", args.build_memory or "1GB")
    kilobytes = int(amount[1]) << _KILOBYTES[amount[2]] if amount else 0
    if not 1 << 10 <= kilobytes < 1 << 31:  # the limits of PostgreSQL
        raise InputError(f"--build_memory {args.build_memory}: give an amount such as 512MB or 4GB")
    for name, most in (("shard_rows", FIRST), ("partitions", 4096)):
        if not 1 <= getattr(args, name) <= most:
            raise InputError(f"--{name} {getattr(args, name)}: give 1 to {most:,}")
    where, storages = ("shards hold", VECTOR_PRECISIONS) if args.output else ("the store holds", STORAGES)
    if args.storage not in (None, *storages):
        raise InputError(f"--storage {args.storage}: {where} {', '.join(storages)}; choose one of these")


def _load(args: argparse.Namespace, shards: Any) -> None:
    """Put encoded shards into the store."""
    from contrastive_st.search.ingest import load_shards
    from contrastive_st.search.report import Report

    started, encoding = time.perf_counter(), shards.encoding
    with _created(args, encoding.model, encoding.fingerprint, encoding.dimension) as store:
        known = encoding.corpus, encoding.corpus_fingerprint, encoding.shard_rows, encoding.own_ids
        with _loader(store, args, *known) as loader:
            outcome = load_shards(shards, loader, progress=progress_is_shown())
        _finished(store, outcome, args, started, Report())


def _corpus(args: argparse.Namespace, report: Any) -> Any:
    from contrastive_st.search.documents import cut, identified, installed_docs_corpus, open_corpus
    from contrastive_st.search.splitting import FILES, LINES, WHOLE

    whole = args.split_into in (WHOLE, FILES)
    if args.installed_docs:
        corpus = installed_docs_corpus()
    else:
        lines = {LINES: True, FILES: False}.get(args.split_into)
        corpus = open_corpus(
            args.corpus, column=args.column, metadata=args.metadata, hub_split=args.hub_split, lines=lines
        )
    if args.id_column and (not whole or args.installed_docs):
        raise InputError("--id_column is of a corpus whose rows are whole documents; leave one of the options out")
    if args.pool and whole:
        raise InputError("--pool averages the chunks of a document; give --split_into too")
    # a missing column is an error before a model is loaded and the corpus is registered
    first = next(corpus.read(report), None)
    has_ids = first is not None and "id" in first.metadata and not corpus.mixed
    column = args.id_column or ("id" if args.id_column is None and has_ids else "")
    if column and whole and not args.installed_docs:
        return identified(corpus, column)
    return cut(corpus, args.split_into, args.pool)


def _encoder(args: argparse.Namespace) -> Any:
    from contrastive_st.models.protocol import open_encoder

    encoder = open_encoder(args.model, precision=args.precision, pooling=args.pooling)
    if args.model is None:
        note(f"model: {encoder.name}; for better results choose a larger one with --model")
    return encoder


@contextmanager
def _created(args: argparse.Namespace, model: str, fingerprint: str, dimension: int) -> Iterator[Any]:
    from contrastive_st.search.opening import vector_store

    with vector_store().create(
        args.store, args.collection, model=model, fingerprint=fingerprint, dimension=dimension,
        storage=args.storage or "halfvec", partitions=args.partitions,
    ) as store:  # fmt: skip
        try:
            store.check_build(args.index, args.build_memory)  # check now, not after encoding
            yield store
        except BaseException:
            if store.made:
                with suppress(InputError, OSError):  # the database itself may have failed
                    store.drop(only_unused=True)
            raise


@contextmanager
def _loader(
    store: Any,
    args: argparse.Namespace,
    corpus: str,
    fingerprint: str,
    shard_rows: int,
    own_ids: bool,
) -> Iterator[Any]:
    options = {"replace": args.replace, "restore": args.restore, "own_ids": own_ids}
    with closing(store.loader(corpus, f"{fingerprint} {shard_rows}", **options)) as loader:
        yield loader


def _finished(store: Any, outcome: Any, args: argparse.Namespace, started: float, report: Any) -> None:
    """Print what was added; build the index if all rows are there."""
    _report(outcome, started, f"{len(store):,} in collection {store.collection!r} of {store.database.shown}", report)
    if outcome.complete and (args.index != store.index or outcome.encoded):
        started = time.perf_counter()
        peak = store.build_index(args.index, memory=args.build_memory)
        memory = f", {peak / 2**30:.2f} GiB of the database's memory at most" if peak else ""
        note(f"index {args.index} built in {time.perf_counter() - started:.0f} s{memory}")


def _report(outcome: Any, started: float, where: str, report: Any) -> None:
    from contrastive_st.memory import peak_resident

    seconds, memory = time.perf_counter() - started, f"{peak_resident() / 2**30:.2f} GiB of memory at most"
    loading = f" ({outcome.loading:.0f} s of them to write)" if outcome.encoded else ""
    changed, unchanged = outcome.states["changed"], outcome.states["unchanged"]
    what = f"{outcome.encoded - changed:,} of {outcome.rows:,} rows added, {changed:,} updated, {unchanged:,} unchanged"
    note(f"{what} in {seconds:.0f} s{loading}, {memory}; {where}")
    for line in report.lines():
        note(line)
    if gone := outcome.states["deleted"]:
        note(f"{gone:,} rows are left out because they were deleted from the collection; --restore adds them again")
    if not outcome.complete:
        note("other processes encode the rest; if one of them died, run the command again")


# --- search, similar


@closes_the_store
def _search(args: argparse.Namespace) -> None:
    from contrastive_st.search.filters import as_filter
    from contrastive_st.search.index import check_k
    from contrastive_st.search.opening import open_encoder_for, query_vector

    query = sys.stdin.buffer.read().decode("utf-8", "replace") if args.query == "-" else args.query
    if not query.strip():
        raise InputError("the query is empty; give some words")
    k, filter = check_k(args.k), as_filter(args.filter)
    with _opened(args) as index:
        vector = query_vector(open_encoder_for(index, args.model), query)
        options: dict[str, Any] = {"exact": True} if args.exact else {}
        options |= {"ef_search": args.ef_search} if args.ef_search is not None else {}
        hits = index.search(vector, k, filter=filter, text=query if args.hybrid else None, **options)[0]
        _print(hits, args.json)


@closes_the_store
def _similar(args: argparse.Namespace) -> None:
    from contrastive_st.search.filters import as_filter
    from contrastive_st.search.index import check_k

    k, filter = check_k(args.k), as_filter(args.filter)
    with _opened(args) as index:
        _print(index.similar(args.id, k, filter=filter), args.json)


def _print(hits: Sequence[Any], as_json: bool) -> None:
    from contrastive_st.search.values import json_id, one_line

    if not hits:
        note("nothing found")
    width = shutil.get_terminal_size((120, 24)).columns
    for hit in hits:
        if as_json:
            score = None if math.isnan(hit.score) else hit.score
            print(json.dumps({"id": json_id(hit.id), "score": score, "text": hit.text, "metadata": hit.metadata}))
            continue
        start = f"{hit.score:.3f}  {hit.id}  "
        say(start + one_line(hit.text, max(width - len(start), 20)))
        if hit.metadata:
            say("       " + one_line("; ".join(f"{key}={value}" for key, value in hit.metadata.items()), width - 7))


# --- collections, trends, duplicates


@closes_the_store
def _collections(args: argparse.Namespace) -> None:
    if args.delete and args.name is None:
        raise InputError("--delete needs the name of a collection")
    from contrastive_st.search.opening import open_database, vector_store

    store_class = vector_store()
    with closing(
        open_database(args.store)
    ) as database:  # keeps an embedded server running from one collection to the next
        for name in [args.name] if args.name else store_class.names(database):
            with store_class(args.store, name) as store:
                if args.delete:
                    count = len(store)
                    store.drop()
                    note(f"deleted collection {name!r} with {count:,} documents")
                elif args.name:
                    say("\n".join(f"{key:12} {value}" for key, value in store.describe().items()))
                else:
                    what = f"{len(store):,} documents of {store.dimension} dimensions, index {store.index}"
                    say(f"{name:20} {what}, model {store.model}")


@closes_the_store
def _delete(args: argparse.Namespace) -> None:
    from contrastive_st.search.filters import as_filter
    from contrastive_st.search.index import check_filter
    from contrastive_st.search.opening import open_index
    from contrastive_st.search.values import as_id

    filter = as_filter(args.filter)
    ids = list({as_id(line): None for line in _lines(args.ids) if line.strip()}) if args.ids else []
    if not (ids or filter):
        raise InputError(f"--ids {args.ids}: there are no ids" if args.ids else "--filter: there is no condition")
    with closing(open_index(args.store, args.collection)) as found:
        index: Any = found
        if not hasattr(index, "delete"):
            raise InputError(f"{args.store} is a folder of shards; encode the corpus without these documents again")
        count = index.count(filter) if filter else len(index.known(ids))
        what = f"with {filter}" if filter else f"of {len(ids):,} ids"
        say(f"{count:,} of {len(index):,} documents in {args.collection!r} {what}", file=sys.stderr)
        check_filter(index, filter, count > 0)
        if count and not args.yes:
            _confirm(f"delete {count:,} documents? [y/N] ")
        deleted = index.delete_matching(filter) if filter else index.delete(ids)
        note(f"deleted {deleted:,} documents; {len(index):,} are left in {args.collection!r}")


def _confirm(question: str) -> None:
    """Ask on the terminal.

    Raises:
        InputError: there is no terminal, or the answer is not yes.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError("nothing was deleted: give --yes to delete them, as there is no terminal to ask on")
    say(question, file=sys.stderr, end="")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("nothing was deleted")


def _lines(name: str) -> list[str]:
    """The lines of a file, or of stdin.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).expanduser().read_bytes()
        return content.decode().splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"--ids {name}: it cannot be read: {first_line(error)}") from None


@closes_the_store
def _trends(args: argparse.Namespace) -> None:
    from contrastive_st.files.writing import atomic_write, check_target
    from contrastive_st.search.analysis.topics import find_trends, table

    folder = None if args.output is None else check_target(args.output, args.overwrite)
    with _opened(args) as index:
        trends = find_trends(index, args.by, args.clusters, args.seed)
        say("\n".join(table(trends)))
        if folder is None:
            return
        from contrastive_st.search.analysis.projection import draw_map, draw_sizes, lay_out

        layout = lay_out(index, trends, seed=args.seed)
    folder.mkdir(exist_ok=True)
    names = ["trends.csv", "trends.md", "trends.json", "map.png", *(["sizes.png"] if trends.values else [])]
    with ExitStack() as stack:
        paths = [stack.enter_context(atomic_write(folder / name, args.overwrite)) for name in names]
        for path in paths[:3]:
            trends.save(path)
        draw_map(layout, paths[3])
        for path in paths[4:]:
            draw_sizes(trends, path)
    note("written: " + ", ".join(str(folder / name) for name in names))


@closes_the_store
def _duplicates(args: argparse.Namespace) -> None:
    from contrastive_st.files.writing import atomic_write, check_target
    from contrastive_st.search.analysis.duplicates import find_duplicates, save
    from contrastive_st.search.report import UNKNOWN
    from contrastive_st.search.values import one_line

    if args.limit < 0:
        raise InputError(f"--limit {args.limit}: give the number of groups to print, 0 or more")
    if args.output:
        if Path(args.output).suffix not in (".csv", ".json"):
            raise InputError(f"--output {args.output}: write .csv or .json")
        check_target(args.output, args.overwrite)
    with _opened(args) as index:
        limit = args.limit if args.limit and not args.output else None
        options = {"ignore_numbers": args.ignore_numbers, "progress": progress_is_shown(), "limit": limit}
        silent = Counter[bool]()
        groups = find_duplicates(index, args.threshold, knows=_knows(index, silent), **options)
    for group in groups[: args.limit]:
        say(f"{len(group)} documents")
        for member in group:
            say(f"  {member.similarity:.3f}  {member.id}  {one_line(member.text)}")
    if silent[False]:
        note(f"left out: {silent[False]:,} texts {UNKNOWN}")
    if args.output:
        with atomic_write(args.output, args.overwrite) as path:
            save(groups, path)
        note(f"{len(groups):,} groups in {args.output}")
    elif not groups:
        note(f"no two documents have a cosine of {args.threshold} or more")
    elif not args.limit:
        note(f"{len(groups):,} groups")


def _knows(index: Any, counted: Counter[bool]) -> Callable[[list[str]], Any] | None:
    """`knows` of the model of an index, which counts its answers; None, and a line, if that model cannot be opened."""
    from contrastive_st.search.opening import open_encoder_for

    try:
        encoder = open_encoder_for(index)
    except (InputError, OSError) as error:
        note(f"texts of which the model knows no token may be among these: {first_line(error)}")
        return None

    def knows(texts: list[str]) -> Any:
        known = encoder.knows(texts)
        counted.update(known.tolist())
        return known

    return knows


# --- group


def _group(args: argparse.Namespace) -> None:
    from contrastive_st.data.reading.texts import read_corpus
    from contrastive_st.data.table_writers import FORMATS, table_writer
    from contrastive_st.files.writing import atomic_write, check_target
    from contrastive_st.models.protocol import open_encoder
    from contrastive_st.search.in_memory import community_detection
    from contrastive_st.search.report import UNKNOWN
    from contrastive_st.search.values import one_line

    if min(args.limit, args.examples) < 0:
        raise InputError(f"--limit {args.limit}, --examples {args.examples}: give 0 or more")
    if args.output:
        if Path(args.output).suffix not in FORMATS:
            raise InputError(f"--output {args.output}: write one of {', '.join(FORMATS)}")
        check_target(args.output, args.overwrite)
    rows = read_corpus(args.file, args.column)
    texts = rows[rows.column_names[0]][:]
    shown = progress_is_shown()
    number = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    encoder = open_encoder(args.model, pooling=args.pooling)
    known = encoder.knows(list(number))  # others have one vector, which says nothing of them
    distinct = encoder.encode(list(number), show_progress_bar=shown) * known[:, None]
    vectors = distinct[[number[text] for text in texts]]
    groups = community_detection(vectors, args.threshold, args.min_community_size, show_progress_bar=shown)
    for group in groups[: args.limit]:
        say(f"{len(group):,} texts: {one_line(texts[group[0]])}")
        for number in group[1 : args.examples + 1]:
            say(f"    {one_line(texts[number])}")
    if args.output:
        names = ["group", "typical", "text"]
        with atomic_write(args.output, args.overwrite) as path, table_writer(path, names) as write:
            for number, group in enumerate(groups, 1):
                rows = [(str(number), texts[group[0]], texts[member]) for member in group]
                write(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    grouped = sum(map(len, groups))
    note(f"{len(groups):,} groups of {grouped:,} of {len(texts):,} texts")
    if not known.all():
        note(f"left out: {int((~known).sum()):,} texts {UNKNOWN}")


# --- mine


def _mine(args: argparse.Namespace) -> None:
    from contrastive_st.search.mining import write_hard_negatives

    options = {
        name: value for name, value in vars(args).items() if name not in ("command", "function", "pairs", "columns")
    }
    if args.columns:
        options |= dict(zip(("anchor_column_name", "positive_column_name"), args.columns, strict=True))
    counts = write_hard_negatives(args.pairs, verbose=progress_is_shown(), **options)
    note(f"{args.output}: {counts}")
