"""`contrastive-st evaluate` and `neighbors`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from contrastive_st.commands import MODEL_HELP, POOLING_HELP
from contrastive_st.errors import InputError
from contrastive_st.options import Count, Options, option
from contrastive_st.terminal import note, say

_DATA = "folder of SentEval's files, or 'hub' to download them (default: $CONTRASTIVE_ST_DATA, or hub)"


@dataclass
class _Models(Options):
    """The models of a command."""

    models: list[str] = option(MODEL_HELP, default=(), positional=True, metavar="MODEL")
    model: list[str] | None = option("models, given as a flag instead of by position", short="-m")
    names: list[str] | None = option("names to show in the tables, one per model")
    pooling: str | None = option(POOLING_HELP)

    def model_names(self) -> list[str]:
        """The models, or the default model."""
        from contrastive_st.files.folders import default_model

        return [*self.models, *(self.model or ())] or [default_model()]

    def conflicts(self) -> Iterator[str]:
        """Yield names that are not one for each model."""
        count = len([*self.models, *(self.model or ())]) or 1
        if self.names and len(self.names) != count:
            yield f"--names {' '.join(self.names)}: give {count}, one for each model"


@dataclass
class Evaluate(_Models):
    """evaluate models on STS, transfer and other tasks, in one report

    contrastive-st evaluate out/model static-minilm --pairs pairs.csv --output report
    """

    tasks: str | None = option(
        "tasks or groups of tasks, separated by commas: sts7 (or sts), senteval7 (or transfer), nanobeir, supervised "
        "(STS-B and SICK with a trained regression), entailment, pairs (QQP), space (alignment and uniformity), "
        "few-shot; all: these except nanobeir (default: sts,space; if --pairs or --retrieval is given, only your data)"
    )
    cache: str | None = option("folder to cache embeddings in, or none for no cache (default: ~/.cache/contrastive_st)")
    data: str | None = option(_DATA)
    output: str | None = option("folder for report.json and report.md", short="-o")
    max_length: Count | None = option("maximum length of a sentence, in tokens (default: as the model records)")
    folds: Annotated[int, Ge(2)] = option(
        "folds of the cross-validations: 10 as in SentEval, or 5 to save time", default=10
    )
    pairs: list[str] | None = option(
        "evaluate on your own pairs, each with a score or a label (0 or 1): .csv, .tsv, .jsonl or .parquet; may be "
        "repeated",
        action="append", metavar="FILE",
    )  # fmt: skip
    retrieval: list[str] | None = option(
        "evaluate on your own retrieval data: a folder with corpus, queries and qrels (in BEIR's layout, or with "
        "TREC's qrels), a file of (query, relevant document) pairs, or a NanoBEIR set; may be repeated",
        action="append", metavar="DATA",
    )  # fmt: skip
    columns: list[str] | None = option(
        "columns of the --pairs and --retrieval files, by name or position (from 0) or as NAME=ROLE, such as a=anchor "
        "b=positive c=score (default: recognised by their names and contents)",
        metavar="COLUMN",
    )
    card: str | None = option("write the metrics of the first model into this model card", metavar="README.md")

    def conflicts(self) -> Iterator[str]:
        """Yield files that do not exist, and columns without a file."""
        yield from super().conflicts()
        data = _data(self.data)
        if self.columns and not self.pairs and all(map(_is_retrieval_set, self.retrieval or ())):
            yield f"--columns {' '.join(self.columns)}: give a file of your own data with --pairs or --retrieval"
        if self.card and not Path(self.card).is_file():
            yield f"--card {self.card}: no such file; write the model card first"
        if (self.data or self._task_names) and data != "hub" and not Path(data).is_dir():
            where = "--data" if self.data else "the environment variable CONTRASTIVE_ST_DATA:"
            yield f"{where} {data}: no such folder; give the folder of SentEval's files, or hub"

    @property
    def _task_names(self) -> str:
        """The tasks that are asked for; none if there is data of the user alone."""
        return self.tasks or ("" if self.pairs or self.retrieval else "sts,space")

    def __call__(self) -> None:
        """Evaluate the models and print the report."""
        models, data = self.model_names(), _data(self.data)
        device = None
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # `accelerate launch` started several processes
            from accelerate import PartialState

            device = str(PartialState().device)
        from contrastive_st.distributed import processes
        from contrastive_st.evaluation.datasets.user_data import read_relevant_pairs
        from contrastive_st.evaluation.report.report import eval_results, write_metadata
        from contrastive_st.evaluation.suite import evaluate
        from contrastive_st.evaluation.tasks import beir_task, choose, own_pairs_task, retrieval_task
        from contrastive_st.files.writing import own_cache, write_files

        names = self._task_names
        extra = [own_pairs_task(path, columns=self.columns) for path in self.pairs or ()]
        for path in self.retrieval or ():
            if _is_retrieval_set(path):
                extra.append(beir_task(path))
            else:
                pairs, others = read_relevant_pairs(path, self.columns)
                extra.append(retrieval_task(Path(path).stem, pairs, others=others))
        report = evaluate(
            models, [*(choose(names, self.folds) if names else []), *extra],
            data if names else ".",  # the user's data need no request to the Hub
            cache=None if self.cache == "none" else self.cache or own_cache("embeddings"),
            pooling=self.pooling, max_length=self.max_length, device=device, names=self.names,
        )  # fmt: skip
        if processes()[0] == 0:
            try:
                written = report.save(self.output) if self.output else []
                if self.card and report.models[0] not in report.failures:
                    write_metadata(report, report.models[0], self.card)
                    write_files(Path(self.card).parent, eval_results(report, report.models[0]))
            finally:  # printed last, as a reader that stops early, such as `head`, ends the command
                say(report.table())
            if written:
                note("\nwritten: " + ", ".join(map(str, written)))
        if report.failures:
            raise InputError(f"not evaluated: {', '.join(report.failures)}; the reasons are in the report")


@dataclass
class Neighbors(_Models):
    """find the sentences of a corpus nearest to a query, with one or more models side by side

    contrastive-st neighbors out/model static-minilm --corpus sentences.txt --query "a cat sat"
    """

    corpus: str = option("a file with one sentence per line, or any file that `train` reads", default=MISSING)
    columns: str | None = option("column to search, by name or position (from 0), if the file has several")
    query: list[str] = option("queries, whose nearest sentences are printed", default=(), metavar="TEXT")
    query_file: str | None = option("a file of queries: one per line, or a table with a column of text", metavar="FILE")
    k: Count = option("number of sentences to print per query", default=5, short="-k")
    max_sentences: Count | None = option("search only the first N sentences of the corpus", metavar="N")
    output: str | None = option("write the tables to this file as well", short="-o", metavar="FILE.md")

    def conflicts(self) -> Iterator[str]:
        """Yield what is given twice, and an output of another format."""
        yield from super().conflicts()
        for name, values in (("models", [*self.models, *(self.model or ())]), ("--names", self.names or ())):
            if len(set(values)) != len(values):
                yield f"{name} {' '.join(values)}: the same is given twice; give two different ones, or one"
        if self.output and Path(self.output).suffix != ".md":
            yield f"--output {self.output}: the tables are Markdown; give a file that ends in .md"

    def __call__(self) -> None:
        """Print the nearest texts of each query by each model."""
        models = self.model_names()
        from contrastive_st.data.reading import stream_texts
        from contrastive_st.data.reading.texts import read_corpus
        from contrastive_st.evaluation.neighbor_search import as_markdown, as_text, first_of_each, neighbors
        from contrastive_st.files.writing import atomic_write, check_target
        from contrastive_st.models.protocol import open_encoder

        if self.output:
            check_target(self.output, overwrite=True)
        lines = [*self.query, *(stream_texts(self.query_file)() if self.query_file else [])]
        queries = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
        if not queries:
            raise InputError("no query: give --query TEXT ... or --query_file FILE with one query per line")
        rows = read_corpus(self.corpus, self.columns)
        if self.max_sentences is not None:
            rows = rows.select(range(min(self.max_sentences, len(rows))))
        name = rows.column_names[0]
        rows = rows.select(first_of_each(text for batch in rows.iter(4096) for text in batch[name]))
        result = {}
        for model, title in zip(models, self.names or [""] * len(models), strict=True):
            encoder = open_encoder(model, pooling=self.pooling, name=title or None)
            title = str(model) if encoder.name in result else encoder.name
            result[title] = neighbors(encoder, queries, rows[name], self.k)
        say(as_text(queries, result, shutil.get_terminal_size((120, 24)).columns))
        if self.output:
            what = f"The nearest of {len(rows):,} distinct sentences of {Path(self.corpus).name}, by cosine similarity."
            with atomic_write(self.output, overwrite=True) as file:
                file.write_text(as_markdown(queries, result, what), encoding="utf-8")


def _is_retrieval_set(data: str) -> bool:
    """Whether retrieval data has documents, queries and judgements apart, and not pairs in columns."""
    from contrastive_st.evaluation.datasets.hub_sets import is_nano

    return Path(data).is_dir() or is_nano(data)


def _data(asked: str | None) -> str:
    return asked or os.environ.get("CONTRASTIVE_ST_DATA") or "hub"
