"""Products on packed weights: the same values, and nothing left behind."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import peft
import pytest
import torch
from torch import nn
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    CamembertConfig,
    ElectraConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from contrastive_st.models import AutoModelForCL, BertForCL, SentenceEncoder
from contrastive_st.speed import products, use_speed
from contrastive_st.speed.products import packed_products

TEXTS = ["the cat sat on the mat", "rain", "a dog ran far away today", "the town was quiet"]
BF16 = pytest.param(
    torch.bfloat16, 0.01, marks=pytest.mark.skipif(not products._OPS._is_mkldnn_bf16_supported(), reason="no AVX-512")
)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), BF16])
def test_values_agree_to_rounding_for_any_number_of_rows(dtype, tolerance):
    torch.manual_seed(0)
    for bias in (True, False):
        layer = nn.Linear(96, 40, bias=bias, dtype=dtype)
        for rows in (1, 7, 1024, 3000):
            x = torch.randn(rows, 96, dtype=dtype)
            with torch.inference_mode(), packed_products(layer):
                assert "forward" in vars(layer)
                packed = layer(x)
            assert packed.dtype == dtype
            torch.testing.assert_close(packed, layer(x), rtol=tolerance, atol=tolerance)


def test_nothing_is_left_behind_and_changed_weights_are_seen():
    layer, x = nn.Linear(8, 4), torch.ones(2, 8)
    with torch.inference_mode(), packed_products(layer):
        before = layer(x)
    assert "forward" not in vars(layer)
    with torch.no_grad():
        layer.weight += 1
    with torch.inference_mode(), packed_products(layer):
        after = layer(x)
    torch.testing.assert_close(after, before + 8)
    layer(x).sum().backward()
    assert layer.weight.grad is not None


def weight(model):
    return model.get_submodule("bert.encoder.layer.0.intermediate.dense").weight


def a_step(model):
    model(torch.tensor([[5, 6, 7]])).pooler_output.square().sum().backward()
    torch.optim.SGD([weight(model)], lr=1.0).step()


def assigned(model):
    weight(model).data = weight(model).detach() * 2


def a_row(model):
    weight(model).data[-1] *= 2


def reloaded(model):
    model.load_state_dict({name: x * 1.5 for name, x in model.state_dict().items()})


def from_a_thread(model):
    thread = threading.Thread(target=lambda: weight(model).data.mul_(2))
    thread.start()
    thread.join()


def rounded_and_back(model):
    model.bfloat16().float()


def quantized(model):
    torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, inplace=True)


def tied(model):
    model.bert.encoder.layer[1].intermediate.dense.weight = weight(model)


CHANGES = [a_step, assigned, a_row, reloaded, from_a_thread, rounded_and_back, quantized, tied]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("change", CHANGES)
def test_products_that_are_kept_are_those_of_the_weights(change, dtype, bert_config, tokenizer):
    if dtype == torch.bfloat16 and change in (rounded_and_back, quantized):
        pytest.skip("changes no weight in bfloat16, or needs float32")
    torch.manual_seed(0)
    model = BertForCL(bert_config, pooling="mean").to(dtype).eval()
    encoder, texts = SentenceEncoder(model, tokenizer), ["the cat sat on the mat", "rain"]
    copied, pickled = copy.deepcopy(encoder), pickle.loads(pickle.dumps(model))
    before = encoder.encode(texts)
    kept = products._KEPT[model]
    np.testing.assert_array_equal(encoder.encode(texts), before)
    assert products._KEPT[model] is kept
    change(model)
    after = encoder.encode(texts)
    assert not np.array_equal(after, before)
    np.testing.assert_array_equal(after, SentenceEncoder(copy.deepcopy(model), tokenizer).encode(texts))
    np.testing.assert_array_equal(copied.encode(texts), before)
    np.testing.assert_array_equal(SentenceEncoder(pickled, tokenizer).encode(texts), before)


def test_an_adapter_that_is_switched_and_merged(bert_config, tokenizer):
    torch.manual_seed(0)
    model = BertForCL(bert_config, pooling="mean").eval()
    encoder, text = SentenceEncoder(model, tokenizer), "the cat sat on the mat"
    without = encoder.encode(text)
    peft.inject_adapter_in_model(peft.LoraConfig(target_modules=["dense"], init_lora_weights=False), model.bert)
    adapted = [module.eval() for module in model.modules() if isinstance(module, peft.tuners.lora.Linear)]
    expected = encoder.encode(text)
    assert abs(expected - without).max() > 1e-3
    for step, vector in (
        (lambda layer: layer.enable_adapters(False), without),
        (lambda layer: layer.enable_adapters(True), expected),
        (lambda layer: layer.merge(), expected),
        (lambda layer: layer.unmerge(), expected),
        (lambda layer: layer.lora_B["default"].weight.data.zero_(), without),
    ):
        for layer in adapted:
            step(layer)
        np.testing.assert_allclose(encoder.encode(text), vector, atol=1e-5)


FAMILIES = [BertConfig, RobertaConfig, XLMRobertaConfig, CamembertConfig, ElectraConfig]


@pytest.mark.parametrize("config", FAMILIES)
def test_a_whole_layer_computes_what_that_of_transformers_does(config, tokenizer, bert_config):
    torch.manual_seed(0)
    sizes = {name: getattr(bert_config, name) for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    ids = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "max_position_embeddings": 40}
    made = config(**sizes, **ids, intermediate_size=24, hidden_act="relu", layer_norm_eps=0.01)
    for pooling in ("mean", "avg_first_last"):
        model = AutoModelForCL.from_config(made, pooling=pooling).eval()
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(weight)
        encoder = SentenceEncoder(model, tokenizer)
        vectors = encoder.encode(TEXTS)
        assert sum(isinstance(product, products._Whole) for _, product in products._KEPT[model].products) == 2
        use_speed(False)
        try:
            np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-5)
        finally:
            use_speed(True)
        model.get_submodule(f"{model.base_model_prefix}.encoder.layer.1.attention.self.key").bias.data.neg_()
        changed = encoder.encode(TEXTS)
        np.testing.assert_array_equal(changed, SentenceEncoder(copy.deepcopy(model), tokenizer).encode(TEXTS))


def test_a_hook_inside_a_layer_runs(bert_config, tokenizer):
    encoder = SentenceEncoder(BertForCL(bert_config, pooling="mean").eval(), tokenizer)
    before, seen = encoder.encode(TEXTS), []
    inside = encoder.model.get_submodule("bert.encoder.layer.0.attention.self")
    hook = inside.register_forward_hook(lambda module, args, output: seen.append(output[0]))
    np.testing.assert_allclose(encoder.encode(TEXTS), before, atol=1e-6)
    assert seen
    hook.remove()
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)


def test_a_decoder_and_eager_attention_are_left_to_transformers(bert_config, tokenizer):
    torch.manual_seed(0)
    decoder = BertModel(BertConfig(**{**bert_config.to_dict(), "is_decoder": True, "add_cross_attention": True})).eval()
    eager = AutoModel.from_config(bert_config, attn_implementation="eager").eval()
    rows, states = torch.tensor([[5, 6, 7]]), torch.randn(1, 4, bert_config.hidden_size)
    with torch.inference_mode():
        for model, options in ((decoder, {"encoder_hidden_states": states}), (eager, {"output_attentions": True})):
            expected = model(rows, **options)
            with packed_products(model):
                found = model(rows, **options)
            torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state)
            assert len(found.attentions or ()) == len(expected.attentions or ())


def test_products_go_with_the_model_and_are_not_kept_in_training(bert_config, tokenizer):
    gc.collect()
    before, model = len(products._KEPT), BertForCL(bert_config, pooling="mean").train()
    encoder, freed = SentenceEncoder(model, tokenizer), weakref.ref(model)
    encoder.encode("rain")
    assert len(products._KEPT) == before
    model.eval()
    encoder.encode("rain")
    assert len(products._KEPT) == before + 1
    model.get_submodule("bert.encoder").train()  # a part of it
    encoder.encode("rain")
    assert len(products._KEPT) == before
    assert model.bert.encoder.training
    assert not model.training
    model.eval()
    encoder.encode("rain")
    del model, encoder
    gc.collect()
    assert freed() is None
    assert len(products._KEPT) == before


def test_other_precisions_and_layers_are_left_alone():
    layers = nn.ModuleList([nn.Linear(4, 4).double(), nn.Linear(4, 4).half(), nn.Embedding(4, 4)])
    with packed_products(layers):
        assert all("forward" not in vars(layer) for layer in layers)


@pytest.mark.parametrize("part", ["bert", "bert.encoder.layer.0", ""])
def test_a_compiled_module_multiplies_itself(bert_config, tokenizer, part):
    """Inductor of torch 2.13 cannot lower `mkldnn._linear_pointwise` with a packed weight."""
    model = BertForCL(bert_config, pooling="mean").eval()
    encoder = SentenceEncoder(model, tokenizer)
    before = encoder.encode(TEXTS)
    compiled = model.get_submodule(part)
    compiled.compile(backend="eager")
    with torch.inference_mode(), packed_products(model, keep=True):
        assert not any("forward" in vars(module) for module in compiled.modules())
        assert part != "bert.encoder.layer.0" or "forward" in vars(model.get_submodule("bert.encoder.layer.1"))
    if part != "bert.encoder.layer.0":
        np.testing.assert_allclose(encoder.encode(TEXTS), before, atol=1e-6)


def test_an_encoder_used_by_several_threads_at_once(bert_config, tokenizer):
    model = BertForCL(bert_config, pooling="mean").train()
    encoder = SentenceEncoder(model, tokenizer)
    texts = ["the cat sat on the mat"] * 200 + ["rain"] * 100
    expected = encoder.encode(texts[::50])
    found = []
    threads = [threading.Thread(target=lambda: found.append(encoder.encode(texts))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for vectors in found:
        np.testing.assert_allclose(vectors[::50], expected, atol=1e-6)
    assert model.training


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_a_model_that_brings_its_own_autocast():
    """As Accelerate wraps the forward of a model in training with bf16: products of packed weights step aside."""
    layer, x = torch.nn.Linear(8, 4), torch.randn(3, 8)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        plain = layer(x)
        with packed_products(layer):
            assert torch.equal(layer(x), plain)
            assert torch.equal(layer(x.bfloat16()), layer(x.bfloat16()))


def test_a_layer_without_outputs_is_left_as_it_is():
    layer = torch.nn.utils.skip_init(torch.nn.Linear, 8, 0, bias=False)
    with torch.inference_mode(), packed_products(layer):
        assert layer(torch.ones(2, 8)).shape == (2, 0)
