"""`contrastive-st index`: a corpus into a store, or into shards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Le

from contrastive_st.commands import MODEL_HELP, POOLING_HELP, PRECISION_HELP
from contrastive_st.device import VECTOR_PRECISIONS
from contrastive_st.errors import InputError
from contrastive_st.options import option
from contrastive_st.search.cli import CollectionCommand, ModelPrecision
from contrastive_st.search.postgres.names import STORAGES, check_name
from contrastive_st.terminal import note, progress_is_shown

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.search.documents import Corpus
    from contrastive_st.search.index import Files, Sink
    from contrastive_st.search.ingest import Outcome
    from contrastive_st.search.report import Report
    from contrastive_st.search.shards import Encoding


#: What is decided when texts are encoded
_OF_TEXTS = ("model", "columns", "metadata", "types", "id_column", "hub_split", "split_into", "pooling", "sync")


@dataclass
class Index(CollectionCommand):
    """encode a corpus and write it to a store (PostgreSQL) or to parquet shards

    contrastive-st index talks.csv --columns title abstract --collection talks
    contrastive-st index notes/ --split_into passages --sync
    contrastive-st index --query "SELECT id, body, day FROM talks" --store postgresql://host/name --sync
    """

    corpus: str = option(
        "a table (.csv, .jsonl, .parquet ...), a text file, a document (.md, .html, .pdf, .docx ...), a folder of "
        "these or of shards, or a data set of the Hub", default="", positional=True,
    )  # fmt: skip
    installed_docs: bool = option(
        "instead of a corpus, index the documentation of the installed Python packages", default=False
    )
    query: str | None = option(
        "instead of a corpus, index the rows of a SELECT, which the server of --store answers; columns are metadata",
        metavar="SQL",
    )
    model: str | None = option(MODEL_HELP, short="-m")
    output: str | None = option(
        "write parquet shards to this folder instead of the store", short="-o", metavar="FOLDER"
    )
    columns: list[str] | None = option(
        "column of the texts (default: the column named text, or else the only one that holds texts); several are one "
        "text, with the name of each before its cell; of a folder, those that a table has",
    )  # fmt: skip
    metadata: list[str] | None = option(
        "columns to keep as metadata (default: all with short values, except the text)",
        nargs="*",
        metavar="COLUMN",
    )
    types: list[str] | None = option(
        "types of columns of the metadata, such as price=number: number, date, text, boolean or list (default: that "
        "of the collection, or else of all cells of the column in a table; the command prints it)",
        nargs="*",
        metavar="COLUMN=TYPE",
    )
    id_column: str | None = option(
        "column of ids, by which a changed row replaces its earlier version (default: the column named id). Without "
        "such a column, or with --id_column '', ids are made from row numbers, or in a folder from paths"
    )
    hub_split: str = option("split of a data set of the Hub, or of a folder of save_to_disk", default="train")
    split_into: Literal["whole", "files", "lines", "sentences", "passages"] = option(
        "what becomes a document. whole: each file, but each page of a PDF, and each line of a text file that looks "
        "like a list; files: each file, without these exceptions; lines, sentences, passages (about 100 words): "
        "each of these",
        default="whole",
    )  # fmt: skip
    index: Literal["hnsw", "binary", "none"] = option(
        "vector index, built after all vectors are written; hnsw: a graph over the vectors; binary: a smaller "
        "graph, over four bits per dimension (signs of four rotated copies of the vector); none: exact search",
        default="hnsw",
        group="indexing",
    )
    language: str | None = option(
        "language for full-text search, such as german (default: that of the collection; for a new one it is detected "
        "by stop words; if that fails, simple, which does not stem)", group="indexing",
    )  # fmt: skip
    build_memory: str | None = option(
        "memory for building the vector index, such as 4GB. By default 1GB on a server; for a store in a folder, as "
        "much as the index needs, up to half of the machine's memory"
    )
    storage: Literal["halfvec", "vector", "float32", "int8", "ubinary"] | None = option(
        "type of the vectors; in the store halfvec (16 bits per number) or vector (32), by default halfvec; in "
        "shards float32, int8 or ubinary (1 bit), by default float32",
        group="indexing",
    )
    partitions: Annotated[int, Ge(1), Le(4096)] = option("number of partitions of the table of vectors", default=1)
    precision: ModelPrecision = option(PRECISION_HELP.format("model"), default="auto")
    pooling: str | None = option(POOLING_HELP)
    shard_rows: Annotated[int, Ge(1), Le(1 << 40)] = option(
        "number of rows encoded and committed together", default=16_384
    )
    replace: bool = option(
        "also encode documents that are unchanged, and bring back those that were removed with `delete`, instead of "
        "skipping them",
        default=False,
    )
    restore: bool = option(
        "bring back documents that were removed with `delete` and are still in the corpus", default=False
    )
    sync: bool = option("delete documents whose file or id is no longer in the corpus", default=False)
    strict: bool = option("stop at the first row or file that cannot be indexed, instead of skipping it", default=False)

    def run(self) -> None:
        """Encode and write the missing shards; build the index when all shards are there."""
        from contrastive_st.search.index import Files
        from contrastive_st.search.ingest import index_corpus, load_shards
        from contrastive_st.search.opening import model_name
        from contrastive_st.search.report import Report
        from contrastive_st.search.shards import Encoding, ShardFolder, is_folder_of_shards
        from contrastive_st.search.values import nfc

        check_name(self.collection)
        started, report, shown = time.perf_counter(), Report(self.strict), progress_is_shown()
        if self.corpus and is_folder_of_shards(self.corpus):
            shards, usual = ShardFolder(self.corpus), {spec.name: spec.default for spec in fields(self)}
            if flags := [f"--{name}" for name in _OF_TEXTS if getattr(self, name) != usual[name]]:
                raise InputError(f"{self.corpus} has vectors and their texts already; leave out {', '.join(flags)}")
            made = shards.encoding
            files = Files(made.files, hashed=made.hashed)
            fill = partial(load_shards, shards, progress=shown)
            self._into_store(made, fill, started, report, files, of_shards=True)
            return
        corpus, encoder = self._corpus(), self._encoder
        if self.sync and not corpus.own_ids:
            raise InputError("--sync needs a folder, or rows with ids; --replace indexes this corpus again")
        encode = partial(index_corpus, corpus, encoder, shard_rows=self.shard_rows, progress=shown, report=report)
        types = {nfc(name): kind for name, kind in corpus.types.items()}
        made = Encoding(
            model_name(encoder), encoder.fingerprint, encoder.dimension, corpus.name, corpus.fingerprint,
            self.shard_rows, self.storage or "float32", corpus.own_ids, types, dict(corpus.files.digests),
            corpus.files.hashed,
        )  # fmt: skip
        if not self.output:
            self._into_store(made, encode, started, report, corpus.files)
            return
        rank, world = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
        _report(encode(ShardFolder(self.output, made, rank, world)), started, f"shards in {self.output}", report)

    def conflicts(self) -> Iterator[str]:
        """Yield options that exclude each other."""
        storages = VECTOR_PRECISIONS if self.output else tuple(STORAGES)
        if bool(self.corpus) + self.installed_docs + bool(self.query) != 1:
            yield "give a corpus (before --columns): a file, folder or data set; or --installed_docs or --query"
        if self.storage not in (None, *storages):
            yield f"--storage {self.storage}: {'shards' if self.output else 'the store'} can hold {', '.join(storages)}"
        if self.installed_docs:
            yield from self.unused("with --installed_docs", "id_column", "columns", "metadata", "types", "hub_split")
        if self.output and (self.language or self.build_memory or self.partitions > 1):
            yield ("--language, --build_memory and --partitions are of a collection; leave --output out, or give them "
                   "when the shards are indexed")  # fmt: skip
        if self.output and (self.sync or self.replace or self.restore):
            yield ("--sync, --replace and --restore work with a store; leave --output out, or remove its folder to "
                   "encode everything again")  # fmt: skip

    def _corpus(self) -> Corpus:
        from contrastive_st.search.column_types import parse_types
        from contrastive_st.search.documents import cut, installed_docs_corpus, open_corpus, with_ids
        from contrastive_st.search.opening import default_store
        from contrastive_st.search.report import Report

        if self.installed_docs:
            return cut(installed_docs_corpus(), self.split_into)
        lines = {"lines": True, "files": False}.get(self.split_into)
        former = {} if self.output or self.replace else self._recorded[1]
        read = partial(
            open_corpus, column=self.columns, metadata=self.metadata, types=parse_types(self.types or ()),
            former_types=former, hub_split=self.hub_split, lines=lines, id_column=self.id_column or "id",
        )  # fmt: skip
        corpus = read(self.query, where=str(self.store or default_store())) if self.query else read(self.corpus)
        # a missing column is an error before a model is loaded and the corpus is registered
        first = next(corpus.read(Report(self.strict)), None)
        return with_ids(corpus, first, self.id_column, self.columns or (), self.split_into)

    @cached_property
    def _encoder(self) -> SentenceEncoder:
        from contrastive_st.search.opening import open_recorded

        recorded = "" if self.model or self.output else self._recorded[0]
        encoder = open_recorded(recorded, self.model, precision=self.precision, pooling=self.pooling)
        if recorded:
            note(f"model: {encoder.name}, which made collection {self.collection!r}")
        elif self.model is None:
            note(f"model: {encoder.name}; for better results choose a larger one with --model")
        return encoder

    @cached_property
    def _recorded(self) -> tuple[str, Mapping[str, str]]:
        """The model and the types of columns that the collection records, if there is one."""
        from contrastive_st.search.opening import open_index

        with suppress(InputError), closing(open_index(self.store, self.collection)) as index:
            return index.model, index.types()
        return "", {}

    def _into_store(
        self,
        made: Encoding,
        fill: Callable[[Sink], Outcome],
        started: float,
        report: Report,
        files: Files,
        of_shards: bool = False,
    ) -> None:
        """Fill the collection, which is made if it does not exist; build its index if all rows are there."""
        from contrastive_st.search.column_types import MIXED
        from contrastive_st.search.opening import vector_store

        with vector_store().create(
            self.store, self.collection, model=made.model, fingerprint=made.fingerprint, dimension=made.dimension,
            storage=self.storage or "halfvec", partitions=self.partitions,
        ) as store, ExitStack() as failed:  # fmt: skip
            if store.made:  # it is removed if this run fails, as far as the database itself has not failed too

                def drop_unused() -> None:
                    with suppress(Exception):
                        store.drop(only_unused=True)

                failed.callback(drop_unused)
            asked = {"storage": self.storage or store.storage, "partitions": self.partitions}
            actual = {"storage": store.storage, "partitions": store.partitions}
            if asked != actual and asked != {**actual, "partitions": 1}:  # 1 is also what was not asked for
                kind = f"{store.storage} in {store.partitions} partitions"
                raise InputError(
                    f"collection {store.collection!r} holds {kind}; leave out --storage and --partitions, or index "
                    "into another collection and --swap it with this one"
                )
            store.check_build(self.index, self.language, self.build_memory)  # now, not after encoding
            if not of_shards and made.model != store.model:  # shards may be older than the collection
                store.record_location(made.model)
            if self.language:
                store.decide_language([], self.language)
            mark = f"{made.corpus_fingerprint} {made.shard_rows}"
            with closing(store.loader(
                made.corpus, mark, own_ids=made.own_ids, files=files, types=made.types,
                replace=self.replace, restore=self.restore, sync=self.sync, of_shards=of_shards,
            )) as loader:  # fmt: skip
                outcome = fill(loader)
            where = f"{len(store):,} documents in collection {store.collection!r} of {store.database.shown}"
            _report(outcome, started, where, report)
            if mixed := [name for name, kind in store.types().items() if MIXED in kind]:
                note(f"columns with values of several types, which filters compare as each is: {', '.join(mixed)} "
                     "(--types COLUMN=TYPE refuses other values)")  # fmt: skip
            kept = self.index == store.index != "none" and outcome.encoded < len(store) // 10  # rows entered it
            now = store.now()
            requested = self.index, self.language or now.language
            if outcome.complete and (requested != (store.index, now.language) or (outcome.encoded and not kept)):
                started = time.perf_counter()
                peak = store.build_index(self.index, memory=self.build_memory, language=self.language)
                memory = f", peak memory of the database {peak / 2**30:.2f} GiB" if peak else ""
                language = f"full text: {store.now().language}" + " (--language changes it)" * (self.language is None)
                note(f"index {self.index} built in {time.perf_counter() - started:.0f} s{memory}; {language}")
            failed.pop_all()


def _report(outcome: Outcome, started: float, where: str, report: Report) -> None:
    from contrastive_st.device import peak_resident

    seconds, memory = time.perf_counter() - started, f"peak memory {peak_resident() / 2**30:.2f} GiB"
    loading = f" ({outcome.loading:.0f} s of them for writing)" if outcome.encoded else ""
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
    if kept := outcome.kept:
        note(f"{kept:,} documents of files that can no longer be read are still found, as they were indexed before")
    if gone := states["deleted"]:
        note(f"{gone:,} rows are left out because they were deleted from the collection; --restore adds them again")
    if not outcome.complete:
        note("other processes encode the rest; if one of them died, run the command again")
