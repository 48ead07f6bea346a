"""Small models: the config of a tiny BERT, and a checkpoint with the first words of its vocabulary alone."""

import json
import shutil
from pathlib import Path

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
