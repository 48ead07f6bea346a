"""One folder, three loaders: this package, plain transformers, plain sentence-transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small_checkpoints import peer_vectors
from transformers import AutoModel, AutoTokenizer

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, BertForCL, InputError, SentenceEncoder
from contrastive_st.models import POOLINGS, pool


@pytest.mark.parametrize(("pooling", "mlp_only_train"), [*((pooling, False) for pooling in POOLINGS), ("cls", True)])
def test_every_loader_gives_the_same_embeddings(bert_config, tokenizer, tmp_path, pooling, mlp_only_train):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = BertForCL(bert_config, pooling=pooling, mlp_only_train=mlp_only_train)
    save_both(model, tokenizer, tmp_path)
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)

    for opened in (BertForCL.from_pretrained(tmp_path), AutoModelForCL.from_pretrained(tmp_path)):
        np.testing.assert_allclose(SentenceEncoder(opened, tokenizer).encode(SENTENCES), ours, rtol=0, atol=1e-6)

    plain = AutoModel.from_pretrained(tmp_path).eval()
    batch = AutoTokenizer.from_pretrained(tmp_path)(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = plain(**batch)
    if pooling == "cls" and not mlp_only_train:
        embeddings = output.pooler_output
    else:  # plain transformers pools nothing but the first token: the rest is one call
        embeddings = pool(output.hidden_states or [output.last_hidden_state], batch["attention_mask"], pooling)
    np.testing.assert_allclose(embeddings.numpy(), ours, rtol=0, atol=1e-6)

    if POOLINGS[pooling].mode is None:
        with pytest.raises(TypeError, match=pooling):
            sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
        return
    peer = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(peer.encode(SENTENCES, show_progress_bar=False), ours, rtol=0, atol=1e-6)
    assert peer.max_seq_length == tokenizer.model_max_length


def _another_pooling(peer, modules):
    return [peer[0], modules.Pooling(16, "max")]


def _without_head(peer, modules):
    return [peer[0], peer[1], modules.Normalize()]


def _trained_head(peer, modules):
    with torch.no_grad():
        peer[2].linear.weight *= 3
    return list(peer)


def _same(peer, modules):
    return list(peer)


def _two_poolings(peer, modules):
    return [peer[0], modules.Pooling(16, ("cls", "max"))]


@pytest.mark.parametrize(("pooling", "change"), [
    ("mean", _another_pooling), ("mean", _two_poolings), ("cls", _another_pooling), ("cls", _without_head),
    ("cls", _trained_head), ("cls", _same),
])  # fmt: skip
def test_what_sentence_transformers_changed_and_saved_holds(bert_config, tokenizer, tmp_path, pooling, change):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules

    save_both(BertForCL(bert_config, pooling=pooling), tokenizer, tmp_path / "ours")
    peer = sentence_transformers.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    changed = sentence_transformers.SentenceTransformer(modules=change(peer, modules), device="cpu")
    changed.save_pretrained(str(tmp_path / "theirs"))
    theirs = changed.encode(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "theirs").encode(SENTENCES), theirs, rtol=0, atol=1e-6)
    if change is _two_poolings:
        with pytest.raises(InputError, match="Pooling"):
            AutoModelForCL.from_pretrained(tmp_path / "theirs")
        return
    trained = SentenceEncoder(AutoModelForCL.from_pretrained(tmp_path / "theirs"), tokenizer)
    np.testing.assert_allclose(trained.encode(SENTENCES), theirs, rtol=0, atol=1e-6)
    trained.save_pretrained(tmp_path / "again")
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "again").encode(SENTENCES), theirs, rtol=0, atol=1e-6)


def test_the_student_in_model_cards_is_small_and_opens_in_sentence_transformers():
    folder = Path(__file__).parents[2] / "model_cards" / "minilm-1-layer"
    assert (folder / "model.safetensors").stat().st_size <= 28 * 2**20
    texts = ["A man is playing a guitar.", "Someone plays an instrument, loudly.", "Tofu is made from soy milk."]
    ours = SentenceEncoder(folder).encode(texts, normalize_embeddings=True)
    assert ours[0] @ ours[1] > 0.5 > abs(ours[0] @ ours[2])
    np.testing.assert_allclose(peer_vectors(folder, texts, normalize_embeddings=True), ours, rtol=0, atol=1e-5)


@pytest.mark.parametrize("whole", [True, False], ids=["all modules", "the transformer alone"])
def test_a_router_whose_routes_share_their_modules_is_opened_without_it(bert_config, tokenizer, tmp_path, whole):
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Router

    save_both(BertForCL(bert_config, pooling="mean", normalize=True), tokenizer, tmp_path / "ours")
    modules = list(library.SentenceTransformer(str(tmp_path / "ours"), device="cpu"))
    shared, after = (modules, []) if whole else (modules[:1], modules[1:])
    router = Router({"query": shared, "document": shared}, default_route="document")
    peer = library.SentenceTransformer(modules=[router, *after], device="cpu")
    peer.save_pretrained(str(tmp_path / "routed"))
    wanted = peer.encode_document(SENTENCES, show_progress_bar=False)
    for opened in (SentenceEncoder(tmp_path / "routed"), SentenceEncoder(peer)):
        np.testing.assert_allclose(opened.encode_query(SENTENCES), wanted, rtol=0, atol=1e-6)
        opened.save_pretrained(tmp_path / "again")
        np.testing.assert_allclose(SentenceEncoder(tmp_path / "again").encode(SENTENCES), wanted, rtol=0, atol=1e-6)
    other = library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    router = Router({"query": shared, "document": [other[0], *shared[1:]]}, default_route="document")
    for refused in (library.SentenceTransformer(modules=[router, *after], device="cpu"), tmp_path / "two"):
        if refused == tmp_path / "two":
            library.SentenceTransformer(modules=[router, *after], device="cpu").save_pretrained(str(refused))
        with pytest.raises(InputError, match="Router"):
            SentenceEncoder(refused)
