"""`contrastive-st classify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from contrastive_st.classification.settings import TuningSettings
from contrastive_st.commands import MODEL_HELP, POOLING_HELP
from contrastive_st.errors import InputError
from contrastive_st.options import Positive, option
from contrastive_st.terminal import note, progress_is_shown, say

if TYPE_CHECKING:
    import pyarrow as pa

    from contrastive_st.classification.classifier import SentenceClassifier
    from contrastive_st.classification.labels import Labels
    from contrastive_st.data.labels import LabelledTexts


@dataclass
class Classify(TuningSettings):
    """train a text classifier on labelled examples, and label texts with it

    contrastive-st classify mails.txt --train_file labelled.csv --test_file held_out.csv --predictions labels.csv
    """

    input: str = option("texts to label: a file (one per line, or a table), or - for stdin", "", positional=True)
    model: str | None = option(MODEL_HELP, short="-m")
    train_file: list[str] | None = option(
        "labelled examples: files with columns of text and label (csv, tsv, jsonl, parquet), or LABEL=FILE for files "
        "with texts of one label", metavar="FILE",
    )  # fmt: skip
    test_file: list[str] | None = option(
        "labelled files, as for --train_file: print accuracy and macro-F1 on them, and for comparison those of "
        "simple classifiers",
        metavar="FILE",
    )  # fmt: skip
    columns: list[str] | None = option(
        "names of the columns, marked by =label if they have labels: --columns review stars=label takes texts from "
        "review and labels from stars. The input needs only the column of texts",
        metavar="COLUMN",
    )
    predictions: str | None = option(
        "write the rows of the input with their labels to a .csv, .jsonl or .parquet file", metavar="FILE"
    )
    overwrite: bool = option("replace an existing file of predictions", default=False)
    separator: str | None = option(
        'if a text can have several labels: the separator between them, such as "|"', metavar="TEXT"
    )
    output: str | None = option(
        "folder of the classifier: with --train_file it is saved there, otherwise loaded from there (default: --model, "
        "if it is a folder; with --tune there is no default)",
        short="-o",
        metavar="FOLDER",
    )
    classifier: str = option(
        "name to save or load the classifier by; a folder may have several", "classes", metavar="NAME"
    )
    head: Literal["logistic", "means", "differentiable"] = option(
        "logistic: logistic regression; means: the nearest class mean; differentiable: a linear layer trained by "
        "gradient descent (with --tune, together with the encoder)", "logistic",
    )  # fmt: skip
    C: Positive = option("inverse regularization strength of logistic regression", 1.0)
    lexical: bool = option(
        "with logistic regression: use TF-IDF of words and pairs of words in addition to the embedding", default=False
    )
    thresholds: Literal["f1", "half"] = option(
        "threshold of each label, if a text can have several; f1: the one with the best F1 on held-out examples; "
        "half: a probability of 0.5", "f1",
    )  # fmt: skip
    tune: bool = option(
        "before the classifier, fine-tune the encoder on pairs of texts of the same class and of different classes "
        "(SetFit); both are saved in --output", default=False,
    )  # fmt: skip
    pooling: str | None = option(POOLING_HELP)
    show_progress_bar: bool = field(init=False, default_factory=progress_is_shown)

    def conflicts(self) -> Iterator[str]:
        """Yield settings of a training that there is not."""
        if not (self.tune or self.head == "differentiable"):
            names = "sampling_strategy", "num_epochs", "max_steps", "batch_size", "learning_rate"
            yield from self.unused("without --tune", *names)

    def __call__(self) -> None:
        """Learn from labelled texts, evaluate, and label texts, as far as files are given for each."""
        if not (self.input or self.train_file or self.test_file):
            raise InputError("nothing to do: give texts to label, or --train_file FILE to learn from")
        if self.predictions:
            from contrastive_st.data.table_writers import FORMATS
            from contrastive_st.files.writing import check_target

            if not self.input:
                raise InputError(
                    "--predictions writes the labels of the input, but there is no input; give a file of texts to label"
                )
            check_target(self.predictions or "", self.overwrite, formats=FORMATS)
        # before anything is written
        rows, column, schema = _input(self.input, self.columns) if self.input else ([], "text", None)
        examples, test = self._labelled("train_file"), self._labelled("test_file")
        if examples and test:  # before anything is trained
            classes, several = sorted({*_each(examples.labels)}), isinstance(examples.labels[0], list)
            test = _in_form(test, classes, several)
        classifier = self._learned(examples) if examples else self._opened()
        if test:
            test = test if examples else _in_form(test, classifier.classes_, classifier.multi_label_)
            _report(classifier, examples, test)
        result = _labels(classifier, [row[column] for row in rows])
        if not self.predictions:
            for row, answer in zip(rows, result, strict=True):
                say("\t".join((*_shown(*answer), " ".join(row[column].split()))))
            return
        from contrastive_st.data.table_writers import write_table
        from contrastive_st.files.writing import atomic_write

        taken = {name for row in rows for name in row}
        label, score = (name if name not in taken else f"predicted_{name}" for name in ("label", "score"))
        cells: Sequence[tuple[object, object]] = result  # lists, if a text may have several labels
        if self.predictions.endswith(".csv"):
            cells = [_shown(*answer, self.separator or "|") for answer in result]
        elif not classifier.multi_label_:
            cells = [(labels[0], scores[0]) for labels, scores in result]
        labelled = [{**row, label: one, score: value} for row, (one, value) in zip(rows, cells, strict=True)]
        with atomic_write(self.predictions, self.overwrite) as path:
            write_table(path, labelled, schema=schema)
        note(f"{len(rows):,} rows with {label} and {score} in {self.predictions}")

    def _learned(self, examples: LabelledTexts) -> SentenceClassifier:
        """Fit a classifier and save it."""
        from contrastive_st.classification.classifier import SentenceClassifier, check_name
        from contrastive_st.files.writing import only_writer
        from contrastive_st.models.protocol import open_encoder

        check_name(self.classifier)
        encoder = open_encoder(self.model, pooling=self.pooling)
        folder = self.output or (encoder.folder if self.model and not self.tune else None)
        if folder is None:
            why = "--tune changes the encoder" if self.tune else "--model names no local folder"
            raise InputError(f"{why}; give a folder for the classifier with --output FOLDER")
        tuning = {spec.name: getattr(self, spec.name) for spec in fields(TuningSettings)}
        with only_writer(folder, flag="", parents=True) if self.tune else nullcontext():
            classifier = SentenceClassifier(
                encoder, head=self.head, C=self.C, lexical=self.lexical, thresholds=self.thresholds,
                tune=self.tune, **tuning,
            )  # fmt: skip
            classifier.fit(examples.texts, examples.labels)
            path = classifier.save_pretrained(folder, self.classifier)
        counts = ", ".join(f"{count} {label}" for label, count in sorted(Counter(_each(examples.labels)).items()))
        note(f"learned from {counts}; saved as {path}")
        return classifier

    def _opened(self) -> SentenceClassifier:
        """The classifier in --output or in the folder of the model."""
        from contrastive_st.classification.classifier import SentenceClassifier

        source = self.output or self.model
        if source is None:
            raise InputError(
                "no classifier is given; train one with --train_file FILE, or load one with --output FOLDER"
            )
        encoder = self.model if self.output else None
        options = {} if self.pooling is None else {"pooling": self.pooling}
        return SentenceClassifier.from_pretrained(source, name=self.classifier, encoder=encoder, **options)

    def _labelled(self, option: Literal["train_file", "test_file"]) -> LabelledTexts | None:
        """The texts and labels of files, or of files of one label (LABEL=FILE)."""
        from contrastive_st.data.labels import LabelledTexts, joined, read_labels
        from contrastive_st.data.reading.texts import corpus_texts

        parts: list[LabelledTexts] = []
        for source in getattr(self, option) or ():
            label, equals, path = source.partition("=")
            if equals and not Path(source).is_file():
                if not (label and path):
                    raise InputError(
                        f"--{option} {source}: write LABEL=FILE, such as frozen=frozen.txt, or name a table"
                    )
                these = corpus_texts(path)
                parts.append(LabelledTexts(these, [label] * len(these)))
            else:
                parts.append(read_labels(source, self.columns, separator=self.separator))
        return joined(parts) if parts else None


def _labels(classifier: SentenceClassifier, texts: Sequence[str]) -> list[tuple[list[object], list[float]]]:
    """For each text its labels, and their probabilities (cosines, if they are class means)."""
    from contrastive_st.classification.labels import saved_classes
    from contrastive_st.models.protocol import warn_of_unknown

    if not texts:
        return []
    warn_of_unknown(classifier.encoder_, list(texts))
    logits = classifier.logits(texts)
    chosen = classifier.head_.chosen(logits)
    scores = logits if classifier.head == "means" else classifier.head_.probabilities(logits)
    names = saved_classes(classifier.classes_)["classes"]
    return [
        ([names[k] for k in mask.nonzero()[0]], [round(float(score), 4) for score in row[mask]])
        for mask, row in zip(chosen, scores, strict=True)
    ]


def _shown(labels: Sequence[object], scores: Sequence[float], separator: str = "|") -> tuple[str, str]:
    """The labels and the scores of a text, each in one cell."""
    return separator.join(map(str, labels)), separator.join(f"{score:.4f}" for score in scores)


def _report(classifier: SentenceClassifier, examples: LabelledTexts | None, test: LabelledTexts) -> None:
    """Print accuracy and macro-F1 on labelled texts, and those of simple classifiers of the same examples."""
    import numpy as np

    from contrastive_st.classification.measures import measures
    from contrastive_st.models.protocol import as_encoder

    true = classifier.as_predicted(test.labels)
    tuned = "tuned encoder, " if classifier.tune else ""
    predicted = {f"{tuned}{classifier.head}": classifier.predict(test.texts)}
    if examples and not classifier.multi_label_:
        from contrastive_st.evaluation.scorers.few_shot import METHODS

        encoder = as_encoder(classifier.encoder)  # before it was tuned
        y = np.searchsorted(classifier.classes_, examples.labels)
        x, held = encoder.encode(examples.texts), encoder.encode(test.texts)
        same = {"logistic": "logistic regression", "means": "mean classifier"}.get(classifier.head)
        for name, predict in METHODS.items():
            if name == same and not (classifier.tune or classifier.lexical):
                continue
            predicted[name] = classifier.classes_[predict(x, y, examples.texts, held, test.texts)]
    wide = max(map(len, predicted))
    say(f"{'':{wide}}  {'accuracy':21}  macro-F1, with 95% intervals, on {len(true)} texts")
    for name, labels in predicted.items():
        result = measures(true, labels)
        say(f"{name:{wide}}  {result['accuracy']!s:21}  {result['macro_f1']}")


def _in_form(test: LabelledTexts, classes: Sequence[object] | Labels, several: bool) -> LabelledTexts:
    """The test texts with labels that a classifier knows: lists if a text may have several, else one for each."""
    from contrastive_st.classification.labels import class_finder

    find = class_finder(classes)
    if unknown := sorted(label for label in set(_each(test.labels)) if find(label) is None):
        names, there = ", ".join(unknown), ", ".join(map(str, classes))
        raise InputError(
            f"--test_file has labels without training examples: {names}; leave out all texts but those of {there}"
            + (", or name the --separator of several labels in a cell" if several else "")
        )
    lists = [cell if isinstance(cell, list) else [cell] for cell in test.labels]
    if several:
        return test._replace(labels=lists)
    if wrong := [cell for cell in lists if len(cell) != 1]:
        raise InputError(f"--test_file gives a text the labels {wrong[0]}, but the examples have one each; give it one")
    return test._replace(labels=[label for (label,) in lists])


def _each(labels: Sequence[str | list[str]]) -> list[str]:
    """The labels one by one."""
    return [label for cell in labels for label in ([cell] if isinstance(cell, str) else cell)]


def _input(source: str, columns: Sequence[str] | None) -> tuple[list[dict[str, str]], str, pa.Schema | None]:
    """The rows of stdin or of a file that have a text, their column of text, and the stored types of the columns."""
    from contrastive_st.data.reading import open_table
    from contrastive_st.data.reading.content import stdin_texts
    from contrastive_st.data.reading.texts import rows_with_text
    from contrastive_st.data.roles import LABEL, role_of
    from contrastive_st.data.text_columns import text_column

    if source == "-":
        return [{"text": text} for text in stdin_texts()], "text", None
    asked = [column for column in columns or () if not column.endswith("=label")]
    asked = [column for column in asked if role_of(column) != LABEL] or asked  # `text label`: only examples have both
    table = open_table(source, columns=asked)
    column = text_column(table, () if table.is_lines else asked)
    return rows_with_text(table, column), column, table.schema
