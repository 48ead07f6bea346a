"""`ContrastiveEmbeddings` under langchain-tests, LangChain's own tests of an integration."""

import pytest

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from contrastive_st import InputError
from contrastive_st.integrations.langchain import ContrastiveEmbeddings


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
