"""Students made of some of a teacher's layers, and the teacher's vectors that they learn from."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm.auto import tqdm

from contrastive_st.errors import InputError
from contrastive_st.files.writing import atomic_write
from contrastive_st.models.auto import AutoModelForCL, load_tokenizer
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.prefetch import in_chunks
from contrastive_st.vectors import check_finite, unit_vectors

_COUNTS = ("num_hidden_layers", "n_layers")  # names of the number of layers in configs


def student_of(
    teacher: str | Path | SentenceEncoder,
    layers: Sequence[int] | None = None,
    *,
    pooling: str | None = None,
    max_length: int | None = None,
    **settings: object,
) -> SentenceEncoder:
    """Make an untrained student with some of a teacher's layers, its embeddings and its pooling, without dropout.

    Keep the first and the last layer: of six, `[0, 3, 5]` is a far better start than `[0, 1, 2]`.

    Args:
        teacher: checkpoint folder, Hub name, or an encoder of this package, of a family with a ForCL class.
        layers: numbers of the teacher's layers to keep, from 0, in ascending order; by default all.
        pooling: by default that of the teacher's folder.
        max_length: maximum number of tokens of a text; by default that of the teacher's folder.
        settings: settings of the student's loss, such as `loss="info_nce"`.

    Returns:
        The student with its tokenizer.

    Raises:
        InputError: the model has no layers, or not those asked for, or its pooling is not known.

    Example:
        >>> encoder = student_of("sentence-transformers/all-MiniLM-L6-v2", [0, 3, 5])  # doctest: +SKIP
        >>> encoder.model.config.num_hidden_layers  # doctest: +SKIP
        3
    """
    if isinstance(teacher, SentenceEncoder):
        model, tokenizer = teacher.model, teacher.tokenizer
    else:
        model = AutoModelForCL.from_pretrained(teacher, **({} if pooling is None else {"pooling": pooling}))
        tokenizer = load_tokenizer(teacher)
        if max_length:
            tokenizer.model_max_length = min(max_length, tokenizer.model_max_length)
    config = copy.deepcopy(model.config)
    total = int(getattr(config, "num_hidden_layers", 0))
    layers = list(range(total) if layers is None else layers)
    if not layers or sorted(set(layers)) != layers or layers[0] < 0 or layers[-1] >= total:
        raise InputError(f"layers {layers}: the teacher has {total} layers; give ascending numbers below that, from 0")
    for name in (*_COUNTS, *(key for key in vars(config) if "dropout" in key)):
        if hasattr(config, name) and isinstance(getattr(config, name), (int, float)):
            setattr(config, name, len(layers) if name in _COUNTS else 0.0)
    if isinstance(getattr(config, "layer_types", None), list):
        config.layer_types = [config.layer_types[layer] for layer in layers]
    weights = kept_layers(model, layers)
    # it learns from texts without prompts
    own: dict[str, object] = {"prompts": {}, "default_prompt_name": None, "truncate_dim": None}
    student = AutoModelForCL.from_config(config, **{**own, **settings})
    student.load_state_dict({k: v for k, v in weights.items() if k in student.state_dict()}, strict=False)
    return SentenceEncoder(student, tokenizer)


def kept_layers(model: nn.Module, layers: Sequence[int]) -> dict[str, Tensor]:
    """The weights of a model with only the given layers, which are renumbered from 0.

    Example:
        >>> from types import SimpleNamespace
        >>> model = nn.Module()
        >>> model.config = SimpleNamespace(num_hidden_layers=3)
        >>> model.layer = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
        >>> sorted(kept_layers(model, [0, 2]))
        ['layer.0.bias', 'layer.0.weight', 'layer.1.bias', 'layer.1.weight']
    """
    total = model.config.num_hidden_layers  # type: ignore[union-attr]
    lists = [name for name, part in model.named_modules() if isinstance(part, nn.ModuleList) and len(part) == total]
    if not lists:
        raise InputError(f"{type(model).__name__} has no list of {total} layers, so no layer can be left out")
    prefix = f"{min(lists, key=len)}."
    weights = {}
    for name, tensor in model.state_dict().items():
        number, _, rest = name.removeprefix(prefix).partition(".")
        if not name.startswith(prefix):
            weights[name] = tensor.clone()
        elif int(number) in layers:
            weights[f"{prefix}{list(layers).index(int(number))}.{rest}"] = tensor.clone()
    return weights


# --- A teacher's vectors of many texts, computed once by any number of processes and stored on disk in float16.

Embed = Callable[[list[str]], NDArray[np.floating]]
CHUNK = 4000  # texts per file


def teacher_vectors(
    teacher: Embed, texts: Sequence[str], folder: str | Path, fingerprint: str, *, progress: bool = False
) -> NDArray[np.float16]:
    """The teacher's unit vectors `[N, D]` of the texts, in float16, stored in `folder` in files of 4,000 texts.

    A run that was stopped resumes with the first missing file. Several processes may call this with the same texts at
    the same time: each begins with another file and skips those that the others have written.

    Args:
        teacher: returns vectors `[n, D]` for a list of texts.
        texts: the texts; other texts, or another order, give other files.
        folder: folder of the files.
        fingerprint: a hash of everything that decides the teacher's vectors.
        progress: print the rate and the time left to stderr.

    Returns:
        float16 `[N, D]`, of length 1.

    Raises:
        InputError: the teacher gives vectors that are not finite.

    Example:
        >>> import tempfile
        >>> calls = []
        >>> def teacher(texts):
        ...     calls.append(len(texts))
        ...     return np.array([[len(text), 1.0] for text in texts])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = teacher_vectors(teacher, ["a", "bcd"], folder, "lengths")
        ...     again = teacher_vectors(teacher, ["a", "bcd"], folder, "lengths")
        >>> calls, first.dtype.name, bool((first == again).all())
        ([2], 'float16', True)
    """
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    chunks = list(in_chunks(texts, CHUNK))
    files = [root / f"{chunk_name(chunk, fingerprint)}.npy" for chunk in chunks]
    first = int(os.environ.get("RANK", "0")) * len(files) // max(int(os.environ.get("WORLD_SIZE", "1")), 1)
    with tqdm(total=sum(map(len, chunks)), disable=not progress, unit=" texts", desc="teacher") as bar:
        for number in (*range(first, len(files)), *range(first)):
            if not files[number].is_file():
                _write(files[number], np.asarray(teacher(chunks[number]), np.float32))
            bar.update(len(chunks[number]))
    return np.concatenate([np.load(file) for file in files])


def chunk_name(texts: Sequence[str], fingerprint: str) -> str:
    """The name of the file for these texts in this order."""
    digest = hashlib.blake2b(fingerprint.encode(), digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _write(file: Path, vectors: NDArray[np.float32]) -> None:
    with atomic_write(file, overwrite=True) as path, open(path, "wb") as handle:
        np.save(handle, unit_vectors(check_finite(vectors, "the teacher")).astype(np.float16))
