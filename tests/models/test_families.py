"""Families of encoders: what others saved opens, with its head of words, trains and is saved for every loader."""

import copy
import pickle

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from small_checkpoints import peer_vectors
from transformers import AutoModel

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, InputError, SentenceEncoder
from contrastive_st.models import add_lora, pool
from contrastive_st.models.auto import load_tokenizer
from contrastive_st.models.families import family
from contrastive_st.models.wrapped import contrastive

pytestmark = (
    pytest.mark.allow_warnings
)  # transformers' own, of modules that it imports first here, and of others' heads

SHAPE = {
    "vocab_size": 400, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 40, "embedding_size": 16, "pad_token_id": 0, "mask_token_id": 4,
}  # fmt: skip
V3 = {
    "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "position_buckets": 8,
    "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0, "max_relative_positions": -1,
}  # fmt: skip
#: Families with a class here: a type of transformers, and settings beside those
NAMED = {
    "camembert": ("camembert", {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}),
    "electra": ("electra", {"embedding_size": 8}),
    "deberta-v2": ("deberta-v2", {}),
    "deberta-v3": ("deberta-v2", V3),
    "deberta, its later head": ("deberta-v2", {**V3, "legacy": False}),
}
DECODERS = {"gpt2": {}, "opt": {"ffn_dim": 32, "word_embed_proj_dim": 16}, "phi": {}}
PUBLISHED_WITH_CODE = ["nomic_bert", "gte", "jina_embeddings_v3", "eurobert"]  # transformers renames their weights
#: Encoders of transformers that no class here names
OTHERS = {
    name: (name, DECODERS.get(name, {}))
    for name in ("albert", "ernie", "roformer", "rembert", "mobilebert", "esm", *PUBLISHED_WITH_CODE, *DECODERS)
}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
BART = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
}  # fmt: skip
#: Encoder-decoders: the encoder is used; of BART and the like the decoder's states, as AutoModel gives them
OF_TWO = {
    "t5": ("t5", T5), "mt5": ("mt5", T5), "whole t5": ("t5", T5), "longt5": ("longt5", T5), "bart": ("bart", BART),
    "mbart": ("mbart", BART),
}  # fmt: skip
#: Of these sentence-transformers opens the class of the encoder, whose weights have other names
WITHOUT_DECODER = {name: (name, BART) for name in ("pegasus", "m2m_100", "marian")}
OF_TWO |= WITHOUT_DECODER
HEADS = {
    **dict.fromkeys(DECODERS, transformers.AutoModelForCausalLM),
    **dict.fromkeys(("t5", "mt5"), transformers.AutoModelForTextEncoding),
    **dict.fromkeys(("longt5", "bart", "mbart", *WITHOUT_DECODER), AutoModel),
    "whole t5": transformers.AutoModelForSeq2SeqLM,
}


def saved(name, tokenizer, folder, head=None):
    """A folder as others save it, often with a head of words."""
    torch.manual_seed(0)
    kind, more = {**NAMED, **OTHERS, **OF_TWO}[name]
    config = transformers.AutoConfig.for_model(kind, **SHAPE | more)
    if name in PUBLISHED_WITH_CODE:
        config.auto_map = {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}
    model = (head or HEADS.get(name, transformers.AutoModelForMaskedLM)).from_config(config)
    if name in NAMED:
        with torch.no_grad():
            for parameter in model.parameters():  # so that they tell tokens and places apart
                parameter.add_(torch.randn_like(parameter) / 8)
    tokenizer = copy.deepcopy(tokenizer)
    if name in DECODERS:  # as theirs: GPT-2 adds the vector of a word for each type of token
        tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = ["input_ids", "attention_mask"]
    save_both(model, tokenizer, folder)
    return model.eval()


def plain(folder, rows):
    """The means by transformers alone."""
    model = AutoModel.from_pretrained(folder).eval()
    runs = model.get_encoder() if hasattr(model, "decoder") and "bart" not in model.config.model_type else model
    states = runs(**rows).last_hidden_state
    return pool([states], rows["attention_mask"], "mean").detach().numpy()


@pytest.fixture
def rows(tokenizer):
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}


@pytest.mark.parametrize("name", [*NAMED, *OTHERS, *OF_TWO])
def test_it_opens_trains_and_is_saved_or_says_in_a_line_what_it_cannot_do(name, tokenizer, rows, tmp_path):
    theirs, folder = tmp_path / "theirs", tmp_path / "ours"
    saved(name, tokenizer, theirs)
    tokenizer = load_tokenizer(theirs)
    model = AutoModelForCL.from_pretrained(theirs, pooling="mean").eval()
    expected = plain(theirs, rows)
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

    save_both(model.eval(), tokenizer, folder)
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    np.testing.assert_array_equal(SentenceEncoder(folder).encode(SENTENCES), ours)
    np.testing.assert_allclose(plain(folder, rows), ours, rtol=0, atol=2e-5)
    np.testing.assert_allclose(peer_vectors(folder, SENTENCES), ours, rtol=0, atol=2e-5)
    if name in OF_TWO:
        layers = model(**rows, output_hidden_states=True)
        torch.testing.assert_close(layers.hidden_states[-1], layers.last_hidden_state)
    elif name in OTHERS:
        for options, word in (({"pooling": "cls"}, "projection"), ({"pooling": "mean", "do_mlm": True}, "known")):
            with pytest.raises(InputError, match=word):
                AutoModelForCL.from_pretrained(theirs, **options)


@pytest.mark.parametrize("name", WITHOUT_DECODER)
def test_an_encoder_that_sentence_transformers_saved_without_its_decoder_opens(name, tokenizer, tmp_path):
    peer = pytest.importorskip("sentence_transformers")
    theirs, encoder, again = tmp_path / "theirs", tmp_path / "encoder", tmp_path / "again"
    saved(name, tokenizer, theirs)
    SentenceEncoder(theirs, pooling="mean").save_pretrained(encoder)
    peer.SentenceTransformer(str(encoder), device="cpu").save_pretrained(str(again))
    vectors = SentenceEncoder(again).encode(SENTENCES)
    for folder in (encoder, again):
        np.testing.assert_allclose(vectors, peer_vectors(folder, SENTENCES), rtol=0, atol=2e-5)


@pytest.mark.allow_warnings  # transformers counts what it leaves out of the base
@pytest.mark.parametrize("head", [AutoModel, transformers.AutoModelForSeq2SeqLM])
@pytest.mark.parametrize("name", WITHOUT_DECODER)
def test_an_adapter_of_such_an_encoder_opens_there(name, head, tokenizer, tmp_path):
    pytest.importorskip("peft")
    saved(name, tokenizer, tmp_path / "base", head)
    model = add_lora(AutoModelForCL.from_pretrained(tmp_path / "base", pooling="mean"), r=2)
    with torch.no_grad():
        for part, weight in model.named_parameters():
            weight += 0.3 * ("lora_B" in part)
    save_both(model.eval(), tokenizer, tmp_path / "adapter")
    vectors = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    for found in (
        SentenceEncoder(tmp_path / "adapter").encode(SENTENCES),
        peer_vectors(tmp_path / "adapter", SENTENCES),
    ):
        np.testing.assert_allclose(vectors, found, rtol=0, atol=2e-5)


def test_a_config_of_two_configs_is_refused_in_a_line():
    with pytest.raises(InputError, match="is a t5gemma, whose config holds one of its encoder"):
        AutoModelForCL.from_config(transformers.T5GemmaConfig())


MIXING = {
    "convbert": {"head_ratio": 1, "conv_kernel_size": 3}, "mobilebert": {}, "nystromformer": {},
    "yoso": {}, "big_bird": {"block_size": 1, "num_random_blocks": 1},
}  # fmt: skip


@pytest.mark.parametrize("kind", MIXING)
def test_a_text_has_one_vector_where_padding_would_change_it(kind, tokenizer, tmp_path):
    torch.manual_seed(0)
    theirs = AutoModel.from_config(transformers.AutoConfig.for_model(kind, **SHAPE | MIXING[kind])).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():  # the vector of padding too, as of published weights
            parameter.add_(torch.randn_like(parameter) / 8)
    save_both(theirs, tokenizer, tmp_path)
    alone = [plain(tmp_path, dict(tokenizer(text, return_tensors="pt"))) for text in SENTENCES]
    encoder = SentenceEncoder(tmp_path, pooling="mean")
    assert len({len(row) for row in encoder.token_rows(SENTENCES)}) > 1
    np.testing.assert_allclose(encoder.encode(SENTENCES), np.concatenate(alone), rtol=0, atol=2e-5)
    (of_stream,) = encoder.encode_buckets([(encoder.token_rows(SENTENCES), "")])
    np.testing.assert_allclose(of_stream, np.concatenate(alone), rtol=0, atol=2e-5)


def test_canine_encodes_and_is_not_trained(tmp_path):
    shape = {"local_transformer_stride": 16, "downsampling_rate": 2, "upsampling_kernel_size": 2,
             "num_hash_buckets": 64, "vocab_size": None}  # fmt: skip
    config = transformers.AutoConfig.for_model("canine", **SHAPE | shape)
    save_both(AutoModel.from_config(config), transformers.CanineTokenizer(model_max_length=30), tmp_path)
    encoder = SentenceEncoder(tmp_path, pooling="mean")
    alone = [encoder.encode(text) for text in SENTENCES]
    np.testing.assert_allclose(encoder.encode(SENTENCES), alone, rtol=0, atol=2e-5)
    with pytest.raises(InputError, match="canine has no table of word embeddings"):
        contrastive(AutoModelForCL.from_pretrained(tmp_path, pooling="mean"))


@pytest.mark.parametrize("kind", ["gpt2", "xlm"])
def test_types_of_tokens_that_are_left_out_here_are_given_to_no_loader(kind, tokenizer, tmp_path):
    """GPT-2 and XLM add the vector of a word for each type."""
    assert "token_type_ids" in tokenizer.model_input_names
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **SHAPE | {"pad_token_id": 1})  # XLM's vector of padding is 0
    encoder = SentenceEncoder(AutoModelForCL.from_config(config, pooling="mean", loss="info_nce").eval(), tokenizer)
    vectors = encoder.encode(SENTENCES)
    encoder.save_pretrained(tmp_path / "first")
    SentenceEncoder(tmp_path / "first").save_pretrained(tmp_path / "again")
    for folder in (tmp_path / "first", tmp_path / "again"):
        np.testing.assert_allclose(SentenceEncoder(folder).encode(SENTENCES), vectors, rtol=0, atol=2e-5)
        batch = transformers.AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
        np.testing.assert_allclose(plain(folder, batch), vectors, rtol=0, atol=2e-5)
        np.testing.assert_allclose(peer_vectors(folder, SENTENCES), vectors, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", NAMED)
def test_the_head_of_words_is_the_checkpoints_own(name, tokenizer, rows, tmp_path):
    theirs = saved(name, tokenizer, tmp_path)
    try:
        type(theirs).from_pretrained(tmp_path)
    except AttributeError as error:
        pytest.skip(f"this version of transformers cannot open what it saved: {error}")
    model = AutoModelForCL.from_pretrained(tmp_path, pooling="mean", do_mlm=True).eval()
    states = model.backbone(**rows).last_hidden_state
    torch.testing.assert_close(model.mlm_logits(states), theirs(**rows).logits, rtol=1e-5, atol=1e-5)
    views = {name: x[:, None].repeat(1, 2, 1) for name, x in rows.items()}
    words = {"mlm_input_ids": views["input_ids"], "mlm_targets": views["input_ids"].clone()}
    model.train()(**views, **words).loss.backward()
    assert not [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]


@pytest.mark.parametrize("name", ["electra", "deberta-v3"])
def test_what_else_a_published_file_holds_is_left_out(name, tokenizer, rows, tmp_path):
    """ELECTRA's discriminator tells replaced words; DeBERTa's files have a generator's head and unread positions."""
    head = transformers.AutoModelForPreTraining if name == "electra" else None
    theirs = saved(name, tokenizer, tmp_path, head)
    if name != "electra":
        path = tmp_path / "model.safetensors"
        more = {"deberta.embeddings.position_embeddings.weight": (40, 16), "mask_predictions.dense.weight": (16, 16)}
        held = {**load_file(path), **{name: torch.randn(shape) for name, shape in more.items()}}
        save_file(held, path, {"format": "pt"})
    model = AutoModelForCL.from_pretrained(tmp_path, pooling="mean").eval()
    states = theirs.base_model(**rows).last_hidden_state
    torch.testing.assert_close(model.backbone(**rows).last_hidden_state, states, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["bert", "bert-generation", "dpr", "gpt2", "t5"])
def test_a_class_is_found_by_its_name(name):
    """Where pickles look for it."""
    assert pickle.loads(pickle.dumps(family(name))) is family(name)


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
