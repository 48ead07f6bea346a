"""Readers of the tasks' data sets on the Hub.

The Hub's sentences are raw; SentEval's files are tokenised and partly lower-cased. So scores from the two sources are
close but not equal, and a report says which source it used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contrastive_st.data.reading import MissingData
from contrastive_st.data.reading.relevance import Judgement
from contrastive_st.errors import first_line
from contrastive_st.evaluation.datasets.senteval import BINARY, ENTAILMENT, QUESTIONS, SUBSETS, Rows, Splits, tidy
from contrastive_st.evaluation.datasets.user_data import retrieval_splits

_REVISIONS = {"RobZamp/sick": "refs/convert/parquet"}  # its main branch is a script, which datasets 4 does not run
Source = tuple[str, str | None, str]  # name, config, split
Read = Callable[[], Splits]


def from_hub(
    sources: Mapping[str, Source],
    columns: Sequence[str],
    labels: str,
    classes: Sequence[str] = (),
    scale: float = 1.0,
    convert: Callable[[Any], int] | None = None,
) -> Read:
    """A reader that makes `Splits` of data sets on the Hub.

    Args:
        sources: name, config and split of each part.
        columns: the columns of the sentences; "a|b" is column a, or b if a data set has no a.
        labels: column of the scores or class numbers. Rows without one (null, or -1: hidden test labels) are left out.
        classes: names of the classes, in order of their numbers.
        scale: factor that brings scores to the range 0 to 5.
        convert: a function that is applied to each label first.

    Returns:
        A function that reads the `Splits`; it raises `MissingData` if a data set cannot be loaded.
    """

    def read() -> Splits:
        splits = {}
        for part, source in sources.items():
            rows = [row for row in _load(source) if row[labels] is not None and row[labels] != -1]
            values = np.asarray([convert(row[labels]) if convert else row[labels] for row in rows])
            texts = tuple(
                [tidy(str(next(row[name] for name in column.split("|") if name in row))) for row in rows]
                for column in columns
            )
            splits[part] = Rows(texts, values if scale == 1 else values.astype(np.float64) * scale)
        return Splits(splits, {}, classes)

    return read


def _load(source: Source) -> Any:
    import datasets

    name, config, split = source
    try:
        return datasets.load_dataset(name, config, split=split, revision=_REVISIONS.get(name))
    except Exception as error:
        raise MissingData(f"the data set {name} cannot be had from the Hub: {first_line(error)}") from error


def _splits(name: str, config: str | None = None) -> dict[str, Source]:
    return {"train": (name, config, "train"), "dev": (name, config, "validation"), "test": (name, config, "test")}


_RELATED = _splits("RobZamp/sick")

READERS: dict[str, Read] = {
    **{
        name: from_hub({"all": (f"mteb/{name.lower()}-sts", None, "test")}, ("sentence1", "sentence2"), "score")
        for name in SUBSETS
    },
    "STSB": from_hub(_splits("sentence-transformers/stsb"), ("sentence1", "sentence2"), "score", scale=5.0),
    "SICKR": from_hub(_RELATED, ("sentence_A", "sentence_B"), "relatedness_score"),
    "SICKE": from_hub(  # where the classes are in the other order
        _RELATED, ("sentence_A", "sentence_B"), "label", ENTAILMENT, convert=lambda label: 2 - label
    ),
    "MR": from_hub(
        {"all": ("cornell-movie-review-data/rotten_tomatoes", None, "train+validation+test")},
        ("text",), "label", BINARY,
    ),
    "CR": from_hub({"all": ("SetFit/CR", None, "train+test")}, ("text",), "label", BINARY),
    "SUBJ": from_hub({"all": ("SetFit/subj", None, "train+test")}, ("text",), "label", BINARY),
    "SST2": from_hub(
        {**_splits("nyu-mll/glue", "sst2"), "test": ("SetFit/sst2", None, "test")},
        ("sentence|text",), "label", BINARY,
    ),
    "TREC": from_hub(
        {"train": ("SetFit/TREC-QC", None, "train"), "test": ("SetFit/TREC-QC", None, "test")},
        ("text",), "label_coarse_original", QUESTIONS, convert=QUESTIONS.index,
    ),
    "MRPC": from_hub(
        {"train": ("nyu-mll/glue", "mrpc", "train"), "test": ("nyu-mll/glue", "mrpc", "test")},
        ("sentence1", "sentence2"), "label", BINARY,
    ),
    "QQP": from_hub(
        {"train": ("nyu-mll/glue", "qqp", "train"), "test": ("nyu-mll/glue", "qqp", "validation")},
        ("question1", "question2"), "label", BINARY,
    ),
}  # fmt: skip


# --- The sets of NanoBEIR, by name.

NANO = (
    "ArguAna", "ClimateFEVER", "DBPedia", "FEVER", "FiQA2018", "HotpotQA", "MSMARCO", "NFCorpus", "NQ",
    "QuoraRetrieval", "SCIDOCS", "SciFact", "Touche2020",
)  # fmt: skip


def is_nano(name: str) -> bool:
    """Whether a set of NanoBEIR has this name.

    Example:
        >>> is_nano("NanoSciFact"), is_nano("faq.tsv")
        (True, False)
    """
    return name.removeprefix("Nano") in NANO and name.startswith("Nano")


def read_nano(name: str) -> Splits:
    """A set of NanoBEIR from the Hub, such as `NanoSciFact`.

    Raises:
        MissingData: it cannot be loaded.
    """
    parts = [_load((f"zeta-alpha-ai/{name}", part, "train")) for part in ("corpus", "queries", "qrels")]
    corpus, queries = ({str(row["_id"]): tidy(str(row["text"])) for row in part} for part in parts[:2])
    relevance = [Judgement(str(row["query-id"]), str(row["corpus-id"]), 1.0, name) for row in parts[2]]
    return retrieval_splits(corpus, queries, relevance, name)
