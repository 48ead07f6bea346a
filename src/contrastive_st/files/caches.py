"""Where this package keeps what it has computed."""

from __future__ import annotations

import os
from pathlib import Path


def own_cache(name: str = "") -> Path:
    """A folder of this package's cache: below `$CONTRASTIVE_ST_CACHE`, or else below `~/.cache/contrastive_st`.

    Args:
        name: its name; by default the whole cache.

    Example:
        >>> own_cache("embeddings").name
        'embeddings'
    """
    return Path(os.environ.get("CONTRASTIVE_ST_CACHE") or "~/.cache/contrastive_st").expanduser() / name
