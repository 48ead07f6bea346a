"""Open an index in a store or a folder, with a clear error if something is missing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from contrastive_st.errors import InputError, first_line, require
from contrastive_st.models.protocol import Encoder, fast_if_named, open_encoder
from contrastive_st.search.index import Refused, VectorIndex, Vectors, check_model
from contrastive_st.search.postgres.server import default_store
from contrastive_st.search.shards import is_folder_of_shards
from contrastive_st.search.values import one_line

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.search.postgres.database import Database
    from contrastive_st.search.postgres.store import VectorStore


logger = logging.getLogger(__name__)

MOVING_SECONDS = 30  # for an index that moves to another model, until that is open
_POOLING = " --pooling "  # in the name of a model that an index records, before the pooling that was asked for


def open_index(
    where: str | Path | None = None, collection: str = "documents", *, fingerprint: str | None = None, **store: Any
) -> VectorIndex:
    """Open a store (a DSN or a folder of the embedded server; by default the default store) or a folder of shards.

    Args:
        where: the DSN or the folder.
        collection: the collection, if it is a store.
        fingerprint: fingerprint of the model of the queries; an index of another model is refused.
        store: further options of `VectorStore`, if it is a store.

    Returns:
        The index; close it after use.

    Raises:
        InputError: the index does not exist, another model made it, or the extra `search` is not installed.
    """
    where = str(where or default_store())
    if is_folder_of_shards(where):
        from contrastive_st.search.exact import ExactIndex

        return ExactIndex.open(where, fingerprint=fingerprint)
    store_class = vector_store()
    _check_there(where)
    return store_class(where, collection, fingerprint=fingerprint, **store)


def open_named(name: str, store: str | None = None, **options: Any) -> VectorIndex:
    """Open an index by one name: a folder of encoded shards, or a collection of the store, with its further options.

    Raises:
        InputError: as for `open_index`.
    """
    return open_index(name) if is_folder_of_shards(name) else open_index(store, name, **options)


def writable(index: VectorIndex, name: str) -> VectorStore:
    """An index whose documents can be changed, which has the methods of `VectorStore`.

    Args:
        index: the index.
        name: its name, for the message.

    Returns:
        The same index.

    Raises:
        InputError: it is a folder of shards.
    """
    if not hasattr(index, "upsert"):
        raise InputError(f"{name} is a folder of shards, which cannot be changed; index the corpus into a store")
    return cast("VectorStore", index)


def open_database(where: str | Path | None = None) -> Database:
    """Open the database of an existing store, with any collections or none.

    Raises:
        InputError: it does not exist, or the extra `search` is not installed.
    """
    where = str(where or default_store())
    vector_store()
    _check_there(where)
    from contrastive_st.search.postgres.database import Database

    return Database(where)


def model_name(encoder: SentenceEncoder) -> str:
    """What an index records: the folder of its model; the name of the one in this package, whose folder may move.

    A pooling that was asked for, and that the model does not record, is written as for commands: `out/bert --pooling
    mean`. `open_recorded` reads it.
    """
    from contrastive_st.files.folders import SHIPPED

    name = str(encoder.name if encoder.folder in (None, SHIPPED) else encoder.folder.absolute())
    pooling = getattr(encoder, "asked_pooling", None)  # which encoders of other libraries have not
    return name if pooling is None else f"{name}{_POOLING}{pooling}"


def name_and_pooling(recorded: str) -> tuple[str, str | None]:
    """The name of a model and the pooling that was asked for, by what an index records.

    Example:
        >>> name_and_pooling("out/bert --pooling mean"), name_and_pooling("static-minilm")
        (('out/bert', 'mean'), ('static-minilm', None))
    """
    name, _, pooling = recorded.partition(_POOLING)
    return name, pooling or None


def open_recorded(
    recorded: str, model: str | SentenceEncoder | None = None, *, pooling: str | None = None, **options: Any
) -> SentenceEncoder:
    """Open the model of an index, by what `model_name` says of it.

    Args:
        recorded: what the index records.
        model: a model in its place, such as the same one in another folder.
        pooling: in place of the recorded one.
        options: further options of `SentenceEncoder`.

    Raises:
        InputError: as for `SentenceEncoder`.
    """
    name, of_index = name_and_pooling(recorded)
    return open_encoder(model or name or None, pooling=pooling or of_index, **options)


def open_collection(
    encoder: SentenceEncoder, where: str | Path | None = None, collection: str = "documents"
) -> VectorStore:
    """Open a collection to write vectors of a model; it is made if it does not exist.

    Raises:
        InputError: it has vectors of another model.
    """
    return vector_store().create(
        where, collection, model=model_name(encoder), fingerprint=encoder.fingerprint, dimension=encoder.dimension
    )


def vector_store() -> type[VectorStore]:
    """The class `VectorStore`, or an error that says what to install."""
    require("a store", "search", "psycopg", "psycopg_pool", "pgvector")
    from contrastive_st.search.postgres.store import VectorStore

    return VectorStore


def open_encoder_for(index: VectorIndex, model: str | SentenceEncoder | None = None, **options: Any) -> SentenceEncoder:
    """The encoder for the queries of an index: the given model, else the one that made the index.

    Raises:
        InputError: the model cannot be opened, or is not of this index.
    """
    encoder = open_recorded(index.model, model, **fast_if_named(model, options))
    check_model(index, encoder.fingerprint, "the index")
    return encoder


class Follower:
    """Follows indexes that move to another model: what a server has open goes on until the new model is opened.

    Args:
        take: is called with the name and the index; opens its model and goes on with both.
    """

    def __init__(self, take: Callable[[str, VectorStore], object]) -> None:
        self.take = take
        self._opening: dict[str, threading.Thread] = {}
        self._failed: set[str] = set()  # the names of which the last opening failed
        self._lock = threading.Lock()

    def __call__(self, name: str, index: VectorIndex) -> threading.Thread | None:
        """If another model answers now, open it in a thread.

        Args:
            name: of the index.
            index: what is open.

        Returns:
            The thread that opens it.
        """
        with self._lock:
            if not getattr(index, "moved", False) or name in self._opening:
                return self._opening.get(name)

            def opened() -> None:
                try:
                    self.take(name, cast("VectorStore", index).live())
                    self._failed.discard(name)
                except (InputError, OSError) as error:
                    self._failed.add(name)
                    logger.warning(f"{name} has moved to a model that cannot be opened: {first_line(error)}")
                finally:
                    del self._opening[name]

            thread = self._opening[name] = threading.Thread(target=opened, daemon=True)
            thread.start()
            return thread

    def wait(self, name: str, index: VectorIndex, until: float) -> None:
        """Wait, after `Moved`, until the model that answers now is open; it may have moved again then.

        Args:
            name: of the index.
            index: what is open.
            until: `time.monotonic()` at the latest.

        Raises:
            Refused: it is not open by then, or cannot be opened.
        """
        if thread := self(name, index):
            thread.join(max(until - time.monotonic(), 0.0))
            if name in self._failed:
                what = "the index has moved to a model that cannot be opened here"
                raise Refused(f"{name} has moved to a model that cannot be opened", what=what)
        if time.monotonic() >= until:
            what = "the index is moving to another model"
            raise Refused(f"{name} is moving to another model", what=what)


def query_vector(encoder: Encoder, query: str) -> Vectors:
    """The vector of a query, float32 `[d]`.

    Raises:
        InputError: the model knows none of its tokens, so that its vector would say nothing.
    """
    if not encoder.knows([query])[0]:
        raise InputError(f"{encoder.name} knows none of the tokens of {one_line(query, 60)!r}; write other words, or "
                         "index with a model for this language")  # fmt: skip
    vector: Vectors = encoder.encode_query([query])[0]
    return vector


def _check_there(where: str) -> None:
    """Check that a folder has an embedded database; a DSN is not checked."""
    from contrastive_st.search.postgres.dsn import dsn_of

    if dsn_of(where) is None and not Path(where).expanduser().joinpath("pgdata").exists():
        raise InputError(f"there is no store in {where}; create one with contrastive-st index")
