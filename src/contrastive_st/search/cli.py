"""`contrastive-st search`, `similar`, `delete`, `trends`, `duplicates`, `group` and `mine`."""

from __future__ import annotations

import json
import math
import shutil
import signal
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from contrastive_st.commands import MODEL_HELP, POOLING_HELP, PRECISION_HELP
from contrastive_st.errors import InputError, about, first_line
from contrastive_st.options import Count, CountOrZero, Options, option
from contrastive_st.search.mining.negative_rules import MiningOptions
from contrastive_st.terminal import note, progress_is_shown, say, tell

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.search.analysis import topics
    from contrastive_st.search.index import Hit, VectorIndex

FILTER_HELP = (
    "condition on metadata, such as topic=sea; topic=sea,sky (sea or sky); topic!=sea; year>=2000; day<2024-05-01. "
    'If the option is repeated, all conditions must hold. Quote a value that contains a comma: title="Hello, world"'
)
RERANK_TOP = "number of hits that --rerank reorders"
RERANK_HELP = "reorder the first hits by a cross-encoder with one score: a checkpoint folder or Hub name"
_OVERWRITE = "replace an output file that exists"
ModelPrecision = Literal["auto", "bf16", "fp32", "int8"]


@dataclass
class StoreCommand(Options, ABC):
    """A command that opens a store. SIGTERM ends it as Ctrl-C does: an embedded database stops with its last user."""

    store: str | None = option(
        "the store: a folder, in which the command runs a PostgreSQL of its own, or postgresql://... for a server "
        "(default: $CONTRASTIVE_ST_STORE, or contrastive_st/search in your data folder, such as ~/.local/share)",
        metavar="WHERE",
    )  # fmt: skip

    def __call__(self) -> None:
        """Run the command."""
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self.run()
        finally:
            signal.signal(signal.SIGTERM, before)

    @abstractmethod
    def run(self) -> None:
        """Do what the command is for."""


@dataclass
class CollectionCommand(StoreCommand):
    """A command that opens a collection."""

    collection: str = option("name of the collection", default="documents")

    def opened(self) -> closing[VectorIndex]:
        """The collection, or the folder of shards; closed at the end of the block."""
        from contrastive_st.search.opening import open_index

        return closing(open_index(self.store, self.collection))


def recorded_encoder(index: VectorIndex, otherwise: str) -> SentenceEncoder | None:
    """The model that made an index; None if it cannot be opened, with a note that says what this means."""
    from contrastive_st.search.opening import open_encoder_for

    try:
        return open_encoder_for(index)
    except (InputError, OSError) as error:
        note(f"{otherwise}: {first_line(error)}")
        return None


# --- search, similar


@dataclass
class _HitsCommand(CollectionCommand):
    k: int = option("number of hits", default=10, short="-k")
    filter: list[str] | None = option(FILTER_HELP, action="append", metavar="CONDITION")
    model: str | None = option("the model that encoded the documents (default: as recorded)", short="-m")
    json: bool = option("print one JSON object per hit", default=False)

    @abstractmethod
    def hits(self, index: VectorIndex) -> Sequence[Hit]:
        """The documents that are printed."""

    def run(self) -> None:
        from contrastive_st.search.filters import as_filter
        from contrastive_st.search.index import check_k
        from contrastive_st.search.values import json_id, one_line

        check_k(self.k), as_filter(self.filter)  # before a model is opened
        with self.opened() as index:
            hits = self.hits(index)
        if not hits:
            note("no hits")
        width = shutil.get_terminal_size((120, 24)).columns
        for hit in hits:
            if self.json:
                score = None if math.isnan(hit.score) else hit.score
                row = {"id": json_id(hit.own_id), "score": score, "text": hit.text, "metadata": hit.metadata}
                print(json.dumps({**row, **hit.place}))
                continue
            start = f"{hit.score:.3f}  {hit.own_id}  "
            say(start + one_line(hit.text, max(width - len(start), 20)))
            if shown := {**hit.metadata, **hit.place}:
                say("       " + one_line("; ".join(f"{key}={value}" for key, value in shown.items()), width - 7))


@dataclass
class Search(_HitsCommand):
    """find the documents nearest to a query

    contrastive-st search "why do tides rise" -k 5 --filter "year>=2000"
    """

    query: str = option("the query; - reads it from stdin", positional=True)
    hybrid: bool = option("combine the rankings of vector search and full-text search", default=False)
    exact: bool = option("compare the query with every document, even if there is a vector index", default=False)
    ef_search: int | None = option(
        "number of candidates that the vector index keeps; more of them improve recall and slow the search down "
        "(default: 200)"
    )
    min_score: Annotated[float, Ge(-1), Le(1)] | None = option("lowest cosine of a hit")
    rerank: str | None = option(RERANK_HELP, metavar="MODEL")
    rerank_top: Count = option(RERANK_TOP, default=50)

    def conflicts(self) -> Iterator[str]:
        """Yield a number of hits to rerank without a model that does it."""
        if not self.rerank:
            yield from self.unused("without --rerank", "rerank_top")

    def hits(self, index: VectorIndex) -> Sequence[Hit]:
        """The hits of the query."""
        from contrastive_st.data.reading.content import stdin_texts
        from contrastive_st.search.index import at_least
        from contrastive_st.search.opening import open_encoder_for, query_vector
        from contrastive_st.search.reranking import open_cross_encoder, rerank, unscored

        query = "\n".join(stdin_texts()) if self.query == "-" else self.query
        encoder = open_encoder_for(index, self.model)
        cross_encoder = open_cross_encoder(self.rerank) if self.rerank else None
        vector, text = query_vector(encoder, query), query if self.hybrid else None
        k = max(self.k, self.rerank_top) if cross_encoder else self.k
        (result,) = index.search(
            vector, k, filter=self.filter, text=text, exact=self.exact or None, ef_search=self.ef_search
        )
        hits, left = at_least(result, self.min_score)
        if cross_encoder:
            hits = rerank(query, hits, cross_encoder, self.rerank_top)[: self.k]
            left += unscored(hits)
        for line in left:
            note(line)
        return hits


@dataclass
class Similar(_HitsCommand):
    """find the documents nearest to a document of the collection

    contrastive-st similar 17 -k 5
    """

    id: str = option("id of the document, as in the output of search or in the corpus", positional=True)

    def hits(self, index: VectorIndex) -> Sequence[Hit]:
        """The hits of the document."""
        return index.similar(self.id, self.k, filter=self.filter)


# --- delete


@dataclass
class Delete(StoreCommand):
    """delete documents of a collection, by a filter or by their ids

    contrastive-st delete talks --filter topic=sea --yes
    """

    collection: str = option("name of the collection", positional=True)
    filter: list[str] | None = option(FILTER_HELP, action="append", metavar="CONDITION")
    ids: str | None = option(
        "a file of ids, one per line, such as those that search prints; - is stdin", metavar="FILE"
    )
    yes: bool = option("delete without asking for confirmation; required if there is no terminal", default=False)

    def conflicts(self) -> Iterator[str]:
        """Yield two ways to name documents, or none."""
        if (self.filter is None) == (self.ids is None):
            yield "give --filter or --ids, one of them"

    def run(self) -> None:
        """Print what will be deleted, ask, and delete it."""
        from contrastive_st.data.reading.content import decode
        from contrastive_st.search.filters import as_filter
        from contrastive_st.search.index import check_filter
        from contrastive_st.search.opening import open_index, writable
        from contrastive_st.search.values import as_id, one_line

        filter, ids = as_filter(self.filter), dict[int, str]()
        if self.ids:
            with about(f"--ids {self.ids}"):
                content = sys.stdin.buffer.read() if self.ids == "-" else Path(self.ids).expanduser().read_bytes()
            lines = decode(content, f"--ids {self.ids}")[0].replace("\r\n", "\n").split("\n")
            ids = {as_id(line): line.strip() for line in lines if line.strip()}
        with closing(open_index(self.store, self.collection)) as opened:
            index = writable(opened, str(self.store or "the store"))
            present = set() if filter else set(index.known(list(ids)))
            if unknown := [name for id, name in ids.items() if id not in present]:
                note(f"no document has {len(unknown):,} of the ids: {one_line(', '.join(unknown[:10]))}"
                     + ", ..." * (len(unknown) > 10))  # fmt: skip
            count = index.count(filter) if filter else len(present)
            which = f"with {filter}" if filter else f"of {len(ids):,} ids"
            tell(f"{count:,} of {len(index):,} documents in {self.collection!r} {which}")
            check_filter(index, filter, count > 0)
            sure = self.yes or not count
            if not sure and sys.stdin.isatty() and sys.stderr.isatty():
                say(f"delete {count:,} documents? [y/N] ", file=sys.stderr, end="")
                sys.stderr.flush()
                sure = sys.stdin.readline().strip().lower() in ("y", "yes")
            if not sure:
                raise InputError("nothing was deleted; without a terminal to ask on, give --yes")
            deleted = index.delete_matching(filter) if count and filter else index.delete(list(ids))
            note(f"deleted {deleted:,} documents; {len(index):,} are left in {self.collection!r}")


# --- trends, duplicates, group


@dataclass
class Trends(CollectionCommand):
    """find and name the clusters of a collection; count their documents by year, source or another column

    contrastive-st trends --by year --output report
    """

    by: str | None = option("metadata column to count by, such as year or source", metavar="COLUMN")
    every: Literal["month", "quarter", "year"] | None = option("count the dates of --by by such periods")
    clusters: int | None = option("number of clusters (default: one per 50 documents, at least 2 and at most 16)")
    seed: Annotated[int, Ge(0), Le((1 << 32) - 1)] = option(
        "seed of k-means, and of the sample of documents that it is fitted to", default=0
    )
    output: str | None = option("folder to write trends.csv and plots to", short="-o", metavar="FOLDER")
    overwrite: bool = option("replace the files that an earlier run wrote to the --output folder", default=False)

    def conflicts(self) -> Iterator[str]:
        """Yield periods without a column."""
        if self.every and not self.by:
            yield "--every counts the dates of a column; name it with --by"

    def run(self) -> None:
        """Write the tables and pictures; print the clusters."""
        from contrastive_st.files.writing import check_target
        from contrastive_st.search.analysis.topics import find_trends, table
        from contrastive_st.search.report import UNKNOWN

        folder = None if self.output is None else check_target(self.output, self.overwrite)
        with self.opened() as index:
            trends = find_trends(
                index, self.by, self.clusters, self.seed, every=self.every,
                progress=lambda done, total: note(f"{done:,} of {total:,} documents counted") if done < total else None,
            )  # fmt: skip
            written = [] if folder is None else self.write(index, trends, folder)
        say("\n".join(table(trends)))
        if trends.left_out:
            note(f"left out: {trends.left_out:,} texts {UNKNOWN}")
        if written:
            note("written: " + ", ".join(map(str, written)))

    def write(self, index: VectorIndex, trends: topics.Trends, folder: Path) -> list[Path]:
        """Write the tables and pictures; returns their paths."""
        from contrastive_st.data.table_writers import write_table
        from contrastive_st.files.writing import atomic_write
        from contrastive_st.search.analysis.projection import draw_map, draw_sizes, lay_out

        layout = lay_out(index, trends, seed=self.seed)
        folder.mkdir(exist_ok=True)
        names = ["trends.csv", "map.png", *(["sizes.png"] if trends.values else [])]
        with ExitStack() as stack:
            paths = [stack.enter_context(atomic_write(folder / name, self.overwrite)) for name in names]
            write_table(paths[0], trends.rows())
            draw_map(layout, paths[1])
            for path in paths[2:]:
                draw_sizes(trends, path)
        return [folder / name for name in names]


@dataclass
class Duplicates(CollectionCommand):
    """find near-duplicate documents in a collection, by comparing every pair

    contrastive-st duplicates --threshold 0.9 --output duplicates.csv
    """

    threshold: Annotated[float, Gt(0), Le(1)] = option(
        "lowest cosine of two documents that count as duplicates; such pairs that share a document form a group, in "
        "which other cosines may be lower",
        default=0.95,
    )
    limit: CountOrZero = option("number of groups to print; --output writes all", default=20)
    output: str | None = option(
        "write all groups to a .csv or .json file, with the metadata of each document", short="-o", metavar="FILE"
    )
    overwrite: bool = option(_OVERWRITE, default=False)

    def run(self) -> None:
        """Write the groups, and print some of them."""
        from contrastive_st.files.writing import atomic_write, check_target
        from contrastive_st.search.analysis.duplicates import FORMATS, find_duplicates, save
        from contrastive_st.search.report import UNKNOWN
        from contrastive_st.search.values import one_line

        if self.output:
            check_target(self.output, self.overwrite, formats=FORMATS)
        with self.opened() as index:
            limit, silent = self.limit if self.limit and not self.output else None, Counter[bool]()
            knows = _knows(index, silent)
            groups = find_duplicates(index, self.threshold, progress=progress_is_shown(), limit=limit, knows=knows)
        if self.output:
            with atomic_write(self.output, self.overwrite) as path:
                save(groups, path)
        for group in groups[: self.limit]:
            say(f"{len(group)} documents")
            for member in group:
                say(f"  {member.similarity:.3f}  {member.id}  {one_line(member.text)}")
        if silent[False]:
            note(f"left out: {silent[False]:,} texts {UNKNOWN}")
        if self.output:
            note(f"{len(groups):,} groups in {self.output}")
        elif not groups:
            note(f"no two documents have a cosine of {self.threshold} or more")
        elif not self.limit:
            note(f"{len(groups):,} groups")


def _knows(index: VectorIndex, counted: Counter[bool]) -> Callable[[list[str]], Any] | None:
    """`knows` of the model of an index, which counts its answers; None, with a note, if that model cannot be opened."""
    otherwise = "texts without a token that the model knows may be among these, since the model cannot be opened"
    if (encoder := recorded_encoder(index, otherwise)) is None:
        return None

    def knows(texts: list[str]) -> Any:
        answers = encoder.knows(texts)
        counted.update(answers.tolist())
        return answers

    return knows


@dataclass
class Group(Options):
    """find groups of similar texts in a file, and print each with its central text

    contrastive-st group questions.txt --min_community_size 5
    """

    file: str = option("texts: any file or data set that `train` reads", positional=True)
    columns: str | None = option("column of the texts, if the file has several")
    model: str | None = option(MODEL_HELP, short="-m")
    pooling: str | None = option(POOLING_HELP)
    threshold: Annotated[float, Ge(-1), Le(1)] = option(
        "lowest cosine of a text and the central text of its group", default=0.75
    )
    min_community_size: Count = option("smallest number of texts in a group", default=10)
    limit: CountOrZero = option("number of groups to print; --output writes all", default=20)
    examples: CountOrZero = option("number of texts to print per group besides the central one", default=2)
    output: str | None = option(
        "write all groups to a .csv, .jsonl or .parquet file: the rows of the texts, each with the number of its group "
        "and the central text",
        short="-o",
        metavar="FILE",
    )
    overwrite: bool = option(_OVERWRITE, default=False)

    def __call__(self) -> None:
        """Write the groups, and print some of them."""
        from contrastive_st.data.reading import open_table
        from contrastive_st.data.reading.texts import column_of, rows_with_text
        from contrastive_st.data.table_writers import FORMATS, write_table
        from contrastive_st.files.writing import atomic_write, check_target
        from contrastive_st.models.protocol import open_encoder
        from contrastive_st.search.in_memory import community_detection
        from contrastive_st.search.report import UNKNOWN
        from contrastive_st.search.values import one_line

        if self.output:
            check_target(self.output, self.overwrite, formats=FORMATS)
        table = open_table(self.file, columns=self.columns)
        column = column_of(table, self.columns)
        rows = rows_with_text(table, column)
        texts = [row[column] for row in rows]
        shown = progress_is_shown()
        number = {text: index for index, text in enumerate(dict.fromkeys(texts))}
        encoder = open_encoder(self.model, pooling=self.pooling)
        known = encoder.knows(list(number))  # all others have the same vector, which does not depend on the text
        distinct = encoder.encode(list(number), show_progress_bar=shown) * known[:, None]
        vectors = distinct[[number[text] for text in texts]]
        groups = community_detection(vectors, self.threshold, self.min_community_size, show_progress_bar=shown)
        if self.output:  # the rows of all groups, each with the number of its group and the central text
            new = [name if name not in table.names else f"found_{name}" for name in ("group", "typical")]
            written = [{new[0]: number, new[1]: texts[members[0]], **rows[member]}
                       for number, members in enumerate(groups, 1) for member in members]  # fmt: skip
            with atomic_write(self.output, self.overwrite) as path:
                write_table(path, written, [*new, *table.names], table.schema)
        for group in groups[: self.limit]:
            say(f"{len(group):,} texts: {one_line(texts[group[0]])}")
            for number in group[1 : self.examples + 1]:
                say(f"    {one_line(texts[number])}")
        note(f"{len(groups):,} groups of {sum(map(len, groups)):,} of {len(texts):,} texts")
        if not known.all():
            note(f"left out: {int((~known).sum()):,} texts {UNKNOWN}")


# --- mine


@dataclass(frozen=True)
class Mine(MiningOptions):
    """add hard negatives to pairs: the texts nearest to each anchor, except its positives

    contrastive-st mine pairs.csv --output mined.jsonl --num_negatives 5
    """

    pairs: str = option("anchors and positives: any file or data set that `train` reads", positional=True)
    output: str = option("a .jsonl, .csv or .parquet file, which `train` reads", default=MISSING, short="-o")
    overwrite: bool = option(_OVERWRITE, default=False)
    model: str | None = option(MODEL_HELP, short="-m")
    precision: ModelPrecision = option(PRECISION_HELP.format("model and the guide"), default="auto")
    anchor_column_name: None = field(default=None, init=False)  # --columns has both
    positive_column_name: None = field(default=None, init=False)
    columns: list[str] | None = option(
        "the columns of the pairs, by name or position (from 0)", nargs=2, metavar=("ANCHOR", "POSITIVE")
    )

    def __call__(self) -> None:
        """Mine and write the rows."""
        from contrastive_st.search.mining import write_hard_negatives

        options = {spec.name: getattr(self, spec.name) for spec in fields(MiningOptions)}
        options["anchor_column_name"], options["positive_column_name"] = self.columns or (None, None)
        counts = write_hard_negatives(
            self.pairs, self.output, self.model, overwrite=self.overwrite, options=MiningOptions(**options),
            verbose=progress_is_shown(),
        )  # fmt: skip
        note(f"{self.output}: {counts}")
