"""Matryoshka representations: any loss, applied to the whole embedding and to its first dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from contrastive_st.citations import cited
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss, Others, Term, Wrapper, parse_loss
from contrastive_st.losses.custom import as_loss
from contrastive_st.losses.functional import normalize
from contrastive_st.losses.info_nce import InfoNCE
from contrastive_st.options import Count, Positive


@dataclass(frozen=True)
class MatryoshkaLoss(Wrapper):
    r"""The weighted sum of a loss over truncated embeddings (Kusupati et al. 2022, Matryoshka representations).

        loss = sum over m in dims of weight_m * inner(the first m dimensions of the views)

    https://arxiv.org/abs/2205.13147. The encoder runs once. If the inner loss normalizes embeddings, it normalizes the
    truncated ones; if it has a head (a classifier), each dimension gets its own. Use the embeddings with
    `SentenceEncoder(folder, truncate_dim=m)`.

    Args:
        inner: the loss, or its settings.
        dims: the numbers of dimensions to keep, one for each term of the sum. Include the full dimension: dimensions
            beyond the largest of `dims` are not trained.
        weights: the weights of the terms; by default 1 each.
        head: the heads of the inner loss by dimension; `make_head` makes them.

    Example:
        >>> import torch
        >>> views = torch.tensor([[[1.0, 5.0], [1.0, 0.0]], [[-1.0, 5.0], [-1.0, 0.0]]])  # B=2, V=2, d=2
        >>> inner = InfoNCE(temperature=1.0)
        >>> loss = MatryoshkaLoss(inner, dims=(2, 1), weights=(1.0, 0.5))
        >>> bool(loss(views) == inner(views) + 0.5 * inner(views[..., :1]))
        True
    """

    name: ClassVar[str] = "matryoshka"
    words: ClassVar[str] = "Matryoshka"
    tag: ClassVar[str] = "matryoshka"
    citation: ClassVar[str] = cited("kusupati2022matryoshka")
    inner: Any = field(default_factory=InfoNCE)  # a `Loss`, once it is checked
    dims: tuple[Count, ...] = ()
    weights: tuple[Positive, ...] | None = None
    head: nn.ModuleDict | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = parse_loss(self.inner) if isinstance(self.inner, Mapping) else as_loss(self.inner)
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "dims", tuple(self.dims))
        weights = self._weights
        if not self.dims or len(set(self.dims)) < len(self.dims) or len(weights) != len(self.dims):
            what = f"matryoshka dims {list(self.dims)} with weights {list(weights)}"
            raise InputError(f"{what}: give one or more different numbers of dimensions, and a weight for each")
        for name in ("takes_queue", "needs_two_texts", "generates", "measure", "task_of"):
            object.__setattr__(self, name, getattr(inner, name))

    def terms(self, views: Tensor, targets: Tensor | None, other: Others) -> Iterator[Term]:
        """The inner loss at each dimension, which is appended to the names of its metrics.

        Args:
            views: `[B, V, d]`, where d is at least the largest of `dims`.
            targets: as for the inner loss; targets that are embeddings in the same space are truncated too.
            other: `text_hashes` and `gather`, as for the inner loss, and `queue` if it accepts one.

        Raises:
            InputError: one of `dims` is above d.
        """
        self._check(views.shape[-1])
        queue = other.get("queue")
        for dim, weight in zip(self.dims, self._weights, strict=True):
            cut = {} if queue is None else {"queue": queue._replace(embeddings=normalize(queue.embeddings[:, :dim]))}
            batch = self.inner.truncated(views, targets, dim)
            yield Term(("", f"_{dim}"), weight, self._inner(dim), batch, {**other, **cut})

    def chances(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """The weighted sum of the inner loss's `chances` over the dimensions."""
        total = 0.0
        for dim, weight in zip(self.dims, self._weights, strict=True):
            end = f"_{dim}"
            part = {name.removesuffix(end): value for name, value in metrics.items() if name.endswith(end)}
            result = self.inner.chances(part)
            if "loss" not in result:
                return {}
            total += weight * result["loss"]
        return {"loss": total}

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step compares."""
        return f"{self.inner.describe(anchors, num_views)}; by the first {', '.join(map(str, self.dims))} dimensions"

    def make_head(self, dim: int) -> nn.Module | None:
        """New heads of the inner loss, one for each dimension, or None if it has no head.

        Raises:
            InputError: one of `dims` is above `dim`.
        """
        self._check(dim)
        heads = {str(cut): self.inner.make_head(cut) for cut in self.dims}
        return None if None in heads.values() else nn.ModuleDict(heads)

    def in_use(self, part: str | None = None) -> tuple[Loss, int | None]:
        """The inner loss with the head of the largest of `dims`, and that dimension."""
        dim = max(self.dims)
        return self._inner(dim).in_use(part)[0], dim

    def of_task(self, task: str | None) -> MatryoshkaLoss:
        """This loss for batches of the data set `task`."""
        return replace(self, inner=self.inner.of_task(task))

    def _inner(self, dim: int) -> Loss:
        """The inner loss with its head of this dimension."""
        inner: Loss = self.inner
        return inner if self.head is None else inner.with_head(self.head[str(dim)])

    @property
    def _weights(self) -> tuple[float, ...]:
        return (1.0,) * len(self.dims) if self.weights is None else tuple(self.weights)

    def _check(self, dim: int) -> None:
        if max(self.dims) > dim:
            raise InputError(f"matryoshka dims {list(self.dims)}: the embedding has {dim} dimensions; give none above")
