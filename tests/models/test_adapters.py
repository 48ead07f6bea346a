"""LoRA: an adapter folder opens on its base in every loader, merged or not, and what peft writes opens here."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import error_of, told
from safetensors import safe_open
from small_checkpoints import peer_vectors, tiny_bert
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM, BertModel, DistilBertConfig

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, BertForCL, DistilBertForCL, InputError, SentenceEncoder
from contrastive_st.cli import main
from contrastive_st.errors import one_line
from contrastive_st.files.folders import ADAPTER, ADAPTER_WEIGHTS
from contrastive_st.hub.convert import convert, merge
from contrastive_st.hub.push import dry_run
from contrastive_st.models import Qwen3ForCL, add_lora, pool
from contrastive_st.models.adapters import has_adapter
from contrastive_st.models.auto import load_tokenizer
from contrastive_st.models.wrapped import contrastive
from contrastive_st.training.metadata import adapter_of
from contrastive_st.vectors import unit_vectors


def trained(model):
    """Any weights but zeros in B, as after training, and in the head."""
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += torch.randn_like(parameter) / 10
    return model


@pytest.fixture(scope="module")
def base(tokenizer, tmp_path_factory):
    config = tiny_bert(tokenizer, num_hidden_layers=2, initializer_range=0.3)
    return save_both(BertForCL(config, pooling="mean"), tokenizer, tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def saved(base, tokenizer, tmp_path_factory):
    model = trained(add_lora(AutoModelForCL.from_pretrained(base, pooling="mean"), r=4))
    return save_both(model, tokenizer, tmp_path_factory.mktemp("adapter"))


@pytest.fixture
def adapter(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "adapter"))


def plain(folder, pooling):
    """By transformers, which puts an adapter on its base by itself."""
    model = AutoModel.from_pretrained(folder).eval()
    batch = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
    return pool(states, batch["attention_mask"], pooling).numpy()


def equal(a, b):
    np.testing.assert_allclose(unit_vectors(a), unit_vectors(b), rtol=0, atol=3e-6)


def test_the_formula(base):
    """`W + (alpha / r) B A`, of every linear layer but the head."""
    model = trained(add_lora(AutoModelForCL.from_pretrained(base), r=4, alpha=12))
    weights = {name.replace(".base_layer", ""): x.clone() for name, x in model.state_dict().items()}
    names = {name.rpartition(".lora_A.")[0] for name in weights if ".lora_A." in name}
    before = AutoModelForCL.from_pretrained(base)
    assert names == {
        name for name, module in before.named_modules() if isinstance(module, torch.nn.Linear) and "pooler" not in name
    }
    assert all("lora_" in name for name, parameter in model.named_parameters() if parameter.requires_grad)
    x = torch.randn(3, 16, dtype=torch.float32)
    for name in names:
        if name.endswith("query"):
            down, up = (weights[f"{name}.lora_{part}.default.weight"] for part in "AB")
            y = torch.nn.functional.linear(x, weights[f"{name}.weight"] + 3 * up @ down, weights[f"{name}.bias"])
            torch.testing.assert_close(model.get_submodule(name)(x), y, rtol=1e-5, atol=1e-5)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("pooling", ["cls", "avg_first_last"])
def test_adapter_and_merged_folder_give_the_same_embeddings_in_every_loader(base, tokenizer, tmp_path, pooling):
    model = AutoModelForCL.from_pretrained(base, pooling=pooling, temperature=0.07)
    torch.testing.assert_close(  # before training an adapter changes nothing
        add_lora(AutoModelForCL.from_pretrained(base, pooling=pooling)).eval().embed(torch.arange(5, 12)[None]),
        model.eval().embed(torch.arange(5, 12)[None]), rtol=0, atol=0,
    )  # fmt: skip
    save_both(trained(add_lora(model, r=4)), tokenizer, tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "config.json").exists()
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    with safe_open(tmp_path / "adapter" / "adapter_model.safetensors", "pt") as file:
        assert list(file.metadata()) == ["base_weights"], "several are in any order, and a push compares files"
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    without = SentenceEncoder(AutoModelForCL.from_pretrained(base, pooling=pooling), tokenizer).encode(SENTENCES)
    assert np.abs(unit_vectors(ours) - unit_vectors(without)).max() > 0.01
    assert merge(tmp_path / "adapter", tmp_path / "merged") == tmp_path / "merged"
    assert (tmp_path / "merged" / "model.safetensors").is_file()
    for folder in (tmp_path / "adapter", tmp_path / "merged"):
        opened = AutoModelForCL.from_pretrained(folder)
        assert opened.settings.pooling == pooling
        equal(SentenceEncoder(opened, tokenizer).encode(SENTENCES), ours)
        equal(SentenceEncoder(folder).encode(SENTENCES), ours)
        equal(peer_vectors(folder, SENTENCES), ours)
        if pooling != "cls":
            equal(plain(folder, pooling), ours)
    assert not has_adapter(SentenceEncoder(tmp_path / "adapter").model)
    assert not has_adapter(AutoModelForCL.from_pretrained(tmp_path / "merged"))


def test_of_a_distilbert_too(tokenizer, tmp_path):
    config = DistilBertConfig(vocab_size=len(tokenizer), dim=16, n_layers=1, n_heads=2, hidden_dim=32)
    save_both(DistilBertForCL(config, pooling="last"), tokenizer, tmp_path / "base")
    model = trained(add_lora(AutoModelForCL.from_pretrained(tmp_path / "base"), r=2))
    model.save_pretrained(tmp_path / "adapter")
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    equal(SentenceEncoder(tmp_path / "adapter").encode(SENTENCES), ours)  # with its base's tokenizer


@pytest.mark.parametrize("bidirectional", [False, True])
def test_an_adapter_of_a_decoder_reads_as_its_base_does(bidirectional, tokenizer, tmp_path):
    shape = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32}
    config = Qwen3ForCL.config_class(**shape, vocab_size=len(tokenizer), hidden_size=16, head_dim=8, pad_token_id=0)
    Qwen3ForCL(config, pooling="mean").save_pretrained(tmp_path / "causal")
    base = AutoModelForCL.from_pretrained(tmp_path / "causal", bidirectional=bidirectional)
    if bidirectional:
        with pytest.raises(InputError, match="bidirectional"):
            add_lora(base)
    save_both(base, tokenizer, tmp_path / "base")
    model = trained(add_lora(AutoModelForCL.from_pretrained(tmp_path / "base", bidirectional=bidirectional)))
    save_both(model, tokenizer, tmp_path / "adapter")
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    equal(SentenceEncoder(tmp_path / "adapter").encode(SENTENCES), ours)
    equal(peer_vectors(tmp_path / "adapter", SENTENCES), ours)


@pytest.mark.allow_warnings
def test_what_sentence_transformers_writes_opens_here(base, tmp_path):
    import peft
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    model = SentenceTransformer(
        modules=[Transformer(str(base), max_seq_length=6), Pooling(16, "max"), Normalize()], device="cpu"
    )
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=["query", "dense"], init_lora_weights=False)
    try:
        model.add_adapter(config)
    except ValueError as error:  # transformers asks for a version of peft that is not out
        pytest.skip(str(error))
    model.save(str(tmp_path / "theirs"), create_model_card=False)
    encoder = SentenceEncoder(tmp_path / "theirs")
    equal(encoder.encode(SENTENCES), model.encode(SENTENCES, show_progress_bar=False))
    assert (encoder.pooling, encoder.max_length) == ("max", 6)


@pytest.mark.allow_warnings
def test_what_peft_writes_opens_here(base, tokenizer, tmp_path):
    import peft

    lora = lambda *names: peft.LoraConfig(r=3, lora_alpha=5, target_modules=list(names), init_lora_weights=False)
    bare = peft.get_peft_model(BertModel.from_pretrained(base), lora("query", "dense")).eval()
    inside = peft.get_peft_model(BertForMaskedLM.from_pretrained(base), lora("query")).eval()
    without = peft.get_peft_model(
        BertModel.from_pretrained(base, add_pooling_layer=False), lora("query", "dense")
    ).eval()
    of_weights = lora("query")
    of_weights.target_parameters = ["attention.self.value.weight", "output.dense.weight"]
    weights = peft.get_peft_model(BertModel.from_pretrained(base), of_weights).eval()
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    for name, wrapped, encode in (
        ("bare", bare, bare), ("inside", inside, inside.base_model.model.bert), ("without a pooler", without, without),
        ("weights", weights, weights),
    ):  # fmt: skip
        wrapped.save_pretrained(tmp_path / name)
        with torch.no_grad():
            expected = pool([encode(**batch).last_hidden_state], batch["attention_mask"], "mean").numpy()
        equal(SentenceEncoder(tmp_path / name).encode(SENTENCES), expected)  # pooled as the base records
        live = SentenceEncoder(AutoModelForCL.from_pretrained(tmp_path / name), tokenizer)
        equal(live.encode(SENTENCES), expected)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("targets", [["query", "value"], "all-linear", r".*\.query"])
def test_a_trainer_saves_what_peft_wraps_as_what_add_lora_makes(targets, base, tokenizer, tmp_path):
    import peft

    config = peft.LoraConfig(r=3, target_modules=targets, init_lora_weights=False)
    wrapped = peft.get_peft_model(AutoModelForCL.from_pretrained(base, pooling="max"), config)
    names = {name for name, weight in wrapped.named_parameters() if weight.requires_grad}
    model = contrastive(wrapped)
    assert contrastive(wrapped) is model is wrapped.get_base_model()  # the second time too
    assert {f"base_model.model.{name}" for name, weight in model.named_parameters() if weight.requires_grad} == names
    save_both(model, tokenizer, tmp_path / "wrapped")
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    equal(SentenceEncoder(tmp_path / "wrapped").encode(SENTENCES), ours)
    equal(peer_vectors(tmp_path / "wrapped", SENTENCES), ours)
    assert json.loads((tmp_path / "wrapped" / ADAPTER).read_text())["base_model_name_or_path"] == str(base)


def test_layers_may_be_given_as_a_pattern(base, tokenizer, tmp_path):
    """By `add_lora`, and in the folder of an adapter that goes on being trained."""
    model = add_lora(AutoModelForCL.from_pretrained(base), r=2, target_modules=r".*\.(query|dense)")
    assert adapter_of(model)["target_modules"][0] == "encoder.layer.0.attention.output.dense"
    assert not [name for name, _ in model.named_parameters() if "pooler" in name and "lora" in name]
    save_both(model, tokenizer, tmp_path / "a")
    broken(tmp_path / "a", target_modules=r".*\.(query|dense)", exclude_modules=["pooler.dense"])
    opened = AutoModelForCL.from_pretrained(tmp_path / "a")
    save_both(opened, tokenizer, tmp_path / "b")
    assert adapter_of(opened)["target_modules"] == adapter_of(model)["target_modules"]
    equal(SentenceEncoder(tmp_path / "b").encode(SENTENCES), SentenceEncoder(tmp_path / "a").encode(SENTENCES))


def test_what_an_adapter_folder_has_no_place_for_is_refused(base):
    import peft

    query = {"target_modules": ["query"]}
    refused = [
        peft.LoraConfig(target_modules=["dense"]),
        peft.LoraConfig(**query, modules_to_save=["pooler"]),
        peft.LoraConfig(**query, modules_to_save=["word_embeddings"]),
        peft.LoraConfig(**query, trainable_token_indices={"word_embeddings": [5]}),
        peft.IA3Config(**query, feedforward_modules=[]),
    ]
    for config in refused:
        wrapped = peft.get_peft_model(AutoModelForCL.from_pretrained(base, pooling="cls"), config)
        with pytest.raises(InputError, match=r"call add_lora|only LoRA"):
            contrastive(wrapped)


@pytest.mark.parametrize("change", ["none", "bfloat16", "trained"])
def test_a_base_that_changed_on_disk_is_told(change, base, tokenizer, tmp_path, caplog):
    own, first, second = (tmp_path / name for name in ("base", "first", "second"))
    shutil.copytree(base, own)
    save_both(trained(add_lora(AutoModelForCL.from_pretrained(own), r=4)), tokenizer, first)
    save_both(AutoModelForCL.from_pretrained(first), tokenizer, second)
    model = AutoModelForCL.from_pretrained(own)
    (trained(model) if change == "trained" else model.bfloat16() if change == "bfloat16" else model).save_pretrained(
        own
    )
    for folder in (first, second):
        for open_ in (AutoModelForCL.from_pretrained, SentenceEncoder):
            caplog.clear()
            open_(folder)
            told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
            assert [str(own.resolve()) in line for line in told] == [True] * (change == "trained")


@pytest.mark.filterwarnings("error::FutureWarning")
def test_commands(adapter, tmp_path, capsys):
    assert told(capsys, "merge", adapter, "-o", tmp_path / "merged").out.strip() == str(tmp_path / "merged")
    assert main(["merge", str(adapter), "-o", str(tmp_path / "merged")]) == 2
    assert main(["merge", str(tmp_path / "merged"), "-o", str(tmp_path / "again")]) == 2
    assert "is not an adapter" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
    error = error_of(capsys, "push", adapter, "alice/adapter", "--dry_run")
    assert "a base that others cannot open: merge it" in error


def test_an_adapter_of_a_model_of_the_hub_is_pushed_with_its_name(adapter):
    about = json.loads((adapter / ADAPTER).read_text())
    (adapter / ADAPTER).write_text(json.dumps({**about, "base_model_name_or_path": "alice/base", "revision": "abc"}))
    (adapter / "trained_weights.safetensors").write_bytes(b"")
    pushed = dry_run(adapter, "alice/adapter")
    assert {ADAPTER, ADAPTER_WEIGHTS, "modules.json", "tokenizer.json"} <= set(pushed)
    assert "trained_weights.safetensors" not in pushed
    card = pushed["README.md"].decode()
    assert "base_model: alice/base" in card
    with pytest.raises(InputError, match="alice/base is the base of this adapter"):
        dry_run(adapter, "alice/base")
    assert ADAPTER in dry_run(adapter, "alice/base", revision="lora")  # the base stays on the main branch
    assert "base_model_relation: adapter" in card


def broken(folder, **about):
    (folder / ADAPTER).write_text(json.dumps({**json.loads((folder / ADAPTER).read_text()), **about}))


BROKEN = {
    "no base": (lambda folder: broken(folder, base_model_name_or_path=None), "names no base model"),
    "base not there": (lambda folder: broken(folder, base_model_name_or_path="/no/base"), "which cannot be opened"),
    "base is an adapter": (lambda folder: broken(folder, base_model_name_or_path=str(folder)), "an adapter itself"),
    "other kind": (
        lambda folder: broken(folder, peft_type="IA3", feedforward_modules=[]),
        "of type",
    ),
    "other rank": (lambda folder: broken(folder, r=7), "adapter .* size mismatch"),
    "other layers": (lambda folder: broken(folder, target_modules=["query"]), "does not fit its base"),
    "no such layers": (lambda folder: broken(folder, target_modules=["nothing"]), "targeted|not found"),
    "cut short": (lambda folder: (folder / ADAPTER_WEIGHTS).write_bytes(b"{"), "adapter.*header too small"),
    "not json": (lambda folder: (folder / ADAPTER).write_text("{"), "is damaged"),
    "pickle": (lambda folder: (folder / ADAPTER_WEIGHTS).rename(folder / "adapter_model.bin"), "can run code"),
    "whole model too": (lambda folder: (folder / "model.safetensors").write_bytes(b""), "a whole model and an adapter"),
}


def _fine_tuned(model):
    model.backbone.encoder.layer[1].output.dense.weight.data[0, 0] += 1


def _resized(model):
    model.resize_token_embeddings(model.config.vocab_size + 3, mean_resizing=False)


def _fewer_layers(model):
    model.backbone.encoder.layer = model.backbone.encoder.layer[:1]


@pytest.mark.parametrize(("wrap", "change"), [
    (add_lora, _fine_tuned), (add_lora, _resized), (add_lora, _fewer_layers), ("peft", _fine_tuned),
    ("add_adapter", _resized),
])  # fmt: skip
def test_the_base_in_memory_must_be_that_on_disk(base, change, wrap):
    import peft

    config = peft.LoraConfig(target_modules=["query"], task_type="FEATURE_EXTRACTION")
    ways = {"peft": lambda model: contrastive(peft.get_peft_model(model, config)),
            "add_adapter": lambda model: model.add_adapter(config)}  # fmt: skip
    model = AutoModelForCL.from_pretrained(base)
    ways.get(wrap, wrap)(AutoModelForCL.from_pretrained(base))  # an unchanged one is taken
    change(model)
    with pytest.raises(InputError, match=f"{base}.*save"):
        ways.get(wrap, wrap)(model)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_adapter_is_one_line(adapter, case):
    breaks, words = BROKEN[case]
    breaks(adapter)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - also errors of peft, as they are
        SentenceEncoder(adapter)
    assert re.search(words, one_line(raised.value))


def test_the_base_is_fetched_with_the_token_that_was_given(adapter, base, tmp_path, monkeypatch):
    asked, folder = [], tmp_path / "private"
    shutil.copytree(adapter, folder)
    about = json.loads((folder / "adapter_config.json").read_text())
    about |= {"base_model_name_or_path": "user/private", "revision": "abc"}
    (folder / "adapter_config.json").write_text(json.dumps(about))

    def fetched(name, revision, *patterns, **options):
        asked.append((name, revision, options))
        return base

    monkeypatch.setattr("contrastive_st.files.download.download", fetched)
    SentenceEncoder(folder, token="hf_secret")
    assert asked
    assert all(one[:2] == ("user/private", "abc") and one[2].get("token") == "hf_secret" for one in asked)
    asked.clear()
    AutoModelForCL.from_pretrained(folder, token="hf_secret", cache_dir=tmp_path)
    assert all(options == {"token": "hf_secret", "cache_dir": tmp_path} for *_, options in asked)


def test_what_cannot_be_done_is_one_line(adapter, base, bert_config, tmp_path, monkeypatch):
    opened = AutoModelForCL.from_pretrained(base)
    for make, words in (
        (lambda: BertForCL.from_pretrained(adapter), "open it with AutoModelForCL.from_pretrained"),
        (lambda: convert(adapter, tmp_path / "new", "backbone"), "contrastive-st merge"),
        (lambda: add_lora(AutoModelForCL.from_pretrained(adapter)), "an adapter already"),
        (lambda: add_lora(AutoModelForCL.from_pretrained(adapter, merge_adapter=True)), "contrastive-st merge"),
        (lambda: add_lora(BertForCL(bert_config)), "this encoder is new"),
        (lambda: add_lora(opened, target_modules=["nothing"]), "lora_target_modules nothing"),
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - also errors of peft, as they are
            make()
        assert re.search(words, one_line(raised.value))
    assert load_tokenizer(adapter).model_max_length == 16
    monkeypatch.setitem(sys.modules, "peft", None)
    for make in (lambda: SentenceEncoder(adapter), lambda: add_lora(AutoModelForCL.from_pretrained(base))):
        with pytest.raises(InputError, match="install"):
            make()
