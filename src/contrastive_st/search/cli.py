"""`contrastive-st index`, `search`, `similar`, `delete`, `trends`, `duplicates`, `group` and `mine`."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from argparse import SUPPRESS
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import MISSING, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from contrastive_st.commands import MODEL_HELP, POOLING_HELP
from contrastive_st.errors import InputError, first_line
from contrastive_st.options import CountOrZero, Options, option
from contrastive_st.precision import VECTOR_PRECISIONS
from contrastive_st.search.mining.negative_rules import MiningOptions
from contrastive_st.terminal import note, progress_is_shown, say

if TYPE_CHECKING:
    from contrastive_st.search.documents import Corpus
    from contrastive_st.search.index import Files, VectorIndex
    from contrastive_st.search.ingest import Outcome
    from contrastive_st.search.report import Report
    from contrastive_st.search.shards import Encoding

FILTER_HELP = (
    "condition on metadata, such as topic=sea,sky (one of them), topic!=sea, year>=2000 or day<2024-05-01; of several, "
    'all must hold; quote a value with a comma: title="Hello, world"'
)
_OVERWRITE = "replace an output file that exists"
_FORMER_COLUMN = ("--columns",)
ModelPrecision = Literal["auto", "bf16", "fp32", "int8"]


@dataclass
class StoreCommand(Options, ABC):
    """A command that opens a store. SIGTERM ends it as Ctrl-C does: an embedded database stops with its last user."""

    store: str | None = option(
        "a folder for the embedded database, or postgresql://... (default: $CONTRASTIVE_ST_STORE, or one of your data "
        "folders)", metavar="WHERE",
    )  # fmt: skip

    def __call__(self) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGTERM, interrupt)
        try:
            self.run()
        finally:
            signal.signal(signal.SIGTERM, before)

    @abstractmethod
    def run(self) -> None:
        """Do what the command is for."""


@dataclass
class _CollectionCommand(StoreCommand):
    collection: str = option("name of the collection", default="documents")

    def opened(self) -> closing[VectorIndex]:
        """The collection, or the folder of shards; closed at the end of the block."""
        from contrastive_st.search.opening import open_index

        return closing(open_index(self.store, self.collection))


# --- index

_KILOBYTES = {"kB": 0, "MB": 10, "GB": 20, "TB": 30}  # powers of two


@dataclass
class Index(_CollectionCommand):
    """encode a corpus and put it into the store, or into parquet shards"""

    corpus: str = option(
        "a table (.csv, .jsonl, .parquet ...), a text file, a document (.md, .html, .pdf, .docx ...), a folder of "
        "these or of shards, or a data set of the Hub", default="", positional=True,
    )  # fmt: skip
    installed_docs: bool = option("index the docs of the installed packages", default=False)
    model: str | None = option(MODEL_HELP, short="-m")
    output: str | None = option("write parquet shards here, not into the store", short="-o", metavar="FOLDER")
    column: list[str] | None = option(
        "column of the texts (default: text, or the only one with text); of a folder several, of which each table has "
        "one", action="append", aliases=_FORMER_COLUMN,
    )  # fmt: skip
    metadata: list[str] | None = option(
        "metadata columns (default: all with short values)", nargs="*", metavar="COLUMN"
    )
    id_column: str | None = option(
        "column of ids, by which a row that has changed replaces the former one (default: id, if there is one; '' "
        "numbers the rows, and in a folder names the files)"
    )
    hub_split: str = option("split of a data set of the Hub", default="train")
    split_into: Literal["whole", "files", "lines", "sentences", "passages"] = option(
        "split documents into chunks, each of which becomes a document; files keeps files of text and of pages whole, "
        "and whole makes each page, and each line of a text that is a list, a document", default="whole",
    )  # fmt: skip
    pool: bool = option("keep documents whole, with the mean vector of their chunks", default=False)
    index: Literal["hnsw", "binary", "none"] = option("built after loading", default="hnsw")
    language: str | None = option(
        "of full text, such as german (default: that of the collection, else the one whose stop words the texts have, "
        "else simple: words as they are)"
    )
    build_memory: str | None = option(
        "for building the index, such as 4GB (default: what it takes, up to half of this machine's, in the embedded "
        "database; 1GB in another)"
    )
    storage: Literal["halfvec", "vector", "float32", "int8", "ubinary"] | None = option(
        "16 or 32 bits a number in the store (default: halfvec); 32, 8 or 1 in shards (default: float32)"
    )
    partitions: Annotated[int, Ge(1), Le(4096)] = option("number of tables for the vectors", default=1)
    precision: ModelPrecision = option("of the model", default="auto")
    pooling: str | None = option(POOLING_HELP)
    shard_rows: Annotated[int, Ge(1), Le(1 << 40)] = option(
        "number of rows encoded and committed together", default=16_384
    )
    replace: bool = option("index the corpus afresh, with what was deleted from it", default=False)
    restore: bool = option("add again what was deleted from the corpus", default=False)
    sync: bool = option("remove what has left the corpus: files of a folder, rows that have ids", default=False)
    watch: bool = option("go on until interrupted: index a folder again whenever files in it change", default=False)
    strict: bool = option("stop at the first row or file that would be left out", default=False)

    def run(self) -> None:
        """Encode and write the missing shards; build the index when all shards are there."""
        self._check()
        if not self.watch:
            self._index()
            return
        from contrastive_st.errors import one_line
        from contrastive_st.search.opening import open_database
        from contrastive_st.search.watching import settled_changes, state_of

        look = partial(state_of, Path(self.corpus).expanduser())
        before = look()
        self._index()
        with closing(open_database(self.store)):  # keeps an embedded server running
            note(f"watching {self.corpus} until interrupted")
            for _ in settled_changes(look, before):
                try:
                    self._index()
                except Exception as error:
                    if not (line := one_line(error)):
                        raise
                    note(f"not indexed, until the files change again: {line}")

    def _index(self) -> None:
        from contrastive_st.search.ingest import index_corpus, load_shards
        from contrastive_st.search.report import Report
        from contrastive_st.search.shards import RECORD, Encoding, ShardFolder

        started, report, shown = time.perf_counter(), Report(self.strict), progress_is_shown()
        if self.corpus and Path(self.corpus).expanduser().joinpath(RECORD).is_file():
            shards = ShardFolder(self.corpus)
            self._into_store(shards.encoding, partial(load_shards, shards, progress=shown), started, report)
            return
        corpus, encoder = self._corpus(), self._encoder
        if self.sync and not corpus.own_ids:
            raise InputError("--sync is of folders, and of rows with ids; --replace indexes this corpus afresh")
        fill = partial(index_corpus, corpus, encoder, shard_rows=self.shard_rows, progress=shown, report=report)
        made = Encoding(
            model_name(encoder), encoder.fingerprint, encoder.dimension, corpus.name, corpus.fingerprint,
            self.shard_rows, self.storage or "float32", corpus.own_ids,
        )  # fmt: skip
        if not self.output:
            self._into_store(made, fill, started, report, corpus.files)
            return
        rank, world = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
        _tell(fill(ShardFolder(self.output, made, rank, world)), started, f"shards in {self.output}", report)

    def _check(self) -> None:
        """Check the flags as the store will, before a corpus is read and a model is loaded."""
        from contrastive_st.search.postgres.names import STORAGES, check_name

        if bool(self.corpus) == self.installed_docs:
            raise InputError("give a corpus: a file, a folder, a data set, or --installed_docs (only one of them)")
        check_name(self.collection)
        amount = re.fullmatch(r"(\d{1,12})(kB|MB|GB|TB)", self.build_memory or "1GB")
        kilobytes = int(amount[1]) << _KILOBYTES[amount[2]] if amount else 0
        if not 1 << 10 <= kilobytes < 1 << 31:  # the limits of PostgreSQL
            raise InputError(f"--build_memory {self.build_memory}: give an amount such as 512MB or 4GB")
        where, storages = ("shards hold", VECTOR_PRECISIONS) if self.output else ("the store holds", STORAGES)
        if self.storage not in (None, *storages):
            raise InputError(f"--storage {self.storage}: {where} {', '.join(storages)}; choose one of these")
        whole = self.split_into in ("whole", "files")
        if self.id_column and (not whole or self.installed_docs):
            raise InputError("--id_column is of a corpus whose rows are whole documents; leave one of the options out")
        if (self.sync or self.watch) and self.output:
            raise InputError("--sync and --watch are of a store; leave --output out")
        if self.watch and not Path(self.corpus).expanduser().is_dir():
            raise InputError(f"--watch is of a folder, and {self.corpus or 'the installed docs'} is none")
        if self.pool and whole:
            raise InputError("--pool averages the chunks of a document; give --split_into too")

    def _corpus(self) -> Corpus:
        from contrastive_st.search.documents import by_file, cut, identified, installed_docs_corpus, open_corpus
        from contrastive_st.search.report import Report

        if self.installed_docs:
            return cut(installed_docs_corpus(), self.split_into, self.pool)
        lines = {"lines": True, "files": False}.get(self.split_into)
        corpus = open_corpus(
            self.corpus, column=self.column, metadata=self.metadata, hub_split=self.hub_split, lines=lines
        )
        # a missing column is an error before a model is loaded and the corpus is registered
        first = next(corpus.read(Report(self.strict)), None)
        has_ids = first is not None and "id" in first.metadata and not corpus.mixed
        column = self.id_column or ("id" if self.id_column is None and has_ids else "")
        if column and self.split_into in ("whole", "files"):
            return identified(corpus, column)
        corpus = cut(corpus, self.split_into, self.pool)
        return by_file(corpus) if corpus.files.digests else corpus

    @cached_property
    def _encoder(self) -> Any:
        from contrastive_st.models.protocol import open_encoder

        recorded = None if self.model or self.output else self._recorded_model()
        encoder = open_encoder(self.model or recorded, precision=self.precision, pooling=self.pooling)
        if recorded:
            note(f"model: {encoder.name}, which made collection {self.collection!r}")
        elif self.model is None:
            note(f"model: {encoder.name}; for better results choose a larger one with --model")
        return encoder

    def _recorded_model(self) -> str | None:
        """The model that made the collection, if there is one."""
        from contrastive_st.search.opening import open_index

        with suppress(InputError), closing(open_index(self.store, self.collection)) as index:
            return index.model
        return None

    def _into_store(
        self,
        made: Encoding,
        fill: Callable[[Any], Outcome],
        started: float,
        report: Report,
        files: Files | None = None,
    ) -> None:
        """Fill the collection, which is made if it does not exist; build its index if all rows are there."""
        from contrastive_st.search.opening import vector_store

        with vector_store().create(
            self.store, self.collection, model=made.model, fingerprint=made.fingerprint, dimension=made.dimension,
            storage=self.storage or "halfvec", partitions=self.partitions,
        ) as store:  # fmt: skip
            try:
                store.check_build(self.index, self.language)  # now, not after encoding
                mark = f"{made.corpus_fingerprint} {made.shard_rows}"
                again = {name: getattr(self, name) for name in ("replace", "restore", "sync")}
                with closing(store.loader(made.corpus, mark, own_ids=made.own_ids, files=files, **again)) as loader:
                    outcome = fill(loader)
                where = f"{len(store):,} in collection {store.collection!r} of {store.database.shown}"
                _tell(outcome, started, where, report)
                kept = self.index == store.index != "none" and outcome.encoded < len(store) // 10  # rows entered it
                asked = self.index, self.language or store.language
                if outcome.complete and (asked != (store.index, store.language) or (outcome.encoded and not kept)):
                    started = time.perf_counter()
                    peak = store.build_index(self.index, memory=self.build_memory, language=self.language)
                    memory = f", {peak / 2**30:.2f} GiB of the database's memory at most" if peak else ""
                    words = f"full text: {store.now().language}" + " (--language)" * (self.language is None)
                    note(f"index {self.index} built in {time.perf_counter() - started:.0f} s{memory}; {words}")
            except BaseException:
                if store.made:
                    with suppress(Exception):  # the database itself may have failed
                        store.drop(only_unused=True)
                raise


def model_name(encoder: Any) -> str:
    """What an index records: the folder of its model; the name of the one in this package, whose folder may move."""
    from contrastive_st.files.folders import SHIPPED

    return str(encoder.name if encoder.folder in (None, SHIPPED) else encoder.folder.absolute())


def _tell(outcome: Outcome, started: float, where: str, report: Report) -> None:
    from contrastive_st.memory import peak_resident

    seconds, memory = time.perf_counter() - started, f"{peak_resident() / 2**30:.2f} GiB of memory at most"
    loading = f" ({outcome.loading:.0f} s of them to write)" if outcome.encoded else ""
    states = outcome.states
    counts = {
        f"of {outcome.rows:,} rows added": outcome.encoded - states["changed"],
        "updated": states["changed"] + states["relabelled"],
        "unchanged": states["unchanged"],
        **({"removed": outcome.removed} if outcome.removed else {}),
    }
    what = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    note(f"{what} in {seconds:.0f} s{loading}, {memory}; {where}")
    for line in report.lines():
        note(line)
    if gone := states["deleted"]:
        note(f"{gone:,} rows are left out because they were deleted from the collection; --restore adds them again")
    if not outcome.complete:
        note("other processes encode the rest; if one of them died, run the command again")


# --- search, similar


@dataclass
class _HitsCommand(_CollectionCommand):
    k: int = option("number of hits", default=10, short="-k")
    filter: list[str] | None = option(FILTER_HELP, action="append", metavar="CONDITION")
    model: str | None = option("the model that made the index (default: the one that it records)", short="-m")
    json: bool = option("print one JSON object per hit", default=False)

    @abstractmethod
    def hits(self, index: Any) -> Sequence[Any]:
        """The documents that are printed."""

    def run(self) -> None:
        from contrastive_st.search.filters import as_filter
        from contrastive_st.search.index import check_k
        from contrastive_st.search.values import json_id, one_line

        check_k(self.k), as_filter(self.filter)  # before a model is opened
        with self.opened() as index:
            hits = self.hits(index)
        if not hits:
            note("nothing found")
        width = shutil.get_terminal_size((120, 24)).columns
        for hit in hits:
            if self.json:
                score = None if math.isnan(hit.score) else hit.score
                row = {"id": json_id(hit.own_id), "score": score, "text": hit.text, "metadata": hit.metadata}
                print(json.dumps(row))
                continue
            start = f"{hit.score:.3f}  {hit.own_id}  "
            say(start + one_line(hit.text, max(width - len(start), 20)))
            if hit.metadata:
                say("       " + one_line("; ".join(f"{key}={value}" for key, value in hit.metadata.items()), width - 7))


@dataclass
class Search(_HitsCommand):
    """find the documents nearest to a query"""

    query: str = option("the query; - reads it from stdin", positional=True)
    hybrid: bool = option("combine the rankings by cosine and by full text", default=False)
    exact: bool = option("compare with every document, even if there is an index", default=False)
    ef_search: int | None = option("candidates in the index; more: better recall, slower")
    min_score: str | None = option(
        "lowest cosine of a hit; auto is what 5% of sentences from elsewhere reach (collections NAME shows it)"
    )

    def hits(self, index: Any) -> Sequence[Any]:
        """The hits of the query."""
        from contrastive_st.search.floor import above, floor
        from contrastive_st.search.opening import open_encoder_for, query_vector

        query = sys.stdin.buffer.read().decode("utf-8", "replace") if self.query == "-" else self.query
        if not query.strip():
            raise InputError("the query is empty; give some words")
        options: dict[str, Any] = {"exact": True} if self.exact else {}
        options |= {"ef_search": self.ef_search} if self.ef_search is not None else {}
        encoder = open_encoder_for(index, self.model)
        vector, text = query_vector(encoder, query), query if self.hybrid else None
        found: list[list[Any]] = index.search(vector, self.k, filter=self.filter, text=text, **options)
        return above(found[0], floor(index, encoder, self.min_score))


@dataclass
class Similar(_HitsCommand):
    """find the documents nearest to a document"""

    id: str = option("id of the document, as search prints it, or that of its corpus", positional=True)

    def hits(self, index: VectorIndex) -> Sequence[Any]:
        """The hits of the document."""
        return index.similar(self.id, self.k, filter=self.filter)


# --- delete


@dataclass
class Delete(StoreCommand):
    """delete documents of a collection, by a filter or by their ids"""

    collection: str = option("name of the collection", positional=True)
    filter: list[str] | None = option(FILTER_HELP, action="append", metavar="CONDITION")
    ids: str | None = option(
        "a file with an id a line, as search prints it, or that of its corpus (- is stdin)", metavar="FILE"
    )
    yes: bool = option("delete without asking; needed without a terminal", default=False)
    purge: bool = option("then erase from the disk all that was ever deleted or replaced in it", default=False)

    def run(self) -> None:
        """Say what will be deleted, ask, and delete it; erase what is left of it on the disk."""
        from contrastive_st.search.filters import as_filter
        from contrastive_st.search.opening import open_index
        from contrastive_st.search.values import as_id

        given = [part for part in (self.filter, self.ids) if part is not None]
        if len(given) > 1 or not (given or self.purge):
            raise InputError("give --filter or --ids, one of them")
        filter = as_filter(self.filter)
        ids = list({as_id(line): None for line in _lines(self.ids) if line.strip()}) if self.ids else []
        if given and not (ids or filter):
            raise InputError(f"--ids {self.ids}: there are no ids" if self.ids else "--filter: there is no condition")
        with closing(open_index(self.store, self.collection)) as found:
            index: Any = found
            if not hasattr(index, "delete"):
                raise InputError(f"{self.store} is a folder of shards; encode the corpus without these documents again")
            if given:
                self._delete(index, filter, ids)
            if self.purge:
                from contrastive_st.search.postgres.purge import purge

                started = time.perf_counter()
                purge(index)
                note(f"what was deleted is erased from the tables of {self.collection!r} in "
                     f"{time.perf_counter() - started:.0f} s; backups and replicas still have it")  # fmt: skip

    def _delete(self, index: Any, filter: Any, ids: list[int]) -> None:
        from contrastive_st.search.index import check_filter

        count = index.count(filter) if filter else len(index.known(ids))
        what = f"with {filter}" if filter else f"of {len(ids):,} ids"
        say(f"{count:,} of {len(index):,} documents in {self.collection!r} {what}", file=sys.stderr)
        check_filter(index, filter, count > 0)
        if count and not self.yes:
            _confirm(f"delete {count:,} documents? [y/N] ")
        deleted = index.delete_matching(filter) if count and filter else index.delete(ids)
        note(f"deleted {deleted:,} documents; {len(index):,} are left in {self.collection!r}")


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
    """The lines of a file, or of stdin."""
    from contrastive_st.errors import about

    with about(f"--ids {name}"):
        content = sys.stdin.buffer.read() if name == "-" else Path(name).expanduser().read_bytes()
        return content.decode().splitlines()


# --- trends, duplicates, group


@dataclass
class Trends(_CollectionCommand):
    """name the clusters of an index; count them by year, source, ..."""

    by: str | None = option("metadata column to count by, such as year or source", metavar="COLUMN")
    clusters: int | None = option("number of clusters (default: one per 50 documents, from 2 to 16)")
    seed: Annotated[int, Ge(0), Le((1 << 32) - 1)] = option("seed of the sample and of k-means", default=0)
    output: str | None = option("folder for trends.csv, .md, .json and the plots", short="-o", metavar="FOLDER")
    overwrite: bool = option("replace files of these names in a folder in use", default=False)

    def run(self) -> None:
        """Print the clusters; write the tables and pictures."""
        from contrastive_st.files.writing import atomic_write, check_target
        from contrastive_st.search.analysis.topics import find_trends, table

        folder = None if self.output is None else check_target(self.output, self.overwrite)
        with self.opened() as index:
            trends = find_trends(index, self.by, self.clusters, self.seed)
            say("\n".join(table(trends)))
            if folder is None:
                return
            from contrastive_st.search.analysis.projection import draw_map, draw_sizes, lay_out

            layout = lay_out(index, trends, seed=self.seed)
        folder.mkdir(exist_ok=True)
        names = ["trends.csv", "trends.md", "trends.json", "map.png", *(["sizes.png"] if trends.values else [])]
        with ExitStack() as stack:
            paths = [stack.enter_context(atomic_write(folder / name, self.overwrite)) for name in names]
            for path in paths[:3]:
                trends.save(path)
            draw_map(layout, paths[3])
            for path in paths[4:]:
                draw_sizes(trends, path)
        note("written: " + ", ".join(str(folder / name) for name in names))


@dataclass
class Duplicates(_CollectionCommand):
    """find near-duplicate documents; every pair is compared"""

    threshold: float = option("lowest cosine of two duplicates", default=0.95)
    ignore_numbers: bool = option("leave out texts that differ in nothing but their numbers", default=False)
    limit: CountOrZero = option("groups to print; --output writes all", default=20)
    output: str | None = option("all groups as .csv or .json", short="-o", metavar="FILE")
    overwrite: bool = option(_OVERWRITE, default=False)

    def run(self) -> None:
        """Print the groups, or write them."""
        from contrastive_st.files.writing import atomic_write, check_target
        from contrastive_st.search.analysis.duplicates import FORMATS, find_duplicates, save
        from contrastive_st.search.report import UNKNOWN
        from contrastive_st.search.values import one_line

        if self.output:
            check_target(self.output, self.overwrite, formats=FORMATS)
        with self.opened() as index:
            limit = self.limit if self.limit and not self.output else None
            options: dict[str, Any] = {
                "ignore_numbers": self.ignore_numbers,
                "progress": progress_is_shown(),
                "limit": limit,
            }
            silent = Counter[bool]()
            groups = find_duplicates(index, self.threshold, knows=_knows(index, silent), **options)
        for group in groups[: self.limit]:
            say(f"{len(group)} documents")
            for member in group:
                say(f"  {member.similarity:.3f}  {member.id}  {one_line(member.text)}")
        if silent[False]:
            note(f"left out: {silent[False]:,} texts {UNKNOWN}")
        if self.output:
            with atomic_write(self.output, self.overwrite) as path:
                save(groups, path)
            note(f"{len(groups):,} groups in {self.output}")
        elif not groups:
            note(f"no two documents have a cosine of {self.threshold} or more")
        elif not self.limit:
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


@dataclass
class Group(Options):
    """group the texts of a file by what they say, each with a typical text"""

    file: str = option("texts: any file or data set that train reads", positional=True)
    column: str | None = option("column of the texts, if there are several", aliases=_FORMER_COLUMN)
    model: str | None = option(MODEL_HELP, short="-m")
    pooling: str | None = option(POOLING_HELP)
    threshold: float = option("lowest cosine to the typical text", default=0.75)
    min_community_size: int = option("smallest number of texts in a group", default=10)
    limit: CountOrZero = option("groups to print; --output writes all", default=20)
    examples: CountOrZero = option("other texts of each group to print", default=2)
    output: str | None = option("all groups as .csv, .jsonl or .parquet: a row per text", short="-o", metavar="FILE")
    overwrite: bool = option(_OVERWRITE, default=False)

    def __call__(self) -> None:
        from contrastive_st.data.reading.texts import corpus_texts
        from contrastive_st.data.table_writers import FORMATS, table_writer
        from contrastive_st.files.writing import atomic_write, check_target
        from contrastive_st.models.protocol import open_encoder
        from contrastive_st.search.in_memory import community_detection
        from contrastive_st.search.report import UNKNOWN
        from contrastive_st.search.values import one_line

        if self.output:
            check_target(self.output, self.overwrite, formats=FORMATS)
        texts = corpus_texts(self.file, self.column)
        shown = progress_is_shown()
        number = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        encoder = open_encoder(self.model, pooling=self.pooling)
        known = encoder.knows(list(number))  # others have one vector, which says nothing of them
        distinct = encoder.encode(list(number), show_progress_bar=shown) * known[:, None]
        vectors = distinct[[number[text] for text in texts]]
        groups = community_detection(vectors, self.threshold, self.min_community_size, show_progress_bar=shown)
        for group in groups[: self.limit]:
            say(f"{len(group):,} texts: {one_line(texts[group[0]])}")
            for number in group[1 : self.examples + 1]:
                say(f"    {one_line(texts[number])}")
        if self.output:
            names = ["group", "typical", "text"]
            with atomic_write(self.output, self.overwrite) as path, table_writer(path, names) as write:
                for number, group in enumerate(groups, 1):
                    rows = [(str(number), texts[group[0]], texts[member]) for member in group]
                    write(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
        note(f"{len(groups):,} groups of {sum(map(len, groups)):,} of {len(texts):,} texts")
        if not known.all():
            note(f"left out: {int((~known).sum()):,} texts {UNKNOWN}")


# --- mine


def _hidden() -> Any:
    """A former flag, which is read and not shown."""
    return field(default=None, kw_only=True, metadata={"flag": {"help": SUPPRESS}})


@dataclass(frozen=True)
class Mine(MiningOptions):
    """add hard negatives to pairs: the texts nearest to each anchor that are not its positives"""

    pairs: str = option("anchors and positives: any file or data set that train reads", positional=True)
    output: str = option("a .jsonl, .csv or .parquet file; train reads it", default=MISSING, short="-o")
    overwrite: bool = option(_OVERWRITE, default=False)
    model: str | None = option(MODEL_HELP, short="-m")
    precision: ModelPrecision = option("of the model and the guide", default="auto")
    anchor_column_name: str | None = _hidden()
    positive_column_name: str | None = _hidden()
    columns: list[str] | None = option(
        "the columns of the pairs, by name or position", nargs=2, metavar=("ANCHOR", "POSITIVE")
    )

    def __call__(self) -> None:
        from contrastive_st.search.mining import write_hard_negatives

        names: dict[str, Any] = dict(
            zip(("anchor_column_name", "positive_column_name"), self.columns or (), strict=False)
        )
        counts = write_hard_negatives(
            self.pairs, self.output, self.model, overwrite=self.overwrite, options=replace(self, **names),
            verbose=progress_is_shown(),
        )  # fmt: skip
        note(f"{self.output}: {counts}")


COMMANDS = (Index, Search, Similar, Delete, Trends, Duplicates, Group, Mine)
