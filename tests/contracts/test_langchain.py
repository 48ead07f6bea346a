"""Embeddings and vector store under langchain-tests, LangChain's own tests of an integration."""

import pytest

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import EmbeddingsIntegrationTests, VectorStoreIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests
from store_places import store_place

from contrastive_st import InputError
from contrastive_st.integrations.langchain import ContrastiveEmbeddings, ContrastiveVectorStore
from contrastive_st.search.opening import open_encoder_for, open_index
from contrastive_st.search.postgres.server import EmbeddedServer


class _Ours:
    @property
    def embeddings_class(self):
        return ContrastiveEmbeddings

    @property
    def embedding_model_params(self):
        return {"model": "static-minilm"}


class TestUnit(_Ours, EmbeddingsUnitTests):
    pass


class TestIntegration(_Ours, EmbeddingsIntegrationTests):
    pass


def test_one_string_is_no_list_of_texts():
    with pytest.raises(InputError, match="give a list, or call embed_query"):
        ContrastiveEmbeddings("static-minilm").embed_documents("abc")


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, place):
        store = ContrastiveVectorStore("static-minilm", place, "langchain")
        yield store
        store.store.drop()
        store.store.close()


@pytest.fixture(scope="module")
def place():
    with store_place() as folder, EmbeddedServer(folder):
        yield str(folder)


def test_the_vector_store_is_a_collection_like_others(place):
    texts, metadatas = ["the tide rises", "a cat sat", "taxes rose"], [{"year": 1999}, {"year": 2004}, {"year": 2004}]
    store = ContrastiveVectorStore.from_texts(
        texts, ContrastiveEmbeddings("static-minilm"), metadatas, ids=["a", "b", "c"], where=place, collection="shared"
    )
    ((found, score),) = store.similarity_search_with_relevance_scores("the tide", k=1)
    assert (found.id, found.metadata) == ("a", {"year": 1999})
    assert 0 < score <= 1
    retriever = store.as_retriever(search_kwargs={"filter": "year>2000"})
    assert [document.id for document in retriever.invoke("a cat")] == ["b", "c"]
    with open_index(place, "shared") as index:
        query = open_encoder_for(index).encode_query(["a cat"])
        assert index.search(query)[0][0].own_id == "b"
    with pytest.raises(InputError, match="has vectors of static-minilm"):
        ContrastiveVectorStore("model_cards/minilm-1-layer", place, "shared")
    store.store.close()
