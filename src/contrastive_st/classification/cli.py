"""`contrastive-st classify`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.classification.settings import HEADS, TuningSettings
from contrastive_st.commands import MODEL_HELP, POOLING_HELP
from contrastive_st.errors import InputError
from contrastive_st.terminal import note, progress_is_shown, say

if TYPE_CHECKING:
    from contrastive_st.classification.classifier import SentenceClassifier
    from contrastive_st.data.labels import LabelledTexts

_TUNING = [spec for spec in fields(TuningSettings) if "help" in spec.metadata]


def add_commands(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    parser = commands.add_parser("classify", help="learn labels from examples, and label texts")
    add = parser.add_argument
    add("input", nargs="?", help="texts to label: a file (one per line, or a table), or - for stdin")
    add("--model", "-m", help=MODEL_HELP)
    add("--examples", nargs="+", metavar="FILE", help="files with columns of text and label (csv, tsv, jsonl, "
        "parquet), or LABEL=FILE for files with texts of one label")  # fmt: skip
    add("--test", nargs="+", metavar="FILE", help="files as for --examples: print accuracy and macro-F1 on these, "
        "beside those of simple classifiers")  # fmt: skip
    add(
        "--columns",
        nargs="+",
        metavar="COLUMN",
        help="the columns of text and label, such as review stars=label; of the input, the column of text",
    )
    add("--predictions", metavar="FILE", help="write the input with its labels to a .csv, .jsonl or .parquet file")
    add("--overwrite", action="store_true", help="replace a file of predictions that exists")
    add("--separator", metavar="TEXT", help='separates the labels of texts with several, such as "|"')
    add("--output", "-o", metavar="FOLDER", help="folder of the classifier, to write or to read (default: the model's)")
    add("--classifier", default="classes", metavar="NAME", help="its name in the folder (default: classes)")
    add("--head", default="logistic", choices=HEADS, help="logistic regression, the nearest class mean, or a layer "
        "trained by gradient (with --tune, together with the encoder); default: logistic")  # fmt: skip
    add("--tune", action="store_true", help="first train the encoder on pairs of texts of the same and of different "
        "classes (SetFit); it is saved in --output")  # fmt: skip
    for spec in _TUNING:
        words = f"of --tune: {spec.metadata['help']} (default: {spec.default})"
        add(f"--{spec.name}", type=type(spec.default), default=spec.default, help=words)
    add("--pooling", help=POOLING_HELP)
    parser.set_defaults(function=_classify)


def _classify(args: argparse.Namespace) -> None:
    if not (args.input or args.examples or args.test):
        raise InputError("nothing to do: give texts to label, or --examples FILE to learn from")
    if args.predictions:
        _check_predictions(args)
    rows, column = _input(args) if args.input else ([], "text")  # everything is read before anything is written
    examples, test = (_labelled(args, option) if getattr(args, option) else None for option in ("examples", "test"))
    if examples and test:
        _check_known(test, sorted(set(_each(examples.labels))))  # before anything is trained
    classifier = _learned(args, examples) if examples else _opened(args)
    if test:
        _report(classifier, examples, test)
    found = _labels(classifier, [row[column] for row in rows])
    if args.predictions:
        _write_predictions(args, rows, found)
        return
    for row, (labels, score) in zip(rows, found, strict=True):
        say(f"{labels}\t{score}\t{' '.join(row[column].split())}")


def _check_predictions(args: argparse.Namespace) -> None:
    from contrastive_st.data.table_writers import FORMATS
    from contrastive_st.files.writing import check_target

    if Path(args.predictions).suffix not in FORMATS:
        raise InputError(f"--predictions {args.predictions}: write one of {', '.join(FORMATS)}")
    if not args.input:
        raise InputError("--predictions has the labels of the input; give a file of texts to label")
    check_target(args.predictions, args.overwrite)


def _write_predictions(args: argparse.Namespace, rows: Sequence[dict[str, Any]], found: list[tuple[str, str]]) -> None:
    """Write the rows of the input, each with its label and score in new columns."""
    from contrastive_st.data.table_writers import write_table
    from contrastive_st.files.writing import atomic_write

    taken = {name for row in rows for name in row}
    label, score = (name if name not in taken else f"predicted_{name}" for name in ("label", "score"))
    plain = ({name: cell if isinstance(cell, str) else _written(cell) for name, cell in row.items()} for row in rows)
    labelled = [{**row, label: one, score: value} for row, (one, value) in zip(plain, found, strict=True)]
    with atomic_write(args.predictions, args.overwrite) as path:
        write_table(path, labelled)
    note(f"{len(rows):,} rows with {label} and {score} in {args.predictions}")


def _written(cell: Any) -> str:
    return "" if cell is None else json.dumps(cell, default=str, ensure_ascii=False)


def _learned(args: argparse.Namespace, examples: LabelledTexts) -> SentenceClassifier:
    """Fit a classifier and save it."""
    from contrastive_st.classification.classifier import SentenceClassifier, check_name
    from contrastive_st.files.writing import only_writer
    from contrastive_st.models.protocol import open_encoder

    check_name(args.classifier)
    encoder = open_encoder(args.model, pooling=args.pooling)
    folder = args.output or (encoder.folder if args.model and not args.tune else None)
    if folder is None:
        why = "--tune changes the encoder" if args.tune else "--model names no local folder"
        raise InputError(f"{why}, so the classifier is saved elsewhere; give --output FOLDER")
    with only_writer(folder, flag="", parents=True) if args.tune else nullcontext():
        classifier = SentenceClassifier(
            encoder, head=args.head, tune=args.tune, show_progress_bar=progress_is_shown(),
            **{spec.name: getattr(args, spec.name) for spec in _TUNING},
        ).fit(examples.texts, examples.labels)  # fmt: skip
        path = classifier.save_pretrained(folder, args.classifier)
    counts = ", ".join(f"{count} {label}" for label, count in sorted(Counter(_each(examples.labels)).items()))
    note(f"learned from {counts}; saved as {path}")
    return classifier


def _opened(args: argparse.Namespace) -> SentenceClassifier:
    """The classifier in --output or in the folder of the model."""
    from contrastive_st.classification.classifier import SentenceClassifier

    source = args.output or args.model
    if source is None:
        raise InputError("there is no classifier yet; give --examples FILE to learn from, or its folder with --output")
    encoder = args.model if args.output else None
    options = {} if args.pooling is None else {"pooling": args.pooling}
    return SentenceClassifier.from_pretrained(source, name=args.classifier, encoder=encoder, **options)


def _labels(classifier: SentenceClassifier, texts: Sequence[str]) -> list[tuple[str, str]]:
    """For each text its labels, and their probabilities (cosines, if they are class means), separated by `|`."""
    if not texts:
        return []
    logits = classifier.logits(texts)
    chosen = logits >= 0 if classifier.multi_label_ else logits.argmax(1)[:, None] == range(logits.shape[1])
    scores = logits if classifier.head == "means" else classifier.head_.probabilities(logits)
    return [
        ("|".join(map(str, classifier.classes_[own])), "|".join(f"{score:.4f}" for score in row[own]))
        for own, row in zip(chosen, scores, strict=True)
    ]


def _report(classifier: SentenceClassifier, examples: LabelledTexts | None, test: LabelledTexts) -> None:
    """Print accuracy and macro-F1 on labelled texts, and those of simple classifiers of the same examples."""
    import numpy as np

    from contrastive_st.classification.measures import measures
    from contrastive_st.evaluation.scorers.few_shot import METHODS
    from contrastive_st.models.protocol import as_encoder

    _check_known(test, list(map(str, classifier.classes_)))
    gold = classifier.as_predicted(test.labels)
    tuned = "tuned encoder, " if classifier.tune else ""
    predicted = {f"{tuned}{classifier.head}": classifier.predict(test.texts)}
    if examples and not classifier.multi_label_:
        encoder = as_encoder(classifier.encoder)  # before it was tuned
        y = np.searchsorted(classifier.classes_, examples.labels)
        x, held = encoder.encode(examples.texts), encoder.encode(test.texts)
        same = {} if classifier.tune else {"logistic": "logistic regression", "means": "mean classifier"}
        for name, predict in METHODS.items():
            if name == same.get(classifier.head):
                continue
            predicted[name] = classifier.classes_[predict(x, y, examples.texts, held, test.texts)]
    wide = max(map(len, predicted))
    say(f"{'':{wide}}  {'accuracy':21}  macro-F1, with 95% intervals, on {len(gold)} texts")
    for name, labels in predicted.items():
        found = measures(gold, labels)
        say(f"{name:{wide}}  {found['accuracy']!s:21}  {found['macro_f1']}")


def _check_known(test: LabelledTexts, known: Sequence[str]) -> None:
    """Check that each label of the test texts is one of the classifier's."""
    if unknown := sorted(set(_each(test.labels)) - set(known)):
        names, there = ", ".join(unknown), ", ".join(known)
        raise InputError(f"--test: no examples of {names}; the labels are {there} (leave out texts of others)")


def _each(labels: Sequence[Any]) -> list[str]:
    """The labels one by one."""
    return [label for own in labels for label in ([own] if isinstance(own, str) else own)]


def _labelled(args: argparse.Namespace, option: str) -> LabelledTexts:
    """The texts and labels of files, or of files of one label (LABEL=FILE)."""
    from contrastive_st.data.labels import LabelledTexts, read_labels

    texts: list[str] = []
    labels: list[Any] = []
    for source in getattr(args, option):
        label, equals, path = source.partition("=")
        if equals and not Path(source).is_file():
            if not (label and path):
                raise InputError(f"--{option} {source}: write LABEL=FILE, such as frozen=frozen.txt, or name a table")
            own = _texts(path)
            found = LabelledTexts(own, [label] * len(own))
        else:
            found = read_labels(source, args.columns, separator=args.separator)
        texts += found.texts
        labels += found.labels
    return LabelledTexts(texts, labels)


def _texts(source: str) -> list[str]:
    """The texts of a file."""
    from contrastive_st.data.reading.texts import read_corpus

    rows = read_corpus(source)
    texts: list[str] = rows[rows.column_names[0]][:]
    return texts


def _input(args: argparse.Namespace) -> tuple[list[dict[str, Any]], str]:
    """The rows of stdin or of a file, with a text, and their column of text: as --columns say, or as in any corpus."""
    from contrastive_st.data.reading import header_of, open_table
    from contrastive_st.data.reading.texts import as_text
    from contrastive_st.data.roles import text_column

    if args.input == "-":
        return [{"text": line.strip()} for line in sys.stdin.read().splitlines() if line.strip()], "text"
    asked = [column for column in args.columns or () if not column.endswith("=label")]
    table = open_table(args.input, header=header_of(asked))
    column = text_column(table, asked)
    rows = [{**cells, column: as_text(cells.get(column), column, table.where(n)).strip()} for n, cells in table]
    kept = [row for row in rows if row[column]]
    if not kept:
        raise InputError(f"{args.input}: every {column!r} is blank; it needs at least one text")
    if len(kept) < len(rows):
        note(f"{args.input}: left out {len(rows) - len(kept)} of {len(rows)} rows, whose {column!r} is blank")
    return kept, column
