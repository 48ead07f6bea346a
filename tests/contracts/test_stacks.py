"""Stacks of modules that sentence-transformers writes: equal vectors and written back, or refused by one true line."""

import copy
import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import BertModel

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, InputError, SentenceEncoder
from contrastive_st.models import EncoderForCL, load_tokenizer
from contrastive_st.models.auto import load_config
from contrastive_st.models.export import export
from contrastive_st.models.protocol import as_encoder, open_encoder

library = pytest.importorskip("sentence_transformers")
modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
D = 16  # as in bert_config


@pytest.fixture
def transformer(bert_config, tokenizer, tmp_path):
    """Makes a `Transformer` of a small BERT."""
    folder = tmp_path / "base"
    save_both(BertModel(copy.deepcopy(bert_config)), tokenizer, folder)
    return lambda settings=None, **config: modules.Transformer(
        str(folder), **{"max_seq_length": 16, "config_kwargs": config, **(settings or {})}
    )


def pooling(*modes, **options):
    return modules.Pooling(D, modes if len(modes) > 1 else modes[0], **options)


def dense(out=D, **options):
    return modules.Dense(D, out, **options)


def table():
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "cat": 1}, unk_token="?"))
    return modules.StaticEmbedding(tokenizer, embedding_dim=8)


def layers(weights, start=1):
    weights = None if weights is None else torch.nn.Parameter(torch.tensor(weights))
    return modules.WeightedLayerPooling(D, num_hidden_layers=2, layer_start=start, layer_weights=weights)


def words(*after):
    tokenizer = modules.tokenizer.WhitespaceTokenizer(["a", "cat", "dog"])
    return [modules.WordEmbeddings(tokenizer, np.random.default_rng(0).normal(size=(3, D)).astype("float32")), *after]


#: The modules after a transformer whose vectors are the same here
EQUAL = {
    **{mode: lambda mode=mode: [pooling(mode)] for mode in (
        "mean", "cls", "max", "lasttoken", "mean_sqrt_len_tokens", "weightedmean")},
    "normalized": lambda: [pooling("mean"), modules.Normalize()],
    "without the prompt": lambda: [pooling("mean", include_prompt=False)],
    "dense": lambda: [pooling("mean"), dense(8, activation_function=torch.nn.GELU())],
    "dense without a bias": lambda: [pooling("cls"), dense(8, bias=False), modules.Normalize()],
    "two dense": lambda: [pooling("max"), dense(), dense(8, activation_function=torch.nn.Identity())],
    "first and last layer": lambda: [layers([0.5, 0.5]), pooling("mean")],
}  # fmt: skip
#: Those that sentence-transformers computes, and that are not trained here: settings of the transformer, the modules
#: after it, and what is said of them
COMPUTED = {
    "two poolings": ({}, lambda: [pooling("mean", "max")], "Pooling by mean.* and max"),
    "layers with other weights": ({}, lambda: [layers([1.0, 2.0]), pooling("mean")], "WeightedLayerPooling"),
    "layer norm": ({}, lambda: [pooling("mean"), modules.LayerNorm(D)], "LayerNorm"),
    "dropout": ({}, lambda: [pooling("mean"), modules.Dropout(0.1)], "Dropout"),
    "convolution": ({}, lambda: [modules.CNN(D, 8, [1, 3]), pooling("mean")], "CNN, Pooling"),
    "residual dense": ({}, lambda: [pooling("mean"), dense(use_residual=True)], "Dense with use_residual"),
    "dense of tokens": ({}, lambda: [
        dense(module_input_name="token_embeddings", module_output_name="token_embeddings"), pooling("mean")], "Dense"),
    "normalize before dense": ({}, lambda: [pooling("mean"), modules.Normalize(), dense()], "Normalize, Dense"),
    "shorter texts": (
        {"processing_kwargs": {"text": {"max_length": 4}}}, lambda: [pooling("mean")], "Transformer with "),
    "no special tokens": (
        {"processing_kwargs": {"common": {"add_special_tokens": False}}}, lambda: [pooling("mean")],
        "Transformer with "),
    "the pooler": ({
        "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
        "module_output_name": "sentence_embedding",
    }, list, "Transformer with "),
}  # fmt: skip
#: Stacks with other vectors for queries than for documents
ROLES = {
    "Router": ({}, lambda: [pooling("mean"), modules.Router.for_query_document(
        [dense(8)], [dense(8)], default_route="document")]),
    "query_length": ({"query_length": 3, "document_length": 5}, lambda: [pooling("mean")]),
}  # fmt: skip
#: Those without a transformer
REFUSED = {
    "bag of words": (lambda: [modules.BoW(vocab=["cat", "dog"])], "BoW"),
    "word vectors": (lambda: words(pooling("mean")), "WordEmbeddings"),
    "cnn": (lambda: words(modules.CNN(D, 8), modules.Pooling(24, "mean")), "WordEmbeddings, CNN"),
    "lstm": (lambda: words(modules.LSTM(D, 8), modules.Pooling(16, "mean")), "WordEmbeddings, LSTM"),
    "router": (lambda: [modules.Router.for_query_document([table()], [table()])], "Router"),
}


def saved(stack, folder):
    peer = library.SentenceTransformer(modules=stack, device="cpu")
    peer.save_pretrained(str(folder), create_model_card=False)
    return peer.eval()


def written_back(encoder, folder):
    encoder.save_pretrained(folder)
    return library.SentenceTransformer(str(folder), device="cpu")


def vectors(peer, **prompt):
    return peer.encode(SENTENCES, batch_size=1, show_progress_bar=False, **prompt)  # a convolution reads padding


@pytest.mark.allow_warnings  # of weights that AutoModel has no use for
@pytest.mark.parametrize("stack", EQUAL)
def test_equal_vectors_and_written_back(stack, transformer, tmp_path):
    needs = {"output_hidden_states": True} if "layer" in stack else {}
    peer = saved([transformer(**needs), *EQUAL[stack]()], tmp_path / "peer")
    prompt = {} if stack != "without the prompt" else {"prompt": "the cat "}
    wanted = vectors(peer, **prompt)
    for model in (tmp_path / "peer", peer):
        np.testing.assert_allclose(SentenceEncoder(model).encode(SENTENCES, **prompt), wanted, atol=1e-5)
    model, tokenizer = AutoModelForCL.from_pretrained(tmp_path / "peer"), load_tokenizer(tmp_path / "peer")
    for encoder in (SentenceEncoder(model, tokenizer), SentenceEncoder(peer)):
        again = written_back(encoder, tmp_path / f"of {type(encoder.model).__name__}")
        np.testing.assert_allclose(vectors(again, **prompt), wanted, atol=1e-5)


@pytest.mark.parametrize("stack", COMPUTED)
def test_equal_vectors_and_not_trained(stack, transformer, tmp_path):
    settings, make, named = COMPUTED[stack]
    needs = {"output_hidden_states": True} if "layers" in stack else {}
    peer = saved([transformer(settings, **needs), *make()], tmp_path / "peer")
    wanted = vectors(peer)
    for model in (tmp_path / "peer", peer):
        encoder = SentenceEncoder(model)
        np.testing.assert_allclose(encoder.encode(SENTENCES), wanted, atol=1e-5)
    np.testing.assert_allclose(vectors(written_back(encoder, tmp_path / "again")), wanted, atol=1e-5)
    assert SentenceEncoder(tmp_path / "again").fingerprint == encoder.fingerprint
    with pytest.raises(InputError, match=f"{named}.*--pooling"):
        AutoModelForCL.from_pretrained(tmp_path / "peer")


CHAT = "{% for m in messages %}{{ m.role + ' : ' + m.content + ' [SEP] ' }}{% endfor %}"


@pytest.fixture
def chat(transformer, tokenizer, tmp_path):
    """A model of sentence-transformers that puts each text into a chat template, with a prompt as another message."""
    changed = copy.deepcopy(tokenizer)
    changed.chat_template = CHAT
    changed.save_pretrained(tmp_path / "base")
    stack = [transformer(), pooling("mean", include_prompt=False)]
    peer = library.SentenceTransformer(modules=stack, device="cpu", prompts={"query": "the cat "})
    peer.save_pretrained(str(tmp_path / "peer"), create_model_card=False)
    return peer.eval()


def test_texts_in_a_chat_template(chat, tmp_path):
    bare, asked = vectors(chat), chat.encode_query(SENTENCES, show_progress_bar=False)
    for model in (tmp_path / "peer", chat):
        encoder = SentenceEncoder(model)
        np.testing.assert_allclose(encoder.encode(SENTENCES), bare, atol=1e-5)
        np.testing.assert_allclose(encoder.encode_query(SENTENCES), asked, atol=1e-5)
        rows = encoder.token_rows(SENTENCES, "the cat ")
        assert rows[0] == chat.preprocess(SENTENCES[:1], "the cat ")["input_ids"][0].tolist()
        np.testing.assert_allclose(encoder.encode_rows(rows, "the cat "), asked, atol=1e-5)
        assert encoder.knows(["", SENTENCES[0]]).tolist() == [False, True]
        again = written_back(encoder, tmp_path / "again")
        np.testing.assert_allclose(again.encode_query(SENTENCES, show_progress_bar=False), asked, atol=1e-5)
        assert SentenceEncoder(tmp_path / "again").fingerprint == encoder.fingerprint
    for refuses in (AutoModelForCL.from_pretrained, lambda folder: export(SentenceEncoder(folder), tmp_path / "graph")):
        with pytest.raises(InputError, match="a chat template, Pooling"):
            refuses(tmp_path / "peer")


def test_it_is_trained_and_saved_without_its_chat_template(chat, tmp_path, caplog):
    encoder = SentenceEncoder(EncoderForCL(chat), chat.tokenizer)
    assert "chat template is left out" in caplog.text
    again = written_back(encoder, tmp_path / "again")
    np.testing.assert_allclose(vectors(again), encoder.encode(SENTENCES), atol=1e-5)
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "again").encode(SENTENCES), vectors(again), atol=1e-5)


def test_a_chat_template_that_reads_queries_otherwise(chat, tmp_path):
    (tmp_path / "peer/chat_template.jinja").write_text(CHAT + "{{ task }}")
    with pytest.raises(InputError, match=r"a task in its chat template.*mining take a SentenceTransformer"):
        SentenceEncoder(tmp_path / "peer")


@pytest.mark.parametrize("stack", REFUSED)
def test_without_a_transformer_it_is_one_true_line(stack, tmp_path):
    make, named = REFUSED[stack]
    saved(make(), tmp_path / "peer")
    for door in (SentenceEncoder, open_encoder, AutoModelForCL.from_pretrained, load_config):
        with pytest.raises(
            InputError, match=rf"^.* by modules of sentence-transformers \({named}.*not by one transformer.*$"
        ):
            door(tmp_path / "peer")


@pytest.mark.parametrize("name", ["tokenizer_args", "processor_kwargs"])
def test_the_maximum_length_of_a_tokenizer_comes_first(name, transformer, tmp_path):
    saved([transformer(), pooling("mean")], tmp_path / "peer")
    path = tmp_path / "peer/sentence_bert_config.json"
    path.write_text(json.dumps({"max_seq_length": 9, name: {"model_max_length": 4}}))
    peer = library.SentenceTransformer(str(tmp_path / "peer"), device="cpu")
    encoder = SentenceEncoder(tmp_path / "peer")
    assert encoder.max_seq_length == peer.max_seq_length == 4
    np.testing.assert_allclose(encoder.encode(SENTENCES), vectors(peer), atol=1e-5)
    path.write_text(json.dumps({"model_kwargs": {"attn_implementation": "someone/kernel"}}))
    with pytest.raises(InputError, match="implementation"):
        SentenceEncoder(tmp_path / "peer")


@pytest.mark.parametrize("name", ROLES)
def test_other_vectors_for_queries(name, transformer, tmp_path):
    settings, make = ROLES[name]
    peer = saved([transformer(settings), *make()], tmp_path / "peer")
    for door in (lambda: SentenceEncoder(tmp_path / "peer"), lambda: SentenceEncoder(peer), lambda: EncoderForCL(peer)):
        with pytest.raises(InputError, match=rf"{name}.*mining take a SentenceTransformer"):
            door()
    encoder = as_encoder(peer)
    for way in ("encode_query", "encode_document"):
        np.testing.assert_array_equal(getattr(encoder, way)(SENTENCES), getattr(peer, way)(SENTENCES))


@pytest.mark.allow_warnings  # of the new layers
def test_models_that_do_not_give_one_vector_per_text(transformer, tmp_path):
    sparse = library.sparse_encoder.modules.SparseAutoEncoder(D, 32, k=4)
    several = library.multi_vector_encoder.modules.MultiVectorMask()
    models = [
        library.CrossEncoder(str(tmp_path / "base"), num_labels=1, device="cpu"),
        library.SparseEncoder(modules=[transformer(), pooling("mean"), sparse], device="cpu"),
        library.MultiVectorEncoder(modules=[transformer(), several], device="cpu"),
    ]
    for model in models:
        kind = type(model).__name__
        model.save_pretrained(str(tmp_path / kind))
        for source in (model, tmp_path / kind):
            with pytest.raises(InputError, match=f"is a {kind} of sentence-transformers.*open it with"):
                SentenceEncoder(source)


def test_what_is_set_on_an_encoder_around_its_modules_is_saved(transformer, tmp_path):
    peer = saved([transformer(), pooling("mean"), modules.LayerNorm(D)], tmp_path / "peer")
    for encoder in (SentenceEncoder(tmp_path / "peer"), SentenceEncoder(peer)):
        encoder.prompts, encoder.default_prompt_name = {"topic": "the cat "}, "topic"
        encoder.max_seq_length, encoder.truncate_dim, encoder.similarity_fn_name = 5, 7, "dot"
        wanted = encoder.encode(SENTENCES)
        again = written_back(encoder, tmp_path / "again")
        np.testing.assert_allclose(vectors(again), wanted, atol=1e-5)
        here = SentenceEncoder(tmp_path / "again")
        np.testing.assert_allclose(here.encode(SENTENCES), wanted, atol=1e-5)
        for one in (again, here):
            kept = (one.max_seq_length, one.truncate_dim, one.similarity_fn_name, one.default_prompt_name)
            assert kept == (5, 7, "dot", "topic")


def test_the_prompt_of_passages_is_that_of_documents(transformer, tmp_path):
    encoder = SentenceEncoder(saved([transformer(), pooling("mean")], tmp_path / "peer"))
    prompts = encoder.prompts = {"query": "a dog ", "passage": "the cat "}
    wanted = encoder.encode_document(SENTENCES)
    for first in (encoder, SentenceEncoder(AutoModelForCL.from_pretrained(tmp_path / "peer", prompts=prompts),
                                           load_tokenizer(tmp_path / "peer"))):  # fmt: skip
        again = written_back(first, tmp_path / "again")
        np.testing.assert_allclose(again.encode_document(SENTENCES, show_progress_bar=False), wanted, atol=1e-5)
        here = SentenceEncoder(tmp_path / "again")
        np.testing.assert_allclose(here.encode_document(SENTENCES), wanted, atol=1e-5)
        assert dict(here.prompts) == prompts
    path = tmp_path / "again/config_sentence_transformers.json"  # not as either library writes it: without `document`
    path.write_text(json.dumps({"prompts": prompts}))
    np.testing.assert_allclose(SentenceEncoder(path.parent).encode_document(SENTENCES), wanted, atol=1e-5)
    peer = library.SentenceTransformer(str(path.parent), device="cpu")
    assert peer.prompts["document"] == ""  # which it takes (docs/disagreements.md)
    theirs = peer.encode_document(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(SentenceEncoder(peer).encode_document(SENTENCES), theirs, atol=1e-5)


def test_what_its_settings_file_may_say(transformer, tmp_path):
    saved([transformer(), pooling("mean")], tmp_path / "peer")
    path = tmp_path / "peer/config_sentence_transformers.json"
    path.write_text(json.dumps({"prompts": {"query": None, "topic": "the "}}))
    assert dict(SentenceEncoder(tmp_path / "peer").prompts) == {"query": "", "topic": "the "}
    path.write_text(json.dumps({"similarity_fn_name": "dot_score"}))
    with pytest.raises(InputError, match="config_sentence_transformers"):
        SentenceEncoder(tmp_path / "peer")
