"""`contrastive-st evaluate`, `neighbors` and `overlaps`."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

from contrastive_st.commands import MODEL_HELP
from contrastive_st.errors import InputError
from contrastive_st.terminal import note, say


def add_commands(commands: Any) -> None:
    """Add these commands to the subparsers of the command line."""
    for add in (_add_evaluate, _add_neighbors, _add_overlaps):
        add(commands)


def _add_evaluate(commands: Any) -> None:
    evaluate = commands.add_parser("evaluate", help="score models on STS, transfer and other tasks; write one report")
    evaluate.add_argument("models", nargs="*", metavar="MODEL", help=MODEL_HELP)
    evaluate.add_argument("--tasks", help="names or groups, separated by commas: sts7 (or sts), senteval7 (or "
                          "transfer), nanobeir, supervised, entailment, pairs, space, few-shot, all (but nanobeir); "
                          "default: sts,space, or none beside --pairs and --retrieval")  # fmt: skip
    evaluate.add_argument(
        "--data", help="the folder of SentEval's files, or hub (default: $CONTRASTIVE_ST_DATA, or hub)"
    )
    evaluate.add_argument("--output", "-o", help="folder for report.json, report.md and plots")
    evaluate.add_argument("--names", nargs="+", help="names of the models in the report")
    evaluate.add_argument("--pooling", help="for checkpoints that record none: mean, cls_before_pooler, ...")
    evaluate.add_argument("--max_length", type=int, help="longest sentence, in tokens (default: as the model records)")
    evaluate.add_argument(
        "--folds", type=int, default=10, help="folds of the cross-validations: 10 as in SentEval, or 5 to save time"
    )
    evaluate.add_argument(
        "--pairs",
        action="append",
        default=[],
        metavar="FILE",
        help="your own pairs, with a score or a label (0 or 1) each: .csv, .tsv, .jsonl or .parquet",
    )
    evaluate.add_argument("--retrieval", action="append", default=[], metavar="DATA",
                          help="your own retrieval set, a folder with corpus, queries and qrels (BEIR's layout, "
                          "trec's qrels), a file of (query, relevant document) pairs, or a NanoBEIR set")  # fmt: skip
    evaluate.add_argument("--cache", help="folder that keeps embeddings, or none (default: ~/.cache/contrastive_st)")
    evaluate.add_argument("--card", metavar="README.md", help="write the first model's figures into this model card")
    evaluate.set_defaults(function=_evaluate)


def _add_neighbors(commands: Any) -> None:
    nearest = commands.add_parser(
        "neighbors", help="find the nearest sentences of a corpus, for one or two models side by side"
    )
    nearest.add_argument("models", nargs="*", metavar="MODEL", help=MODEL_HELP)
    nearest.add_argument("--names", nargs="+", help="names of the models in the tables")
    nearest.add_argument("--corpus", required=True, help="a file with a sentence a line, or any file `train` reads")
    nearest.add_argument("--column", "--columns", help="column to search, by name or position, if the file has several")
    nearest.add_argument("--query", nargs="+", default=[], metavar="TEXT")
    nearest.add_argument(
        "--query_file", metavar="FILE", help="a file of queries: one per line, or a table with a column of text"
    )
    nearest.add_argument("-k", type=int, default=5, help="neighbours of each query (default: 5)")
    nearest.add_argument("--max_sentences", type=int, help="search only the first N sentences of the corpus")
    nearest.add_argument("--pooling", help="for checkpoints that record none: mean, cls_before_pooler, ...")
    nearest.add_argument("--cache", help="folder that keeps embeddings, or none (default: ~/.cache/contrastive_st)")
    nearest.add_argument("--output", "-o", metavar="FILE.md", help="write the tables to this file as well")
    nearest.set_defaults(function=_neighbors)


def _add_overlaps(commands: Any) -> None:
    copies = commands.add_parser("overlaps", help="count the texts of B, such as a test set, that A has copies of")
    copies.add_argument(
        "first", metavar="A", help="a file that `train` reads, such as the training text; it is streamed"
    )
    copies.add_argument("second", metavar="B", help="a file, or tasks of the evaluation: STSB, sts7, ...")
    copies.add_argument("--columns", nargs="+", metavar="COLUMN", help="of A, by name or position (default: its texts)")
    copies.add_argument("--data", help="the folder of SentEval's files, or hub (default: $CONTRASTIVE_ST_DATA, or hub)")
    copies.add_argument(
        "--threshold", type=float, default=0.8, help="Jaccard index of words of a near copy (default: 0.8)"
    )
    copies.add_argument("--examples", type=int, default=3, help="copies to print of each kind (default: 3)")
    copies.set_defaults(function=_overlaps)


def _evaluate(args: argparse.Namespace) -> None:
    models = _models(args)
    if args.names and len(args.names) != len(models):
        raise InputError(f"--names gives {len(args.names)} names for {len(models)} models; give one for each model")
    if args.card and not Path(args.card).is_file():
        raise InputError(f"--card {args.card}: no such file; write the model card first")
    data = args.data or os.environ.get("CONTRASTIVE_ST_DATA") or "hub"
    if data != "hub" and not Path(data).is_dir():
        raise InputError(f"--data {data}: no such folder; give the folder of SentEval's files, or hub")
    if args.folds < 2:
        raise InputError(f"--folds {args.folds}: a cross-validation needs 2 or more")
    device = _join_processes()
    from contrastive_st.distributed import processes
    from contrastive_st.evaluation.embedding_store import default_cache
    from contrastive_st.evaluation.suite import evaluate
    from contrastive_st.evaluation.tasks import choose, own_pairs_task

    names = args.tasks or ("" if args.pairs or args.retrieval else "sts,space")
    data = data if names else "."  # nothing is asked of the Hub for one's own data
    own = [own_pairs_task(path) for path in args.pairs] + [_retrieval(path) for path in args.retrieval]
    cache = None if args.cache == "none" else args.cache or default_cache()
    options = {"pooling": args.pooling, "max_length": args.max_length, "device": device, "names": args.names}
    report = evaluate(models, [*(choose(names, args.folds) if names else []), *own], data, cache=cache, **options)
    if processes()[0] == 0:
        say(report.table())
        if args.output:
            note("\nwritten: " + ", ".join(str(path) for path in report.save(args.output)))
        if args.card:
            from contrastive_st.evaluation.report.eval_results import eval_results
            from contrastive_st.evaluation.report.report import write_metadata
            from contrastive_st.files.writing import write_files

            write_metadata(report, report.models[0], args.card)
            write_files(Path(args.card).parent, eval_results(report, report.models[0]))
    if report.failures:
        raise InputError(f"not evaluated: {', '.join(report.failures)}; the reasons are in the report")


def _models(args: argparse.Namespace) -> list[str]:
    """The models of the arguments, or the default model."""
    from contrastive_st.files.repositories import default_model

    return args.models or [default_model()]


def _join_processes() -> str | None:
    """Join the processes that `accelerate launch` started and return the device of this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    from accelerate import PartialState

    return str(PartialState().device)


def _retrieval(path: str) -> Any:
    from contrastive_st.evaluation.datasets.hub_sets import is_nano
    from contrastive_st.evaluation.datasets.own import read_relevant_pairs
    from contrastive_st.evaluation.tasks import beir_task, retrieval_task

    if Path(path).is_dir() or is_nano(path):
        return beir_task(path)
    return retrieval_task(Path(path).stem, read_relevant_pairs(path))


def _overlaps(args: argparse.Namespace) -> None:
    from contrastive_st.evaluation.overlaps import overlaps, texts_of

    data = args.data or os.environ.get("CONTRASTIVE_ST_DATA") or "hub"
    found = overlaps(texts_of(args.first, data, args.columns), texts_of(args.second, data), args.threshold)
    say(found.report(args.threshold, args.examples))


def _neighbors(args: argparse.Namespace) -> None:
    _check_neighbors(args)
    from contrastive_st.data.reading.texts import read_corpus
    from contrastive_st.evaluation.embedding_store import default_cache
    from contrastive_st.evaluation.neighbor_search import as_markdown, as_text, first_of_each, neighbors
    from contrastive_st.models.protocol import open_encoder

    queries = _queries(args)
    rows = read_corpus(args.corpus, args.column)
    if args.max_sentences is not None:
        rows = rows.select(range(min(args.max_sentences, len(rows))))
    name = rows.column_names[0]
    rows = rows.select(first_of_each(text for batch in rows.iter(4096) for text in batch[name]))
    cache = None if args.cache == "none" else args.cache or default_cache()
    found = {}
    models = _models(args)
    for model, title in zip(models, args.names or [None] * len(models), strict=True):
        encoder = open_encoder(model, pooling=args.pooling, name=title)
        title = str(model) if encoder.name in found else encoder.name
        found[title] = neighbors(encoder, queries, rows[name], args.k, cache)
    say(as_text(queries, found, shutil.get_terminal_size((120, 24)).columns))
    if args.output:
        caption = f"The nearest of {len(rows):,} distinct sentences of {Path(args.corpus).name}, by cosine similarity."
        Path(args.output).write_text(as_markdown(queries, found, caption), encoding="utf-8")


def _check_neighbors(args: argparse.Namespace) -> None:
    if len(set(args.models)) != len(args.models):
        raise InputError("the same model is given twice; give two different models, or only one")
    if args.names and len(set(args.names)) != len(_models(args)):
        raise InputError(f"--names {' '.join(args.names)}: give {len(_models(args))}, one a model, each another")
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
    from contrastive_st.data.reading import stream_texts

    lines = [*args.query, *(stream_texts(args.query_file)() if args.query_file else [])]
    queries = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not queries:
        raise InputError("no query: give --query TEXT ... or --query_file FILE with one query a line")
    return queries
