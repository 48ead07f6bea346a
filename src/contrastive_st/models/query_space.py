"""What a folder says of the model whose vectors its own are to be compared with: a student's, of its teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import about
from contrastive_st.models.linear_map import LinearMap
from contrastive_st.options import Options
from contrastive_st.vectors import unit_vectors

FILE = "query_space.safetensors"
_MOST, _RIDGE = 40_000, 0.01  # texts that fit a map, and its ridge: there are many more of them than in a sample


@dataclass(frozen=True)
class QuerySpace(Options):
    """The record: an index of this model takes queries of the model in the folder.

    Args:
        model: the name of the model of the space.
        fingerprint: its fingerprint.
        agreement: mean cosine of held-out texts to that model's vectors of them.
    """

    model: str
    fingerprint: str
    agreement: float

    def save(self, folder: Path, lift: LinearMap | None) -> None:
        """Write the record into a model's folder, with the map into the space, if one is needed."""
        from safetensors.numpy import save_file

        tensors = {} if lift is None else {"matrix": lift.matrix}
        save_file(tensors, folder / FILE, {name: str(value) for name, value in asdict(self).items()})

    @classmethod
    def of(cls, encoder: Any) -> tuple[QuerySpace, LinearMap | None] | None:
        """What the folder of an encoder records; None if it records nothing."""
        from safetensors import safe_open

        path = Path(encoder.folder or "", FILE)
        if encoder.folder is None or not path.is_file():
            return None
        with about(path), safe_open(str(path), framework="numpy") as file:
            told = file.metadata()
            lift = LinearMap(file.get_tensor("matrix")) if "matrix" in file.keys() else None  # noqa: SIM118
            return cls(told["model"], told["fingerprint"], float(told["agreement"])), lift


def align(folder: Path, teacher: Any, texts: Sequence[str], vectors: NDArray[np.floating[Any]]) -> QuerySpace:
    """Record in a student's folder that its queries are compared with the teacher's vectors, with a map if that helps.

    Args:
        folder: the student.
        teacher: the encoder whose vectors these are.
        texts: texts that the teacher has encoded.
        vectors: its unit vectors of them, `[N, D]`. A tenth of the texts is held out to measure the agreement.
    """
    from contrastive_st.models.protocol import open_encoder

    chosen = np.random.default_rng(0).permutation(len(texts))[:_MOST]
    student = unit_vectors(open_encoder(folder).encode([texts[i] for i in chosen]))
    true, held = unit_vectors(np.asarray(vectors[chosen], np.float32)), max(len(chosen) // 10, 1)
    fitted = LinearMap.fit(student[held:], true[held:], _RIDGE)
    agreement = [float((fitted(student[:held]) * true[:held]).sum(1).mean())]
    if student.shape == true.shape:
        agreement.append(float((student[:held] * true[:held]).sum(1).mean()))
    space = QuerySpace(str(teacher.name), str(teacher.fingerprint), round(max(agreement), 4))
    space.save(folder, fitted if agreement[0] == max(agreement) else None)
    return space


class InSpace:
    """An encoder whose vectors are those of the space that its folder records; all else is its own, as its fingerprint.

    Args:
        encoder: the encoder.
        space: the record.
        lift: the map into the space; None if its vectors are there already.
    """

    def __init__(self, encoder: Any, space: QuerySpace, lift: LinearMap | None) -> None:
        self._encoder, self._lift, self.space = encoder, lift, space

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._encoder, name)
        if name not in ("encode", "encode_query", "encode_document"):
            return own
        return lambda texts, **options: self._lifted(own(texts, **options))

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""
        return int(self._encoder.dimension) if self._lift is None else self._lift.matrix.shape[1]

    def encode_buckets(self, buckets: Any) -> Any:
        """As the encoder's own, in the space."""
        return map(self._lifted, self._encoder.encode_buckets(buckets))

    def _lifted(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._lift is None:
            return vectors
        lifted = self._lift(np.atleast_2d(vectors))
        return np.asarray(lifted[0] if vectors.ndim == 1 else lifted)
