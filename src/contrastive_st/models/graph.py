"""Run exported graphs with onnxruntime or OpenVINO; `export.py` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.errors import InputError, first_line, require
from contrastive_st.files.folders import read_export
from contrastive_st.models.auto import load_config
from contrastive_st.models.backends import BACKENDS
from contrastive_st.models.checkpoint import Checkpoint
from contrastive_st.precision import bf16_is_fast

INPUTS = ("input_ids", "attention_mask", "text_mask")
EMBEDDING, STATES = "sentence_embedding", "last_hidden_state"
Arrays = Mapping[str, NDArray[Any]]


class GraphModel(nn.Module):
    """An exported graph as a model: `forward(...).pooler_output` is the final vector `[N, d]`.

    Args:
        checkpoint: a folder written by `contrastive_st.models.export`.
        precision: as for `SentenceEncoder`. OpenVINO can run a float32 graph in bf16, and runs the float32 part of an
            int8 graph in bf16 if the hardware is faster with it; onnxruntime has no bf16.

    Raises:
        InputError: a package is missing, the graph is missing or damaged, or it cannot run in this precision.
    """

    def __init__(self, checkpoint: Checkpoint, precision: str = "fp32") -> None:
        super().__init__()
        folder, name = checkpoint.folder, checkpoint.name
        record, self.config = read_export(folder), load_config(checkpoint)
        self.backend = record["backend"]
        self.pooling, self.fingerprint = record.get("pooling"), record.get("fingerprint")
        path, int8 = folder / BACKENDS[self.backend], record.get("precision") == "int8"
        if not path.is_file():
            raise InputError(f"{name} lacks its graph, {BACKENDS[self.backend]}; export it again")
        if precision == "bf16" and (int8 or self.backend == "onnx"):
            why = "it was exported in int8" if int8 else "onnxruntime has no bf16 on a CPU; --format openvino has"
            raise InputError(f"{name} does not run in bf16: {why}")
        faster = (int8 or precision == "auto") and bf16_is_fast("cpu")
        half = self.backend == "openvino" and (precision == "bf16" or faster)
        self.precision = "int8" if int8 else "bf16" if half else "fp32"
        open_graph = {"onnx": _onnx_graph, "openvino": _openvino_graph}[self.backend]
        try:
            self._names, self._run = open_graph(path, half)
        except InputError:
            raise
        except Exception as error:  # of bytes from anywhere
            raise InputError(f"{path} cannot be opened: {first_line(error)}") from error

    @property
    def device(self) -> torch.device:
        """Graphs run on the CPU."""
        return torch.device("cpu")

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, text_mask: Tensor | None = None
    ) -> BaseModelOutputWithPooling:
        """Encode token ids `[N, L]`, padded on the right; the masks are 1 on real tokens, and 1 on those to pool."""
        masks = (attention_mask, attention_mask if text_mask is None else text_mask)
        rows = dict(zip(INPUTS, (input_ids, *masks), strict=True))
        found = self._run({name: rows[name].numpy() for name in self._names})
        return BaseModelOutputWithPooling(pooler_output=torch.from_numpy(found))

    def save_pretrained(self, folder: str | Path) -> None:
        """Raises `InputError`: copy the folder of the graph instead."""
        raise InputError("an exported encoder is saved by copying its folder")


Graph = tuple[list[str], Callable[[Arrays], NDArray[np.float32]]]  # the names of its inputs, and what runs it


def open_session(path: Path) -> Any:
    """A session of onnxruntime on the CPU, with the threads of torch."""
    onnxruntime = require("an exported graph", "onnx", "onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _onnx_graph(path: Path, half: bool) -> Graph:
    session = open_session(path)
    return [one.name for one in session.get_inputs()], lambda rows: session.run([EMBEDDING], dict(rows))[0]


def _openvino_graph(path: Path, half: bool) -> Graph:
    openvino = require("an exported graph", "openvino", "openvino")
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if half else "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }  # fmt: skip
    model = openvino.Core().compile_model(path, "CPU", settings)
    names = [one.get_any_name() for one in model.inputs]
    return names, lambda rows: np.array(model(dict(rows))[EMBEDDING], np.float32)
