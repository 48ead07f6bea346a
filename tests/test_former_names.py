"""Former names of public methods and places of arguments give what the present ones give, with a warning."""

import inspect

import pytest
import torch

from contrastive_st import ContrastiveTrainer, InfoNCE, MatryoshkaLoss, SoftmaxLoss
from contrastive_st.data import word_tokenizer
from contrastive_st.evaluation import EmbeddingSimilarityEvaluator, PairEvaluator, evaluators
from contrastive_st.former import FORMER
from contrastive_st.losses import Loss, MultiTaskLoss, TSDAELoss
from contrastive_st.training import gradcache


def test_former_methods_of_a_loss():
    loss, mixed = MatryoshkaLoss(InfoNCE(), dims=(4, 8)), MultiTaskLoss({"nli": InfoNCE(), "sts": SoftmaxLoss()})
    head = torch.nn.Linear(2, 2)
    ids = torch.tensor([[5, 6]])
    with pytest.warns(FutureWarning, match="in_use"):
        assert loss.whole() == loss.in_use()
    with pytest.warns(FutureWarning, match="in_use"):
        assert mixed.for_part("nli") == mixed.in_use("nli")[0]
    with pytest.warns(FutureWarning, match="head_of"):
        assert SoftmaxLoss().with_head(head).needed_head() is head
    with pytest.warns(FutureWarning, match="generates"):
        assert TSDAELoss().predicted(ids) is ids
    with pytest.warns(FutureWarning, match="generates"):
        assert InfoNCE().predicted(ids) is None


def test_a_former_method_of_the_trainer(monkeypatch):
    monkeypatch.setattr(gradcache, "encoder_of", lambda trainer, model: (trainer, model))
    trainer = ContrastiveTrainer.__new__(ContrastiveTrainer)
    with pytest.warns(FutureWarning, match="encoder_of"):
        assert trainer.encoder_of("model") == (trainer, "model")


def test_an_evaluator_takes_its_tokenizer_by_position(tmp_path):
    tokenizer, columns = word_tokenizer(["cat"]), ["a", "b", "score"]
    path = tmp_path / "pairs.csv"
    path.write_text("a,b,score\na cat,a dog,0.5\nrain,a cat,0.1\n")
    with pytest.warns(FutureWarning, match="tokenizer="):
        assert EmbeddingSimilarityEvaluator(["a"], ["b"], [0.5], "dev", tokenizer).tokenizer is tokenizer
    with pytest.warns(FutureWarning, match="tokenizer="):
        made = EmbeddingSimilarityEvaluator.from_file(path, "dev", tokenizer, columns)
    assert (made.tokenizer, made.splits["test"].columns[0]) == (tokenizer, ["a cat", "rain"])
    with pytest.warns(FutureWarning, match="tokenizer="):
        assert PairEvaluator(path, "dev", None, columns).tokenizer is None
    assert PairEvaluator(path, "dev", columns).tokenizer is None  # without a warning


def test_each_class_of_the_table_has_its_former_names():
    for name, methods in FORMER.items():
        cls = {"Loss": Loss, "ContrastiveTrainer": ContrastiveTrainer}.get(name) or getattr(evaluators, name)
        assert methods.keys() <= vars(cls).keys()
    assert list(inspect.signature(PairEvaluator).parameters) == ["path", "name", "columns", "options"]
