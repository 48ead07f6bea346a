"""Run `mteb` on any model that this package opens. Needs the extra `mteb`, which is imported when it is first used."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from contrastive_st.errors import require
from contrastive_st.models.protocol import Encoder, as_encoder
from contrastive_st.vectors import PAIRWISE, SIMILARITIES

if TYPE_CHECKING:
    from mteb.models import ModelMeta


class MTEBModel:
    """A model for `mteb.evaluate(model, tasks)`.

    Args:
        source: a model, as for `contrastive_st.evaluation.evaluate`.
        revision: the revision that mteb records; by default the model's fingerprint. A function has none: each
            `MTEBModel` of it has a revision of its own, as mteb would give it the cached scores of another one.
        options: options of `SentenceEncoder`.

    Example:
        >>> model = MTEBModel(lambda texts: np.array([[len(text), 1.0] for text in texts]))
        >>> model.encode([{"text": ["ab", "c"]}, {"text": ["def"]}])[:, 0].tolist()  # batches, as mteb gives them
        [2.0, 1.0, 3.0]
    """

    def __init__(self, source: object, revision: str | None = None, **options: Any) -> None:
        self.encoder: Encoder = as_encoder(source, **options)
        self.revision = revision
        self._of_this_object = f"unknown-{uuid.uuid4().hex}"

    def encode(
        self,
        inputs: Iterable[dict[str, list[str]]],
        *,
        task_metadata: object = None,
        prompt_type: object = None,
        **kwargs: object,
    ) -> NDArray[np.floating]:
        """Embeddings of a data loader's batches `{"text": [...]}`, or of a list of texts.

        Args:
            inputs: the batches or texts.
            task_metadata: the task. A prompt that the model records under the name or the type of the task is used, as
                mteb does: first that of `NAME-query`, then `NAME`, `TYPE-query` and `TYPE`.
            prompt_type: `mteb.types.PromptType`, or its value: `query` and `document` use the prompts that the model
                records for them, None uses the default prompt.
            kwargs: other arguments of mteb, which are not used.

        Returns:
            The embeddings `[N, d]`.
        """
        texts: list[str] = []
        for batch in inputs:
            texts += [batch] if isinstance(batch, str) else batch["text"]
        role = getattr(prompt_type, "value", prompt_type)
        of_task = [getattr(task_metadata, name, None) for name in ("name", "type")]
        names = [name for part in of_task if part for name in (*([f"{part}-{role}"] if role else []), part)]
        prompts = getattr(self.encoder, "prompts", {})
        options = next(({"prompt": prompts[name]} for name in names if name in prompts), {})
        encode = {"query": self.encoder.encode_query, "document": self.encoder.encode_document}
        return np.asarray(encode.get(str(role), self.encoder.encode)(texts, **options))

    @property
    def similarity_fn_name(self) -> str:
        """How vectors are compared: as the model records, or else by cosine."""
        return str(getattr(self.encoder, "similarity_fn_name", "cosine"))

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> torch.Tensor:
        """Similarities `[N, M]` of all pairs; mteb wants a tensor, which `float` takes where there is one number.

        Args:
            embeddings1: `[N, d]`.
            embeddings2: `[M, d]`.

        Returns:
            float64 `[N, M]`.
        """
        return torch.from_numpy(np.asarray(SIMILARITIES[self.similarity_fn_name](*_rows(embeddings1, embeddings2))))

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> torch.Tensor:
        """Similarities `[N]` of rows with the same number.

        Args:
            embeddings1: `[N, d]`.
            embeddings2: `[N, d]`.

        Returns:
            float64 `[N]`.
        """
        return torch.from_numpy(np.asarray(PAIRWISE[self.similarity_fn_name](*_rows(embeddings1, embeddings2))))

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """`mteb.models.ModelMeta` of the model."""
        require("this record of a model", "mteb", "mteb")
        from mteb.models import ModelMeta
        from mteb.models.model_meta import ScoringFunction

        name = self.encoder.name if "/" in self.encoder.name else f"contrastive-st/{self.encoder.name}"
        about: dict[str, Any] = dict.fromkeys(
            ("loader", "release_date", "languages", "n_parameters", "memory_usage_mb", "embed_dim", "license",
             "open_weights", "public_training_code", "public_training_data", "training_datasets")
        )  # fmt: skip
        about |= {
            "name": name, "revision": self.revision or self.encoder.fingerprint or self._of_this_object,
            "max_tokens": self.encoder.max_length, "framework": ["PyTorch"],
            "similarity_fn_name": next((one for one in ScoringFunction if one.value == self.similarity_fn_name), None),
            "use_instructions": any(getattr(self.encoder, "prompts", {}).values()),
        }  # fmt: skip
        return ModelMeta(**about)


def _rows(*arrays: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays `[N, d]` in float64."""
    first, second = (np.atleast_2d(np.asarray(vectors, dtype=np.float64)) for vectors in arrays)
    return first, second
