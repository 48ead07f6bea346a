"""Bases stored in half width: what trains has float32 weights, and what is saved has the type that it came with."""

import itertools
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scripts import FEW, load
from transformers import BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

from conftest import SENTENCES, save_both
from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    PairCollator,
    SentenceClassifier,
    SentenceEncoder,
)
from contrastive_st.cli import main
from contrastive_st.files.reading import weight_types
from contrastive_st.models import EncoderForCL, add_lora
from contrastive_st.models.protocol import open_encoder
from contrastive_st.models.static_encoder import StaticEncoder, static_tokenizer
from contrastive_st.models.wrapped import contrastive

HALVES = {"bfloat16": "BF16", "float16": "F16"}


@pytest.fixture(params=HALVES)
def half(request, bert_config, tokenizer, tmp_path):
    model = BertForCL(bert_config, pooling="mean", dense=[{"out_features": 8}])
    return save_both(model.to(getattr(torch, request.param)), tokenizer, tmp_path / "half")


def stored(folder):
    folders = [folder, *folder.glob("[0-9]_*")]
    kinds = {kind for place in folders for kind in weight_types(place).values()}
    assert len(kinds) == 1, kinds
    return kinds.pop()


def trainer_of(model, tokenizer, folder, **options):
    pairs = itertools.pairwise(SENTENCES * 3)
    rows = [{"input_ids": [tokenizer(text)["input_ids"] for text in pair]} for pair in pairs]
    given = {"max_steps": 3, "per_device_train_batch_size": 8, "learning_rate": 2e-5, "report_to": "none",
             "disable_tqdm": True, "save_steps": 2, "save_strategy": "steps"}  # fmt: skip
    return ContrastiveTrainer(
        model=model, args=ContrastiveTrainingArguments(str(folder), **{**given, **options}), train_dataset=rows,
        data_collator=PairCollator(tokenizer), processing_class=tokenizer,
    )  # fmt: skip


@pytest.mark.parametrize(("half", "way"), [
    ("float16", "plain"), ("bfloat16", "chunks"), ("float16", "bf16"), ("bfloat16", "given type"),
    ("bfloat16", "asked"),
], indirect=["half"])  # fmt: skip
def test_it_trains_in_float32_and_is_saved_as_it_came(half, way, tokenizer, tmp_path):
    kind = stored(half)
    model = AutoModelForCL.from_pretrained(half, **({"dtype": "auto"} if way == "given type" else {}))
    ways = {"chunks": {"chunk_size": 4}, "bf16": {"bf16": True}, "asked": {"save_dtype": "float32"}}
    options = ways.get(way, {})
    trainer = trainer_of(model, tokenizer, tmp_path / "run", **options)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    weight = model.backbone.encoder.layer[0].intermediate.dense.weight
    before = weight.detach().clone()
    trainer.train()
    assert (weight != before).float().mean() > 0.9  # in half width, most of these steps would be rounded away
    trainer.save_model()
    assert stored(tmp_path / "run" / "checkpoint-2") == "F32"  # from which a run resumes
    assert stored(tmp_path / "run") == ("F32" if way == "asked" else kind)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    reopened = SentenceEncoder(tmp_path / "run").encode(SENTENCES)
    np.testing.assert_allclose(reopened, SentenceEncoder(model, tokenizer).encode(SENTENCES), atol=0.05)


@pytest.mark.parametrize("asked", [None, "float32"])
@pytest.mark.parametrize("kind", HALVES)
def test_masked_language_modelling_trains_in_float32_too(kind, asked, bert_config, tokenizer, tmp_path):
    half = save_both(BertForMaskedLM(bert_config).to(getattr(torch, kind)), tokenizer, tmp_path / "half")
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES * 20))
    load("run_mlm").main([
        "--train_file", str(tmp_path / "text.txt"), "--model_name_or_path", str(half), "--block_size", "16", *FEW,
        "--learning_rate", "2e-5", "--warmup_steps", "0", "--save_steps", "3", "--output_dir", str(tmp_path / "run"),
        *([] if asked is None else ["--save_dtype", asked]),
    ])  # fmt: skip
    assert stored(tmp_path / "run" / "checkpoint-3") == "F32"
    assert stored(tmp_path / "run") == ("F32" if asked else HALVES[kind])
    before, after = (load_file(x / "model.safetensors") for x in (half, tmp_path / "run" / "checkpoint-3"))
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    assert (after[name] != before[name]).float().mean() > 0.9


def test_a_base_that_is_stored_in_half_width_and_runs_in_float32(half, tokenizer, tmp_path):
    """So that what is measured in training is what its folder gives."""
    config = json.loads((half / "config.json").read_text())
    (half / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    for name, options in (("run", {}), ("as asked", {"save_dtype": "float16"})):
        trainer = trainer_of(AutoModelForCL.from_pretrained(half), tokenizer, tmp_path / name, **options)
        trainer.train()
        trainer.save_model()
    width = stored(half)
    assert (stored(tmp_path / "run"), SentenceEncoder(tmp_path / "run").precision) == (width, "fp32")
    assert (stored(tmp_path / "as asked"), SentenceEncoder(tmp_path / "as asked").precision) == ("F16", "fp16")


@pytest.mark.parametrize("kind", ["roberta", "adapter"])
def test_masked_language_modelling_goes_on_from_a_bert_alone(kind, half, bert_config, tokenizer, tmp_path):
    """transformers would draw the weights of a BERT of another family at random."""
    if kind == "roberta":
        sizes = {name: getattr(bert_config, name) for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
        model = RobertaForMaskedLM(RobertaConfig(**sizes, num_attention_heads=2, intermediate_size=16))
        base = save_both(model, tokenizer, tmp_path / "roberta")
    else:
        model = add_lora(AutoModelForCL.from_pretrained(half), r=2)
        base = save_both(model, tokenizer, tmp_path / "adapter")
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES * 20))
    with pytest.raises(InputError, match=kind):
        load("run_mlm").main(["--train_file", str(tmp_path / "text.txt"), "--model_name_or_path", str(base)])


def test_opened_and_saved_it_is_the_same_file(half, tmp_path):
    """Also by the class itself, and by an encoder, which runs in the type of the folder."""
    for open_it in (AutoModelForCL.from_pretrained, BertForCL.from_pretrained, lambda x: SentenceEncoder(x).model):
        open_it(half).save_pretrained(tmp_path / "again")
        first, again = (load_file(folder / "model.safetensors") for folder in (half, tmp_path / "again"))
        assert first.keys() == again.keys()
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert stored(half) == stored(tmp_path / "again")


def test_an_adapter_and_its_frozen_base(half, tokenizer, tmp_path):
    model = add_lora(AutoModelForCL.from_pretrained(half), r=2)
    trainer = trainer_of(model, tokenizer, tmp_path / "run")
    trainer.train()
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    frozen = add_lora(AutoModelForCL.from_pretrained(half, dtype="auto"), r=2)
    kinds = {weight.dtype for weight in contrastive(frozen).parameters() if not weight.requires_grad}
    assert kinds < {torch.bfloat16, torch.float16}  # of a large base, on request


def test_a_module_of_ones_own(tokenizer, tmp_path):
    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(len(tokenizer), 4, dtype=torch.bfloat16)

        def forward(self, input_ids, attention_mask):
            return (self.words(input_ids) * attention_mask[..., None]).sum(1)

    model = contrastive(Bag())
    assert isinstance(model, EncoderForCL)
    assert model.encoder.words.weight.dtype == torch.float32
    model.save_pretrained(tmp_path)
    assert stored(tmp_path) == "BF16"
    assert model.encoder.words.weight.dtype == torch.float32


def test_a_type_in_the_config_is_not_that_of_the_weights(bert_config, tokenizer, tmp_path):
    """Some say bfloat16 and hold float32, which is not to be rounded."""
    BertForCL(bert_config, pooling="mean").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"dtype": "float32"', '"dtype": "bfloat16"'))
    model, file = AutoModelForCL.from_pretrained(tmp_path), load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(weight, file[name]) for name, weight in model.state_dict().items())
    save_file({name: x.double() for name, x in file.items()}, tmp_path / "model.safetensors", {"format": "pt"})
    assert {weight.dtype for weight in AutoModelForCL.from_pretrained(tmp_path).parameters()} == {torch.float32}


@pytest.mark.parametrize("asked", [None, "float16"])
@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_a_table_is_saved_as_it_came(storage, asked, tokenizer, tmp_path):
    words = static_tokenizer(tokenizer)
    StaticEncoder.from_table(torch.randn(len(words), 8)).save_pretrained(tmp_path / "model", storage=storage)
    words.save_pretrained(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES * 4), encoding="utf-8")
    flags = ["--train_file", str(tmp_path / "texts.txt"), "--model_name_or_path", str(tmp_path / "model"),
             "--max_steps", "2", "--output_dir", str(tmp_path / "run"), "--per_device_train_batch_size", "8",
             "--report_to", "none", "--max_length", "3", *(["--save_dtype", asked] if asked else [])]  # fmt: skip
    assert main(["train", *flags]) == 0
    assert json.loads((tmp_path / "run/tokenizer.json").read_text())["truncation"]["max_length"] == 3  # in any loader
    held = load_file(tmp_path / "run/model.safetensors")
    assert str(held["embeddings"].dtype) == f"torch.{asked or storage}"
    model = AutoModelForCL.from_pretrained(tmp_path / "run")
    vectors = SentenceEncoder(model, static_tokenizer(tokenizer, 3)).encode(SENTENCES)
    np.testing.assert_allclose(open_encoder(tmp_path / "run").encode(SENTENCES), vectors, atol=1e-3)


def test_a_table_has_no_bfloat16(tokenizer, tmp_path):
    words = static_tokenizer(tokenizer)
    with pytest.raises(InputError, match="'bfloat16'"):
        trainer_of(StaticEncoder.from_table(torch.randn(len(words), 8)), words, tmp_path, save_dtype="bfloat16")
    encoder = SentenceEncoder(StaticEncoder.from_table(torch.randn(len(words), 8)).bfloat16(), words)
    encoder.save_pretrained(tmp_path / "saved")
    assert stored(tmp_path / "saved") == "F32"
    np.testing.assert_allclose(
        SentenceEncoder(tmp_path / "saved").encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-6
    )


@pytest.mark.parametrize(("half", "method"), [("bfloat16", []), ("float16", ["simcse"])], indirect=["half"])
def test_on_the_command_line(half, method, tmp_path, caplog):
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES * 4), encoding="utf-8")
    flags = ["--train_file", str(tmp_path / "texts.txt"), "--model_name_or_path", str(half), "--max_steps", "2",
             "--output_dir", str(tmp_path / "run"), "--per_device_train_batch_size", "8",
             "--report_to", "none"]  # fmt: skip
    assert main(["train", *method, *flags]) == 0
    assert stored(tmp_path / "run") in HALVES.values()
    name = {kind: name for name, kind in HALVES.items()}[stored(half)]
    shown = caplog.text
    assert "weights float32, matrix products " in shown
    assert f"saved in {name}" in shown


def test_a_classifier_is_tuned(half):
    labels = ["a", "b"] * 4
    tuned = SentenceClassifier(SentenceEncoder(half), tune=True, max_steps=2).fit(SENTENCES, labels)
    assert len(tuned.predict(SENTENCES)) == 8
