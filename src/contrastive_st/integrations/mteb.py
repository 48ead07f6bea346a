"""Run `mteb` on any model that this package opens. Needs the extra `mteb`, which is imported when it is first used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError, install
from contrastive_st.models.protocol import Encoder, as_encoder
from contrastive_st.vectors import cosine, unit_vectors


class MTEBModel:
    """A model for `mteb.evaluate(model, tasks)`.

    Args:
        source: a model, as for `contrastive_st.evaluation.evaluate`.
        revision: the revision that mteb records; by default the model's fingerprint.
        options: options of `SentenceEncoder`.

    Example:
        >>> model = MTEBModel(lambda texts: np.array([[len(text), 1.0] for text in texts]))
        >>> model.encode([{"text": ["ab", "c"]}, {"text": ["def"]}])[:, 0].tolist()  # batches, as mteb gives them
        [2.0, 1.0, 3.0]
    """

    def __init__(self, source: Any, revision: str | None = None, **options: Any) -> None:
        self.encoder: Encoder = as_encoder(source, **options)
        self.revision = revision

    def encode(self, inputs: Iterable[Any], *, prompt_type: Any = None, **kwargs: Any) -> NDArray[np.floating]:
        """Embeddings of a data loader's batches `{"text": [...]}`, or of a list of texts.

        Args:
            inputs: the batches or texts.
            prompt_type: `mteb.types.PromptType`, or its value: `query` and `document` use the prompts that the model
                records for them, None uses the default prompt.
            kwargs: other arguments of mteb, which are not used.
        """
        texts: list[str] = []
        for batch in inputs:
            texts += [batch] if isinstance(batch, str) else batch["text"]
        role = getattr(prompt_type, "value", prompt_type)
        encode = {"query": self.encoder.encode_query, "document": self.encoder.encode_document}
        return np.asarray(encode.get(role, self.encoder.encode)(texts))

    def similarity(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.float64]:
        """Cosine similarities `[N, M]` of all pairs."""
        a, b = (unit_vectors(np.atleast_2d(x), np.float64) for x in (embeddings1, embeddings2))
        cosines: NDArray[np.float64] = a @ b.T
        return cosines

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.float64]:
        """Cosine similarities `[N]` of rows with the same number."""
        return cosine(np.atleast_2d(embeddings1), np.atleast_2d(embeddings2))

    @property
    def mteb_model_meta(self) -> Any:
        """`mteb.models.ModelMeta` of the model."""
        try:
            from mteb.models import ModelMeta
        except ImportError:
            raise InputError(f"mteb is not installed; {install('mteb')}") from None
        name = self.encoder.name if "/" in self.encoder.name else f"contrastive-st/{self.encoder.name}"
        empty = dict.fromkeys(
            ("release_date", "languages", "n_parameters", "memory_usage_mb", "embed_dim", "license", "open_weights",
             "public_training_code", "public_training_data", "training_datasets")
        )  # fmt: skip
        return ModelMeta(
            loader=None, name=name, revision=self.revision or self.encoder.fingerprint or "unknown",
            max_tokens=self.encoder.max_length, framework=["PyTorch"], similarity_fn_name="cosine",
            use_instructions=any(getattr(self.encoder, "prompts", {}).values()), **empty,
        )  # fmt: skip
