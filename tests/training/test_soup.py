"""Model soups: the mean of weights, against a plain loop, and what may not be averaged."""

import json

import numpy as np
import pytest
import torch
from refusals import refusal, refused, told
from safetensors.torch import load_file
from transformers import BertConfig

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL, InputError, RobertaForCL, SentenceEncoder, StaticEncoder, model_soup
from contrastive_st.data import train_wordpiece
from contrastive_st.models import QuickThoughtsConfig, QuickThoughtsGRU
from contrastive_st.models.static_encoder import static_tokenizer


@pytest.fixture
def save(bert_config, tokenizer, tmp_path):
    """Save a BERT with weights of a seed; returns the folder."""

    def save(name, seed, config=None, kind=BertForCL, tokenizer=tokenizer, training=None, **settings):
        torch.manual_seed(seed)
        settings = {"pooling": "mean", **settings}
        model = kind(config or bert_config, **{name: value for name, value in settings.items() if value})
        save_both(model, tokenizer, tmp_path / name)
        (tmp_path / name / "training_metadata.json").write_text(json.dumps(training or {}))
        return tmp_path / name

    return save


def weights(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("shares", [None, [3.0, 1.0, 0.0]])
def test_the_mean_is_that_of_a_plain_loop(save, tmp_path, shares):
    folders = [save(name, seed) for seed, name in enumerate("abc")]
    taken = model_soup(folders, tmp_path / "soup", weights=shares)
    given = [1 / 3] * 3 if shares is None else [0.75, 0.25, 0.0]
    assert [own.name for own in taken] == ["a", "b", "c"]
    np.testing.assert_allclose([own.weight for own in taken], given)
    found, states = weights(tmp_path / "soup"), [weights(folder) for folder in folders]
    assert found.keys() == states[0].keys()
    for name, tensor in found.items():
        expected = sum(share * state[name].double() for share, state in zip(given, states, strict=True))
        assert tensor.dtype == states[0][name].dtype
        torch.testing.assert_close(tensor, expected.to(tensor.dtype), rtol=0, atol=1e-7)


def test_a_checkpoint_with_itself_stays_to_the_bit_and_is_a_full_folder(save, tmp_path):
    folder = save("a", 0)
    model_soup([folder] * 3, tmp_path / "soup")
    for name, tensor in weights(tmp_path / "soup").items():
        assert torch.equal(tensor, weights(folder)[name])
    files = lambda root: {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert files(tmp_path / "soup") - files(folder) == {"README.md"}
    assert files(folder) <= files(tmp_path / "soup")
    from sentence_transformers import SentenceTransformer

    expected = SentenceEncoder(folder).encode(SENTENCES)
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "soup").encode(SENTENCES), expected, atol=1e-6)
    theirs = SentenceTransformer(str(tmp_path / "soup"), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(theirs, expected, atol=1e-5)


def test_the_card_tells_what_is_in_it(save, tmp_path):
    common = {"collator": "PairCollator", "data": {"name": "pairs.csv", "rows": 7}}
    folders = [save(name, i, training={**common, "seed": i}) for i, name in enumerate("ab")]
    model_soup(folders, tmp_path / "soup", weights=[1, 3])
    record = json.loads((tmp_path / "soup" / "training_metadata.json").read_text())
    assert record == {**common, "soup": [{"name": "a", "weight": 0.25},
                                         {"name": "b", "weight": 0.75}]}  # fmt: skip
    card = (tmp_path / "soup" / "README.md").read_text()
    assert "| `b` | 0.750 |" in card
    assert "wortsman2022model" in card
    assert "pairs.csv" in card
    assert str(tmp_path) not in card


def test_the_card_of_what_only_sentence_transformers_runs(save, tmp_path, capsys):
    folder = save("two", 0)
    about = json.loads((folder / "1_Pooling" / "config.json").read_text())
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({**about, "pooling_mode_max_tokens": True}))
    model_soup([folder, folder], tmp_path / "soup")
    assert "| `two` | 0.500 |" in (tmp_path / "soup" / "README.md").read_text()
    assert "by hand" not in capsys.readouterr().err


def test_another_architecture(save, tmp_path, tokenizer):
    words = QuickThoughtsConfig(vocab_size=len(tokenizer), embedding_size=4, hidden_size=6)
    grus = [save(name, seed, words, QuickThoughtsGRU, pooling=None) for seed, name in enumerate(["e", "f"])]
    model_soup(grus, tmp_path / "grus")
    assert np.isfinite(SentenceEncoder(tmp_path / "grus").encode(SENTENCES)).all()


def test_static_tables_in_int8_are_averaged_as_what_they_stand_for(tmp_path, tokenizer):
    tables = []
    for seed in (0, 1):
        table = np.random.default_rng(seed).normal(size=(len(tokenizer), 8)).astype(np.float32)
        StaticEncoder.from_table(table).save_pretrained(tmp_path / str(seed), storage="int8")
        static_tokenizer(tokenizer).save_pretrained(tmp_path / str(seed))
        tables.append(SentenceEncoder(tmp_path / str(seed)).model.embeddings.detach())
    model_soup([tmp_path / "0", tmp_path / "1"], tmp_path / "soup")
    found = SentenceEncoder(tmp_path / "soup").model.embeddings.detach()
    torch.testing.assert_close(found, (tables[0] + tables[1]) / 2)


def test_static_models_that_read_texts_alike_are_averaged(tmp_path, tokenizer):
    """One was saved with its tokenizer, as a training does, and the other written apart."""
    model, ids = StaticEncoder.from_table(np.eye(len(tokenizer), 8)), static_tokenizer(tokenizer)
    model.save_pretrained(tmp_path / "apart")
    ids.save_pretrained(tmp_path / "apart")
    for length in (None, 5):
        for name in ("one", "two"):
            SentenceEncoder(tmp_path / "apart", max_length=length).save_pretrained(tmp_path / f"{name} {length}")
    model_soup([tmp_path / "apart", tmp_path / "one None"], tmp_path / "soup")
    model_soup([tmp_path / "one 5", tmp_path / "two 5"], tmp_path / "soup of 5")
    assert SentenceEncoder(tmp_path / "soup of 5").max_seq_length == 5


def test_the_first_difference_is_named_and_nothing_is_written(save, tmp_path, bert_config, tokenizer):
    base = save("base", 0)
    wide = BertConfig(**{**bert_config.to_dict(), "intermediate_size": 48})
    two_heads = BertConfig(**{**bert_config.to_dict(), "num_attention_heads": 4})
    many = train_wordpiece(["entirely other words"] * 3, vocab_size=60, max_length=16)
    from transformers import RobertaConfig

    roberta = RobertaConfig(**{**bert_config.to_dict(), "model_type": "roberta"})
    others = {
        "the intermediate_size of the config is 48 in wide and 32 in base": save("wide", 0, wide),
        "the num_attention_heads of the config is 4 in heads and 2 in base": save("heads", 0, two_heads),
        "the pooling is max in max and mean in base": save("max", 0, pooling="max"),
        "the tokenizer is": save("words", 0, tokenizer=many),
        "the architecture is roberta in roberta": save("roberta", 0, roberta, RobertaForCL),
    }
    for words, folder in others.items():
        with refusal(words):
            model_soup([base, folder], tmp_path / "soup")
        assert not (tmp_path / "soup").exists()
    with refusal("base records pooling mean"):
        model_soup([base, base], tmp_path / "soup", pooling="cls")
    dropout = BertConfig(**{**bert_config.to_dict(), "hidden_dropout_prob": 0.3})
    model_soup([base, save("dropout", 1, dropout, temperature=0.1)], tmp_path / "soup")


def test_the_command(save, tmp_path, capsys):
    folders = [str(save(name, seed)) for seed, name in enumerate("ab")]
    said = told(capsys, "soup", *folders, "-o", tmp_path / "two", "--weights", "1", "2")
    assert said.out.strip() == str(tmp_path / "two")
    assert said.err.splitlines() == ["0.333  a", "0.667  b"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["a"], "1 checkpoints"),
        (["a", "none"], "none"),
        (["a", "b", "--weights", "1"], "2 checkpoints with weights 1.0"),
        (["a", "b", "--weights", "0", "0"], "not all 0"),
        (["a", "b", "--weights", "nan", "1"], "--weights [nan, 1.0]"),
    ],
)
def test_bad_input_is_one_line(args, words, save, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save("a", 0)
    save("b", 1)
    assert words in refused(capsys, "soup", *args, "-o", "soup")
    assert not (tmp_path / "soup").exists()


@pytest.mark.parametrize("changed", [
    {"prompts": {"query": "the "}}, {"similarity_fn_name": "dot"}, {"max_length": 5}, {"truncate_dim": 8},
    {"prompts": {"a": "a ", "b": "b "}, "default_prompt_name": "a"},
])  # fmt: skip
def test_checkpoints_that_are_used_otherwise_have_no_mean(save, tmp_path, changed):
    SentenceEncoder(save("b", 1), **changed).save_pretrained(tmp_path / "other")
    name = {"similarity_fn_name": "similarity", "max_length": "maximum length"}.get(
        next(iter(changed)), next(iter(changed))
    )
    with pytest.raises(InputError, match=name):
        model_soup([save("a", 0), tmp_path / "other"], tmp_path / "soup")
    assert not (tmp_path / "soup").exists()


def test_modules_that_sentence_transformers_runs_are_compared_too(save, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    stack = [modules.Transformer(str(save("base", 0))), modules.Pooling(16, ("mean", "max")), modules.LayerNorm(32)]
    for name, parts in {"plain": stack, "unit": [*stack, modules.Normalize()]}.items():
        SentenceTransformer(modules=parts, device="cpu").save_pretrained(str(tmp_path / name))
    plain, unit = tmp_path / "plain", tmp_path / "unit"
    assert SentenceEncoder(plain).fingerprint != SentenceEncoder(unit).fingerprint
    with pytest.raises(InputError, match=r"step 4 of the computation is Normalize .* and nothing in plain"):
        model_soup([plain, unit], tmp_path / "soup")


def test_an_existing_folder_stays(save, tmp_path, capsys):
    folders = [str(save(name, seed)) for seed, name in enumerate("ab")]
    assert "exists already" in refused(capsys, "soup", *folders, "-o", folders[0])
