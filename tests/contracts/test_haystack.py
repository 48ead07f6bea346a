"""The document store under Haystack's own tests of one."""

import os
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("haystack")
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing.document_store import DocumentStoreBaseTests

from contrastive_st import InputError
from contrastive_st.integrations import haystack as adapter
from contrastive_st.integrations.haystack import ContrastiveDocumentStore, ContrastiveRetriever, ContrastiveTextEmbedder


class TestDocumentStore(DocumentStoreBaseTests):
    """With vectors of 768 dimensions, as those of the tests have."""

    @pytest.fixture
    def document_store(self, place, monkeypatch):
        class Wide:
            name, fingerprint, dimension, folder = "wide", "f", 768, None

            def __init__(self, *args, **options):
                pass

            def encode_document(self, texts):
                return np.ones((len(texts), 768), np.float32)

        monkeypatch.setattr(adapter, "SentenceEncoder", Wide)
        store = ContrastiveDocumentStore("wide", place, "haystack")
        yield store
        store.store.drop()
        store.close()

    @staticmethod
    def assert_documents_are_equal(received, expected):
        """The store returns no embeddings, and orders by its own ids."""
        rows = lambda documents: sorted((one.id, one.content, sorted(one.meta.items())) for one in documents)
        assert rows(received) == rows(expected)

    def test_write_documents(self, document_store):
        assert document_store.write_documents([Document(content="one"), Document(content="two")]) == 2
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([Document(content="one")])
        assert document_store.count_documents() == 2


def test_a_duplicate_is_named(place):
    store = ContrastiveDocumentStore("static-minilm", place, "duplicates")
    a, b, other = (Document(id=id, content=text) for id, text in (("a", "one"), ("b", "two"), ("b", "three")))
    with pytest.raises(DuplicateDocumentError, match="'b'"):
        store.write_documents([a, b, other])
    store.write_documents([b])
    with pytest.raises(DuplicateDocumentError, match="'b'"):
        store.write_documents([a, b])
    assert store.write_documents([other, a, replace(a, content="four")], DuplicatePolicy.SKIP) == 1
    assert {one.content for one in store.filter_documents()} == {"one", "two"}
    store.close()


def test_a_pipeline_finds_what_was_written(place):
    store = ContrastiveDocumentStore("static-minilm", place, "pipeline")
    store.write_documents([Document(content="the tide rises", meta={"id": 7}), Document(id="b", content="a cat sat")])
    vector = ContrastiveTextEmbedder("static-minilm").run("the tide")["embedding"]
    (found,) = ContrastiveRetriever(place, "pipeline", top_k=1).run(vector)["documents"]
    assert (found.content, found.meta) == ("the tide rises", {"id": 7})
    assert found.id == Document(content="the tide rises", meta={"id": 7}).id
    assert ContrastiveDocumentStore.from_dict(store.to_dict()).count_documents() == 2
    for field, value in (("id", found.id), ("content", "the tide rises"), ("meta.id", 7)):
        for operator, wanted in (("==", ["the tide rises"]), ("!=", ["a cat sat"])):
            filters = {"field": field, "operator": operator, "value": value}
            assert [one.content for one in store.filter_documents(filters)] == wanted
            hits = ContrastiveRetriever(place, "pipeline").run(vector, filters)["documents"]
            assert [one.content for one in hits] == wanted
    with pytest.raises(FilterError, match="number"):
        store.filter_documents({"field": "meta.id", "operator": "==", "value": True})
    with pytest.raises(InputError, match="vectors"):
        ContrastiveDocumentStore("model_cards/minilm-1-layer", place, "pipeline")
    store.close()
