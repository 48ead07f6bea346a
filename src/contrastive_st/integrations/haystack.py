"""Components for Haystack pipelines: embedders of texts and documents, and a retriever over an index.

Needs `pip install 'contrastive-st[haystack]'`. Load a saved pipeline with
`Pipeline.load(file, allowed_modules=["contrastive_st.integrations.haystack"])`, since Haystack only loads modules that
are allowed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from tqdm.auto import tqdm

from contrastive_st.errors import InputError
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.protocol import fast_if_named, warn_of_unknown
from contrastive_st.prefetch import in_chunks
from contrastive_st.search.filters import DOCUMENT_ID, DOCUMENT_TEXT, NUMBER, Condition, Filter, Join, as_filter
from contrastive_st.search.index import Hit, VectorIndex, at_least
from contrastive_st.search.opening import open_collection, open_index
from contrastive_st.search.values import as_id

if TYPE_CHECKING:
    from typing_extensions import Self

Json = dict[str, Any]  # what Haystack passes on


class _Described:
    """Base class of what a pipeline saves: it is made again from its settings."""

    settings: Json

    def to_dict(self) -> Json:
        """A dictionary from which `from_dict` makes it again."""
        described: Json = default_to_dict(self, **self.settings)
        return described

    @classmethod
    def from_dict(cls, data: Json) -> Self:
        """Make one from the result of `to_dict`."""
        made: Self = default_from_dict(cls, data)
        return made


class _Embedder(_Described):
    """Base class of both embedders: the model, which is opened when it is first needed."""

    _encoder: SentenceEncoder | None = None

    def warm_up(self) -> None:
        """Open the model."""
        self._opened()

    def _opened(self) -> SentenceEncoder:
        if self._encoder is None:
            options = {name: self.settings[name] for name in ("precision", "pooling")}
            self._encoder = SentenceEncoder(self.settings["model"], **options)
        return self._encoder


@component
class ContrastiveTextEmbedder(_Embedder):
    """Embeds a text, such as a query, as a unit vector.

    Args:
        model: checkpoint folder or Hub name; opened by `warm_up`, or at the first run.
        prefix: put before the text; by default the prompt that the model records for queries.
        suffix: put after the text.
        precision: `bf16`, `fp32`, or `auto`: bf16 if the hardware is faster with it.
        pooling: for checkpoints that record none.

    Example:
        >>> embedder = ContrastiveTextEmbedder("out/demo/tuned")  # doctest: +SKIP
        >>> len(embedder.run(text="pad a batch")["embedding"])  # doctest: +SKIP
        256
    """

    def __init__(
        self, model: str, prefix: str = "", suffix: str = "", precision: str = "auto", pooling: str | None = None
    ) -> None:
        self.settings = {"model": model, "prefix": prefix, "suffix": suffix, "precision": precision, "pooling": pooling}

    @component.output_types(embedding=list[float], meta=Json)
    def run(self, text: str) -> Json:
        """`embedding`, and `meta` with the model's name.

        Raises:
            TypeError: `text` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(f"ContrastiveTextEmbedder takes a string, not {type(text).__name__}; "
                            "for documents there is ContrastiveDocumentEmbedder")  # fmt: skip
        prompt, text = self.settings["prefix"] or None, text + self.settings["suffix"]
        warn_of_unknown(self._opened(), [text])
        vector = self._opened().encode_query(text, prompt=prompt, normalize_embeddings=True)
        return {"embedding": vector.tolist(), "meta": {"model": self.settings["model"]}}


@component
class ContrastiveDocumentEmbedder(_Embedder):
    """Embeds documents as unit vectors.

    Args:
        model: checkpoint folder or Hub name; opened by `warm_up`, or at the first run.
        prefix: put before each text; by default the prompt that the model records for documents.
        suffix: put after each text.
        precision: `bf16`, `fp32` or `auto`, as for `ContrastiveTextEmbedder`.
        pooling: for checkpoints that record none.
        meta_fields_to_embed: names of metadata fields whose values are put before the content.
        embedding_separator: put between these values and the content.
        batch_size: number of documents passed to the model at a time, which splits them into batches.
        progress_bar: show a progress bar.
    """

    def __init__(
        self,
        model: str,
        prefix: str = "",
        suffix: str = "",
        precision: str = "auto",
        pooling: str | None = None,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        batch_size: int = 1024,
        progress_bar: bool = True,
    ) -> None:
        self.settings: Json = {
            "model": model, "prefix": prefix, "suffix": suffix, "precision": precision, "pooling": pooling,
            "meta_fields_to_embed": meta_fields_to_embed or [], "embedding_separator": embedding_separator,
            "batch_size": batch_size, "progress_bar": progress_bar,
        }  # fmt: skip

    @component.output_types(documents=list[Document], meta=Json)
    def run(self, documents: list[Document]) -> Json:
        """New `documents` with their `embedding`, and `meta` with the model's name; the given ones are not changed.

        Raises:
            TypeError: `documents` is not a list of documents.
        """
        if not isinstance(documents, list) or not all(isinstance(document, Document) for document in documents):
            raise TypeError("ContrastiveDocumentEmbedder takes a list of documents; "
                            "for a string there is ContrastiveTextEmbedder")  # fmt: skip
        encoder, size, embedded = self._opened(), self.settings["batch_size"], []
        prompt = self.settings["prefix"] or None
        shown = tqdm(documents, disable=not self.settings["progress_bar"], unit=" documents")
        for part in in_chunks(shown, size):
            texts = [self._text(document) for document in part]
            warn_of_unknown(encoder, texts)
            vectors = encoder.encode_document(texts, prompt=prompt, normalize_embeddings=True)
            embedded += [replace(d, embedding=vector.tolist()) for d, vector in zip(part, vectors, strict=True)]
        return {"documents": embedded, "meta": {"model": self.settings["model"]}}

    def _text(self, document: Document) -> str:
        fields = [document.meta.get(name) for name in self.settings["meta_fields_to_embed"]]
        parts = [str(field) for field in fields if field is not None] + [document.content or ""]
        return str(self.settings["embedding_separator"].join(parts) + self.settings["suffix"])


@component
class ContrastiveRetriever(_Described):
    """Retrieves the documents of an index that are nearest to an embedding.

    Args:
        where: a DSN or folder of a store, or a folder of encoded shards; None is the default store.
        collection: name of the collection in the store.
        top_k: number of documents to return.
        filters: Haystack filters on metadata, `id` and `content`: comparisons, `in`, `not in`, and `AND`, `OR` and
            `NOT` of these.
        min_score: the lowest cosine of a document.

    Example:
        >>> retriever = ContrastiveRetriever(top_k=3)  # doctest: +SKIP
        >>> retriever.run(query_embedding=embedding, filters={"field": "meta.year", "operator": ">=", "value": 2020})
        ... # doctest: +SKIP
    """

    def __init__(
        self,
        where: str | None = None,
        collection: str = "documents",
        top_k: int = 10,
        filters: Json | None = None,
        min_score: float | None = None,
    ) -> None:
        self.settings: Json = {
            "where": where, "collection": collection, "top_k": top_k, "filters": filters, "min_score": min_score
        }  # fmt: skip
        self._index: VectorIndex | None = None

    def warm_up(self) -> None:
        """Open the index."""
        self._opened()

    def _opened(self) -> VectorIndex:
        if self._index is None:
            self._index = open_index(self.settings["where"], self.settings["collection"])
        return self._index

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()
            self._index = None

    @component.output_types(documents=list[Document])
    def run(self, query_embedding: list[float], filters: Json | None = None, top_k: int | None = None) -> Json:
        """`documents`, best first, each with its cosine as `score`; both arguments replace those of the component.

        Args:
            query_embedding: the vector `[d]`.
            filters: Haystack filters.
            top_k: how many documents.

        Returns:
            `documents`.
        """
        chosen = filters if filters is not None else self.settings["filters"]
        vector = np.asarray(query_embedding, dtype=np.float32)
        k = self.settings["top_k"] if top_k is None else top_k
        hits = self._opened().search(vector, k, filter=translate_filters(chosen) if chosen else None)[0]
        return {"documents": [_document(hit) for hit in at_least(hits, self.settings["min_score"])[0]]}


class ContrastiveDocumentStore(_Described):
    """A Haystack document store over a collection, which the commands `index`, `search` and `api` use too.

    Documents without an embedding are embedded by the model; others keep theirs, as unit vectors.

    Args:
        model: checkpoint folder or Hub name.
        where: folder or DSN of the store, as for `open_index`.
        collection: its name; it is made if it does not exist.

    Raises:
        InputError: the collection has vectors of another model.

    Example:
        >>> store = ContrastiveDocumentStore("static-minilm", "/tmp/store")  # doctest: +SKIP
        >>> store.write_documents([Document(content="the tide rises", meta={"year": 1999})])  # doctest: +SKIP
        1
    """

    def __init__(self, model: str | None = None, where: str | None = None, collection: str = "documents") -> None:
        self.settings = {"model": model, "where": where, "collection": collection}
        self._encoder = SentenceEncoder(model, **fast_if_named(model, {}))
        self.store = open_collection(self._encoder, where, collection)

    def close(self) -> None:
        """Close the collection."""
        self.store.close()

    def count_documents(self) -> int:
        """How many documents there are."""
        return len(self.store)

    def filter_documents(self, filters: Json | None = None) -> list[Document]:
        """The documents that meet a filter, ordered by their ids in the store, without embeddings.

        Raises:
            FilterError: the filter is at fault.
        """
        try:
            ids = self.store.matching(translate_filters(filters) if filters else None)
        except InputError as error:
            raise FilterError(str(error)) from error
        return list(map(_document, self.store.get(ids)))

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents; without a policy one that is there is an error. Returns how many were written.

        Args:
            documents: documents of Haystack.
            policy: what happens to one that is there already.

        Returns:
            How many were written.

        Raises:
            ValueError: these are not documents.
            DuplicateDocumentError: a document is there, or given twice, and the policy is not to skip or overwrite it.
        """
        if not isinstance(documents, list) or not all(isinstance(document, Document) for document in documents):
            raise ValueError("write_documents takes a list of documents")
        # of several with one id, the last one counts, as in OVERWRITE; with SKIP the first
        ordered = reversed(documents) if policy == DuplicatePolicy.SKIP else documents
        new = {as_id(document.id): document for document in ordered}
        present = set(self.store.known(list(new)))
        if policy == DuplicatePolicy.SKIP:
            new = {id: document for id, document in new.items() if id not in present}
        elif policy != DuplicatePolicy.OVERWRITE and (present or len(new) < len(documents)):
            twice = [id for id, count in Counter(as_id(document.id) for document in documents).items() if count > 1]
            id, which = new[[*present, *twice][0]].id, "is in the store already" if present else "is given twice"
            raise DuplicateDocumentError(f"document {id!r} {which}; give a policy, or another id")
        made = iter(self._encoder.encode_document([one.content or "" for one in new.values() if one.embedding is None]))
        vectors = [next(made) if one.embedding is None else one.embedding for one in new.values()]
        texts = [one.content or "" for one in new.values()]
        self.store.upsert([one.id for one in new.values()], texts, vectors, [one.meta for one in new.values()])
        return len(new) if policy == DuplicatePolicy.SKIP else len(documents)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete the documents of these ids that there are."""
        self.store.delete(document_ids)


def _document(hit: Hit) -> Document:
    score = None if math.isnan(hit.score) else hit.score
    return Document(id=str(hit.own_id), content=hit.text, meta=hit.metadata, score=score)


_FIELDS = {"id": DOCUMENT_ID, "content": DOCUMENT_TEXT}  # the fields of a document outside its metadata


def translate_filters(filters: Json) -> Filter:
    """Haystack filters as a filter of `VectorIndex`.

    The fields are those of `meta`, with or without this prefix, and `id` and `content`. `!=`, `not in` and `NOT` also
    find documents without the field, as they do in Haystack.

    Raises:
        InputError: an operator is unknown, or a value cannot be compared by it.
    """
    joins: dict[object, Join] = {"AND": "and", "OR": "or", "NOT": "not"}
    operator = filters.get("operator")
    if operator in joins and "conditions" in filters:
        return Filter(tuple(translate_filters(one) for one in filters["conditions"]), joins[operator])
    value, several, ranges = filters.get("value"), operator in ("in", "not in"), operator in ("<", "<=", ">", ">=")
    supported = several or ranges or operator in ("==", "!=")
    text = ranges and isinstance(value, str) and re.fullmatch(NUMBER, value)  # Haystack compares dates alone as text
    if not {"field", "value"} <= filters.keys() or not supported or several != isinstance(value, list) or text:
        raise InputError(f"filter {filters}: an index takes comparisons, `in`, `not in`, and AND, OR and NOT of these")
    column = _FIELDS.get(filters["field"]) or filters["field"].removeprefix("meta.")
    missing = Condition(column, "=", (None,))
    if (ranges and value is None) or value == []:
        return Filter((), "and" if operator == "not in" else "or")  # of every document, or of none
    result = as_filter({column: {{"in": "=", "not in": "!="}.get(str(operator), operator): value}})
    if operator not in ("!=", "not in") or None in next(result.conditions()).values:
        return result
    return Filter((result, missing), "or")
