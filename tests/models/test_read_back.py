"""Law (d): what is saved is what is opened, here and in sentence-transformers, whatever base and whatever writer."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from datasets import Dataset
from small_checkpoints import sentence_transformers_folder
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    BertTokenizerFast,
    DistilBertTokenizerFast,
    MPNetTokenizerFast,
    PreTrainedTokenizerFast,
    Qwen2TokenizerFast,
    RobertaTokenizerFast,
)

from conftest import save_both
from contrastive_st import (
    AutoModelForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    PairCollator,
    SentenceClassifier,
    SentenceEncoder,
    model_soup,
    tokenize,
)
from contrastive_st.hub.convert import convert, merge
from contrastive_st.models import add_lora, load_tokenizer
from contrastive_st.models.read_back import check_read_back
from contrastive_st.models.saving import write_tokenizer
from contrastive_st.models.students import student_of

WORDS = ["The", "Cat", "sat", "on", "a", "mat", "while", "Rain", "fell", "over", "the", "Old", "town"]
CORPUS = [" ".join(WORDS), " ".join(WORDS).lower()] * 20
TEXTS = [
    "The CAT sat",
    "the cat sat",
    "rain fell over the old TOWN and over the mat and over the cat",
    "q?",
    "Old Rain",
]
BYTES = {"special_tokens": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], "vocab_size": 400, "show_progress": False}
PROMPTS = [{}, {"query": "Rain: "}, {"query": "the ", "passage": "A "}, {"": "", "document": "Cat "}]


def _word_pieces(kind, names, folder):
    letters = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ?:"]
    vocab = [
        *names,
        *dict.fromkeys([*WORDS, *(word.lower() for word in WORDS), *letters]),
        *("##" + c for c in letters),
    ]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(vocab)) + "\n")
    return kind.from_pretrained(folder, do_lower_case=False)


def _bytes(folder):
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(CORPUS, trainers.BpeTrainer(initial_alphabet=alphabet, **BYTES))
    return backend


def _family_of_bytes(kind, folder, **special):
    model = json.loads(_bytes(folder).to_str())["model"]
    return kind(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]], **special)


def _plain(folder):
    backend = _bytes(folder)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", mask_token="<mask>")


BERT, MPNET = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
TOKENIZERS = {
    "bert": lambda folder: _word_pieces(BertTokenizerFast, BERT, folder),
    "distilbert": lambda folder: _word_pieces(DistilBertTokenizerFast, BERT, folder),
    "mpnet": lambda folder: _word_pieces(MPNetTokenizerFast, MPNET, folder),
    "roberta": lambda folder: _family_of_bytes(RobertaTokenizerFast, folder),
    "qwen2": lambda folder: _family_of_bytes(Qwen2TokenizerFast, folder, pad_token="<pad>", unk_token="<unk>"),
    "plain": _plain,
}
DRAWN = {
    "tokenizer": list(TOKENIZERS), "lower": [True, True, False], "prompts": PROMPTS, "pooling": ["mean", "max", "cls"],
    "similarity": [None, "cosine", "dot", "euclidean"], "length": [None, 9, 24], "truncate_dim": [None, 6],
    "dense": [0, 1, 2], "normalize": [True, False], "dtype": [torch.float32, torch.float32, torch.bfloat16],
    "include_prompt": [True, True, False],
}  # fmt: skip


def draw(seed):
    rng = random.Random(seed)
    return {name: rng.choice(values) for name, values in DRAWN.items()}


def make(folder, case, seed=0):
    """A base in the layout of sentence-transformers."""
    folder.mkdir()
    tokenizer = TOKENIZERS[case["tokenizer"]](folder)
    tokenizer.model_max_length = 32
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32, pad_token_id=tokenizer.pad_token_id, initializer_range=0.5,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).to(case["dtype"])
    mode = f"{case['pooling']}_token" + ("" if case["pooling"] == "cls" else "s")
    return sentence_transformers_folder(
        folder, model, tokenizer, [mode], [(16, kind) for kind in ("Tanh", "GELU")[: case["dense"]]],
        case["normalize"], case["include_prompt"], case["length"], case["lower"], prompts=case["prompts"],
        similarity_fn_name=case["similarity"], truncate_dim=case["truncate_dim"],
    )  # fmt: skip


def trained(model, tokenizer, folder):
    pairs = {
        "anchor": [f"{a} {b}" for a, b in pairwise(WORDS)],
        "positive": [f"{b} {a} {b}" for a, b in pairwise(WORDS)],
    }
    rows = tokenize(Dataset.from_dict(pairs), tokenizer)
    args = ContrastiveTrainingArguments(
        str(folder), per_device_train_batch_size=4, max_steps=2, report_to="none", save_strategy="no", bf16=False,
        learning_rate=1e-2, disable_tqdm=True,
    )  # fmt: skip
    trainer = ContrastiveTrainer(model, args, PairCollator(tokenizer), rows, processing_class=tokenizer)
    trainer.train()
    trainer.save_model()
    return SentenceEncoder(trainer.core, tokenizer)


def by_saving(base, out):
    encoder = SentenceEncoder(base)
    encoder.save_pretrained(out)
    return encoder


def by_training(base, out):
    return trained(AutoModelForCL.from_pretrained(base), load_tokenizer(base), out)


def by_lora(base, out):
    return trained(add_lora(AutoModelForCL.from_pretrained(base), r=2), load_tokenizer(base), out)


def by_merging(base, out):
    encoder = by_lora(base, out.with_name("adapter"))
    merge(out.with_name("adapter"), out)
    return encoder


def by_soup(base, out):
    encoder = SentenceEncoder(base)
    encoder.save_pretrained(out.with_name("same"))
    model_soup([base, out.with_name("same")], out)
    return encoder


def by_converting(base, out, to="package"):
    convert(base, out, to=to)
    return SentenceEncoder(base)


def by_backbone(base, out):
    return by_converting(base, out, "backbone")


def by_fewer_layers(base, out):
    encoder = student_of(SentenceEncoder(base), [1])
    encoder.save_pretrained(out)
    return encoder


def by_classifier(base, out):
    classifier = SentenceClassifier(str(base)).fit(TEXTS, ["a", "b", "a", "b", "a"])
    classifier.save_pretrained(out)
    opened = SentenceClassifier.from_pretrained(out)
    np.testing.assert_allclose(opened.predict_proba(TEXTS), classifier.predict_proba(TEXTS), atol=1e-6)
    return SentenceEncoder(base)


def by_parts(base, out):
    model, tokenizer = AutoModelForCL.from_pretrained(base), load_tokenizer(base)
    save_both(model, tokenizer, out)
    return SentenceEncoder(model, tokenizer)


def by_saving_over_another(base, out):
    make(out, draw("another"))
    return by_saving(base, out)


def by_set_values(base, out):
    encoder = SentenceEncoder(base, max_length=7, prompts={"query": "Old "}, similarity_fn_name="dot", truncate_dim=5)
    encoder.save_pretrained(out)
    return encoder


WRITERS = [by_saving, by_training, by_lora, by_merging, by_soup, by_converting, by_backbone, by_fewer_layers,
           by_classifier, by_parts, by_saving_over_another, by_set_values]  # fmt: skip


@pytest.mark.allow_warnings
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_saved_is_what_is_opened(writer, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    case = draw(f"{writer.__name__} 0")
    saved = writer(make(tmp_path / "base", case), tmp_path / "out")
    opened = SentenceEncoder(tmp_path / "out")
    peer = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    half = case["dtype"] != torch.float32
    for model in (saved.model, opened.model, peer):  # of rounded weights, computed in float32
        model.to(case["dtype"]).float()
    rounded = 0.05 if writer is by_merging else 1e-3  # a sum of weights is rounded anew
    scale = max(np.abs(saved.encode(TEXTS)).max(), 1)  # of vectors that are not normalized
    within = {"rtol": 0, "atol": rounded if half else 4e-6 * scale, "err_msg": str(case)}
    settings = ("max_length", "truncate_dim", "similarity_fn_name", "default_prompt_name")
    assert [getattr(opened, name) for name in settings] == [getattr(saved, name) for name in settings], case
    assert opened.prompts == saved.prompts
    if writer is not by_set_values:
        kept = None if writer is by_fewer_layers else case["truncate_dim"]  # a student learns all dimensions
        asked = (kept, case["similarity"] or "cosine")
        assert (saved.truncate_dim, saved.similarity_fn_name) == asked
    assert (peer.max_seq_length, peer.truncate_dim) == (saved.max_length, saved.truncate_dim)
    for_servers = json.loads((tmp_path / "out" / "sentence_bert_config.json").read_text()).get("max_seq_length", 0)
    # 0: sentence-transformers wrote the file; no server reads an adapter, and transformers alone writes no length
    assert for_servers in (0, None if writer in (by_lora, by_parts) else saved.max_length)
    assert (peer.similarity_fn_name or "cosine") == saved.similarity_fn_name
    for ask in ("encode", "encode_query", "encode_document"):
        vectors = getattr(saved, ask)(TEXTS)
        np.testing.assert_allclose(getattr(opened, ask)(TEXTS), vectors, **within)
        np.testing.assert_allclose(getattr(peer, ask)(TEXTS, show_progress_bar=False), vectors, **within)
    if case["lower"]:
        np.testing.assert_allclose(*opened.encode(TEXTS[:2]), **within)


def test_a_tokenizer_is_saved_alike_before_and_after_it_was_opened(tokenizer, tmp_path):
    words = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    new = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]", model_max_length=9)
    new(TEXTS, truncation=True)
    write_tokenizer(new, tmp_path / "a")
    write_tokenizer(AutoTokenizer.from_pretrained(tmp_path / "a"), tmp_path / "b")
    a, b = ({path.name: path.read_text() for path in (tmp_path / name).iterdir()} for name in "ab")
    assert a == b


def _forgets_changes(tokenizer, folder, types):
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(path.read_text().replace("TokenizersBackend", "BertTokenizer"))


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_would_be_read_otherwise_does_not_appear(there, tmp_path, monkeypatch):
    case = {**draw(0), "tokenizer": "bert", "lower": True, "dtype": torch.float32}
    encoder, out = SentenceEncoder(make(tmp_path / "base", case)), tmp_path / "out"
    if there:
        encoder.save_pretrained(out)
    before = sorted(out.rglob("*"))
    monkeypatch.setattr("contrastive_st.models.running.write_tokenizer", _forgets_changes)
    with pytest.raises(InputError, match="token ids"):
        encoder.save_pretrained(out)
    assert sorted(out.rglob("*")) == before
    assert out.exists() == there


@pytest.mark.parametrize(("change", "words"), [
    (lambda folder: (folder / "2_Dense" / "config.json").write_text(json.dumps({
        "in_features": 16, "out_features": 16, "bias": True, "activation_function": "torch.nn.modules.linear.Identity",
    })), "vector"),
    (lambda folder: (folder / "config_sentence_transformers.json").write_text("{}"), "similarity_fn_name"),
    (lambda folder: (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5}'), "max_length"),
    (lambda folder: (folder / "model.safetensors").unlink(), "cannot be opened"),
])  # fmt: skip
def test_what_differs_is_named(change, words, tmp_path):
    case = {**draw(0), "dense": 1, "similarity": "dot", "prompts": {}, "truncate_dim": None, "dtype": torch.float32}
    encoder = SentenceEncoder(make(tmp_path / "base", case))
    check_read_back(encoder, tmp_path / "base")
    change(tmp_path / "base")
    with pytest.raises(InputError, match=words):
        check_read_back(encoder, tmp_path / "base")
