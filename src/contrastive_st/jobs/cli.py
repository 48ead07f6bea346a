"""`contrastive-st train`, `mine`, `distill`, `soup` and `compare`."""

from __future__ import annotations
import __future__

import ast
import dataclasses
import importlib
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_st.errors import InputError
from contrastive_st.terminal import MODEL_HELP, Parser, say, suggestion

_FOLDER = Path(__file__).parent


class Job(NamedTuple):
    """A training job: its module in this folder, whether it trains on the installed documentation, and its help."""

    module: str
    help: str
    docs: bool = False


JOBS = {
    "simcse": Job("simcse", "SimCSE on sentences, pairs or triplets of a file; PromptBERT, TSDAE"),
    "docs": Job("simcse", "SimCSE: a search encoder of the installed Python documentation", docs=True),
    "sbert": Job("sbert", "Sentence-BERT: pairs with labels or scores, triplets"),
    "sbert_docs": Job("sbert", "the same, three losses and three poolings, on the documentation", docs=True),
    "quickthoughts": Job("quickthoughts_job", "QuickThoughts: sentences in order; neighbours, or shared words"),
    "quickthoughts_docs": Job("quickthoughts_job", "the same on the documentation", docs=True),
    "infersent": Job("infersent_job", "InferSent: a BiLSTM that predicts the labels of pairs"),
    "infersent_docs": Job("infersent_job", "the same on the documentation", docs=True),
    "mixture": Job("mixture_job", "several data sets of a .yaml file, each with its own loss"),
    "use": Job("use", "Universal Sentence Encoder: neighbours, answers and labelled pairs at once"),
    "skipthoughts": Job("skipthoughts_job", "Skip-Thoughts beside QuickThoughts, on the same sentences"),
    "cert": Job("cert", "CERT: back-translations with a momentum queue, then a labelled task"),
    "distill": Job("distill", "a small student of a teacher's distances and angles"),
    "sequences": Job("sequences_job", "DNA or protein sequences as sentences of k-mers"),
}


def train(argv: Sequence[str]) -> None:
    """Run the job that the first word names, or the one that fits the columns of the data."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_jobs_help())
        return
    if argv[0].startswith("-"):
        name, flags = job_by_columns(argv), list(argv)
    else:
        name, flags = argv[0].replace("-", "_"), list(argv[1:])
    if name not in JOBS:
        raise InputError(f"no job {argv[0]}; {suggestion(name, JOBS)}")
    job = JOBS[name]
    if {"-h", "--help"} & set(flags):
        say(job_help(name))
        return
    module = importlib.import_module(f"contrastive_st.jobs.{job.module}")
    module.main(flags, **({"docs": True} if job.docs else {}))


def job_by_columns(argv: Sequence[str]) -> str:
    """The job of `--mixture`, or the one that fits the columns of `--train_file`; prints the role of each column."""
    parser = Parser(prog="contrastive-st train", add_help=False)
    parser.add_argument("--train_file")
    parser.add_argument("--columns", nargs="+")
    parser.add_argument("--mixture")
    given, _ = parser.parse_known_args(argv)
    if given.mixture is not None:
        return "mixture"
    if given.train_file is None:
        raise InputError("give a job, --train_file or --mixture; contrastive-st train --help lists the jobs")
    from contrastive_st.data.roles import column_roles
    from contrastive_st.data.tables import preview

    roles = column_roles(preview(given.train_file, columns=given.columns), given.columns, source=given.train_file)
    name = "simcse" if roles.gold is None else "sbert"
    say(f"{given.train_file} has {roles.words}: contrastive-st train {name}", file=sys.stderr)
    return name


def compare(argv: Sequence[str]) -> None:
    """Train every method on one budget."""
    from contrastive_st.jobs.compare import main

    main(argv)


def distill(argv: Sequence[str]) -> None:
    """Distil a teacher's embeddings into a static encoder or into some of its own layers."""
    args = distill_parser().parse_args(argv)
    from contrastive_st.jobs.distill_embeddings import main

    main(args)


#: Defaults of the training of static students, and those that differ for layer students
STATIC: dict[str, Any] = {
    "batch_size": 512, "pair_batch_size": 512, "learning_rate": 1e-3, "steps": 1600, "pair_weight": 0.1,
    "temperature": 0.05, "seed": 0, "minutes": 0.0,
}  # fmt: skip
LAYERS: dict[str, Any] = {
    **STATIC, "batch_size": 128, "pair_batch_size": 64, "learning_rate": 5e-4, "steps": 0, "pair_weight": 0.05,
}  # fmt: skip
_MEANING = {
    "batch_size": "texts per step", "pair_batch_size": "pairs or triplets per step", "learning_rate": "rate of AdamW",
    "steps": "steps; 0 for one pass over the texts", "pair_weight": "weight of InfoNCE on pairs; the distance has 1",
    "temperature": "temperature of InfoNCE", "seed": "seed of the order", "minutes": "time limit; 0: none",
}  # fmt: skip


def distill_parser() -> Parser:
    """The flags of `contrastive-st distill`."""
    parser = Parser(prog="contrastive-st distill", description="A small encoder that copies a teacher's embeddings.")
    add = parser.add_argument
    add("teacher", help="checkpoint folder or Hub name")
    add("--student", default="static", help="static; layers=0,3,5: the teacher's layers to keep; or the "
        "folder of a layer student, to continue its training (default: static)")  # fmt: skip
    add("--train_file", nargs="+", required=True, help="texts: .txt, .parquet, .jsonl, .csv ...")
    add("--pairs", help="also pairs or triplets: a table with 2 or 3 columns of text")
    add("--output", "-o", required=True, help="folder of the student")
    add("--overwrite", action="store_true", help="write into a folder that has files")
    add("--max_train_samples", type=int, help="number of texts, drawn at random (default: all)")
    add("--pooling", help="pooling of a teacher that records none")
    add("--cache", help="folder that keeps the teacher's vectors (default: beside --output)")
    add("--dim", type=int, default=256, help="dimension of a static student (default: 256)")
    add(
        "--storage",
        default="float16",
        choices=("float32", "float16", "int8"),
        help="storage of the weights (int8: static)",
    )
    add("--regularization", type=float, default=0.1, help="regularization of the fit (default: 0.1)")
    add("--max_length", type=int, default=128, help="longest text of a layer student, in tokens (default: 128)")
    for name, default in STATIC.items():
        otherwise = f"; layers: {LAYERS[name]}" if LAYERS[name] != default else ""
        add(f"--{name}", type=type(default), help=f"{_MEANING[name]} (default: {default}{otherwise})")
    return parser


def mine(argv: Sequence[str]) -> None:
    """Add hard negatives to the pairs of a file."""
    args = vars(mine_parser().parse_args(argv))
    from contrastive_st.search.mining import write_hard_negatives

    counts = write_hard_negatives(args.pop("pairs"), verbose=sys.stderr.isatty(), **args)
    say(f"{args['output']}: {counts}", file=sys.stderr)


def mine_parser() -> Parser:
    """The flags of `contrastive-st mine`."""
    parser = Parser(
        prog="contrastive-st mine", description="Find the texts nearest to each anchor that are not its positives."
    )
    add = parser.add_argument
    add("pairs", help="anchors and positives: any file or data set that train reads")
    add("--output", "-o", required=True, help="a .jsonl, .csv or .parquet file; train reads it")
    add("--overwrite", action="store_true", help="replace an output file that exists")
    add("--model", "-m", help=MODEL_HELP)
    add("--pooling", help="for checkpoints that record none: mean, cls_before_pooler, ...")
    add("--precision", default="auto", choices=("auto", "bf16", "fp32"), help="of the model (default: auto)")
    add("--anchor_column_name", help="column of the anchors; with --positive_column_name")
    add("--positive_column_name", help="column of the positives")
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
    add("--output_format", "--format", choices=("n-tuple", "triplet"), default="n-tuple",
        help="a row per pair, with all negatives, or a row per negative (default: n-tuple)")  # fmt: skip
    return parser


def soup(argv: Sequence[str]) -> None:
    """Average the weights of checkpoints."""
    args = soup_parser().parse_args(argv)
    data = args.data or os.environ.get("CONTRASTIVE_ST_DATA") or "hub"
    if args.greedy and data != "hub" and not Path(data).is_dir():
        raise InputError(f"--data {data}: no such folder; give the folder of SentEval's files, or hub")
    if not args.greedy and (args.data or args.task):
        raise InputError("--data and --task choose the checkpoints of a greedy soup; give --greedy too")
    from contrastive_st.training.soup import dev_score, model_soup

    figure = dev_score(args.task or "STSB", data) if args.greedy else None
    taken = model_soup(args.checkpoints, args.output, weights=args.weights, figure=figure, pooling=args.pooling)
    for own in taken:
        alone = "" if own.figure is None else f"  dev {own.figure:.4f}"
        say(f"{own.weight:.3f}{alone}  {own.name}", file=sys.stderr)
    say(args.output)


def soup_parser() -> Parser:
    """The flags of `contrastive-st soup`."""
    parser = Parser(prog="contrastive-st soup", description="Average the weights of several checkpoints into one.")
    add = parser.add_argument
    add("checkpoints", nargs="+", metavar="CHECKPOINT", help="folders or Hub names, of one architecture")
    add("--output", "-o", required=True, help="a new folder")
    add("--weights", nargs="+", type=float, help="one per checkpoint (default: equal)")
    add("--greedy", action="store_true", help="keep a checkpoint if the dev score of the mean does not fall")
    add("--task", help="task of the dev score: STSB, SICKR, or both separated by a comma (default: STSB)")
    add("--data", help="the folder of SentEval's files, or hub (default: $CONTRASTIVE_ST_DATA, or hub)")
    add("--pooling", help="for checkpoints that record none: mean, cls_before_pooler, ...")
    return parser


class Command(NamedTuple):
    """A command that parses its own flags."""

    function: Callable[[Sequence[str]], None]
    help: str


COMMANDS = {
    "train": Command(train, "train an encoder: contrastive-st train [JOB] --train_file FILE ..."),
    "mine": Command(mine, "add hard negatives to pairs: the texts nearest to each anchor that are not its positives"),
    "distill": Command(distill, "train a small encoder that copies a teacher: static, or some of its layers"),
    "soup": Command(soup, "average the weights of checkpoints, all of them or those that help"),
    "compare": Command(compare, "train every method on the same budget and compare the metrics"),
}


def _jobs_help() -> str:
    lines = ["usage: contrastive-st train [JOB] [options]", "", "jobs:"]
    lines += [f"  {name:20} {job.help}" for name, job in JOBS.items()]
    return "\n".join(
        [
            *lines,
            "",
            "Without JOB, the columns of --train_file choose: texts alone, pairs and triplets train SimCSE; pairs with",
            "a score or a label train Sentence-BERT; --mixture FILE.yaml trains on several data sets. contrastive-st",
            "train JOB --help shows the options of a job.",
        ]
    )


# --- The help of a job, without importing its module, because that imports torch and takes seconds.


def job_arguments(name: str) -> tuple[list[dataclasses.Field[Any]], dict[str, Any]]:
    """The fields of a job's own arguments and of this package's training arguments, and the defaults that it sets.

    Read without an import: only the dataclasses and the constants of the source are run.
    """
    found: dict[str, Any] = {"__name__": __name__, "TrainingArguments": object, "InputError": InputError}
    found |= {"dataclass": dataclasses.dataclass, "field": dataclasses.field, "Any": Any}
    _run_light_parts(_FOLDER.parent / "training" / "arguments.py", found)
    _run_light_parts(_FOLDER / "job.py", found)
    known = set(found)
    _run_light_parts(_FOLDER / f"{JOBS[name].module}.py", found)
    own = [value for key, value in found.items() if key not in known and key.endswith("Arguments")]
    kinds = (own[-1], found["ContrastiveTrainingArguments"])
    fields = {field.name: field for kind in kinds for field in dataclasses.fields(kind)}
    return list(fields.values()), found["DOCS_DEFAULTS" if JOBS[name].docs else "DEFAULTS"]


def _run_light_parts(path: Path, names: dict[str, Any]) -> None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        dataclass = isinstance(node, ast.ClassDef) and node.decorator_list
        if dataclass or isinstance(node, (ast.Assign, ast.AnnAssign)):
            code = compile(ast.Module([node], []), str(path), "exec", __future__.annotations.compiler_flag)
            try:
                exec(code, names)
            except (NameError, AttributeError):
                continue  # depends on an import, so it is not the default of a flag


def job_help(name: str) -> str:
    """The options of a job, with the defaults that will be used."""
    fields, defaults = job_arguments(name)
    lines = [f"usage: contrastive-st train {name} [options]", "", JOBS[name].help, "", "options:"]
    for field in fields:
        lines += _option(field.name, str(field.metadata.get("help", "")), defaults.get(field.name, _default(field)))
    others = {key: value for key, value in defaults.items() if key not in {field.name for field in fields}}
    lines += ["", "Any field of transformers.TrainingArguments is an option too. This job sets:"]
    words = ", ".join(f"--{key} {_shown(value)}" for key, value in others.items())
    return "\n".join(lines + textwrap.wrap(words, 100, initial_indent="  ", subsequent_indent="  "))


def _option(name: str, words: str, default: Any) -> list[str]:
    given = words if default is None else f"{words} (default: {_shown(default)})"
    head = f"  --{name}"
    body = textwrap.wrap(given, 76) or [""]
    first = [f"{head:28}{body[0]}"] if len(head) < 27 else [head, " " * 28 + body[0]]
    return [*first, *(" " * 28 + line for line in body[1:])]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
