"""Encoders of transformers that no class here names: opened, trained and saved as any other."""

import copy

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModel

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, InputError, SentenceEncoder
from contrastive_st.models import pool
from contrastive_st.models.auto import load_tokenizer
from contrastive_st.models.families import family

pytestmark = pytest.mark.allow_warnings  # transformers' own, of modules that it imports first here

SHAPE = {
    "vocab_size": 400, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 40, "embedding_size": 16,
}  # fmt: skip
MORE = {"opt": {"ffn_dim": 32, "word_embed_proj_dim": 16}}
DECODERS = ["gpt2", "opt", "phi"]
PUBLISHED_WITH_CODE = ["nomic_bert", "gte", "jina_embeddings_v3", "eurobert"]  # transformers renames their weights
TYPES = ["albert", "ernie", "roformer", "rembert", "mobilebert", "esm", *PUBLISHED_WITH_CODE, *DECODERS]


@pytest.fixture(params=TYPES)
def theirs(request, tokenizer, tmp_path):
    """A folder as others save it, with a head of words that is not ours to read."""
    torch.manual_seed(0)
    shape = SHAPE | MORE.get(request.param, {})
    config = transformers.AutoConfig.for_model(request.param, **shape, pad_token_id=0, mask_token_id=4)
    head = transformers.AutoModelForCausalLM if request.param in DECODERS else transformers.AutoModelForMaskedLM
    if request.param in PUBLISHED_WITH_CODE:
        config.auto_map = {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}
    head.from_config(config).save_pretrained(tmp_path / "theirs")
    tokenizer = copy.deepcopy(tokenizer)
    if request.param in DECODERS:  # as theirs: GPT-2 adds the vector of a word for each type of token
        tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path / "theirs")
    return tmp_path / "theirs"


@pytest.mark.allow_warnings  # AutoModel's, of the heads of the other's folder
def test_it_opens_trains_and_is_saved_or_says_in_a_line_what_it_cannot_do(theirs, tmp_path):
    tokenizer = load_tokenizer(theirs)
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    rows = {name: batch[name] for name in ("input_ids", "attention_mask")}
    model = AutoModelForCL.from_pretrained(theirs, pooling="mean").eval()
    states = AutoModel.from_pretrained(theirs).eval()(**rows).last_hidden_state
    expected = pool([states], rows["attention_mask"], "mean").detach().numpy()
    np.testing.assert_allclose(SentenceEncoder(model, tokenizer).encode(SENTENCES), expected, rtol=0, atol=2e-5)

    views = {name: tensor[:, None].repeat(1, 2, 1) for name, tensor in rows.items()}
    before = [weight.clone() for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()(**views).loss.backward()
    idle = [name for name, weight in model.named_parameters() if weight.requires_grad and weight.grad is None]
    assert not idle, "else several processes would wait for each other"
    optimizer.step()
    moved = [weight for weight in model.parameters() if weight.requires_grad]
    assert any(not torch.equal(a, b) for a, b in zip(before, moved, strict=True))

    save_both(model.eval(), tokenizer, tmp_path / "ours")
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    np.testing.assert_array_equal(SentenceEncoder(tmp_path / "ours").encode(SENTENCES), ours)
    peer = pytest.importorskip("sentence_transformers").SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    np.testing.assert_allclose(peer.encode(SENTENCES, show_progress_bar=False), ours, rtol=0, atol=2e-5)
    for options, word in (({"pooling": "cls"}, "projection"), ({"pooling": "mean", "do_mlm": True}, "known")):
        with pytest.raises(InputError, match=word):
            AutoModelForCL.from_pretrained(theirs, **options)


def test_what_is_no_text_encoder_has_no_class():
    assert [name for name in ("vit", "whisper", "clip", "no such type", None) if family(name) is not None] == []


def test_a_model_of_several_modalities_is_opened_by_its_text_part(tokenizer, tmp_path, caplog):
    kind = getattr(transformers, "EmbeddingGemma2Config", None)
    if kind is None:
        pytest.skip("this transformers has no such model")
    text = {"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "hidden_size_per_layer_input": 8,
            "embedding_dim": 12, "max_position_embeddings": 32, "pad_token_id": tokenizer.pad_token_id,
            "layer_types": ["sliding_attention", "full_attention"]}  # fmt: skip
    whole = AutoModel.from_config(kind(text_config=text, vision_config=None, audio_config=None))
    save_both(whole.eval(), tokenizer, tmp_path / "whole")
    batch = tokenizer(SENTENCES[:1], return_tensors="pt")
    with torch.no_grad():
        states = whole(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    encoder = SentenceEncoder(tmp_path / "whole", pooling="mean")
    assert "embedding_gemma2_text" in caplog.text
    np.testing.assert_allclose(encoder.encode(SENTENCES[:1]), states.mean(1).numpy(), rtol=0, atol=1e-6)
    model = AutoModelForCL.from_pretrained(tmp_path / "whole", pooling="mean").train()
    rows = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    model(**{name: rows[name][:, None].repeat(1, 2, 1) for name in ("input_ids", "attention_mask")}).loss.backward()
    assert not [name for name, weight in model.named_parameters() if weight.requires_grad and weight.grad is None]
    encoder.save_pretrained(tmp_path / "text")
    np.testing.assert_array_equal(SentenceEncoder(tmp_path / "text").encode(SENTENCES), encoder.encode(SENTENCES))
