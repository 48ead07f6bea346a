"""Embeddings and vector store under langchain-tests, LangChain's own tests of an integration."""

import pytest

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import EmbeddingsIntegrationTests, VectorStoreIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from contrastive_st import BertForCL, InputError, SentenceEncoder
from contrastive_st.integrations.langchain import ContrastiveEmbeddings, ContrastiveVectorStore
from contrastive_st.search.opening import open_encoder_for, open_index


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
    with pytest.raises(InputError, match="embed_query"):
        ContrastiveEmbeddings("static-minilm").embed_documents("abc")


def test_an_opened_encoder_is_used_as_it_was_opened(monkeypatch, place, bert_config, tokenizer):
    monkeypatch.setattr("contrastive_st.models.running.bf16_is_fast", lambda device: True)
    encoder = SentenceEncoder(BertForCL(bert_config, pooling="mean").eval(), tokenizer)
    store = ContrastiveVectorStore(encoder, place, "opened")
    ours = [ContrastiveEmbeddings(encoder).encoder, store.embeddings.encoder, open_encoder_for(store.store, encoder)]
    assert [(one.precision, one.model) for one in ours] == [("fp32", encoder.model)] * 3
    store.store.drop()
    store.close()


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, place):
        store = ContrastiveVectorStore("static-minilm", place, "langchain")
        yield store
        store.store.drop()
        store.close()


def test_hits_by_marginal_relevance_differ_from_each_other(place):
    texts = ["the tide rises", "the tide rises.", "the tide rises!", "ships in the harbour"]
    store = ContrastiveVectorStore.from_texts(
        texts, "static-minilm", ids=["a", "b", "c", "d"], where=place, collection="relevance"
    )
    found = lambda **options: [hit.id for hit in store.max_marginal_relevance_search("the tide rises", 2, **options)]
    assert found(lambda_mult=1.0)[0] == found(lambda_mult=0.3)[0] == "a"
    assert found(lambda_mult=0.3)[1] == "d" != found(lambda_mult=1.0)[1]
    assert found(fetch_k=2, lambda_mult=0.3)[1] != "d"
    assert len(found(fetch_k=1)) == 2
    with pytest.raises(InputError, match="delete takes a list of ids"):
        store.delete()
    assert len(store.store) == 4
    store.store.drop()
    store.close()


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
    assert [document.id for document in store.similarity_search("cat", filter={"(id)": ["a", "c"]})] == ["c", "a"]
    several = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "fetch_k": 3, "filter": "year>1990"})
    assert len(several.invoke("a cat")) == 2
    for misspelt in (
        lambda: store.similarity_search("cat", flter="year>2000"),
        lambda: store.max_marginal_relevance_search("cat", flter="year>2000"),
        lambda: store.add_texts(["x"], idss=["d"]),
        lambda: store.delete(idss=["a"]),
    ):
        with pytest.raises(TypeError, match=r"'(flter|idss)'"):
            misspelt()
    with open_index(place, "shared") as index:
        query = open_encoder_for(index).encode_query(["a cat"])
        assert index.search(query)[0][0].own_id == "b"
    for numbers in ({"ids": ["d"]}, {"ids": list("defg")}, {"metadatas": [{}]}, {"metadatas": [{}] * 5}):
        with pytest.raises(InputError, match="3 texts, "):
            store.add_texts(texts, **numbers)
    with pytest.raises(InputError, match="the vector of 'b' is zero"):
        store.add_texts(["rain", "\U0001f991"], ids=["a", "b"])
    with pytest.raises(InputError, match="vectors"):
        ContrastiveVectorStore("model_cards/minilm-1-layer", place, "shared")
    store.close()
