"""Export encoders as graphs for onnxruntime or OpenVINO, in float32 or int8, and run these graphs.

    input_ids, attention_mask [N, L]  ->  sentence_embedding [N, d], last_hidden_state [N, L, width]

`sentence_embedding` is the final vector: pooling, dense layers and normalization are in the graph. The backends of
sentence-transformers with these names read the other output, and pool it themselves.

int8 (Jacob et al. 2018, https://arxiv.org/abs/1712.05877): a product x W of a layer becomes

    scale * (q - zero) W'    q = round(x / scale) + zero, unsigned 8 bits; scale and zero of each x, from its range
                             W' = round(W / w), signed 8 bits; w of each output, from its largest weight

where the ranges of x are measured on calibration texts. A table of embeddings holds W' and w of each row, and the rows
that are looked up become float32 again. Everything else stays in float32.
(onnxruntime's quantizers, with all-MiniLM-L6-v2: `quantize_static` gives the rounded x to residual sums too, mean
cosine to float32 0.990 instead of 0.994; `quantize_dynamic` has the same size and cosine, and takes 1.25 times as
long.)
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_st.errors import InputError, about, choice, first_line, require
from contrastive_st.files.folders import EXPORTED, INDICES
from contrastive_st.files.reading import read_json
from contrastive_st.files.writing import atomic_write, only_writer, write_json
from contrastive_st.models.checkpoint import BACKENDS
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.graph import EMBEDDING, INPUTS, STATES, Arrays, GraphVectors, open_session
from contrastive_st.models.read_back import check_read_back
from contrastive_st.models.wrapped import is_sentence_transformer, modules_of, reads_messages
from contrastive_st.tokens import token_types

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from contrastive_st.models.running import Running

CALIBRATION_TEXTS, CALIBRATION_TOKENS = 256, 128  # the most that are read, and of each
_NEEDED = {"onnx": ["onnxruntime"], "openvino": ["onnxruntime", "openvino"]}  # onnxruntime finds the ranges of int8
_OPSET = 23  # the first with a whole attention as one operation
_ROTARY_OPSET = 18  # the rotary embeddings that the exporter writes in 23 take one row at a time in onnxruntime
_TABLE = 1 << 16  # tables of fewer numbers (kinds of tokens, distances) save little in int8
_LARGE = 1 << 30  # a protobuf holds 2 GiB at most: larger graphs keep their weights in a second file


def export(
    encoder: SentenceEncoder,
    folder: str | Path,
    backend: str = "onnx",
    calibration: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Export an encoder as a graph, to a folder that `SentenceEncoder(folder)` opens.

    Args:
        encoder: a transformer in float32, of a family that torch's exporter supports.
        folder: a new folder. It has the graph but no other weights, so it cannot be trained.
        backend: one of `BACKENDS`.
        calibration: texts like those that will be encoded, of which the first 256 are read. If given, weights,
            activations and tables of embeddings are in int8, else in float32.
        overwrite: replace an existing folder.

    Returns:
        The folder.

    Raises:
        InputError: a package is missing, the encoder is not a transformer in float32 on the CPU, or torch cannot export
            it.
    """
    folder = Path(folder)
    choice("format", backend, BACKENDS)
    if fault := _fault(encoder):
        raise InputError(f"{encoder.name} {fault}")
    with only_writer(folder, overwrite, parents=True), tempfile.TemporaryDirectory() as scratch:
        require(f"the format {backend}", backend, "onnx", "onnxscript", *_NEEDED[backend])
        path = Path(scratch, "model.onnx")
        _trace(encoder, path)
        if calibration is not None:
            _to_int8(path, list(_calibration_rows(encoder, calibration)))
        with atomic_write(folder, overwrite, parents=True) as new:
            new.mkdir()
            _write_about(encoder, new, backend, "fp32" if calibration is None else "int8")
            target = new / BACKENDS[backend]
            target.parent.mkdir()
            if backend == "onnx":
                for file in path.parent.iterdir():
                    (target.parent / file.name).write_bytes(file.read_bytes())
            else:
                import openvino

                openvino.save_model(openvino.Core().read_model(path), target, compress_to_fp16=False)
            check_read_back(encoder, new, vectors=calibration is None)
    return folder


def _fault(encoder: SentenceEncoder) -> str:
    """Why an encoder cannot be exported; blank if it can be."""
    model: Any = encoder.model
    if isinstance(model, GraphVectors):
        return "is exported already; give the checkpoint that it was exported from"
    if getattr(model, "is_table", False) or getattr(model, "is_static", False):
        return "is a static model: its vectors are means of the rows of a table, which need no graph"
    if is_sentence_transformer(getattr(model, "encoder", None)):
        after = ["a chat template"] if reads_messages(model.encoder) else []
        after += [_module_name(module) for module in modules_of(model.encoder)[1:]]
        return (
            f"has modules of sentence-transformers ({', '.join(after)}) that no graph of this package has; "
            "sentence-transformers exports its transformer: SentenceTransformer(..., backend=...)"
        )
    if not hasattr(model, "backbone"):
        return f"is not a transformer but a {type(model).__name__}; only transformers are exported"
    if encoder._rounded:
        return f"is in {encoder.precision}; export it from fp32 (leave out the precision)"
    if encoder.device.type != "cpu":
        return f"is on {encoder.device}; export it on the cpu (device='cpu')"
    return ""


def _module_name(module: object) -> str:
    modes = getattr(module, "pooling_mode", None)
    return type(module).__name__ + (f" by {' and '.join(modes)}" if isinstance(modes, (list, tuple)) else "")


# --- From a model to a graph.


class _Whole(nn.Module):
    """A model with tensors as inputs and outputs."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.model, self.tokenizer = encoder.model, encoder.tokenizer

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, text_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Encode `[N, L]` to vectors `[N, d]` and token states `[N, L, width]`."""
        types = token_types(self.tokenizer, attention_mask) if self.model.takes_types else None
        output = self.model(input_ids, attention_mask=attention_mask, text_mask=text_mask, token_type_ids=types)
        return output.pooler_output.float(), output.last_hidden_state


def _trace(encoder: SentenceEncoder, path: Path) -> None:
    """Write the graph of an encoder with torch's exporter, for any number of rows of any length."""
    name, kind = encoder.name, getattr(encoder.model.config, "model_type", type(encoder.model).__name__)
    names = INPUTS if not encoder.checkpoint.include_prompt else INPUTS[:2]
    rows = {name: torch.ones(2, 7, dtype=torch.long) for name in names}
    rows["input_ids"] += 2  # any token; what is recorded holds for all of them
    opset = _ROTARY_OPSET if getattr(encoder.model.config, "rope_parameters", None) else _OPSET
    shapes = {name: {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for name in names}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of packages that nobody needs
    running = cast("Running", encoder._torch)
    # Without gradients: with them, the exporter reads the attention of T5 as one operation and writes it as another.
    with warnings.catch_warnings(), running.ready(None, packs=False), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's, about itself
        with about(f"torch, exporting {name} ({kind})"):
            try:
                program = cast("torch.onnx.ONNXProgram", torch.onnx.export(
                    _Whole(encoder).eval(), kwargs=rows, dynamo=True, opset_version=opset, verbose=False,
                    input_names=list(names), output_names=[EMBEDDING, STATES], dynamic_shapes=shapes,
                ))  # fmt: skip
            except torch.onnx.OnnxExporterError as error:  # which says how to report it, and its cause what failed
                raise InputError(
                    f"torch cannot export {name}, a model of the family {kind}: {first_line(error.__cause__ or error)}"
                ) from error
            program.save(path)


def _write_about(encoder: SentenceEncoder, folder: Path, backend: str, precision: str) -> None:
    """Write the files of a checkpoint (config, tokenizer, modules) without the weights of the transformer."""
    encoder.save_pretrained(folder)
    for path in (*folder.glob("*.safetensors"), *(folder / name for name in INDICES)):
        path.unlink(missing_ok=True)
    config = read_json(folder / "config.json", dict)
    config[EXPORTED] = {
        "backend": backend, "precision": precision, "pooling": encoder.pooling, "fingerprint": encoder.fingerprint
    }  # fmt: skip
    write_json(folder / "config.json", config)


# --- int8.


def _calibration_rows(encoder: SentenceEncoder, texts: Sequence[str]) -> Iterator[Arrays]:
    """The inputs of the graph for each single text, without padding, which would change the ranges."""
    prompt = encoder.prompt_text()
    most = min(CALIBRATION_TOKENS, encoder.max_length or CALIBRATION_TOKENS)
    rows = encoder.token_rows(texts[:CALIBRATION_TEXTS], prompt, most)
    if not rows:
        raise InputError("there are no texts to calibrate int8 with")
    for row in rows:
        ones = np.ones((1, len(row)), np.int64)
        masks = INPUTS[1:] if not encoder.checkpoint.include_prompt else INPUTS[1:2]
        yield {"input_ids": np.array([row], np.int64), **dict.fromkeys(masks, ones)}


def _to_int8(path: Path, rows: Iterable[Arrays]) -> None:
    """Rewrite the products of token states and weights, and the tables of embeddings, in int8."""
    import onnx

    model = onnx.load(path)
    graph, make = model.graph, onnx.helper.make_node
    weights = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2
    }  # fmt: skip
    products = {
        node.output[0]: node for node in graph.node if node.op_type == "MatMul" and node.input[1] in weights
    }  # fmt: skip
    if not products:
        raise InputError("int8 is for layers that are products with matrices, and it has none; leave out int8")
    ranges = _ranges(model, list(dict.fromkeys(node.input[0] for node in products.values())), path.parent, rows)
    nodes: list[NodeProto] = []
    made: dict[str, np.ndarray] = {}
    ready: set[str] = set()
    for node in graph.node:
        if node.output[0] in products:
            x, weight = node.input
            if x not in ready:
                low, high = ranges[x]
                step = max(high - low, 1e-6) / 255
                made |= {f"{x}.scale": np.array(step, np.float32), f"{x}.zero": np.array(round(-low / step), np.uint8)}
                nodes.append(make("QuantizeLinear", [x, f"{x}.scale", f"{x}.zero"], [f"{x}.int8"]))
                nodes.append(make("DequantizeLinear", [f"{x}.int8", f"{x}.scale", f"{x}.zero"], [f"{x}.back"]))
            if weight not in ready:
                rounded, scale = _int8(weights[weight], 0)  # `[in, out]`, with a scale for each output
                made |= {f"{weight}.int8": rounded, f"{weight}.scale": scale[0]}
                made[f"{weight}.zero"] = np.zeros(scale.size, np.int8)
                parts = [f"{weight}.{part}" for part in ("int8", "scale", "zero")]
                nodes.append(make("DequantizeLinear", parts, [f"{weight}.back"], axis=1))
            ready |= {x, weight}
            node.input[:] = [f"{x}.back", f"{weight}.back"]
        elif (
            node.op_type == "Gather"
            and all(attribute.i == 0 for attribute in node.attribute)  # the axis: it takes whole rows
            and node.input[0] in weights
            and weights[node.input[0]].size >= _TABLE
        ):
            table, ids = node.input
            rounded, scale = _int8(weights[table], 1)  # `[V, d]`, with a scale for each row
            made |= {f"{table}.codes": rounded, f"{table}.row_scales": scale}
            # rows, each times its scale: only these become float32, not the table
            codes, numbers, scales = (f"{node.output[0]}.{part}" for part in ("codes", "numbers", "row_scales"))
            nodes.append(make("Gather", [f"{table}.codes", ids], [codes]))
            nodes.append(make("Cast", [codes], [numbers], to=onnx.TensorProto.FLOAT))
            nodes.append(make("Gather", [f"{table}.row_scales", ids], [scales]))
            nodes.append(make("Mul", [numbers, scales], [node.output[0]]))
            continue
        nodes.append(node)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    kept += [onnx.numpy_helper.from_array(array, name) for name, array in made.items()]
    rewritten = onnx.helper.make_graph(nodes, graph.name, graph.input, graph.output, kept)
    for file in path.parent.iterdir():
        file.unlink()
    _save(onnx.helper.make_model(rewritten, opset_imports=model.opset_import, ir_version=model.ir_version), path)


def _save(model: ModelProto, path: Path) -> None:
    import onnx

    onnx.save(model, path, save_as_external_data=model.ByteSize() > _LARGE, location=f"{path.name}.data")


def _ranges(
    model: ModelProto, watched: list[str], folder: Path, rows: Iterable[Arrays]
) -> dict[str, tuple[float, float]]:
    """The least and the greatest value of each of the named tensors; the range always includes 0."""
    import onnx

    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in watched)
    _save(shown, folder / "watched.onnx")
    session = open_session(folder / "watched.onnx")
    low, high = np.zeros(len(watched)), np.zeros(len(watched))
    for row in rows:
        values = session.run(watched, dict(row))
        low = np.minimum(low, [value.min() for value in values])
        high = np.maximum(high, [value.max() for value in values])
    return {name: (float(a), float(b)) for name, a, b in zip(watched, low, high, strict=True)}


def _int8(weight: np.ndarray, along: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    scale = np.maximum(np.abs(weight).max(along, keepdims=True), 1e-12).astype(np.float32) / 127
    return np.round(weight / scale).astype(np.int8), scale
