"""Parts of the rows of a data set: a sample, validation rows, and the three parts of labelled pairs."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence

import numpy as np
from datasets import Dataset

from contrastive_st.errors import InputError


def sample(rows: Dataset, count: int | None, seed: int = 0) -> Dataset:
    """`count` of the rows, drawn by the seed; all rows for None.

    Example:
        >>> sample(Dataset.from_dict({"text": ["a", "b", "c"]}), 2).num_rows
        2
    """
    if count is None or count >= len(rows):
        return rows
    return rows.select(np.random.default_rng(seed).permutation(len(rows))[:count])


def split_by_first(pairs: Dataset) -> tuple[Dataset, Dataset, Dataset]:
    """Train, dev and test (0.8, 0.1, 0.1), by a checksum of the first text, so all its pairs are in one split.

    The NLI task of `contrastive-st evaluate` splits in the same way, so its test pairs are never trained on.

    Raises:
        InputError: a part would be empty.

    Example:
        >>> pairs = Dataset.from_dict({"first": [str(i) for i in range(100)], "second": ["a"] * 100})
        >>> [len(part) for part in split_by_first(pairs)]
        [78, 10, 12]
    """
    tenth = np.array([zlib.crc32(text.encode()) % 10 for text in pairs["first"][:]])
    parts = tenth > 1, tenth == 1, tenth == 0
    if not all(part.any() for part in parts):
        raise InputError(
            f"{len(pairs)} pairs of {len(set(pairs['first'][:]))} first texts are too few to hold out some of them for "
            "dev and test; give more"
        )
    return tuple(pairs.select(np.flatnonzero(part)) for part in parts)


def split_rows(rows: Dataset, share: float, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Split rows at random into the rest and a share of them; rows with the same first text stay together.

    The choice depends on the first texts and the seed alone, so it survives another order of the file.

    Args:
        rows: texts, of which the first column of text is compared.
        share: between 0 and 1; at least two rows are split off.
        seed: of the random choice.

    Raises:
        InputError: there are too few different first texts.

    Example:
        >>> rest, held = split_rows(Dataset.from_dict({"anchor": list("aabbccdd")}), 0.25)
        >>> len(rest), len(held), len(set(held["anchor"]))
        (6, 2, 1)
    """
    column = next(name for name, feature in rows.features.items() if feature.dtype in ("string", "large_string"))
    groups: dict[str, list[int]] = {}
    for i, text in enumerate(rows[column]):
        groups.setdefault(text, []).append(i)
    key = lambda text: hashlib.blake2b(f"{seed} {text}".encode(errors="surrogatepass"), digest_size=16).digest()
    wanted, held = max(round(share * len(rows)), 2), set[int]()
    for text in sorted(groups, key=key):
        if len(held) >= wanted:
            break
        held.update(groups[text])
    if len(held) < 2 or len(rows) - len(held) < 2:
        raise InputError(
            f"validation_split {share:g} of {len(rows)} rows ({len(groups)} different first texts) leaves too few to "
            "train or to validate; give a --validation_file"
        )
    rest: Sequence[int] = [i for i in range(len(rows)) if i not in held]
    return rows.select(rest), rows.select(sorted(held))
