"""Configs of the size of published models ask for no more than the weights hold; sparse files stand for these."""

import json
import struct

import pytest
import torch
from transformers import CONFIG_MAPPING

from contrastive_st import InputError
from contrastive_st.files.folders import check_sizes
from contrastive_st.models.families import family
from contrastive_st.models.saving import check_built

LARGE = {
    "bge-m3": ("xlm-roberta", 250002, 1024, 24, 16, 4096, {"max_position_embeddings": 8194, "type_vocab_size": 1}),
    "Qwen3-Embedding-8B": ("qwen3", 151665, 4096, 36, 32, 12288, {"num_key_value_heads": 8, "head_dim": 128}),
    "XLM-R XXL": ("xlm-roberta-xl", 250880, 4096, 48, 32, 16384, {}),
}
SHAPE = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@pytest.mark.parametrize("name", LARGE)
def test_a_published_size_is_opened(name, tmp_path):
    kind, *shape, more = LARGE[name]
    config, family_class = CONFIG_MAPPING[kind](**dict(zip(SHAPE, shape, strict=True)), **more), family(kind)
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        weights = family_class.backbone_class(config).state_dict()
    tensors, end = {}, 0
    for key, tensor in weights.items():
        start, end = end, end + 2 * tensor.numel()
        tensors[key] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [start, end]}
    header = json.dumps(tensors).encode()
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + end)
    check_sizes(tmp_path)
    check_built(family_class.backbone_class, config, name, tmp_path)
    config.intermediate_size *= 16
    with pytest.raises(InputError, match="weights"):
        check_built(family_class.backbone_class, config, name, tmp_path)
