"""CamemBERT, ELECTRA and DeBERTa: what others saved of them opens, with its head of words, in every loader."""

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, SentenceEncoder
from contrastive_st.models import pool

SHAPE = {
    "vocab_size": 400, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 40,
}  # fmt: skip
V3 = {
    "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "position_buckets": 8,
    "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0, "max_relative_positions": -1,
}  # fmt: skip
CONFIGS = {
    "camembert": lambda: transformers.CamembertConfig(**SHAPE, pad_token_id=1, bos_token_id=2, eos_token_id=3),
    "electra": lambda: transformers.ElectraConfig(**SHAPE, embedding_size=8),
    "deberta-v2": lambda: transformers.DebertaV2Config(**SHAPE),
    "deberta-v3": lambda: transformers.DebertaV2Config(**SHAPE, **V3),
    "deberta, its later head": lambda: transformers.DebertaV2Config(**SHAPE, **V3, legacy=False),
}


def saved(family, tokenizer, folder, kind=transformers.AutoModelForMaskedLM):
    """A folder as others save it; weights that tell tokens and places apart."""
    torch.manual_seed(0)
    model = kind.from_config(CONFIGS[family]())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    save_both(model, tokenizer, folder)
    return model.eval()


@pytest.fixture
def rows(tokenizer):
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}


@pytest.mark.parametrize("family", CONFIGS)
def test_three_loaders_give_the_same_embeddings(family, tokenizer, rows, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    theirs = saved(family, tokenizer, tmp_path / "theirs")
    model = AutoModelForCL.from_pretrained(tmp_path / "theirs", pooling="mean")
    assert model.config.model_type in type(model).__name__.lower() or family.startswith("deberta")
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    states = theirs.base_model(**rows).last_hidden_state
    expected = pool([states], rows["attention_mask"], "mean").detach().numpy()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-5)

    save_both(model, tokenizer, tmp_path / "ours")
    np.testing.assert_array_equal(SentenceEncoder(tmp_path / "ours").encode(SENTENCES), ours)
    states = AutoModel.from_pretrained(tmp_path / "ours").eval()(**rows).last_hidden_state
    np.testing.assert_allclose(pool([states], rows["attention_mask"], "mean").detach().numpy(), ours, atol=2e-5)
    peer = sentence_transformers.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    np.testing.assert_allclose(peer.encode(SENTENCES, show_progress_bar=False), ours, rtol=0, atol=2e-5)
    assert AutoTokenizer.from_pretrained(tmp_path / "ours").get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("family", CONFIGS)
def test_the_head_of_words_is_the_checkpoints_own(family, tokenizer, rows, tmp_path):
    theirs = saved(family, tokenizer, tmp_path)
    try:
        type(theirs).from_pretrained(tmp_path)
    except AttributeError as error:
        pytest.skip(f"this version of transformers cannot open what it saved: {error}")
    model = AutoModelForCL.from_pretrained(tmp_path, pooling="mean", do_mlm=True).eval()
    states = model.backbone(**rows).last_hidden_state
    torch.testing.assert_close(model.mlm_logits(states), theirs(**rows).logits, rtol=1e-5, atol=1e-5)
    targets = rows["input_ids"].clone()
    model.train()
    views = {name: x[:, None].repeat(1, 2, 1) for name, x in rows.items()}
    words = {"mlm_input_ids": views["input_ids"], "mlm_targets": targets[:, None].repeat(1, 2, 1)}
    model(**views, **words).loss.backward()
    assert not [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]


def test_an_electra_discriminator_opens(tokenizer, rows, tmp_path):
    """As published: its head tells replaced words, and is of no use here."""
    theirs = saved("electra", tokenizer, tmp_path, transformers.AutoModelForPreTraining)
    model = AutoModelForCL.from_pretrained(tmp_path, pooling="mean").eval()
    torch.testing.assert_close(
        model.backbone(**rows).last_hidden_state, theirs.electra(**rows).last_hidden_state, rtol=0, atol=0
    )


def test_a_deberta_v3_opens_with_what_its_files_hold_besides(tokenizer, rows, tmp_path):
    """The published files have positions that the model does not read, and a head of its generator."""
    theirs = saved("deberta-v3", tokenizer, tmp_path)
    path = tmp_path / "model.safetensors"
    more = {"deberta.embeddings.position_embeddings.weight": (40, 16), "mask_predictions.dense.weight": (16, 16)}
    save_file({**load_file(path), **{name: torch.randn(shape) for name, shape in more.items()}}, path, {"format": "pt"})
    model = AutoModelForCL.from_pretrained(tmp_path, pooling="mean").eval()
    torch.testing.assert_close(
        model.backbone(**rows).last_hidden_state, theirs.deberta(**rows).last_hidden_state, rtol=0, atol=0
    )
