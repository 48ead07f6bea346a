"""Labelled pairs of the Hub by the names that papers give them: SNLI, MultiNLI, QQP, MRPC, STSB, SICK-R and SICK-E."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PairSet:
    """A data set of the Hub, as `read_texts` takes it, its columns, and the name of its dev split."""

    source: str
    columns: tuple[str, str, str]
    dev: str = "validation"
    revision: str | None = None


_NLI = ("premise", "hypothesis", "label")
PAIR_SETS = {
    "SNLI": PairSet("stanfordnlp/snli", _NLI),
    "MultiNLI": PairSet("nyu-mll/multi_nli", _NLI, dev="validation_matched"),
    "QQP": PairSet("nyu-mll/glue:qqp", ("question1", "question2", "label")),
    "MRPC": PairSet("nyu-mll/glue:mrpc", ("sentence1", "sentence2", "label")),
    "STSB": PairSet("sentence-transformers/stsb", ("sentence1", "sentence2", "score")),
    "SICK-R": PairSet(
        "RobZamp/sick", ("sentence_A", "sentence_B", "relatedness_score"), revision="refs/convert/parquet"
    ),
    "SICK-E": PairSet("RobZamp/sick", ("sentence_A", "sentence_B", "label"), revision="refs/convert/parquet"),
}
#: The same by their names in lower case
BY_NAME = {name.lower(): pair_set for name, pair_set in PAIR_SETS.items()}
