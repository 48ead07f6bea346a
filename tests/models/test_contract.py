"""What users of transformers expect of a model: outputs, keywords, adapters; and encoders of encoder-decoders."""

import copy

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from tokenizers.processors import TemplateProcessing

from conftest import SENTENCES, save_both
from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    EncoderForCL,
    InputError,
    QuickThoughtsGRU,
    SentenceEncoder,
    StaticEncoder,
)
from contrastive_st.cli import main
from contrastive_st.data import PairCollator
from contrastive_st.models import (
    InferSentBiLSTM,
    InferSentConfig,
    ModernBertForCL,
    QuickThoughtsConfig,
    Qwen3ForCL,
    SkipThoughts,
    SkipThoughtsConfig,
    StaticConfig,
    UniversalConfig,
    UniversalSentenceEncoder,
)
from contrastive_st.models.checkpoint import max_positions
from contrastive_st.models.families import family as class_of

pytestmark = pytest.mark.allow_warnings  # transformers' own, of modules that it imports first here


@pytest.fixture
def rows(tokenizer):
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}


@pytest.fixture
def folder(bert_config, tokenizer, tmp_path):
    return save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "base")


@pytest.mark.parametrize("pooling", ["mean", "cls", "avg_top2"])
def test_hidden_states_and_attentions(pooling, bert_config, rows):
    bert_config._attn_implementation = "eager"
    model = BertForCL(bert_config, pooling=pooling).eval()
    theirs = model.backbone(**rows, output_hidden_states=True, output_attentions=True)
    ours = model(**rows, output_hidden_states=True, output_attentions=True)
    for name in ("hidden_states", "attentions"):
        for a, b in zip(getattr(ours, name), getattr(theirs, name), strict=True):
            torch.testing.assert_close(a, b)
    plain = model(**rows)
    torch.testing.assert_close(plain.pooler_output, ours.pooler_output)
    assert plain.attentions is None
    assert (plain.hidden_states is None) == (pooling != "avg_top2")  # which reads them
    model.config.output_hidden_states = True
    assert len(model(**rows).hidden_states) == len(theirs.hidden_states)
    assert model(**rows, return_dict=False)[0].shape == theirs.last_hidden_state.shape
    views = {name: x[:, None].repeat(1, 2, 1) for name, x in rows.items()}
    assert model(**views, output_hidden_states=True).loss.shape == ()


def test_keywords_of_the_base_class(folder, rows):
    model = AutoModelForCL.from_pretrained(pretrained_model_name_or_path=folder).eval()
    same, info = BertForCL.from_pretrained(pretrained_model_name_or_path=str(folder), output_loading_info=True)
    assert torch.equal(model(**rows).pooler_output, same.eval()(**rows).pooler_output)
    assert not info["mismatched_keys"]
    model.save_pretrained(folder, variant="fp16")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no safetensors weights"):
        BertForCL.from_pretrained(folder)
    again = AutoModelForCL.from_pretrained(folder, variant="fp16").eval()
    assert torch.equal(model(**rows).pooler_output, again(**rows).pooler_output)


def test_a_word_added_to_the_tokenizer_alone_is_the_same_line_in_training(folder, tokenizer, tmp_path, capsys):
    with_word = transformers.AutoTokenizer.from_pretrained(folder)
    with_word.add_tokens(["zebra"])
    with_word.save_pretrained(folder)
    (tmp_path / "texts.txt").write_text("\n".join(["a zebra ran far away", *SENTENCES]), encoding="utf-8")
    flags = ["--model_name_or_path", str(folder), "--train_file", str(tmp_path / "texts.txt"), "--max_steps", "2",
             "--output_dir", str(tmp_path / "run"), "--per_device_train_batch_size", "9",
             "--report_to", "none"]  # fmt: skip
    with pytest.raises(InputError, match="'zebra'") as encoded:
        SentenceEncoder(folder).encode("a zebra")
    assert main(["train", *flags]) == 2
    assert str(encoded.value).partition(" has ")[2] in capsys.readouterr().err
    model = AutoModelForCL.from_pretrained(folder)
    model.resize_token_embeddings(len(with_word))  # what the line says
    model.save_pretrained(folder)
    assert SentenceEncoder(folder).encode("a zebra").shape == (16,)


BERT = {
    "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "cls_token_id": 1, "sep_token_id": 1,
}  # fmt: skip
SHAPE = {
    "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "pad_token_id": 0,
    "decoder_start_token_id": 0,
}  # fmt: skip
RESIZED = {
    "multichannel": lambda: QuickThoughtsGRU(
        QuickThoughtsConfig(vocab_size=20, embedding_size=4, hidden_size=8, word_vectors="multichannel")
    ),
    "frozen": lambda: QuickThoughtsGRU(
        QuickThoughtsConfig(vocab_size=20, embedding_size=4, hidden_size=8, word_vectors="frozen")
    ),
    "weighted": lambda: QuickThoughtsGRU(
        QuickThoughtsConfig(vocab_size=20, embedding_size=4, encoder="mean", word_weights=True)
    ),
    "skipthoughts": lambda: SkipThoughts(SkipThoughtsConfig(vocab_size=20, embedding_size=4, hidden_size=8)),
    "infersent": lambda: InferSentBiLSTM(InferSentConfig(vocab_size=20, embedding_size=4, hidden_size=8)),
    "universal": lambda: UniversalSentenceEncoder(UniversalConfig(vocab_size=20, embedding_size=4, hidden_size=8)),
    "bert": lambda: BertForCL(transformers.BertConfig(**BERT), pooling="mean", do_mlm=True),
    "modernbert": lambda: ModernBertForCL(transformers.ModernBertConfig(**BERT), pooling="mean"),
    "qwen3": lambda: Qwen3ForCL(transformers.Qwen3Config(**BERT, num_key_value_heads=1, head_dim=8)),
    "t5": lambda: class_of("t5")(transformers.T5Config(vocab_size=20, **SHAPE), pooling="mean"),
    "static": lambda: StaticEncoder(StaticConfig(vocab_size=20, hidden_size=8)),
}


@pytest.mark.parametrize("name", RESIZED)
@pytest.mark.parametrize("size", [30, 11])
def test_tables_are_resized_whole(name, size, tmp_path):
    model = RESIZED[name]().eval()
    ids = torch.randint(1, 11, (3, 5))
    before = model(ids).pooler_output
    assert model.get_input_embeddings() is not None
    model.resize_token_embeddings(size)
    assert torch.equal(model(ids).pooler_output, before)
    assert model.config.vocab_size == size
    more = torch.full((1, 3), size - 1)
    model.save_pretrained(tmp_path)
    again = AutoModelForCL.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(more).pooler_output, model.eval()(more).pooler_output)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("config", [
    transformers.XLNetConfig(d_model=16, n_layer=1, n_head=2, d_inner=32, initializer_range=1.0),  # without a limit
    transformers.MambaConfig(hidden_size=16, num_hidden_layers=1),  # which names its layers `backbone`
    transformers.BertConfig(**BERT, initializer_range=1.0),
])  # fmt: skip
def test_families_as_sentence_transformers_runs_them(config, tokenizer, tmp_path):
    """With a tokenizer that gives types to special tokens, as that of XLNet does."""
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules

    config.vocab_size = len(tokenizer)
    types = TemplateProcessing(single="[CLS]:1 $A:0 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names, backend = tokenizer.model_input_names, copy.deepcopy(tokenizer.backend_tokenizer)
    backend.post_processor = types
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", model_input_names=names
    )
    save_both(transformers.AutoModel.from_config(config), tokenizer, tmp_path / "base")
    stack = [modules.Transformer(str(tmp_path / "base")), modules.Pooling(16)]
    peer = library.SentenceTransformer(modules=stack, device="cpu")
    peer.save_pretrained(str(tmp_path / "peer"), create_model_card=False)
    wanted, encoder = peer.eval().encode(SENTENCES, show_progress_bar=False), SentenceEncoder(tmp_path / "peer")
    for own in (encoder, SentenceEncoder(peer)):
        np.testing.assert_allclose(own.encode(SENTENCES), wanted, atol=1e-5)
    batch = PairCollator(encoder.tokenizer)([{"input_ids": encoder.token_rows(SENTENCES)}])
    np.testing.assert_allclose(encoder.model(**batch).views[0].detach(), wanted, atol=1e-5)


@pytest.mark.allow_warnings
def test_a_model_of_sentence_transformers_is_trained_and_used_as_it_encodes(tokenizer, tmp_path):
    """GPT-2, which adds the vector of a type of 0, and a plain module of torch."""
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules

    class Plain(torch.nn.Module):
        def forward(self, features):
            return features

    config = transformers.GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, initializer_range=1.0)
    save_both(transformers.GPT2Model(config), tokenizer, tmp_path)
    stack = [modules.Transformer(str(tmp_path)), modules.Pooling(16), Plain()]
    peer = library.SentenceTransformer(modules=stack, device="cpu").eval()
    wanted, encoder = peer.encode(SENTENCES, show_progress_bar=False), SentenceEncoder(peer)
    trained = EncoderForCL(peer)
    for own in (encoder, SentenceEncoder(trained, encoder.tokenizer)):
        np.testing.assert_allclose(own.encode(SENTENCES), wanted, atol=1e-5)
    batch = PairCollator(encoder.tokenizer)([{"input_ids": encoder.token_rows(SENTENCES)}])
    np.testing.assert_allclose(trained(**batch).views[0].detach(), wanted, atol=1e-5)


@pytest.mark.allow_warnings
def test_a_folder_as_of_sentence_t5(tokenizer, tmp_path):
    """An encoder alone, the mean, a projection without bias, unit vectors: sentence-t5, gtr-t5, instructor."""
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers import models as modules

    theirs = transformers.T5EncoderModel(transformers.T5Config(vocab_size=len(tokenizer), **SHAPE)).half()
    save_both(theirs, tokenizer, tmp_path / "t5")
    dense = modules.Dense(16, 6, bias=False, activation_function=torch.nn.Identity())
    parts = [modules.Transformer(str(tmp_path / "t5")), modules.Pooling(16), dense, modules.Normalize()]
    library.SentenceTransformer(modules=parts, device="cpu").float().save_pretrained(str(tmp_path / "peer"))
    wanted = library.SentenceTransformer(str(tmp_path / "peer"), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "peer").encode(SENTENCES), wanted, atol=1e-5)
    SentenceEncoder(tmp_path / "peer").save_pretrained(tmp_path / "again")
    again = library.SentenceTransformer(str(tmp_path / "again"), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(again, wanted, atol=1e-5)
    assert not any("decoder" in name for name in load_file(tmp_path / "again" / "model.safetensors"))


def test_the_decoder_of_led_limits_a_text():
    """It has fewer positions than the encoder, and reads the text too."""
    config = transformers.LEDConfig(max_encoder_position_embeddings=64, max_decoder_position_embeddings=16)
    assert max_positions(config) == 16
