"""Scorers, one file per kind of task, and `Score`, their result.

A score is one number with everything that is needed to compare it with another.
"""

from __future__ import annotations

from dataclasses import dataclass

NOT_RUN = "not run"
UNSCALED = ("alignment", "uniformity", "anisotropy", "effective_rank", "mse")  # printed as they are, other metrics x100


@dataclass(frozen=True)
class Score:
    """One result.

    Args:
        task: such as "STS12".
        split: "train", "dev" or "test", or "cross-validation".
        metric: such as "spearman" or "accuracy".
        value: in the unit of the metric (correlations -1 to 1, shares 0 to 1); None if it was not run.
        aggregation: how the subsets are combined ("all": one list of pairs; "mean", "wmean": mean of the subsets'
            scores, for "wmean" weighted by their pairs), or another specification (a subset, "10 folds").
        n: number of pairs, sentences or queries that were scored.
        deviation: standard deviation over folds or draws, if there are several.
        note: why there is no value, or what the value does not include.
        model: name of the model.
        pooling: its pooling.
        max_length: its maximum length in tokens; None if unknown.
    """

    task: str
    split: str
    metric: str
    value: float | None
    aggregation: str = "all"
    n: int = 0
    deviation: float | None = None
    note: str = ""
    model: str = ""
    pooling: str = ""
    max_length: int | None = None

    @property
    def text(self) -> str:
        """The value as papers print it: shares and correlations x100, with a star if there is a note.

        Example:
            >>> Score("STS12", "test", "spearman", 0.72361).text, Score("STS13", "test", "spearman", None).text
            ('72.36', 'not run')
        """
        if self.value is None:
            return NOT_RUN
        value = f"{self.value:.3f}" if self.metric in UNSCALED else f"{100 * self.value:.2f}"
        return value + ("*" if self.note else "")

    def as_row(self) -> dict[str, object]:
        """A dict for JSON; numbers to eight digits, which is more than float32 embeddings carry."""
        row = dict(self.__dict__)
        for name in ("value", "deviation"):
            row[name] = None if row[name] is None else round(row[name], 8)
        return row
