"""Labelled pairs of the Hub by the names that papers give them: SNLI, MultiNLI, QQP, MRPC, STSB, SICK-R and SICK-E."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PairSet:
    """A data set of the Hub: its name and config, its columns, and the name of its dev split."""

    name: str
    columns: tuple[str, str, str]
    config: str | None = None
    dev: str = "validation"
    revision: str | None = None

    @property
    def source(self) -> str:
        """The data set as `read_texts` takes it: "owner/name" or "owner/name:config"."""
        return self.name + (f":{self.config}" if self.config else "")


_NLI = ("premise", "hypothesis", "label")
PAIR_SETS = {
    "SNLI": PairSet("stanfordnlp/snli", _NLI),
    "MultiNLI": PairSet("nyu-mll/multi_nli", _NLI, dev="validation_matched"),
    "QQP": PairSet("nyu-mll/glue", ("question1", "question2", "label"), "qqp"),
    "MRPC": PairSet("nyu-mll/glue", ("sentence1", "sentence2", "label"), "mrpc"),
    "STSB": PairSet("sentence-transformers/stsb", ("sentence1", "sentence2", "score")),
    "SICK-R": PairSet(
        "RobZamp/sick", ("sentence_A", "sentence_B", "relatedness_score"), revision="refs/convert/parquet"
    ),
    "SICK-E": PairSet("RobZamp/sick", ("sentence_A", "sentence_B", "label"), revision="refs/convert/parquet"),
}
#: The same by their names in lower case
BY_NAME = {name.lower(): own for name, own in PAIR_SETS.items()}
