"""Small models: the config of a tiny BERT, folders of sentence-transformers, and a checkpoint with its first words."""

import json
import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def with_fewer_words(source, target, words=4000):
    """Copy a BERT checkpoint with so many rows of its table of words: as it is in all else, and quick to train."""
    target = Path(shutil.copytree(source, target))
    config = json.loads((target / "config.json").read_text())
    assert config["vocab_size"] > words
    (target / "config.json").write_text(json.dumps({**config, "vocab_size": words}))
    tokenizer = json.loads((target / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {word: i for word, i in tokenizer["model"]["vocab"].items() if i < words}
    (target / "tokenizer.json").write_text(json.dumps(tokenizer))
    with safe_open(target / "model.safetensors", "pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    tables = [name for name in tensors if name.endswith("word_embeddings.weight")]
    tensors |= {name: tensors[name][:words].clone() for name in tables}
    assert tables
    save_file(tensors, target / "model.safetensors", metadata)
    return target


def tiny_bert(tokenizer, **changes):
    """The config of a BERT of one layer and 16 dimensions."""
    from transformers import BertConfig

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return BertConfig(vocab_size=len(tokenizer), **{**shape, "max_position_embeddings": 20, **changes})


def tokenizer_of_words(words, between="", pad="[PAD]", unknown="[UNK]", **options):
    """A tokenizer of these words and pieces of words; special tokens stand around a text as `between` says."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token=unknown))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [(words[i], i) for i in (2, 3)]
    if between:
        inner.post_processor = processors.TemplateProcessing(between, special_tokens=special)
    named = {"pad_token": pad, "unk_token": unknown, "cls_token": words[2], "sep_token": words[3]}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **named, **options)


def peer_vectors(folder, texts, **options):
    """The vectors that sentence-transformers gives of a folder; skips where it is not installed."""
    import pytest  # which the processes that tests start do without

    library = pytest.importorskip("sentence_transformers")
    return library.SentenceTransformer(str(folder), device="cpu").encode(texts, show_progress_bar=False, **options)


def sentence_transformers_folder(
    folder, model, tokenizer, modes, dense=(), normalize=False, include_prompt=True, length=None, lower=False, **use
):
    """Save a transformer in the layout of sentence-transformers: `dense` has widths and activations."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    width = model.config.hidden_size
    pooling = {"word_embedding_dimension": width, **{f"pooling_mode_{mode}": True for mode in modes}}
    if not include_prompt:
        pooling["include_prompt"] = False
    modules = [("Transformer", {}), ("Pooling", pooling)]
    for size, name in dense:
        activation = f"torch.nn.modules.activation.{name}"
        about = {"in_features": width, "out_features": size, "bias": True, "activation_function": activation}
        modules.append(("Dense", about))
        width = size
    if normalize:
        modules.append(("Normalize", {}))
    entries = []
    for number, (kind, about) in enumerate(modules):
        path = f"{number}_{kind}" if number else ""
        kind_of = f"sentence_transformers.models.{kind}"
        entries.append({"idx": number, "name": str(number), "path": path, "type": kind_of})
        (folder / path).mkdir(exist_ok=True)
        if about:
            (folder / path / "config.json").write_text(json.dumps(about))
        if kind == "Dense":
            size, width = about["out_features"], about["in_features"]
            weights = {"linear.weight": torch.randn(size, width) / 2, "linear.bias": torch.randn(size) / 2}
            weights = {name: weight.to(model.dtype) for name, weight in weights.items()}
            save_file(weights, folder / path / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(entries))
    length = {"max_seq_length": length, "do_lower_case": lower}
    (folder / "sentence_bert_config.json").write_text(json.dumps(length))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(use))
    return folder
