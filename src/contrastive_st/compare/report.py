"""The result of a comparison: the winner, the table for a terminal, and the page `report.html`."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np

from contrastive_st.compare.queries import Search
from contrastive_st.compare.systems import System
from contrastive_st.evaluation.scorers.retrieval import mean_interval, reciprocal_ranks
from contrastive_st.plots import training_curve_png
from contrastive_st.terminal import columns

_DIFFERENT, _SHOWN = 10, 240  # queries on the page; characters of a text there


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
                system.name, system.model, system.rate, float(value[:half].mean()), float(value[half:].mean()),
                float(search.recalls(system.scores[half:], half).mean()),
                None if i == self.winner else mean_interval(values[self.winner][half:] - value[half:]),
            )
            for i, (system, value) in enumerate(zip(systems, values, strict=True))
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

    def cells(self) -> list[list[str]]:
        """The table as text: a row of headings, and one for each system."""
        table = [["system", "choosing", "confirming", "recall@10", "winner - this (95% interval)", "texts/s"]]
        for row in self.rows:
            behind = "winner" if row.behind is None else "{:+.3f} ({:+.3f} to {:+.3f})".format(*row.behind)
            rate = "" if math.isnan(row.rate) else f"{row.rate:,.0f}"
            table.append([row.name, *(f"{v:.3f}" for v in (row.choosing, row.confirming, row.recall)), behind, rate])
        return table

    def table(self) -> str:
        """The table for a terminal; MRR@10 is in its second and third column."""
        return "\n".join(columns(self.cells()))

    def json(self) -> dict[str, object]:
        """The numbers of the table, and what was left out."""
        rows = [{**vars(row), "rate": None if math.isnan(row.rate) else round(row.rate, 1)} for row in self.rows]
        return {"winner": self.best.name, "queries": len(self.search.queries), "documents": len(self.search.documents),
                "training": len(self.search.training), "systems": rows, "left_out": self.left_out}  # fmt: skip

    def page(self, title: str, commands: Sequence[str]) -> str:
        """The page: table, curve, the queries on which the systems differ most, what was left out."""
        curve = training_curve_png(next((s.curve for s in self.systems if s.curve), []))
        differing = np.argsort(-np.std([reciprocal_ranks(r)[self.search.half :] for r in self.ranks], 0), kind="stable")
        template = Path(__file__).with_name("report.html").read_text(encoding="utf-8")
        page: str = jinja2.Template(template, autoescape=True, trim_blocks=True).render(
            title=title, heading=self.heading(), verdict=self.verdict(), table=self.cells(), winner=self.winner,
            curve=base64.b64encode(curve or b"").decode(), commands="\n".join(commands), left_out=self.left_out,
            queries=[self._query(self.search.half + int(i)) for i in differing[:_DIFFERENT]],
        )  # fmt: skip
        return page

    def _query(self, number: int) -> tuple[str, str, list[tuple[str, int, str]]]:
        """A query on the page: its text, and for each system the rank of that and its first hit."""
        shown = lambda i: self.search.documents[i][:_SHOWN]
        systems = []
        for system, ranks in zip(self.systems, self.ranks, strict=True):
            hit = "the text itself" if ranks[number] == 1 else shown(int(np.argmax(system.scores[number])))
            systems.append((system.name, int(ranks[number]), hit))
        return self.search.queries[number], shown(self.search.relevant[number][0]), systems
