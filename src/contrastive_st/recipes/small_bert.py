"""The encoder that jobs train from scratch: a BERT that two cores can train."""

from __future__ import annotations

from typing import Any

from transformers import BertConfig


def small_bert(args: Any, vocab_size: int, **others: Any) -> BertConfig:
    """A BERT of `args.num_layers` and `args.hidden_size`, heads about 64 wide, for texts of `args.max_length`.

    Args:
        args: a job's arguments, with those three fields.
        vocab_size: of its tokenizer.
        others: of `BertConfig`.

    Example:
        >>> from types import SimpleNamespace
        >>> config = small_bert(SimpleNamespace(num_layers=1, hidden_size=200, max_length=48), 1000)
        >>> config.num_attention_heads, config.intermediate_size, config.max_position_embeddings
        (2, 800, 128)
    """
    width = args.hidden_size
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=args.num_layers,
        num_attention_heads=max(heads for heads in range(1, max(width // 64, 1) + 1) if width % heads == 0),
        intermediate_size=4 * width,
        max_position_embeddings=max(args.max_length, 128),
        attention_probs_dropout_prob=0.0,  # lets the attention run in its fused kernel; the other dropouts stay
        **others,
    )
