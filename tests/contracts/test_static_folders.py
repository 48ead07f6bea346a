"""Static models of sentence-transformers and model2vec: equal vectors, and written back."""

import itertools
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file
from small_checkpoints import peer_vectors
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from conftest import SENTENCES, save_both
from contrastive_st import (
    AutoModelForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    PairCollator,
    SentenceEncoder,
    StaticEncoder,
)
from contrastive_st.files.folders import SHIPPED
from contrastive_st.models import load_tokenizer
from contrastive_st.models.protocol import open_encoder
from contrastive_st.scripts.arguments import EncoderArguments
from contrastive_st.scripts.encoder import no_prompts, open_encoder as open_encoder_to_train

library = pytest.importorskip("sentence_transformers")
model2vec = pytest.importorskip("model2vec")
LONG = "the cat sat on a mat and an unknownword ran away " * 250
TEXTS = [*SENTENCES, "unknownword", "unknownword cat", LONG, ""]


def words():
    vocabulary = {
        word: number for number, word in enumerate(["[PAD]", "[UNK]", *sorted({*" ".join(SENTENCES).split()})])
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def static_module():
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    table = np.random.default_rng(0).normal(size=(words().get_vocab_size(), 8)).astype(np.float32)
    return StaticEmbedding(words(), embedding_weights=table)


def normalize():
    from sentence_transformers.sentence_transformer.modules import Normalize

    return Normalize()


STACKS = {
    "table": lambda: [static_module()],
    "unit vectors": lambda: [static_module(), normalize()],
    "shipped": lambda: list(library.SentenceTransformer(str(SHIPPED), device="cpu")),
}


@pytest.mark.parametrize("stack", STACKS)
def test_of_sentence_transformers(stack, tmp_path):
    peer = library.SentenceTransformer(modules=STACKS[stack](), device="cpu")
    peer.save_pretrained(str(tmp_path / "peer"))
    wanted = peer.encode(TEXTS, show_progress_bar=False)
    for encoder in (SentenceEncoder(tmp_path / "peer"), open_encoder(tmp_path / "peer"), SentenceEncoder(peer)):
        np.testing.assert_allclose(encoder.encode(TEXTS), wanted, atol=1e-5)
    model = AutoModelForCL.from_pretrained(tmp_path / "peer")
    tokenizer = load_tokenizer(tmp_path / "peer")
    np.testing.assert_allclose(SentenceEncoder(model, tokenizer).encode(TEXTS[:8]), wanted[:8], atol=1e-5)
    save_both(model, tokenizer, tmp_path / "again")
    np.testing.assert_allclose(peer_vectors(tmp_path / "again", TEXTS), wanted, atol=1e-5)


def test_an_object_is_trained(tmp_path):
    peer = library.SentenceTransformer(modules=[static_module()], device="cpu")
    tokenizer = SentenceEncoder(peer).tokenizer
    rows = [{"input_ids": [tokenizer(text)["input_ids"] for text in pair]} for pair in itertools.pairwise(SENTENCES)]
    before = peer.encode(SENTENCES)
    trainer = ContrastiveTrainer(
        model=peer, train_dataset=rows, data_collator=PairCollator(tokenizer),
        args=ContrastiveTrainingArguments(
            str(tmp_path), max_steps=2, per_device_train_batch_size=4, learning_rate=0.1,
            report_to="none", disable_tqdm=True,
        ),
    )  # fmt: skip
    trainer.train()
    assert np.abs(peer.encode(SENTENCES) - before).max() > 0.01


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("extra", ["plain", "weights", "vocabulary", "no limit"])
def test_of_model2vec(kind, extra, tmp_path):
    tokenizer, generator = words(), np.random.default_rng(1)
    size = tokenizer.get_vocab_size()
    rows = 9 if extra == "vocabulary" else size
    table = generator.normal(size=(rows, 8)).astype(np.float32)
    table = (table * 40).astype(np.int8) if kind == "int8" else table.astype(kind)
    given = {"weights": generator.random(size).astype(np.float32)} if extra in ("weights", "vocabulary") else {}
    given |= {"token_mapping": generator.integers(0, rows, size)} if extra == "vocabulary" else {}
    given |= {"max_length": None} if extra == "no limit" else {}
    config = {"model_type": "model2vec", "normalize": extra != "weights"}
    peer = model2vec.StaticModel(table, tokenizer, config=config, **given)
    peer.save_pretrained(str(tmp_path / "peer"))
    peer = model2vec.StaticModel.from_pretrained(str(tmp_path / "peer"))
    wanted = peer.encode(TEXTS)
    for encoder in (SentenceEncoder(tmp_path / "peer"), open_encoder(tmp_path / "peer")):
        np.testing.assert_allclose(encoder.encode(TEXTS), wanted, atol=2e-3 if kind == "float16" else 1e-4)
    shutil.copytree(tmp_path / "peer", tmp_path / "trained")
    model = AutoModelForCL.from_pretrained(tmp_path / "trained")
    assert model.config.vocab_size == size
    with pytest.raises(InputError, match=r"not a StaticEncoder; open it with AutoModelForCL"):
        StaticEncoder.from_pretrained(tmp_path / "trained")
    save_both(model, load_tokenizer(tmp_path / "trained"), tmp_path / "again")
    SentenceEncoder(tmp_path / "peer").save_pretrained(tmp_path / "twice")
    for folder in ("again", "twice"):
        held = load_file(tmp_path / folder / "model.safetensors")
        assert str(held["embeddings"].dtype) == f"torch.{kind}"  # as it came
        for loaded in (SentenceEncoder(tmp_path / folder), model2vec.StaticModel.from_pretrained(tmp_path / folder)):
            np.testing.assert_allclose(loaded.encode(TEXTS), wanted, atol=2e-3 if kind == "float16" else 1e-4)


def with_special_tokens():
    tokenizer = words()
    tokenizer.post_processor = processors.TemplateProcessing(single="[UNK] $A [PAD]",
                                                             special_tokens=[("[UNK]", 1), ("[PAD]", 0)])  # fmt: skip
    return tokenizer


@pytest.mark.parametrize("config", [{}, {"model_type": "model2vec"}, {"max_length": 5}], ids=str)
@pytest.mark.parametrize("tokenizer", [words, with_special_tokens])
def test_of_model2vec_whatever_is_asked_saved_or_trained(tokenizer, config, tmp_path):
    """Without unknown and special tokens, and cut to characters and tokens, in numpy and in torch."""
    table = np.random.default_rng(3).normal(size=(words().get_vocab_size(), 8)).astype(np.float32)
    given = {"max_length": config.get("max_length", 512), "normalize": True}
    model2vec.StaticModel(table, tokenizer(), config=config, **given).save_pretrained(str(tmp_path / "peer"))
    wanted = model2vec.StaticModel.from_pretrained(str(tmp_path / "peer")).encode(TEXTS)
    encoder = SentenceEncoder(tmp_path / "peer")
    assert encoder.max_seq_length == given["max_length"]
    before = encoder.fingerprint
    assert len(encoder.encode("unknownword cat", output_value="token_embeddings")) == 1
    assert encoder.tokenizer("cat")["input_ids"] == encoder.token_rows(["cat"])[0]
    np.testing.assert_allclose(encoder.encode(TEXTS), wanted, atol=1e-5)
    assert encoder.fingerprint == before
    encoder.save_pretrained(tmp_path / "again")
    model, ids = AutoModelForCL.from_pretrained(tmp_path / "peer"), load_tokenizer(tmp_path / "peer")
    model.save_pretrained(tmp_path / "trained")
    ids.save_pretrained(tmp_path / "trained")
    for folder in ("again", "trained"):
        loaded = SentenceEncoder(tmp_path / folder)
        assert loaded.max_seq_length == given["max_length"]
        for vectors in (
            loaded.encode(TEXTS),
            SentenceEncoder(loaded.model, loaded.tokenizer).encode(TEXTS),
            model2vec.StaticModel.from_pretrained(str(tmp_path / folder)).encode(TEXTS),
        ):
            np.testing.assert_allclose(vectors, wanted, atol=1e-5)
    rows = ids(["unknownword cat", "cat"], padding=True, return_tensors="pt")
    both = model(rows["input_ids"], attention_mask=rows["attention_mask"]).pooler_output.detach().numpy()
    np.testing.assert_allclose(both, encoder.encode(["cat", "cat"]), atol=1e-5)


def test_of_sentence_transformers_that_truncates(tmp_path):
    """`StaticEmbedding` cuts texts as its tokenizer.json says."""
    module = static_module()
    module.tokenizer.enable_truncation(4)
    peer = library.SentenceTransformer(modules=[module], device="cpu")
    peer.save_pretrained(str(tmp_path / "peer"))
    wanted = peer.encode(TEXTS, show_progress_bar=False)
    encoder = SentenceEncoder(tmp_path / "peer")
    encoder.save_pretrained(tmp_path / "again")
    for own in (encoder, SentenceEncoder(peer), SentenceEncoder(tmp_path / "again")):
        assert own.max_seq_length == 4
        np.testing.assert_allclose(own.encode(TEXTS), wanted, atol=1e-5)
    np.testing.assert_allclose(peer_vectors(tmp_path / "again", TEXTS), wanted, atol=1e-5)


def test_train_starts_from_a_table_alone(tmp_path):
    """A folder without a config.json; TSDAE needs a transformer, and says so."""
    library.SentenceTransformer(modules=[static_module()], device="cpu").save(str(tmp_path / "table"))
    args = EncoderArguments(model_name_or_path=str(tmp_path / "table"))
    model, tokenizer = open_encoder_to_train(args, [])
    expected = SentenceEncoder(str(tmp_path / "table")).encode(SENTENCES)
    assert np.allclose(SentenceEncoder(model, tokenizer).encode(SENTENCES), expected, atol=1e-6)
    with pytest.raises(InputError, match="transformer"):
        no_prompts(args, "TSDAE")


def test_the_first_word_of_a_table_without_padding_is_not_cut_out_of_others(tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1, "cat": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model2vec.StaticModel(np.eye(3, dtype=np.float32), tokenizer).save_pretrained(str(tmp_path))
    assert load_tokenizer(tmp_path)("cat a dog")["input_ids"] == [2, 0, 1]
    assert SentenceEncoder(tmp_path).encode("cat a", output_value="token_embeddings").argmax(1).tolist() == [2, 0]
