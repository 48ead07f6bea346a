"""Another model for a folder of shards: spaces are folders in it, and its record says which one answers."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.index import Ids, Space, Vectors
from contrastive_st.search.shards import RANGES, RECORD, Encoding, ShardFolder, space_folder

_FORMER = "former.json"  # the record of space 0, while another answers


class MovableFolder:
    """A folder of shards as a `MovableIndex`: a shard is encoded and written at a time.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        self.index = ExactIndex.open(self.folder)
        self._shard = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.index, name)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def exact_vectors(self) -> bool:
        """Whether the vectors are stored as the model gave them."""
        return self._live().precision == "float32"

    def spaces(self) -> list[Space]:
        """All spaces, the live one first."""
        live = self._live().space
        numbers = [int(path.parent.name.removeprefix("space-")) for path in self.folder.glob(f"space-*/{RECORD}")]
        numbers += [0] if live == 0 or (self.folder / _FORMER).exists() else []
        return [self._space(number) for number in sorted(numbers, key=lambda number: (number != live, number))]

    def add_space(self, space: Space) -> Space:
        """Add a space without vectors, or return the one with this model."""
        known = self.spaces()
        for one in known:
            if one.fingerprint == space.fingerprint:
                return one
        if not (self.folder / _FORMER).exists() and self._live().space == 0:
            self._live().write(self.folder / _FORMER)
        number = max(one.number for one in known) + 1
        made = replace(
            self._live(), model=space.model, fingerprint=space.fingerprint, dimension=space.dimension, space=0
        )
        made.write(space_folder(self.folder, number) / RECORD)
        return replace(space, number=number)

    def missing(self, space: Space, after: int | None, limit: int) -> tuple[Ids, list[str]]:
        """The documents of the first shard that a space does not have, whatever the limit."""
        there, source = {path.name for path in self._paths(space.number)}, ShardFolder(self.folder)
        for path in source.paths():
            if path.name not in there:
                self._shard = int(path.stem.removeprefix("shard-"))
                ids, texts, self._metadata, _ = source.read(path)
                return ids, texts
        return self.index.ids[:0], []

    def lacking(self, space: Space) -> int:
        """How many documents have no vector in a space."""
        import pyarrow.parquet as pq

        live, other = (
            sum(int(pq.read_metadata(path).num_rows) for path in self._paths(number))
            for number in (self._live().space, space.number)
        )
        return live - other

    def put(self, space: Space, ids: Ids, texts: Sequence[str], vectors: Vectors) -> None:
        """Write the shard whose documents `missing` gave."""
        batch = ids, list(texts), self._metadata, vectors
        ShardFolder(space_folder(self.folder, space.number)).add(self._shard, batch)

    def build_like(self, space: Space) -> None:
        """Copy the shards for memory-mapping."""
        ExactIndex.open(space_folder(self.folder, space.number))

    def activate(self, space: Space) -> int:
        """Let searches go to a space, by the record of the folder; return how many documents lack a vector there."""
        if missing := self.lacking(space):
            return missing
        self._record(space.number).write(self.folder / RECORD)
        self.index = ExactIndex.open(self.folder)
        return 0

    def drop_space(self, space: Space) -> None:
        """Remove a space that is not live."""
        if space.number:
            shutil.rmtree(space_folder(self.folder, space.number))
            return
        (self.folder / _FORMER).unlink()
        for path in (*self._paths(0), self.folder / RANGES):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "exact", ignore_errors=True)

    def space_bytes(self, space: Space, documents: int) -> tuple[int, int | None]:
        """About how many bytes such a space would take, in shards and in their copy, and how many are free."""
        size = sum(path.stat().st_size for path in self._paths(self._live().space))
        wider = max(space.dimension / self._live().dimension, 1)
        return int(2 * size * wider), shutil.disk_usage(self.folder).free

    # ------------------------------------------------------------------ inside

    def _live(self) -> Encoding:
        return Encoding.read(self.folder / RECORD)

    def _record(self, number: int) -> Encoding:
        if number == self._live().space:
            return self._live()
        path = space_folder(self.folder, number) / RECORD if number else self.folder / _FORMER
        return replace(Encoding.read(path), space=number)

    def _space(self, number: int) -> Space:
        made = self._record(number)
        return Space(number, made.model, made.fingerprint, made.dimension)

    def _paths(self, number: int) -> list[Path]:
        return sorted(space_folder(self.folder, number).glob("shard-*.parquet"))
