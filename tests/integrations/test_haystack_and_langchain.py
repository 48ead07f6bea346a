"""The adapters in real pipelines of Haystack and LangChain, where these are installed."""

import asyncio
import os

import numpy as np
import pytest

from conftest import SENTENCES
from contrastive_st import InputError
from contrastive_st.models.encoder import SentenceEncoder

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")


@pytest.fixture
def model(checkpoint):
    return str(checkpoint)


def expected(model, texts):
    return SentenceEncoder(model).encode(texts, normalize_embeddings=True)


def test_langchain_embeddings(model):
    pytest.importorskip("langchain_core")
    from contrastive_st.integrations.langchain import ContrastiveEmbeddings

    embeddings = ContrastiveEmbeddings(model, precision="fp32", query_prefix="the ")
    documents = embeddings.embed_documents(SENTENCES)
    assert type(documents[0][0]) is float
    np.testing.assert_allclose(documents, expected(model, SENTENCES), atol=1e-6)
    wanted = expected(model, ["the cat sat"])[0]
    np.testing.assert_allclose(embeddings.embed_query("cat sat"), wanted, atol=1e-6)
    np.testing.assert_allclose(asyncio.run(embeddings.aembed_query("cat sat")), wanted, atol=1e-6)
    with pytest.raises(InputError):
        ContrastiveEmbeddings("/no/such/model")


def test_haystack_pipelines(model):
    haystack = pytest.importorskip("haystack")
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    from contrastive_st.integrations.haystack import ContrastiveDocumentEmbedder, ContrastiveTextEmbedder

    documents = [haystack.Document(content=text, meta={"title": f"no {i}"}) for i, text in enumerate(SENTENCES)]
    fields = {
        "meta_fields_to_embed": ["title", "missing"],
        "embedding_separator": " ",
        "prefix": "a ",
        "suffix": " dog",
    }
    embedder = ContrastiveDocumentEmbedder(model, precision="fp32", batch_size=3, progress_bar=False, **fields)
    embedded = embedder.run(documents)["documents"]
    assert all(document.embedding is None for document in documents)
    texts = [f"a no {i} {text} dog" for i, text in enumerate(SENTENCES)]
    np.testing.assert_allclose([document.embedding for document in embedded], expected(model, texts), atol=1e-6)

    store = InMemoryDocumentStore(embedding_similarity_function="dot_product")
    store.write_documents(embedded)
    pipeline = haystack.Pipeline()
    pipeline.add_component("embed", ContrastiveTextEmbedder(model, prefix="a ", suffix=" dog", precision="fp32"))
    pipeline.add_component("retrieve", InMemoryEmbeddingRetriever(store, top_k=1))
    pipeline.connect("embed.embedding", "retrieve.query_embedding")
    allowed = ["contrastive_st.integrations.haystack"]  # Haystack trusts no module that it was not told of
    pipeline = haystack.Pipeline.from_dict(pipeline.to_dict(), allowed_modules=allowed)
    pipeline.get_component("retrieve").document_store = store
    found = pipeline.run({"embed": {"text": "no 3 " + SENTENCES[3]}})["retrieve"]["documents"]
    assert found[0].content == SENTENCES[3]
    assert found[0].score == pytest.approx(1, abs=1e-5)
    for component, wrong in ((ContrastiveTextEmbedder(model), {"text": documents}), (embedder, {"documents": "text"})):
        with pytest.raises(TypeError):
            component.run(**wrong)


def test_haystack_retriever_over_an_index(monkeypatch, caplog):
    pytest.importorskip("haystack")
    from search_fakes import WordEncoder, topic_index

    from contrastive_st.integrations import haystack as adapter

    index, encoder = topic_index(), WordEncoder()
    monkeypatch.setattr(adapter, "open_index", lambda where, collection: index)
    retriever = adapter.ContrastiveRetriever.from_dict(adapter.ContrastiveRetriever("folder", top_k=3).to_dict())
    vector = encoder.encode(["tide ship"])[0]
    found = retriever.run(vector.tolist())["documents"]
    assert [(d.id, d.score) for d in found] == [(str(hit.id), hit.score) for hit in index.search(vector, 3)[0]]
    condition = {"field": "meta.year", "operator": ">", "value": 2000}
    both = {"operator": "AND", "conditions": [condition, {"field": "topic", "operator": "in", "value": ["space"]}]}
    found = retriever.run(vector.tolist(), filters=both, top_k=5)["documents"]
    assert len(found) == 5
    assert all(d.meta["year"] > 2000 and d.meta["topic"] == "space" for d in found)
    count = lambda filters: len(retriever.run(vector.tolist(), filters=filters, top_k=1000)["documents"])
    space, later = {"field": "topic", "operator": "==", "value": "space"}, condition
    assert count({"operator": "OR", "conditions": [space, later]}) == count(space) + count(later) - count(both)
    assert count({"operator": "NOT", "conditions": [space, later]}) == len(index) - count(both)
    twice = [{"field": "topic", "operator": "!=", "value": value} for value in ("sea", "kitchen")]
    assert count({"operator": "AND", "conditions": twice}) == count(space)
    assert count({"field": "meta.topic", "operator": "not in", "value": ["sea", "kitchen"]}) == count(space)
    one = index.get([10])[0]
    for field, value in (("id", "10"), ("content", one.text)):
        assert count({"field": field, "operator": "==", "value": value}) == 1
        assert count({"field": field, "operator": "in", "value": [value, "none"]}) == 1
        assert count({"field": field, "operator": "!=", "value": value}) == len(index) - 1
        assert count({"field": field, "operator": "not in", "value": [value]}) == len(index) - 1
    of_none = {"operator": "OR", "conditions": []}  # as `any([])`
    for filters, wanted in (
        (of_none, 0), ({"operator": "NOT", "conditions": []}, 0), ({"operator": "AND", "conditions": []}, len(index)),
        ({"operator": "OR", "conditions": [space, of_none]}, count(space)),
        ({"operator": "NOT", "conditions": [of_none]}, len(index)),
        ({"field": "topic", "operator": "in", "value": []}, 0),
        ({"field": "topic", "operator": "not in", "value": []}, len(index)),
    ):  # fmt: skip
        assert count(filters) == wanted, filters
    caplog.clear()
    assert count({"field": "year", "operator": ">", "value": None}) == 0
    assert caplog.messages == ["a part of the filter has nothing to compare with, so no document meets it"]
    for wrong in ({"field": "topic", "operator": ">", "value": "sea"}, {"operator": "XOR", "conditions": [condition]}):
        with pytest.raises(InputError, match="filter"):
            retriever.run(vector.tolist(), filters=wrong)
    retriever.close()


def test_embedders_say_of_which_texts_the_model_knows_no_token(caplog):
    pytest.importorskip("langchain_core")
    pytest.importorskip("haystack")
    from haystack import Document

    from contrastive_st.integrations.haystack import ContrastiveDocumentEmbedder, ContrastiveTextEmbedder
    from contrastive_st.integrations.langchain import ContrastiveEmbeddings

    documents = ContrastiveDocumentEmbedder("static-minilm", progress_bar=False)
    for embed in (
        lambda text: ContrastiveEmbeddings("static-minilm").embed_documents(["rain", text]),
        lambda text: ContrastiveEmbeddings("static-minilm").embed_query(text),
        lambda text: ContrastiveTextEmbedder("static-minilm").run(text=text),
        lambda text: documents.run(documents=[Document(content="rain"), Document(content=text)]),
    ):
        embed("a cat")
        assert not caplog.messages
        embed("\U0001f600")
        assert "static-minilm knows no token of 1 of" in caplog.messages[0]
        caplog.clear()
