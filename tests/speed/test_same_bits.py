"""The same text has the same bits, whatever is encoded with it: batch sizes, order, neighbours and threads."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, ModernBertConfig, RobertaConfig

from contrastive_st import SentenceEncoder
from contrastive_st.models import AutoModelForCL
from contrastive_st.speed.products import packed_products

SIZES = {"vocab_size": 90, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 128, "max_position_embeddings": 80}  # fmt: skip
FAMILIES = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES, pad_token_id=1),
    "modernbert": ModernBertConfig(**SIZES, local_attention=16, pad_token_id=0, cls_token_id=1, sep_token_id=2),
}
SETTINGS = [(5, 1), (40, 2)]  # rows in a call, and threads


class Rows:
    """Stands for a tokenizer where token ids are encoded."""

    pad_token_id, model_max_length, all_special_ids, model_input_names = 0, 64, (0,), ()

    def __len__(self):
        return 90


@pytest.mark.parametrize(
    ("family", "dtype", "poolings"),
    [
        ("bert", "fp32", ["cls", "mean", "weighted_mean", "avg_top2"]),
        ("roberta", "fp32", ["cls"]),
        ("modernbert", "fp32", ["mean"]),
        ("bert", "bf16", ["mean", "cls"]),  # oneDNN compiles a product for each shape, so few
        ("modernbert", "bf16", ["max"]),
    ],
)
def test_bits_do_not_depend_on_what_is_encoded_together(family, dtype, poolings):
    draw = np.random.default_rng(0)
    rows = [draw.integers(3, 90, size).tolist() for size in [*draw.integers(1, 30, 8), 64, 1, 2, 3, 17, 18]]
    threads = torch.get_num_threads()
    for pooling in poolings:
        torch.manual_seed(0)
        model = AutoModelForCL.from_config(FAMILIES[family], pooling=pooling)
        encoder = SentenceEncoder((model.bfloat16() if dtype == "bf16" else model).eval(), Rows())
        alone = np.concatenate([encoder.encode_rows([row]) for row in rows])
        try:
            for size, number in SETTINGS:
                torch.set_num_threads(number)
                order = draw.permutation(len(rows))
                parts = [order[start : start + size] for start in range(0, len(rows), size)]
                vectors = np.empty_like(alone)
                vectors[order] = np.concatenate([encoder.encode_rows([rows[i] for i in part]) for part in parts])
                np.testing.assert_array_equal(vectors, alone, err_msg=f"{pooling}, {size} rows, {number} threads")
            stream = encoder.encode_buckets([(rows[:9], ""), (rows[9:], "")])
            np.testing.assert_array_equal(np.concatenate(list(stream)), alone)
        finally:
            torch.set_num_threads(threads)


BF16, FP32 = [(640, 96), (96, 640), (768, 768), (1536, 64)], [(384, 1152), (1536, 384), (385, 257), (96, 640)]


@pytest.mark.parametrize(
    ("dtype", "inner", "outer"),
    [*((torch.bfloat16, *sizes) for sizes in BF16), *((torch.float32, *sizes) for sizes in FP32)],
)
def test_a_row_of_a_product_has_its_bits_among_any_number_of_rows(dtype, inner, outer):
    layer, x = torch.nn.Linear(inner, outer).to(dtype), torch.randn(900, inner).to(dtype)
    threads = torch.get_num_threads()
    with torch.inference_mode(), packed_products(layer):
        alone = torch.cat([layer(row[None]) for row in x])
        try:
            for number, rows in [(1, 900), (1, 33), (1, 128), (1, 191), (2, 45), (2, 201), (2, 768)]:
                torch.set_num_threads(number)
                np.testing.assert_array_equal(layer(x[:rows]).float(), alone[:rows].float(), f"{rows} {number}")
            assert torch.equal(layer(x.view(3, 300, inner)).flatten(0, 1), alone)
        finally:
            torch.set_num_threads(threads)
    exact = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
    rounding = 0.01 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(alone.double(), exact, rtol=rounding, atol=rounding)
