"""`contrastive-st migrate`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Gt, Le

from contrastive_st.commands import MODEL_HELP, POOLING_HELP, PRECISION_HELP
from contrastive_st.errors import InputError
from contrastive_st.options import option
from contrastive_st.search.cli import ModelPrecision, StoreCommand, recorded_encoder
from contrastive_st.terminal import note, progress_is_shown, say

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.search.index import Id, VectorIndex
    from contrastive_st.search.migration.moving import Move

_CHECKED, _SAME = 50, 0.99  # documents whose vectors are compared with those of their texts, and the least median


@dataclass
class Migrate(StoreCommand):
    """re-encode a collection with another model while searches go on; resumes after an interruption

    contrastive-st migrate talks --model sentence-transformers/all-MiniLM-L6-v2
    """

    collection: str = option("name of the collection", positional=True)
    model: str | None = option(f"the new model: {MODEL_HELP}", short="-m")
    queries: str | None = option(
        "with --dry_run: queries for nDCG of both models on the sample; a table with the columns query and id (of a "
        "document that answers the query)"
    )
    retrieval: str | None = option(
        "like --queries, but a folder with queries.jsonl and qrels/test.tsv, with document ids of the collection",
        metavar="FOLDER",
    )
    share: Annotated[float, Gt(0), Le(1)] = option(
        "fraction of the time in which this process encodes; in the rest it pauses, and leaves the machine to searches",
        default=1.0,
    )
    dry_run: bool = option(
        "only estimate the time and the disk space, from a sample of 5,000 documents or as many as are encoded in a "
        "minute; and nDCG of both models, with --queries or --retrieval",
        default=False,
    )
    rollback: bool = option("return to the old vectors, and remove the new ones", default=False)
    finish: bool = option(
        "remove the old vectors, after which --rollback is not possible; all documents must be encoded", default=False
    )
    precision: ModelPrecision = option(PRECISION_HELP.format("model"), default="auto")
    pooling: str | None = option(POOLING_HELP)

    def conflicts(self) -> Iterator[str]:
        """Yield steps that exclude each other."""
        if self.rollback + self.finish + self.dry_run > 1:
            yield "give one of --dry_run, --finish and --rollback"
        if (self.queries or self.retrieval) and not self.dry_run:
            yield "--queries and --retrieval compare the models, which only --dry_run does"

    def run(self) -> None:
        """Encode and switch; or only estimate, finish, or roll back."""
        from tqdm.auto import tqdm

        from contrastive_st.models.protocol import open_encoder
        from contrastive_st.search.migration.moving import Move, finish, roll_back
        from contrastive_st.search.opening import model_name, open_index, open_recorded, writable

        with closing(open_index(self.store, self.collection)) as opened:
            index: Any = writable(opened, str(self.store or "the store"))
            if self.finish:
                note("removed: the vectors of " + ", ".join(space.model for space in finish(index)))
                return
            if self.rollback:
                back = roll_back(index, lambda model: open_recorded(model, precision=self.precision))
                note(f"searches use {back.model} again; all other vectors are removed")
                return
            encoder = open_encoder(self.model, precision=self.precision, pooling=self.pooling)
            with tqdm(disable=not progress_is_shown(), unit=" documents", desc="migrate") as bar:

                def advance(done: int, missing: int) -> None:
                    bar.total = bar.n + done + missing
                    bar.update(done)

                move = Move(index, encoder, model_name(encoder), self.share, note, advance)
                former = None if move.begun and not self.dry_run else self._former(index)
                if self.dry_run:
                    self._estimate(index, move, former)
                else:
                    move.run()

    def _estimate(self, index: VectorIndex, move: Move, former: SentenceEncoder | None) -> None:
        """Print what the move costs and what it is worth."""
        from contrastive_st.search.migration.sample import read_answers, read_retrieval, sample

        answers: dict[str, list[Id]] = {}
        for asked in (read_answers(self.queries) if self.queries else {},
                      read_retrieval(Path(self.retrieval)) if self.retrieval else {}):  # fmt: skip
            for query, ids in asked.items():
                answers.setdefault(query, []).extend(ids)
        if answers and former is None:
            raise InputError("--queries and --retrieval need the old model to encode the queries; it cannot be opened")
        estimate = sample(index, move.encoder, answers, former)
        needed, free = move.bytes_needed()
        room = "" if free is None else f" of the {free / 2**30:,.1f} GiB that are free"
        seconds = estimate.documents / estimate.rate / self.share
        units = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("s", 1))
        unit, size = next(one for one in units if seconds >= 2 * one[1] or one[1] == 1)
        end = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + seconds))
        for line in (
            *estimate.lines(),
            f"disk space needed until --finish: about {needed / 2**30:,.2f} GiB{room}",
            f"all {estimate.documents:,} documents are encoded in about {seconds / size:,.0f} {unit}, at {end}",
        ):
            say(line)

    def _former(self, index: VectorIndex) -> SentenceEncoder | None:
        """The model that answers now, if it can be opened.

        Raises:
            InputError: the vectors are not those of the texts, so that encoding these would give others.
        """
        import numpy as np

        from contrastive_st.vectors import cosine

        encoder = recorded_encoder(index, "not checked whether the vectors are those of the texts")
        if encoder is None:
            return None
        _, texts, _, vectors = index.draw(_CHECKED)
        if texts and np.median(cosine(encoder.encode_document(texts), vectors)) < _SAME:
            raise InputError(
                f"the vectors are not those of the texts by {encoder.name}; "
                "index the corpus with the new model, in another collection"
            )
        return encoder
