"""LoRA, gradient checkpointing, torch.compile, clipping and accumulation: the GradCache step is the plain step."""

import copy

import peft
import pytest
import torch
from datasets import Dataset
from torch.utils.data import SequentialSampler
from transformers import BertConfig, TrainerCallback, TrainingArguments

from conftest import SENTENCES
from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    PairCollator,
    tokenize,
)
from contrastive_st.models import add_lora

pytestmark = pytest.mark.slow
CHECKPOINTING = (
    "activation_checkpointing" if hasattr(TrainingArguments, "activation_checkpointing") else "gradient_checkpointing"
)


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


def assert_equal(ours, reference, tolerance=1e-8):
    assert len(ours) == len(reference)
    assert ours[0].keys() == reference[0].keys()
    for name, gradient in reference[0].items():
        scale = gradient.abs().max().clamp_min(1e-6)
        assert (ours[0][name] - gradient).abs().max() <= tolerance * scale + 1e-12, name


def test_lora_cached_is_plain(tokenizer, tmp_path, model):
    model.save_pretrained(tmp_path / "base")
    model = AutoModelForCL.from_pretrained(tmp_path / "base", dtype=torch.float64)
    lora = peft.get_peft_model(
        model, peft.LoraConfig(r=2, lora_dropout=0.0, target_modules=["query", "value"], init_lora_weights=False)
    )
    plain, trainer = gradients(tokenizer, tmp_path, lora)
    cached, _ = gradients(tokenizer, tmp_path, lora, chunk_size=3)
    assert plain[0]
    assert all("lora_" in name for name in plain[0])
    assert all(gradient.abs().max() > 0 for gradient in plain[0].values())
    assert_equal(cached, plain)
    unpadded, packed = gradients(tokenizer, tmp_path, lora, unpadded=True)
    assert_equal(unpadded, plain)
    assert packed.model.unpadded
    frozen = {name: weight for name, weight in trainer.model.named_parameters() if "lora_" not in name}
    before = dict(model.named_parameters())
    assert all(torch.equal(weight, before[name]) for name, weight in frozen.items())


def test_an_added_adapter_cached_is_plain(tokenizer, tmp_path, model):
    """As the jobs add it: in the model, beside a projection head that is trained as a whole."""
    model.save_pretrained(tmp_path / "base")
    lora = add_lora(AutoModelForCL.from_pretrained(tmp_path / "base", dtype=torch.float64), r=2)
    for name, weight in lora.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)  # zeros give A no gradient
    plain, _ = gradients(tokenizer, tmp_path, lora)
    for changes in ({}, {CHECKPOINTING: True}):
        cached, trainer = gradients(tokenizer, tmp_path, lora, chunk_size=3, **changes)
        assert_equal(cached, plain)
    trained = {name for name in plain[0] if "lora_" not in name}
    assert trained == {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    assert all(gradient.abs().max() > 0 for gradient in plain[0].values())
    before = dict(lora.named_parameters())
    frozen = [name for name, weight in trainer.model.named_parameters() if not weight.requires_grad]
    assert all(torch.equal(dict(trainer.model.named_parameters())[name], before[name]) for name in frozen)


def test_gradient_checkpointing_changes_nothing(tokenizer, tmp_path, model):
    reference, _ = gradients(tokenizer, tmp_path, model)
    for changes in ({}, {"chunk_size": 3}):
        ours, trainer = gradients(tokenizer, tmp_path, model, **{CHECKPOINTING: True}, **changes)
        assert any(getattr(module, "gradient_checkpointing", False) for module in trainer.model.modules())
        assert_equal(ours, reference)


@pytest.mark.allow_warnings
def test_compiled_is_eager(tokenizer, tmp_path, model):
    torch._dynamo.reset()
    del model.bert.encoder.layer[1]  # which is compiled as the first
    settings = {"per_device_train_batch_size": 2, "max_steps": 1}
    (reference,), _ = gradients(tokenizer, tmp_path, model, **settings)
    (compiled,), trainer = gradients(
        tokenizer, tmp_path, model, torch_compile=True, torch_compile_backend="aot_eager", **settings
    )
    assert trainer.model.backbone._compiled_call_impl is not None
    assert_equal([compiled], [reference], 1e-4)


def test_clipping_sees_the_gradient_of_the_whole_batch(tokenizer, tmp_path, model):
    raw, _ = gradients(tokenizer, tmp_path, model)
    norm = torch.stack([gradient.norm() for gradient in raw[0].values()]).norm()
    for changes in ({}, {"chunk_size": 3}):
        clipped, _ = gradients(tokenizer, tmp_path, model, max_grad_norm=norm.item() / 4, **changes)
        for name, gradient in clipped[0].items():
            torch.testing.assert_close(gradient, raw[0][name] / 4, rtol=1e-5, atol=1e-12)


def test_accumulation_is_the_mean_of_its_batches_and_not_one_larger_batch(tokenizer, tmp_path, model):
    """Each batch contrasts within itself: what grows the number of candidates is the batch, with `chunk_size`."""
    settings = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    plain, _ = gradients(tokenizer, tmp_path, model, **settings)
    cached, _ = gradients(tokenizer, tmp_path, model, chunk_size=1, **settings)
    assert_equal(cached, plain)
    larger, _ = gradients(tokenizer, tmp_path, model, chunk_size=1)
    assert any(not torch.allclose(larger[0][name], plain[0][name], rtol=1e-2) for name in plain[0])


def test_bf16_cached_is_near_plain(tokenizer, tmp_path, model):
    model = model.float()
    plain, _ = gradients(tokenizer, tmp_path, model, bf16=True)
    cached, _ = gradients(tokenizer, tmp_path, model, bf16=True, chunk_size=3)
    assert_equal(cached, plain, 0.1)
