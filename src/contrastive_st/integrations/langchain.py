"""LangChain's `Embeddings` and `VectorStore` with this package's encoders and collections.

Needs `pip install 'contrastive-st[langchain]'`, and `[search]` for the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from contrastive_st.errors import InputError
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.protocol import fast_if_named, warn_of_unknown
from contrastive_st.search.filters import Filterable
from contrastive_st.search.index import Hit, at_least
from contrastive_st.search.opening import open_collection
from contrastive_st.search.values import Row, as_id, check_lengths


class ContrastiveEmbeddings(Embeddings):
    """Embeds texts as unit vectors with any checkpoint that `SentenceEncoder` opens.

    Args:
        model: checkpoint folder, Hub name, or an opened encoder, as for `SentenceEncoder`.
        query_prefix: put before queries; by default the prompt that the model records for queries.
        document_prefix: put before documents; by default the prompt that the model records for documents.
        options: `precision`, `pooling`, `max_length` and `device`, as for `SentenceEncoder`; by default `auto`, but an
            opened encoder runs as it was opened.

    Raises:
        InputError: the model cannot be opened.

    Example:
        >>> from langchain_core.vectorstores import InMemoryVectorStore  # doctest: +SKIP
        >>> store = InMemoryVectorStore(ContrastiveEmbeddings("out/demo/tuned"))  # doctest: +SKIP
        >>> store.add_texts(["pad a batch", "open a file"])  # doctest: +SKIP
        >>> store.similarity_search("make sequences of one length", k=1)  # doctest: +SKIP
    """

    def __init__(self, model: object, *, query_prefix: str = "", document_prefix: str = "", **options: Any) -> None:
        self.encoder = SentenceEncoder(model, **fast_if_named(model, options))
        self.query_prefix, self.document_prefix = query_prefix, document_prefix

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The unit vectors of the texts.

        Raises:
            InputError: one string instead of a list.
        """
        if isinstance(texts, str):
            raise InputError("the texts are one string; give a list, or call embed_query")
        prompt = self.document_prefix or None
        warn_of_unknown(self.encoder, texts)
        vectors = self.encoder.encode_document(texts, prompt=prompt, normalize_embeddings=True)
        rows: list[list[float]] = vectors.tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of a query."""
        warn_of_unknown(self.encoder, [text])
        vector = self.encoder.encode_query(text, prompt=self.query_prefix or None, normalize_embeddings=True)
        row: list[float] = vector.tolist()
        return row


class ContrastiveVectorStore(VectorStore):
    """A collection of a store, which the commands `index`, `search` and `api` use too.

    Args:
        embedding: `ContrastiveEmbeddings`, or what it takes: a checkpoint folder, a Hub name, or an opened encoder.
        where: folder or DSN of the store, as for `open_index`.
        collection: its name; it is made if it does not exist.

    Raises:
        InputError: the collection has vectors of another model.

    Example:
        >>> store = ContrastiveVectorStore("static-minilm", "/tmp/store")  # doctest: +SKIP
        >>> store.add_texts(["the tide rises"], [{"year": 1999}], ids=["a"])  # doctest: +SKIP
        ['a']
        >>> store.similarity_search("sea", k=1, filter="year<2000")[0].id  # doctest: +SKIP
        'a'
    """

    def __init__(self, embedding: object = None, where: str | None = None, collection: str = "documents") -> None:
        if not isinstance(embedding, ContrastiveEmbeddings):
            embedding = ContrastiveEmbeddings(embedding)
        self._embedding = embedding
        self.store = open_collection(self._embedding.encoder, where, collection)

    def close(self) -> None:
        """Close the collection."""
        self.store.close()

    @property
    def embeddings(self) -> Embeddings:
        """What embeds the texts and queries."""
        return self._embedding

    def add_texts(  # type: ignore[override]  # no other argument, so that a misspelt one is an error
        self,
        texts: Iterable[str],
        metadatas: list[Row] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """Insert texts, or replace those with the same ids; return the ids.

        `batch_size`, which LangChain's `index` passes, has no effect: the encoder makes its batches by length.

        Raises:
            InputError: the numbers of texts, ids and metadatas differ.
        """
        content = list(texts)
        names = [name or str(uuid4()) for name in ids or [None] * len(content)]
        metadata = metadatas or [{}] * len(content)
        check_lengths(texts=len(content), ids=len(names), metadatas=len(metadata))
        last = {as_id(name): index for index, name in enumerate(names)}  # the last text of an id counts
        rows = [content[i] for i in last.values()], self._embedding.embed_documents([content[i] for i in last.values()])
        self.store.upsert([names[i] for i in last.values()], *rows, [metadata[i] for i in last.values()])
        return names

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filterable = None, min_score: float | None = None
    ) -> list[tuple[Document, float]]:
        """The nearest documents, each with its cosine.

        Args:
            embedding: the vector.
            k: how many.
            filter: one of `VectorIndex`.
            min_score: the lowest cosine.

        Returns:
            Documents with their cosines, best first.
        """
        return [(_document(hit), hit.score) for hit in self._hits(embedding, k, filter, min_score)]

    def _hits(
        self, embedding: list[float], k: int, filter: Filterable = None, min_score: float | None = None
    ) -> list[Hit]:
        return at_least(self.store.search(np.array(embedding), k, filter=filter)[0], min_score)[0]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """As `similarity_search_with_score_by_vector`, for a text.

        Args:
            query: the text.
            k: how many.
            kwargs: `filter` and `min_score`.

        Returns:
            Documents with their cosines, best first.
        """
        return self.similarity_search_with_score_by_vector(self._embedding.embed_query(query), k, **kwargs)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """The nearest documents of a vector.

        Args:
            embedding: the vector `[d]`.
            k: how many.
            kwargs: `filter` and `min_score`.

        Returns:
            Documents, best first.
        """
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, **kwargs)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The nearest documents of a text.

        Args:
            query: the text.
            k: how many.
            kwargs: `filter` and `min_score`.

        Returns:
            Documents, best first.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Documents near a vector that differ from each other (Carbonell and Goldstein 1998).

        Args:
            embedding: the vector.
            k: how many.
            fetch_k: they are chosen from this many nearest documents.
            lambda_mult: 1 orders by nearness alone, 0 by difference alone.
            kwargs: `filter` and `min_score`, as for `similarity_search_with_score_by_vector`.

        Returns:
            Documents, in the order in which they are chosen.
        """
        hits = self._hits(embedding, max(k, fetch_k), **kwargs)
        vectors = self.store.vectors([hit.id for hit in hits]).tolist()
        return [_document(hits[i]) for i in maximal_marginal_relevance(np.array(embedding), vectors, lambda_mult, k)]

    def max_marginal_relevance_search(self, query: str, k: int = 4, *args: Any, **kwargs: Any) -> list[Document]:
        """As `max_marginal_relevance_search_by_vector`, for a text."""
        return self.max_marginal_relevance_search_by_vector(self._embedding.embed_query(query), k, *args, **kwargs)

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents of these ids that there are."""
        return [_document(hit) for hit in self.store.get(self.store.known(list(ids)))]

    def delete(self, ids: list[str] | None = None) -> bool:  # type: ignore[override]
        """Delete documents by their ids.

        Raises:
            InputError: there are none, which would mean all documents in LangChain.
        """
        if ids is None:
            raise InputError("delete takes a list of ids; store.drop() deletes the whole collection")
        self.store.delete(ids)
        return True

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: max(cosine, 0.0)

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: object, metadatas: list[Row] | None = None, **kwargs: Any
    ) -> ContrastiveVectorStore:
        """A collection with these texts; `kwargs` are `where`, `collection` and `ids`.

        Args:
            texts: the texts.
            embedding: as for the class.
            metadatas: a dictionary for each text.
            kwargs: `where`, `collection` and `ids`.

        Returns:
            The collection.
        """
        ids = kwargs.pop("ids", None)
        made = cls(embedding, **kwargs)
        made.add_texts(texts, metadatas, ids=ids)
        return made


def _document(hit: Hit) -> Document:
    return Document(id=str(hit.own_id), page_content=hit.text, metadata=hit.metadata)
