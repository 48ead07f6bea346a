"""From texts to token ids, once, with datasets' cache and worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset, config
from datasets.fingerprint import Hasher
from transformers import PreTrainedTokenizerBase

from contrastive_st.errors import InputError


def check_max_length(max_length: int, limit: int) -> int:
    """Return `max_length` if it leaves room for a word and fits the model's `limit` positions, else raise."""
    if max_length < 3:
        raise InputError(f"max_length {max_length} leaves no room for text between the special tokens; give 3 or more")
    if max_length > limit:
        raise InputError(f"max_length {max_length} is above the model's {limit} positions; give {limit} or less")
    return max_length


def tokenize(
    texts: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, num_proc: int | None = None
) -> Dataset:
    """Tokenize every column of `texts`, truncated to `max_length` tokens, special tokens included, unpadded.

    The result is kept in the cache of `datasets`: the same texts, tokenizer and length are tokenized once.

    Args:
        texts: one column of sentences, or V >= 2 columns: anchor, positive, hard negatives.
        tokenizer: any tokenizer of transformers.
        max_length: in tokens.
        num_proc: worker processes; worth it from some hundred thousand sentences on.

    Returns:
        One column `input_ids`: a list of ids where there is one text column, else a list of V lists.

    Example:
        >>> from contrastive_st.data import train_wordpiece
        >>> tokenizer = train_wordpiece(["a b", "a c"] * 5, vocab_size=30)
        >>> rows = tokenize(Dataset.from_dict({"text": ["a b", "a"]}), tokenizer, 8)
        >>> [len(row) for row in rows["input_ids"]]
        [4, 3]
    """
    columns = texts.column_names

    def encode(batch: dict[str, list[str]]) -> dict[str, list[Any]]:
        views = [tokenizer(batch[name], truncation=True, max_length=max_length)["input_ids"] for name in columns]
        return {"input_ids": views[0] if len(columns) == 1 else [list(row) for row in zip(*views, strict=True)]}

    # named by what goes in, and not by a pickle of the tokenizer, which changes as the tokenizer is used
    name = Hasher.hash([texts._fingerprint, sorted(tokenizer.get_vocab().items()), repr(tokenizer), max_length])
    folder = Path(config.HF_DATASETS_CACHE, "contrastive_st")
    folder.mkdir(parents=True, exist_ok=True)
    return texts.map(
        encode,
        batched=True,
        num_proc=num_proc,
        remove_columns=columns,
        new_fingerprint=name,
        cache_file_name=str(folder / f"tokens-{name}.arrow"),
        desc="tokenize",
    )
