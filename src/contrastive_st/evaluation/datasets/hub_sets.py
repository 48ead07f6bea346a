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
from contrastive_st.evaluation.datasets.senteval import QUESTIONS, SUBSETS, Rows, Splits, tidy
from contrastive_st.evaluation.datasets.user_data import retrieval_splits

_REVISIONS = {"RobZamp/sick": "refs/convert/parquet"}  # its main branch is a script, which datasets 4 does not run
Source = tuple[str, str | None, str]  # name, config, split
Read = Callable[[], Splits]


def from_hub(
    sources: Mapping[str, Source],
    columns: Sequence[str],
    labels: str,
    convert: Callable[[Any], float] | None = None,
) -> Read:
    """A reader that makes `Splits` of data sets on the Hub.

    Args:
        sources: name, config and split of each part.
        columns: the columns of the sentences; "a|b" is column a, or b if a data set has no a.
        labels: column of the scores or class numbers. Rows without one (null, or -1: hidden test labels) are left out.
        convert: makes a score from 0 to 5, or the number of a class, of each label that is not one.

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
            splits[part] = Rows(texts, values)
        return Splits(splits)

    return read


def _load(source: Source) -> Any:
    import datasets

    name, config, split = source
    try:
        return datasets.load_dataset(name, config, split=split, revision=_REVISIONS.get(name))
    except Exception as error:
        raise MissingData(f"the data set {name} cannot be had from the Hub: {first_line(error)}") from error


def _splits(name: str, config: str | None = None, **parts: str) -> dict[str, Source]:
    """The split of the Hub for each part."""
    parts = parts or {"train": "train", "dev": "validation", "test": "test"}
    return {part: (name, config, split) for part, split in parts.items()}


_ROTTEN_TOMATOES, _RELATED = "cornell-movie-review-data/rotten_tomatoes", _splits("RobZamp/sick")
_SST2 = {**_splits("nyu-mll/glue", "sst2"), **_splits("SetFit/sst2", test="test")}
_SENTENCES, _SICK_SENTENCES = ("sentence1", "sentence2"), ("sentence_A", "sentence_B")

READERS: dict[str, Read] = {
    **{name: from_hub(_splits(f"mteb/{name.lower()}-sts", all="test"), _SENTENCES, "score") for name in SUBSETS},
    "STSB": from_hub(_splits("sentence-transformers/stsb"), _SENTENCES, "score", lambda score: 5 * score),
    "SICKR": from_hub(_RELATED, _SICK_SENTENCES, "relatedness_score"),
    "SICKE": from_hub(_RELATED, _SICK_SENTENCES, "label", lambda label: 2 - label),  # the classes in the other order
    "MR": from_hub(_splits(_ROTTEN_TOMATOES, all="train+validation+test"), ("text",), "label"),
    "CR": from_hub(_splits("SetFit/CR", all="train+test"), ("text",), "label"),
    "SUBJ": from_hub(_splits("SetFit/subj", all="train+test"), ("text",), "label"),
    "SST2": from_hub(_SST2, ("sentence|text",), "label"),
    "TREC": from_hub(
        _splits("SetFit/TREC-QC", train="train", test="test"), ("text",), "label_coarse_original", QUESTIONS.index
    ),
    "MRPC": from_hub(_splits("nyu-mll/glue", "mrpc", train="train", test="test"), _SENTENCES, "label"),
    "QQP": from_hub(
        _splits("nyu-mll/glue", "qqp", train="train", test="validation"), ("question1", "question2"), "label"
    ),
}


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
