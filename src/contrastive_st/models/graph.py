"""Run exported graphs with onnxruntime or OpenVINO, without torch or transformers; `export.py` writes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from contrastive_st.buckets import Pass, bucket_rows, padded_widths, rows_of_one_length
from contrastive_st.device import bf16_is_fast
from contrastive_st.errors import InputError, about, require
from contrastive_st.files.folders import CLASSIFIER, ENCODER, read_export
from contrastive_st.files.reading import JsonObject, read_json
from contrastive_st.forks import Lock
from contrastive_st.models.checkpoint import BACKENDS, Checkpoint, mixes_padding, most_tokens
from contrastive_st.processors import threads
from contrastive_st.tokens import check_id, lowercase, prompt_length, token_ids

INPUTS = ("input_ids", "attention_mask", "text_mask")
EMBEDDING, STATES = "sentence_embedding", "last_hidden_state"
_TOKENIZING = Lock()  # how long rows may be is a state of the tokenizer
Arrays = Mapping[str, np.ndarray]
Vectors = NDArray[np.float32]


class FileTokenizer:
    """The tokenizer in a `tokenizer.json`, as `token_ids` asks for one.

    Args:
        folder: also holds `tokenizer_config.json`, which names the special tokens and the maximum length.
        lower_case: texts are lowercased first.
    """

    def __init__(self, folder: Path, lower_case: bool = False) -> None:
        from tokenizers import Tokenizer

        with about(folder / "tokenizer.json"):
            self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.backend_tokenizer.no_padding()
        self.backend_tokenizer.no_truncation()
        if lower_case:
            lowercase(self.backend_tokenizer)
        path = folder / "tokenizer_config.json"
        self.settings: JsonObject = read_json(path, dict) if path.is_file() else {}
        self.model_max_length = self.settings.get("model_max_length", 1 << 30)

    @cached_property
    def all_special_ids(self) -> list[int]:
        """The ids of the tokens that the settings name: the first and the last of a text, padding, unknown, ..."""
        ids = map(self._id, [name for name in self.settings if name.endswith("_token")])
        return [number for number in ids if number is not None]

    @cached_property
    def pad_token_id(self) -> int:
        """The id of padding: a text without tokens has its vector."""
        return self._id("pad_token") or 0

    def _id(self, name: str) -> int | None:
        value = self.settings.get(name)
        text = value["content"] if isinstance(value, dict) else value
        return self.backend_tokenizer.token_to_id(text) if isinstance(text, str) else None

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size())

    def __call__(self, texts: Sequence[str], truncation: bool, max_length: int | None) -> dict[str, list[list[int]]]:
        """Token ids of texts, special tokens included, and cut if there is a `max_length`."""
        asked = max_length if truncation else None
        # set if it changes: in a forked child, that waits forever for a thread of its parent that was tokenizing
        if asked != (self.backend_tokenizer.truncation or {}).get("max_length"):
            self.backend_tokenizer.no_truncation()
            if asked is not None:
                self.backend_tokenizer.enable_truncation(asked)
        return {"input_ids": [row.ids for row in self.backend_tokenizer.encode_batch_fast(list(texts))]}

    def convert_ids_to_tokens(self, number: int) -> str:
        """The token of an id."""
        return str(self.backend_tokenizer.id_to_token(number))


class GraphVectors:
    """An exported graph, which encodes for `SentenceEncoder` as `Running` does with torch.

    Args:
        checkpoint: a folder written by `contrastive_st.models.export`.
        precision: as for `SentenceEncoder`. OpenVINO can run a float32 graph in bf16, and runs the float32 part of an
            int8 graph in bf16 if the hardware is faster with it; onnxruntime has no bf16.

    Raises:
        InputError: a package is missing, the graph is missing or damaged, or it cannot run in this precision.
    """

    device = "cpu"
    opens_again = True
    bucket_limits: dict[str, float] = {"min_tokens": 2048, "max_tokens": 2048}

    def __init__(self, checkpoint: Checkpoint, precision: str = "fp32") -> None:
        folder, self.name = checkpoint.folder, checkpoint.name
        self._opened_from = checkpoint, precision
        record = read_export(folder)
        self.config = SimpleNamespace(**read_json(folder / "config.json", dict))
        self.tokenizer = FileTokenizer(checkpoint.tokenizer, checkpoint.lower_case)
        self.limit = most_tokens(checkpoint.max_length or self.tokenizer.model_max_length, self.config)
        self.backend = record["backend"]
        self.pooling, self.fingerprint = str(record.get("pooling")), record.get("fingerprint")
        path, int8 = folder / BACKENDS[self.backend], record.get("precision") == "int8"
        if not path.is_file():
            raise InputError(f"{self.name} has no exported graph, {BACKENDS[self.backend]}; export it again")
        if precision == "bf16" and (int8 or self.backend == "onnx"):
            why = "it was exported in int8" if int8 else "onnxruntime has no bf16 on a CPU; --format openvino has"
            raise InputError(f"{self.name} does not run in bf16: {why}")
        asked = precision == "bf16" or int8 or precision == "auto"
        half = self.backend == "openvino" and asked and (precision == "bf16" or bf16_is_fast("cpu"))
        self.runs_in = "int8" if int8 else "bf16" if half else "fp32"
        open_graph = {"onnx": _onnx_graph, "openvino": _openvino_graph}[self.backend]
        with about(path):
            self._names, self._run = open_graph(path, half)

    def __reduce__(self) -> tuple[type[GraphVectors], tuple[Checkpoint, str]]:
        """A copy, or one in another process, opens the folder again."""
        return GraphVectors, self._opened_from

    # ------------------------------------------------------------------ what `SentenceEncoder` asks, as of `Running`

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens of the tokenizer for which the graph has a vector."""
        return min(len(self.tokenizer), getattr(self.config, "vocab_size", len(self.tokenizer)))

    @property
    def silent(self) -> set[int]:
        """Ids of tokens that say nothing."""
        return set(self.tokenizer.all_special_ids)

    def length(self, asked: int | None) -> int | None:
        """Maximum number of tokens of a text; None if there is no limit."""
        return most_tokens(asked or self.limit or 1 << 30, self.config)

    def precision(self, asked: str) -> tuple[str, bool]:
        """That in which the graph runs."""
        return self.runs_in, False

    def hash(self, *others: object) -> str:
        """The fingerprint of the checkpoint that was exported."""
        return str(self.fingerprint)

    def on(self, device: object) -> NoReturn:
        """Raises `InputError` for any device but the CPU."""
        raise InputError(f"{self.name} is an exported model, which runs only on the cpu")

    def save(self, folder: Path, recorded: Checkpoint) -> None:
        """Copy the files of the encoder, for `SentenceEncoder.save_pretrained`."""
        source = self._opened_from[0].folder
        for pattern in (*ENCODER, "[0-9]*_*/*", f"{self.backend}/*"):
            for path in source.glob(pattern):
                if not path.name.endswith(CLASSIFIER):
                    (target := folder / path.relative_to(source)).parent.mkdir(exist_ok=True)
                    shutil.copyfile(path, target)

    def token_rows(self, texts: Sequence[str], longest: int | None = None, prompt: str = "") -> list[list[int]]:
        """Token ids of each text after a prompt, at most `longest`."""
        with _TOKENIZING.held():
            marked = [prompt + text for text in texts]
            return token_ids(self.tokenizer, marked, longest or 1 << 30)  # type: ignore[arg-type]

    def prompt_length(self, prompt: str) -> int:
        """Number of tokens of a prompt at the start of each row, for `vectors`."""
        with _TOKENIZING.held():
            return prompt_length(self.tokenizer, prompt, self.limit or 1 << 30)  # type: ignore[arg-type]

    def of_texts(self, texts: Sequence[str], longest: int | None, before: int, run: Pass, prompt: str = "") -> Vectors:
        """Vectors `[len(texts), d]`, for `SentenceEncoder.encode`."""
        return self.vectors(self.token_rows(texts, longest, prompt), before, run)

    def vectors(self, rows: list[list[int]], before: int, run: Pass) -> Vectors:
        """Vectors `[len(rows), d]` of token ids, of which the first `before` of each row are not pooled."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        buckets = self._buckets(lengths, {**self.bucket_limits, **run.limits})
        parts = []
        for bucket in buckets:
            parts.append(self._forward([rows[i] for i in bucket], before))
            run.done(len(bucket))
        return np.concatenate(parts)[np.argsort(np.concatenate(buckets))]

    def stream(self, buckets: Iterable[tuple[Sequence[Sequence[int]], int] | None]) -> Iterator[Vectors]:
        """Vectors of each bucket of rows."""
        if mixes_padding(self.config):
            return (self.vectors(list(map(list, rows)), before, Pass()) for rows, before in filter(None, buckets))
        return (self._forward(*bucket) for bucket in buckets if bucket is not None)

    def token_vectors(self, rows: object, run: Pass) -> NoReturn:
        """Raises `InputError`: a graph gives the vectors of texts alone."""
        raise InputError(f"{self.name} does not return the vectors of tokens; leave output_value out")

    def _buckets(self, lengths: NDArray[np.int64], limits: Mapping[str, float]) -> list[NDArray[np.int64]]:
        if mixes_padding(self.config):
            most = {name: int(limits[name]) for name in ("max_tokens", "max_rows") if name in limits}
            return rows_of_one_length(lengths, **most)
        return bucket_rows(lengths, **limits)  # type: ignore[arg-type]

    def _forward(self, rows: Sequence[Sequence[int]], before: int) -> Vectors:
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        check_id(max(map(max, filter(None, rows)), default=0), self.vocabulary_size, self.tokenizer, self.name)
        width = max(int(lengths.max()), 1)
        if not mixes_padding(self.config):
            width = int(padded_widths(np.array([width]), self.limit or width)[0])
        mask = (np.arange(width) < lengths[:, None]).astype(np.int64)
        ids = np.full_like(mask, self.tokenizer.pad_token_id)
        ids[mask.astype(bool)] = np.concatenate(rows)
        text = mask * (np.arange(width) >= before)
        inputs = dict(zip(INPUTS, (ids, mask, text), strict=True))
        return self._run({name: inputs[name] for name in self._names})


Graph = tuple[list[str], Callable[[Arrays], Vectors]]  # the names of its inputs, and what runs it


def open_session(path: Path) -> Any:
    """A session of onnxruntime on the CPU."""
    onnxruntime = require("an exported graph", "onnx", "onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads(), 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _onnx_graph(path: Path, half: bool) -> Graph:
    session = open_session(path)
    return [one.name for one in session.get_inputs()], lambda rows: session.run([EMBEDDING], dict(rows))[0]


def _openvino_graph(path: Path, half: bool) -> Graph:
    openvino = require("an exported graph", "openvino", "openvino")
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if half else "f32", "INFERENCE_NUM_THREADS": threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }  # fmt: skip
    model = openvino.Core().compile_model(path, "CPU", settings)
    turns = Lock()  # all calls share one request, and those of several threads would mix their texts

    def run(rows: Arrays) -> Vectors:
        with turns.held():
            return np.array(model(dict(rows))[EMBEDDING], np.float32)

    return [one.get_any_name() for one in model.inputs], run
