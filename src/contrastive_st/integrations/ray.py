"""Encode with Ray Data on any number of machines; needs `pip install 'contrastive-st[ray]'`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from contrastive_st.errors import InputError
from contrastive_st.models.protocol import open_encoder
from contrastive_st.vectors import quantize


class BatchEncoder:
    """An actor class for `ray.data.Dataset.map_batches`: opens a model once and adds vectors to each batch.

    The vectors are the same as those of `contrastive-st encode`. Call `map_batches` with `batch_format="pyarrow"`; with
    `num_gpus=1` each actor has one GPU.

    Args:
        model: folder or Hub name that every machine can reach; by default the static model of this package.
        column: column of the texts; a null is an empty text.
        output: column of the vectors, a list of fixed size.
        normalize: write unit vectors.
        precision: precision of the vectors: `float32`, `int8` or `ubinary`, as in `contrastive_st.vectors.quantize`.
        ranges: for int8, `[2, d]`, the same for all actors: `contrastive_st.vectors.quantization_ranges` of a sample.
        model_precision: the `precision` of `SentenceEncoder`.
        options: options of `SentenceEncoder`, such as `pooling`.

    Raises:
        InputError: the model cannot be opened, or int8 without ranges.

    Example:
        >>> BatchEncoder()(pa.table({"text": ["a cat sat", None]})).schema.field("embedding").type
        FixedSizeListType(fixed_size_list<item: float>[256])
        >>> import ray  # doctest: +SKIP
        >>> texts = ray.data.read_parquet("texts/")  # doctest: +SKIP
        >>> pool = ray.data.ActorPoolStrategy(size=8)  # doctest: +SKIP
        >>> vectors = texts.map_batches(BatchEncoder, compute=pool, batch_format="pyarrow")  # doctest: +SKIP
        >>> vectors.write_parquet("vectors/")  # doctest: +SKIP
    """

    def __init__(
        self,
        model: object = None,
        *,
        column: str = "text",
        output: str = "embedding",
        normalize: bool = False,
        precision: str = "float32",
        ranges: ArrayLike | None = None,
        model_precision: str = "fp32",
        **options: Any,
    ) -> None:
        if precision == "int8" and ranges is None:
            raise InputError("int8 needs ranges, because each actor sees only a part of the texts; give ranges [2, d]")
        self.encoder = open_encoder(model, precision=model_precision, **options)
        self.column, self.output, self.precision, self.ranges = column, output, precision, ranges
        self.normalize = normalize

    def __call__(self, batch: pa.Table) -> pa.Table:
        """The batch with the vectors of its texts."""
        texts = [(text or "").strip() for text in batch[self.column].to_pylist()]
        stored = quantize(self.encoder.encode(texts, normalize_embeddings=self.normalize), self.precision, self.ranges)
        flat = pa.array(np.ascontiguousarray(stored).reshape(-1))
        return batch.append_column(self.output, pa.FixedSizeListArray.from_arrays(flat, stored.shape[1]))
