"""Configuration of the Skip-Thoughts encoder. Saved beside checkpoints: it imports transformers alone."""

from typing import Any

from .configuration_quickthoughts import QuickThoughtsConfig


class SkipThoughtsConfig(QuickThoughtsConfig):
    """One sentence encoder over word vectors (Kiros et al. 2015, https://arxiv.org/abs/1506.06726).

    Args:
        hidden_size: width of the sentence embedding, and of the decoders that train it.
        bidirectional: bi-skip, half of `hidden_size` in each direction; by default uni-skip.
        other: as of `QuickThoughtsConfig`.

    Raises:
        ValueError: an unknown choice, or a width that cannot be split as asked.

    Example:
        >>> SkipThoughtsConfig(hidden_size=2400).projection_dim
        2400
    """

    model_type = "skipthoughts"

    def __init__(self, **other: Any) -> None:
        super().__init__(**{"shared_embeddings": True, **other})

    @property
    def projection_dim(self) -> int:
        """Width of the sentence embedding, under the name by which sentence-transformers asks for it."""
        return self.hidden_size
