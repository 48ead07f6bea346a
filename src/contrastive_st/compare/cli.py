"""`contrastive-st compare`."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contrastive_st.commands import MODEL_HELP
from contrastive_st.errors import InputError, first_line
from contrastive_st.options import Count, Positive, option
from contrastive_st.search.cli import RERANK_HELP, RERANK_TOP, StoreCommand
from contrastive_st.terminal import note, say

if TYPE_CHECKING:
    from contrastive_st.compare.systems import System

_OF_MODELS, _OF_TUNING = 0.6, 0.85  # of the time, after which no further model is encoded, and tuning ends
_BEFORE_RERANKING = 0.6  # both are so much shorter if a cross-encoder follows


@dataclass
class Compare(StoreCommand):
    """find out which encoder is best for your documents, without labels: BM25, models, and one tuned on them

    contrastive-st compare notes/ --models static-minilm sentence-transformers/all-MiniLM-L6-v2
    contrastive-st compare questions.csv --columns question answer --minutes 10
    """

    corpus: str = option("a table, a text file, a folder, or a data set of the Hub", default="", positional=True)
    installed_docs: bool = option("compare on the documentation of the installed Python packages", default=False)
    collection: str | None = option("compare on the documents of this collection, with its model")
    columns: list[str] | None = option(
        "of a table, the columns of the queries and of the texts, or of the texts alone (default: by their names)"
    )
    queries: str | None = option(
        "your queries: a table with the columns query and id (of a document that answers the query, or the name of its "
        "file); by default the title, the first line or the first sentence of a document is the query",
        metavar="FILE",
    )
    models: list[str] | None = option("checkpoint folders or Hub names to compare")
    model: str | None = option(f"the model that is tuned: {MODEL_HELP}", short="-m")
    rerank: str | None = option(RERANK_HELP, metavar="MODEL")
    rerank_top: Count = option(RERANK_TOP, default=50)
    minutes: Positive = option("time for the models once the corpus is read, tuning included", default=3.0)
    output: str = option("folder for report.html, results.json and the tuned model", default="out/compare", short="-o")
    overwrite: bool = option("replace the files that an earlier run wrote to the --output folder", default=False)

    def conflicts(self) -> Iterator[str]:
        """Yield a number of sources other than one."""
        if bool(self.corpus) + self.installed_docs + bool(self.collection) != 1:
            yield "give a corpus: a file, a folder, a data set, --installed_docs, or --collection (only one of them)"
        if not self.rerank:
            yield from self.unused("without --rerank", "rerank_top")

    def run(self) -> None:
        """Compare, print the table, and write the page; an earlier page and its model stay until all is computed."""
        with tempfile.TemporaryDirectory(prefix="contrastive_st") as scratch:
            self._run(Path(scratch, "tuned"))

    def _run(self, tuned: Path) -> None:
        started = time.perf_counter()
        from contrastive_st.compare import systems as make
        from contrastive_st.compare.queries import read_search
        from contrastive_st.compare.report import Comparison
        from contrastive_st.files.folders import default_model
        from contrastive_st.files.writing import atomic_write, check_target, write_files
        from contrastive_st.search.opening import open_index, open_recorded
        from contrastive_st.search.reranking import open_cross_encoder

        folder = check_target(self.output, self.overwrite, parents=True)
        cross_encoder = open_cross_encoder(self.rerank) if self.rerank else None
        shorter = _BEFORE_RERANKING if cross_encoder else 1
        with ExitStack() as opened:
            index = None
            if self.collection:
                index = open_index(self.store, self.collection)
                opened.callback(index.close)
            search = read_search(self.corpus, self.columns, self.queries, index=index)
            recorded = [index.model] if index is not None and index.model else []
        note(f"{len(search.queries):,} queries, {len(search.training):,} pairs to tune on; BM25, then the models")
        systems, base, left_out = list(make.lexical_systems(search)), self.model or default_model(), list[str]()
        of_models = time.perf_counter()  # reading takes as long as it takes: on a cold disk a minute
        at = lambda share: of_models + share * 60 * self.minutes
        for name in dict.fromkeys([base, *recorded, *(self.models or ())]):
            try:
                systems.append(make.encoder_system(search, open_recorded(name), name, at(_OF_MODELS * shorter)))
                note(f"{name}: {systems[-1].rate:,.0f} texts a second")
            except InputError as error:
                if name == base or (name not in recorded and "--minutes" not in str(error)):
                    raise
                left_out.append(first_line(error))
        try:
            system = next(system for system in systems if system.model == base)
            systems.append(make.tuned_system(search, system, tuned, at(_OF_TUNING * shorter)))
            systems[-1].model = str(folder / "tuned")
        except InputError as error:
            left_out.append(f"a tuned model: {first_line(error)}")
        systems.append(make.hybrid_system(Comparison(search, systems).best_model, systems[0]))
        if self.rerank:
            try:
                first = Comparison(search, systems).best_model
                systems.append(make.reranked_system(search, first, cross_encoder, self.rerank, self.rerank_top, at(1)))
            except InputError as error:
                left_out.append(first_line(error))
        if tuned.exists():
            with atomic_write(folder / "tuned", overwrite=True, parents=True) as new:
                shutil.copytree(tuned, new)
        else:  # that of an earlier run is not in the page
            shutil.rmtree(folder / "tuned", ignore_errors=True)
        result = Comparison(search, systems, left_out)
        commands = self._commands(result.best_model, search.column)
        title = f"Which encoder for {self.corpus or self.collection or 'the installed documentation'}?"
        content = {"report.html": result.page(title, commands), "results.json": json.dumps(result.json(), indent=2)}
        write_files(folder, {name: text.encode("utf-8", "replace") for name, text in content.items()})
        say("\n\n".join([result.heading(), result.table(), result.verdict()]))
        for line in result.left_out:
            note(f"left out: {line}")
        say(f"\n{folder / 'report.html'} has ten queries on which the systems differ; what to run next:")
        say("\n".join(f"  {command}" for command in commands))
        note(f"done in {(time.perf_counter() - started) / 60:.1f} minutes")

    def _commands(self, best: System, column: str) -> list[str]:
        """What to run to search with a system."""
        from contrastive_st.search.opening import name_and_pooling

        name, pooling = name_and_pooling(best.model)
        model = ["--model", name, *(["--pooling", pooling] if pooling else [])]
        store = ["--store", self.store] if self.store else []
        query = '"pad a batch of sequences to the same length"' if self.installed_docs else '"YOUR QUERY"'
        search = " ".join(["contrastive-st search", query, shlex.join([*best.options, *store])]).strip()
        if self.collection:
            command = ["migrate", self.collection, *model, *store]
            return [f"contrastive-st {shlex.join(command)}", f"{search} --collection {shlex.quote(self.collection)}"]
        columns = ["--columns", column] if column else []
        source = ["--installed_docs"] if self.installed_docs else [self.corpus]
        return [f"contrastive-st {shlex.join(['index', *source, *columns, *model, *store])}", search]
