"""LangChain `Embeddings` with this package's encoders; needs `pip install 'contrastive-st[langchain]'`."""

from __future__ import annotations

from typing import Any

from langchain_core.embeddings import Embeddings

from contrastive_st.errors import InputError
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.protocol import warn_of_unknown


class ContrastiveEmbeddings(Embeddings):
    """Embeds texts as unit vectors with any checkpoint that `SentenceEncoder` opens.

    Args:
        model: checkpoint folder, Hub name, or an opened encoder, as for `SentenceEncoder`.
        query_prefix: put before queries; by default the prompt that the model records for queries.
        document_prefix: put before documents; by default the prompt that the model records for documents.
        options: `precision`, `pooling`, `max_length` and `device`, as for `SentenceEncoder`.

    Raises:
        InputError: the model cannot be opened.

    Example:
        >>> from langchain_core.vectorstores import InMemoryVectorStore  # doctest: +SKIP
        >>> store = InMemoryVectorStore(ContrastiveEmbeddings("out/demo"))  # doctest: +SKIP
        >>> store.add_texts(["pad a batch", "open a file"])  # doctest: +SKIP
        >>> store.similarity_search("make sequences of one length", k=1)  # doctest: +SKIP
    """

    def __init__(self, model: Any, *, query_prefix: str = "", document_prefix: str = "", **options: Any) -> None:
        self.encoder = SentenceEncoder(model, **{"precision": "auto", **options})
        self.query_prefix, self.document_prefix = query_prefix, document_prefix

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The unit vectors of the texts.

        Raises:
            InputError: one string in place of a list.
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
