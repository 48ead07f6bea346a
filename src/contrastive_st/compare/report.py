"""The result of a comparison: the winner, and the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from contrastive_st.compare.queries import Search
from contrastive_st.compare.systems import System
from contrastive_st.evaluation.scorers.retrieval import mean_interval, reciprocal_ranks


@dataclass(frozen=True)
class Row:
    """A system in the table: MRR@10 on the queries that choose, and on the others how it compares with the winner.

    Args:
        name, model, rate: those of the system.
        choosing: MRR@10 on the queries that choose.
        confirming: MRR@10 on the other queries.
        recall: recall@10 on these.
        behind: MRR@10 of the winner less that of this system on these, and the 95% interval; None for the winner.
    """

    name: str
    model: str
    rate: float
    choosing: float
    confirming: float
    recall: float
    behind: tuple[float, float, float] | None


class Comparison:
    """Systems on one test.

    Args:
        search: the test.
        systems: the systems, each with its scores.
        left_out: lines of what was left out besides that of the test.
    """

    def __init__(self, search: Search, systems: Sequence[System], left_out: Sequence[str] = ()) -> None:
        self.search, self.systems = search, list(systems)
        self.left_out = [f"{count:,} {what}" for what, count in search.left_out.items() if count] + list(left_out)
        self.ranks = [search.ranks(system.scores) for system in systems]
        values, half = [reciprocal_ranks(ranks) for ranks in self.ranks], search.half
        self.winner = max(range(len(values)), key=lambda i: float(values[i][:half].mean()))
        self.rows = [
            Row(
                system.name, system.model, system.rate, float(own[:half].mean()), float(own[half:].mean()),
                float((ranks[half:] <= 10).mean()),
                None if i == self.winner else mean_interval(values[self.winner][half:] - own[half:]),
            )
            for i, (system, own, ranks) in enumerate(zip(systems, values, self.ranks, strict=True))
        ]  # fmt: skip

    @property
    def best(self) -> System:
        """The system that the first half of the queries chooses."""
        return self.systems[self.winner]

    @property
    def best_model(self) -> System:
        """The best system that `search` offers."""
        order = sorted(range(len(self.rows)), key=lambda i: -self.rows[i].choosing)
        return next(self.systems[i] for i in order if self.systems[i].model)

    def heading(self) -> str:
        """What was measured."""
        search, half = self.search, self.search.half
        return (
            f"MRR@10 of finding a text among {len(search.documents):,} by {search.made}: {half:,} queries choose the "
            f"system, {len(search.queries) - half:,} others confirm it; {len(search.training):,} texts to tune on"
        )

    def verdict(self) -> str:
        """Whether the winner is better than each of the others on the queries that did not choose it."""
        doubtful = [row.name for row in self.rows if row.behind is not None and row.behind[1] <= 0]
        if not doubtful:
            return f"{self.best.name} is best, which the other half of the queries confirms for each difference."
        return f"{self.best.name} is best, but not with certainty better than {' and '.join(doubtful)}."

    def table(self) -> str:
        """The table for a terminal; MRR@10 is in its second and third column."""
        cells = [["system", "choosing", "confirming", "recall@10", "winner - this (95% interval)", "texts/s"]]
        for row in self.rows:
            behind = "winner" if row.behind is None else "{:+.3f} ({:+.3f} to {:+.3f})".format(*row.behind)
            rate = "" if math.isnan(row.rate) else f"{row.rate:,.0f}"
            cells.append([row.name, *(f"{v:.3f}" for v in (row.choosing, row.confirming, row.recall)), behind, rate])
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = ["  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
                 for row in cells]  # fmt: skip
        return "\n".join(line.rstrip() for line in lines)

    def json(self) -> dict[str, object]:
        """The numbers of the table, and what was left out."""
        rows = [{**vars(row), "rate": None if math.isnan(row.rate) else round(row.rate, 1)} for row in self.rows]
        return {"winner": self.best.name, "queries": len(self.search.queries), "documents": len(self.search.documents),
                "training": len(self.search.training), "systems": rows, "left_out": self.left_out}  # fmt: skip
