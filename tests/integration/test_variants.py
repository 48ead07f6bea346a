"""Clipping sees the gradient of a whole batch, in the GradCache step too."""

import copy

import pytest
import torch
from datasets import Dataset
from torch.utils.data import SequentialSampler
from transformers import BertConfig, TrainerCallback

from conftest import SENTENCES
from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    PairCollator,
    tokenize,
)

pytestmark = pytest.mark.slow


class Watch(TrainerCallback):
    """The gradients that the optimizer sees."""

    def __init__(self):
        self.seen = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.seen.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})


class InOrder(ContrastiveTrainer):
    def _get_train_sampler(self, train_dataset=None):
        return SequentialSampler(self.train_dataset)


def gradients(tokenizer, folder, model, **changes):
    """The gradients of two optimizer steps and the trained model, from the same weights whatever else changes."""
    columns = {"text0": SENTENCES, "text1": SENTENCES[1:] + SENTENCES[:1]}
    watch = Watch()
    args = ContrastiveTrainingArguments(
        str(folder), **{"per_device_train_batch_size": 4, "max_steps": 2, "learning_rate": 1e-3, "bf16": False,
        "disable_tqdm": True, "max_grad_norm": 0.0, "save_strategy": "no", "logging_steps": 1, **changes},
    )  # fmt: skip
    trainer = InOrder(
        copy.deepcopy(model), args, train_dataset=tokenize(Dataset.from_dict(columns), tokenizer, 16),
        data_collator=PairCollator(tokenizer), callbacks=[watch],
    )  # fmt: skip
    trainer.train()
    return watch.seen, trainer


@pytest.fixture
def model(tokenizer):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=20, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        initializer_range=0.3,  # with the usual 0.02 all sentences are alike, and their gradients rounding errors
    )  # fmt: skip
    return BertForCL(config).double()


def test_clipping_sees_the_gradient_of_the_whole_batch(tokenizer, tmp_path, model):
    raw, _ = gradients(tokenizer, tmp_path, model)
    norm = torch.stack([gradient.norm() for gradient in raw[0].values()]).norm()
    for changes in ({}, {"chunk_size": 3}):
        clipped, _ = gradients(tokenizer, tmp_path, model, max_grad_norm=norm.item() / 4, **changes)
        for name, gradient in clipped[0].items():
            torch.testing.assert_close(gradient, raw[0][name] / 4, rtol=1e-5, atol=1e-12)
