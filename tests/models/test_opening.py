"""One way to open: every door gives the vectors that the folder says, or the same line on why it cannot."""

import itertools
import json
import subprocess
from copy import deepcopy

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_checkpoints import sentence_transformers_folder
from transformers import BertForMaskedLM, BertModel
from warm_python import python

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, BertForCL, InputError, SentenceEncoder
from contrastive_st.cli import main
from contrastive_st.evaluation.embedding_store import EmbeddingStore
from contrastive_st.hub.convert import convert
from contrastive_st.models import (
    InferSentBiLSTM,
    InferSentConfig,
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    SkipThoughts,
    SkipThoughtsConfig,
    StaticEncoder,
    UniversalConfig,
    UniversalSentenceEncoder,
)
from contrastive_st.models.auto import load_tokenizer
from contrastive_st.models.protocol import as_encoder
from contrastive_st.search.exact import ExactIndex


def bert_folder(folder, config, tokenizer, *modes, **how):
    """A folder as sentence-transformers writes it: a BERT with a pooler that nothing uses, and its modules."""
    model = BertModel(deepcopy(config))
    return sentence_transformers_folder(folder, model, tokenizer, modes, length=9, lower=True, **how)


def simcse_folder(folder, config, tokenizer):
    """A published SimCSE layout: plain BERT names, the trained head in the pooler, no word on pooling."""
    model = BertForCL(deepcopy(config))
    weights = {name.removeprefix("bert."): tensor.clone() for name, tensor in model.state_dict().items()}
    plain = BertModel(deepcopy(config))
    plain.load_state_dict(weights)
    return save_both(plain, tokenizer, folder)


def masked_lm_folder(folder, config, tokenizer):
    return save_both(BertForMaskedLM(deepcopy(config)), tokenizer, folder)


def saved_folder(folder, config, tokenizer, **settings):
    return save_both(BertForCL(deepcopy(config), **settings), tokenizer, folder)


SMALL = {"embedding_size": 8, "hidden_size": 8}
ARCHITECTURES = {
    "quickthoughts": lambda size: QuickThoughtsGRU(QuickThoughtsConfig(vocab_size=size, **SMALL), targets="tfidf_bin"),
    "skipthoughts": lambda size: SkipThoughts(SkipThoughtsConfig(vocab_size=size, **SMALL)),
    "infersent": lambda size: InferSentBiLSTM(InferSentConfig(vocab_size=size, **SMALL)),
    "universal": lambda size: UniversalSentenceEncoder(
        UniversalConfig(vocab_size=size, bigram_buckets=30, similarity="cosine", **SMALL)
    ),
}


def of_architecture(name):
    return lambda folder, _, tokenizer: save_both(ARCHITECTURES[name](len(tokenizer)), tokenizer, folder)


FOLDERS = {
    "dense and normalize": lambda *a: bert_folder(*a, "max_tokens", dense=[(6, "Tanh")], normalize=True),
    "truncated": lambda *a: bert_folder(*a, "mean_tokens", normalize=True, truncate_dim=5),
    "prompted": lambda *a: bert_folder(
        *a, "mean_tokens", prompts={"query": "the cat ", "document": "town "}, default_prompt_name="query"
    ),
    "by length": lambda *a: bert_folder(*a, "mean_sqrt_len_tokens"),
    "two poolings": lambda *a: bert_folder(*a, "mean_tokens", "max_tokens"),
    "own cls": lambda *a: saved_folder(*a, pooling="cls"),
    "own mlp_only_train": lambda *a: saved_folder(*a, pooling="cls", mlp_only_train=True),
    "own layers": lambda *a: saved_folder(*a, pooling="avg_first_last"),
    **{name: of_architecture(name) for name in ARCHITECTURES},
}
UNKNOWN = {"simcse": simcse_folder, "masked lm": masked_lm_folder}


@pytest.fixture
def folder(request, bert_config, tokenizer, tmp_path):
    (tmp_path / "model").mkdir()
    return {**FOLDERS, **UNKNOWN}[request.param](tmp_path / "model", bert_config, tokenizer)


def cosines(a, b):
    a, b = (np.asarray(x, dtype=np.float64) for x in (a, b))
    return ((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min()


def encoded(folder, out, *flags):
    assert main(["encode", str(out / "texts.txt"), "-m", str(folder), "-o", str(out / "v.npy"), *flags]) == 0
    return np.load(out / "v.npy")


def indexed(folder, out, *flags):
    where = str(out / "shards")
    assert (
        main(["index", str(out / "texts.txt"), "-m", str(folder), "--output", where, "--precision", "fp32", *flags])
        == 0
    )
    return next(ExactIndex.open(where).scan())[3]


@pytest.mark.parametrize("folder", FOLDERS, indirect=True)
def test_every_door_gives_the_vectors_that_the_folder_says(request, folder, tmp_path, capsys):
    peer = pytest.importorskip("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    texts = [*SENTENCES, "The CAT " * 30]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    wanted = peer.encode(texts, show_progress_bar=False)
    encoder = SentenceEncoder(folder)
    ours = encoder.encode(texts)
    np.testing.assert_allclose(ours, wanted, atol=1e-5)
    assert cosines(ours, wanted) >= 0.99999
    np.testing.assert_allclose(encoded(folder, tmp_path), wanted, atol=1e-5)
    as_documents = peer.encode_document(texts, show_progress_bar=False)
    assert cosines(indexed(folder, tmp_path), as_documents) >= 0.99999
    assert cosines(EmbeddingStore(as_encoder(folder), texts)(texts), wanted) >= 0.99999
    np.testing.assert_allclose(encoder.similarity(texts, texts), peer.similarity(wanted, wanted), atol=1e-4)
    capsys.readouterr()
    assert main(["similarity", texts[0], texts[1], "-m", str(folder)]) == 0
    assert float(capsys.readouterr().out) == pytest.approx(float(peer.similarity(wanted[0], wanted[1])[0, 0]), abs=2e-4)

    encoder.save_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "saved").encode(texts), ours, atol=1e-6)
    kind = request.node.callspec.params["folder"]
    start = lambda: SentenceEncoder(AutoModelForCL.from_pretrained(folder), load_tokenizer(folder))  # as `train` has it
    changed = lambda: SentenceEncoder(convert(folder, tmp_path / "new", "package"))
    for job, refused in ((start, ["two poolings"]), (changed, ["two poolings", *ARCHITECTURES])):
        if kind in refused:
            with pytest.raises(InputError, match=r"support|layout"):
                job()
        else:
            np.testing.assert_allclose(job().encode(texts), wanted, atol=1e-5)


BARE = """
import sys
sys.modules["contrastive_st"] = None  # not installed
import torch
from transformers import AutoModel
ids = torch.tensor([[2, 3, 4], [8, 9, 0]])
for folder in sys.argv[1:]:
    model = AutoModel.from_pretrained(folder, trust_remote_code=True)
    torch.save(model(ids, attention_mask=(ids > 0).long()).pooler_output, folder + "/found.pt")
"""


@pytest.mark.slow
def test_an_architecture_of_this_package_opens_where_it_is_not_installed(tmp_path):
    models = {name: make(90).eval() for name, make in ARCHITECTURES.items()}
    models["static"] = StaticEncoder.from_table(torch.randn(90, 8)).eval()
    for name, model in models.items():
        model.drop_heads()
        model.save_pretrained(tmp_path / name, **({"storage": "int8"} if name == "static" else {}))
    subprocess.run([python(), "-c", BARE, *(str(tmp_path / name) for name in models)], check=True, timeout=300)
    ids = torch.tensor([[2, 3, 4], [8, 9, 0]])
    for name in models:
        wanted = AutoModelForCL.from_pretrained(tmp_path / name)(ids, attention_mask=(ids > 0).long()).pooler_output
        torch.testing.assert_close(torch.load(tmp_path / name / "found.pt"), wanted)


@pytest.mark.parametrize("folder", UNKNOWN, indirect=True)
def test_where_nothing_says_how_it_pools_every_door_says_the_same(folder, tmp_path, capsys):
    name, out = str(folder), str(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    (tmp_path / "data").mkdir()
    texts, lines = str(tmp_path / "texts.txt"), set()
    for command in (
        ["encode", texts, "-m", name, "-o", f"{out}/v.npy"],
        ["similarity", "a", "b", "-m", name],
        ["index", texts, "-m", name, "--output", f"{out}/index"],
        ["convert", name, f"{out}/new", "--to", "package"],
        ["neighbors", name, "--corpus", texts, "--query", "a cat"],
        ["classify", texts, "-m", name, "--train_file", f"a={texts}", f"b={texts}"],
    ):
        assert main(command) == 2, command
        lines.add(capsys.readouterr().err.strip().removeprefix("error: "))
    for job in (lambda: SentenceEncoder(name), lambda: as_encoder(name), lambda: AutoModelForCL.from_pretrained(name)):
        with pytest.raises(InputError) as caught:
            job()
        lines.add(str(caught.value))
    assert len(lines) == 1, lines
    assert "give --pooling" in lines.pop()
    mean = SentenceEncoder(folder, pooling="mean").encode(SENTENCES)
    np.testing.assert_allclose(encoded(folder, tmp_path, "--pooling", "mean"), mean, atol=1e-6)
    assert cosines(indexed(folder, tmp_path, "--pooling", "mean"), mean) >= 0.99999
    assert main(["search", SENTENCES[1], "--store", f"{out}/shards", "-k", "1", "--json"]) == 0  # with the same pooling
    assert json.loads(capsys.readouterr().out)["text"] == SENTENCES[1]
    start = AutoModelForCL.from_pretrained(folder, pooling="mean")
    assert cosines(SentenceEncoder(start, load_tokenizer(folder)).encode(SENTENCES), mean) >= 0.99999


def test_a_head_that_was_never_trained_is_never_used(bert_config, tokenizer, tmp_path):
    for name, make in UNKNOWN.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name, bert_config, tokenizer)
    published = SentenceEncoder(tmp_path / "simcse", pooling="cls")
    assert published.pooling == "cls"
    assert published.encode("a cat").shape == (16,)
    with pytest.raises(InputError, match="projection"):
        SentenceEncoder(tmp_path / "masked lm", pooling="cls")
    weights = load_file(tmp_path / "simcse" / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if "pooler" not in name}
    save_file(kept, tmp_path / "simcse" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="projection"):
        SentenceEncoder(tmp_path / "simcse", pooling="cls")
    torch.manual_seed(1)
    assert AutoModelForCL.from_pretrained(tmp_path / "masked lm", pooling="cls").uses_head  # training draws one


def test_a_tokenizer_that_knows_no_length_trains_and_encodes(tokenizer, bert_config, tmp_path):
    """transformers says 1e30 of such a tokenizer; the model's positions, or --max_length, are what counts."""
    own, start, long = deepcopy(tokenizer), tmp_path / "start", "the cat sat on a mat " * 400
    own.model_max_length = int(1e30)
    model = BertForCL(bert_config, pooling="mean")
    save_both(model, own, start)
    settings = json.loads((start / "tokenizer_config.json").read_text())
    assert settings.pop("model_max_length") > 1e29
    (start / "tokenizer_config.json").write_text(json.dumps(settings))
    for encoder in (SentenceEncoder(start), SentenceEncoder(model, own)):
        assert np.isfinite(encoder.encode([long, "a cat"])).all()
    rows = [f"{text},{other}" for text, other in itertools.pairwise([*SENTENCES, long])]
    (tmp_path / "rows.csv").write_text("\n".join(["anchor,positive", *rows]))
    given = ["--train_file", str(tmp_path / "rows.csv"), "--model_name_or_path", str(start), "--max_length", "16"]
    size = ["--output_dir", str(tmp_path / "out"), "--max_steps", "2", "--per_device_train_batch_size", "4"]
    assert main(["train", "cert", *given, *size]) == 0
    assert np.isfinite(SentenceEncoder(tmp_path / "out", pooling="mean").encode(long)).all()


@pytest.mark.allow_warnings  # of sentence-transformers' model: that its pooler is drawn at random
@pytest.mark.parametrize("folder", ["truncated", "two poolings"], indirect=True)
def test_a_pooler_that_no_file_has_leaves_the_fingerprint_as_it_is(folder, tmp_path):
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if "pooler" not in name}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    encoder = SentenceEncoder(folder)
    encoder.save_pretrained(tmp_path / "saved")
    assert SentenceEncoder(folder).fingerprint == encoder.fingerprint
    assert SentenceEncoder(tmp_path / "saved").fingerprint == encoder.fingerprint
