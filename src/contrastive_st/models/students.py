"""Students made of some of a teacher's layers and vocabulary, and the teacher's vectors that they learn from."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from contrastive_st.errors import InputError
from contrastive_st.files.writing import atomic_write
from contrastive_st.models.adapters import with_merged_adapter
from contrastive_st.models.auto import AutoModelForCL, load_tokenizer
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.static_encoder import special_tokens
from contrastive_st.prefetch import in_chunks
from contrastive_st.vectors import check_finite, unit_vectors

_COUNTS = ("num_hidden_layers", "n_layers")  # names of the number of layers in configs


def student_of(
    teacher: str | Path | SentenceEncoder,
    layers: Sequence[int] | None = None,
    *,
    vocabulary: Iterable[str] | None = None,
    pooling: str | None = None,
    max_length: int | None = None,
    **settings: object,
) -> SentenceEncoder:
    """Make an untrained student with some of a teacher's layers, its embeddings and its pooling, without dropout.

    Keep the first and the last layer: of six, `[0, 3, 5]` is a far better start than `[0, 1, 2]`.

    Args:
        teacher: checkpoint folder, Hub name, or an encoder of this package, of a family with a ForCL class.
        layers: numbers of the teacher's layers to keep, from 0, in ascending order; by default all.
        vocabulary: tokens to keep; by default all. Only for WordPiece tokenizers. Special tokens, single characters and
            their continuations are always kept, so that every text still has tokens.
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
        model, tokenizer = teacher.model, copy.copy(teacher.tokenizer)
        tokenizer.model_max_length = teacher.max_length or tokenizer.model_max_length
    else:
        model = AutoModelForCL.from_pretrained(teacher, **({} if pooling is None else {"pooling": pooling}))
        tokenizer = load_tokenizer(teacher)
    if max_length:
        tokenizer.model_max_length = min(max_length, tokenizer.model_max_length)
    model = with_merged_adapter(model)
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
    if vocabulary is not None:
        tokenizer, rows = trimmed_tokenizer(tokenizer, vocabulary)
        table = model.get_input_embeddings().weight
        name = next(str(name) for name, weight in model.named_parameters() if weight is table)
        weights[name] = weights[name][torch.tensor(rows)].clone()
        config.vocab_size, config.pad_token_id = len(rows), tokenizer.pad_token_id
    # it learns from texts without prompts
    defaults: dict[str, object] = {"prompts": {}, "default_prompt_name": None, "truncate_dim": None}
    defaults |= {} if pooling is None else {"pooling": pooling}
    defaults |= {} if model.settings is None else model.settings.without_methods()
    student = AutoModelForCL.from_config(config, **{**defaults, **settings})
    kept = {k: v for k, v in weights.items() if k in student.state_dict()}
    missing, _ = student.load_state_dict(kept, strict=False)
    if drawn := [name for name in missing if name.startswith(f"{student.base_model_prefix}.")]:
        raise InputError(f"the teacher has no weight {drawn[0]}; give a checkpoint folder")
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
    parts = ((name, part) for name, part in model.named_modules() if not name.startswith("loss_head."))  # of a decoder
    lists = [name for name, part in parts if isinstance(part, nn.ModuleList) and len(part) == total]
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


def trimmed_tokenizer(
    tokenizer: PreTrainedTokenizerBase, vocabulary: Iterable[str]
) -> tuple[PreTrainedTokenizerFast, list[int]]:
    """A WordPiece tokenizer with only some of the tokens, and for each of its ids the original id.

    Raises:
        InputError: the tokenizer is not a fast WordPiece tokenizer.

    Example:
        >>> from tokenizers.models import WordPiece
        >>> vocab = {"[PAD]": 0, "[UNK]": 1, "cat": 2, "dog": 3, "c": 4, "##s": 5}
        >>> fast = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordPiece(vocab, unk_token="[UNK]")),
        ...                                unk_token="[UNK]", pad_token="[PAD]")
        >>> trimmed_tokenizer(fast, ["dog"])[1]
        [0, 1, 3, 4, 5]
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    state = json.loads(backend.to_str()) if backend is not None else {}
    if state.get("model", {}).get("type") != "WordPiece":
        raise InputError(
            "only the vocabulary of a WordPiece tokenizer can be trimmed, and this is another kind; leave it out"
        )
    around = (state.get("post_processor") or {}).get("special_tokens", {}).values()  # that it adds to every text
    old, kept = state["model"]["vocab"], set(vocabulary) | set(tokenizer.all_special_tokens)
    kept |= {name for token in around for name in token["tokens"]}
    single = {token for token in old if len(token.removeprefix("##")) == 1}
    chosen = sorted((number, token) for token, number in old.items() if token in kept | single)
    new = {token: number for number, (_, token) in enumerate(chosen)}
    state["model"]["vocab"] = new
    for token in state["added_tokens"]:  # which may be in the vocabulary, or after it
        if token["content"] in kept and token["content"] not in new:
            chosen.append((token["id"], token["content"]))
    ids = {token: number for number, (_, token) in enumerate(chosen)}
    state["added_tokens"] = [
        {**token, "id": ids[token["content"]]} for token in state["added_tokens"] if token["content"] in ids
    ]
    for token in around:
        token["ids"] = [new[name] for name in token["tokens"]]
    for side in ("sep", "cls"):
        if isinstance((state.get("post_processor") or {}).get(side), list):
            state["post_processor"][side][1] = new[state["post_processor"][side][0]]
    backend = Tokenizer.from_str(json.dumps({**state, "padding": None, "truncation": None}))
    trimmed = PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=tokenizer.model_max_length, **special_tokens(tokenizer)
    )
    return trimmed, [number for number, _ in chosen]


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
