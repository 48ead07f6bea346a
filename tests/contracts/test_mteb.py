"""`MTEBModel` in mteb's hands: its mock tasks, of every type that text models have, and the similarity of the model."""

import numpy as np
import pytest
from datasets import Dataset

from conftest import save_both
from contrastive_st import BertForCL, SentenceEncoder
from contrastive_st.integrations.mteb import MTEBModel

mteb = pytest.importorskip("mteb")

pytestmark = pytest.mark.slow


def test_every_mock_task_of_texts_is_finished():
    from mteb.mocks.mock_run import get_compatible_mock_tasks
    from mteb.results.task_result import TaskResult

    model = MTEBModel("static-minilm")
    found = mteb.mock_run(model)
    wanted = {task.metadata.name: task.metadata.type for task in get_compatible_mock_tasks(model)}
    failed = {name: str(found[name])[-200:] for name in wanted if not isinstance(found[name], TaskResult)}
    assert not failed
    of_benchmark = {task.metadata.type for task in mteb.get_benchmark("MTEB(eng, v2)").tasks}
    assert of_benchmark <= set(wanted.values())


def test_vectors_are_those_of_the_wrapper_of_mteb(bert_config, tokenizer, tmp_path):
    """Prompts are named after tasks, types of tasks and what is encoded, as in EmbeddingGemma and KaLM."""
    from mteb.models import SentenceTransformerEncoderWrapper
    from mteb.types import PromptType
    from sentence_transformers import SentenceTransformer
    from torch.utils.data import DataLoader

    names = ["query", "document", "STS12", "STS", "Retrieval-query", "Retrieval", "NFCorpus-document", "Clustering"]
    prompts = {
        name: f"{word} "
        for name, word in zip(names, ["the", "cat", "sat", "on", "mat", "a", "dog", "ran"], strict=True)
    }
    save_both(BertForCL(bert_config, pooling="mean", prompts=prompts), tokenizer, tmp_path)
    ours = MTEBModel(tmp_path)
    theirs = SentenceTransformerEncoderWrapper(SentenceTransformer(str(tmp_path), device="cpu"))
    for task in mteb.get_tasks(tasks=["STS12", "STSBenchmark", "NFCorpus", "SciFact", "TwentyNewsgroupsClustering.v2"]):
        for kind in (None, PromptType.query, PromptType.document):
            batches = DataLoader(Dataset.from_dict({"text": ["old town", "rain"]}), batch_size=2)
            asked = {"task_metadata": task.metadata, "hf_split": "test", "hf_subset": "default", "prompt_type": kind}
            np.testing.assert_allclose(ours.encode(batches, **asked), theirs.encode(batches, **asked), atol=1e-5)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
def test_vectors_are_compared_as_the_model_records(similarity, bert_config, tokenizer):
    model = BertForCL(bert_config, pooling="mean", similarity=similarity)
    adapter = MTEBModel(SentenceEncoder(model, tokenizer))
    assert adapter.similarity_fn_name == adapter.mteb_model_meta.similarity_fn_name == similarity
    x = np.random.default_rng(0).standard_normal((3, 4))
    if similarity == "dot":
        np.testing.assert_allclose(adapter.similarity(x, x), x @ x.T)
    np.testing.assert_allclose(np.diag(adapter.similarity(x, x[::-1])), adapter.similarity_pairwise(x, x[::-1]))
    assert float(adapter.similarity(x[0], x[1])) == pytest.approx(float(adapter.similarity(x, x)[0, 1]))


def test_two_functions_of_one_name_share_no_scores():
    """mteb keeps scores by name and revision, in a cache of the user."""
    first, second = (MTEBModel(lambda texts: np.ones((len(texts), 2))) for _ in range(2))
    assert first.mteb_model_meta.name == second.mteb_model_meta.name
    assert first.mteb_model_meta.revision == first.mteb_model_meta.revision != second.mteb_model_meta.revision
