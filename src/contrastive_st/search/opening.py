"""Open an index wherever it is, with a clear line where something is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.errors import InputError
from contrastive_st.models.default import open_encoder
from contrastive_st.search.index import VectorIndex
from contrastive_st.search.postgres.server import default_store
from contrastive_st.search.shards import RECORD

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.search.postgres.database import Database
    from contrastive_st.search.postgres.store import VectorStore
    from contrastive_st.static_vectors import StaticVectors


def open_index(
    where: str | Path | None = None, collection: str = "documents", *, fingerprint: str | None = None
) -> VectorIndex:
    """A store (DSN, or folder of the embedded server; None is the default one) or a folder of encoded shards.

    Args:
        where: as above.
        collection: of a store.
        fingerprint: of the model whose vectors will be searched for; another is refused.

    Raises:
        InputError: there is no such index, another model made it, or the extra `search` is not installed.
    """
    where = str(where or default_store())
    if Path(where).expanduser().joinpath(RECORD).is_file():
        from contrastive_st.search.exact import ExactIndex

        return ExactIndex.open(where, fingerprint=fingerprint)
    store = vector_store()
    _check_there(where)
    return store(where, collection, fingerprint=fingerprint)


def open_database(where: str | Path | None = None) -> Database:
    """The database of a store that is there, whatever its collections.

    Raises:
        InputError: there is none, or the extra `search` is not installed.
    """
    where = str(where or default_store())
    vector_store()
    _check_there(where)
    from contrastive_st.search.postgres.database import Database

    return Database(where)


def vector_store() -> type[VectorStore]:
    """The class `VectorStore`, or one line on what to install."""
    missing = [name for name in ("psycopg", "psycopg_pool", "pgvector") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"a store needs {', '.join(missing)}; pip install 'contrastive-st[search]'")
    from contrastive_st.search.postgres.store import VectorStore

    return VectorStore


def open_encoder_for(
    index: VectorIndex, model: str | SentenceEncoder | None = None, **options: Any
) -> SentenceEncoder | StaticVectors:
    """The encoder for queries of an index: the model named, else the one that made the index.

    Raises:
        InputError: it cannot be opened, or is not the model that made the index.
    """
    made_by = getattr(index, "model", "")
    encoder = open_encoder(model or made_by or None, **{"precision": "auto", **options})
    if encoder.fingerprint != index.fingerprint:
        what = f"the index holds vectors of {made_by or 'another model'} (fingerprint {index.fingerprint[:8]})"
        raise InputError(f"{what}, not of {encoder.name} ({encoder.fingerprint[:8]}); name that --model, or index anew")
    return encoder


def _check_there(where: str) -> None:
    """A folder must hold an embedded database; what a DSN names is taken to be there."""
    from contrastive_st.search.postgres.database import is_dsn

    if not is_dsn(where) and not Path(where).expanduser().joinpath("pgdata").exists():
        raise InputError(f"there is no store in {where}; make one with contrastive-st index")
