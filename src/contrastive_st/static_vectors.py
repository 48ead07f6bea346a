"""Encode with a static model using only numpy, tokenizers and safetensors, without importing torch or transformers."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import filterfalse, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contrastive_st.buckets import Pass
from contrastive_st.errors import InputError, about
from contrastive_st.files.folders import CLASSIFIER, folder_name
from contrastive_st.files.reading import JsonObject, read_json, read_tensors
from contrastive_st.files.writing import replace_model, write_json
from contrastive_st.options import Count, CountOrZero, checked, field_types
from contrastive_st.terminal import progress
from contrastive_st.tokens import check_id, list_of_texts, without_surrogates
from contrastive_st.vectors import unit_vectors
from contrastive_st.word_cache import Ids, Lengths, WordCache, flat, reads_word_by_word

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FILES = ("config.json", "model.safetensors", "tokenizer.json")
_USE = "config_sentence_transformers.json"  # which model2vec, too, reads where there is no config.json
_MODEL2VEC_LENGTH = 512  # what model2vec reads where a folder does not say
_FEW_TOKENS = 4096  # with fewer, rows are read from the stored table; else the whole table becomes float32 once
_SUMMED_TOGETHER = 16  # texts, without SciPy; the cache holds the vectors of their tokens
_READ_TOGETHER = 4096  # texts that are tokenized together
Vectors = NDArray[np.float32]


def known(rows: Sequence[Sequence[int]], silent: Collection[int], beyond: int = 0) -> NDArray[np.bool_]:
    """Which rows of token ids have more than `beyond` ids that are not `silent` (unknown, special), bool `[len(rows)]`.

    Example:
        >>> known([[101, 7, 102], [101, 100, 102], []], silent={100, 101, 102}).tolist()
        [True, False, False]
    """

    def is_known(row: Sequence[int]) -> bool:
        ids = islice(filterfalse(silent.__contains__, row), beyond + 1)  # no more are read than it takes
        return len(list(ids)) > beyond

    return np.array([is_known(row) for row in rows], dtype=np.bool_)


@dataclass(frozen=True)
class Reading:
    """How a static model reads a text, in numpy and in torch; no loader adds special tokens.

    Args:
        max_length: a text is cut after so many tokens; None reads every text to its end.
        left_out: id of a token that does not count; with model2vec, that of unknown words.
        characters: model2vec first cuts a text to so many characters for each token of the maximum length.
    """

    max_length: Count | None = None
    left_out: CountOrZero | None = None
    characters: CountOrZero | None = None

    @classmethod
    def of_folder(cls, folder: Path, tokenizer: Tokenizer) -> Reading:
        """As the program that wrote the folder reads; `tokenizer` is that of its tokenizer.json.

        Raises:
            InputError: a value in config.json is not one of these.
        """
        config, types = static_config(folder), field_types(cls)
        if config.get("model_type") == "static":
            recorded = checked(f"{folder}/config.json: reading", config.get("reading", {}), dict)
        elif config.get("model_type") == "model2vec":
            recorded = _reading_of_model2vec(config, tokenizer)
        else:  # sentence-transformers
            recorded = {"max_length": (tokenizer.truncation or {}).get("max_length")}
        where = f"{folder}/config.json"
        return cls(**{name: checked(f"{where}: {name}", recorded.get(name), kind) for name, kind in types.items()})

    @property
    def recorded(self) -> dict[str, int]:
        """What config.json records of it: equal for those that read alike."""
        return {name: value for name, value in sorted(asdict(self).items()) if value is not None}

    def beginnings(self, texts: Sequence[str], longest: int | None) -> Sequence[str]:
        """The part of each text that is tokenized, if at most `longest` tokens of it count."""
        most = longest and self.characters and longest * self.characters
        return [text[:most] for text in texts] if most else texts


def _reading_of_model2vec(config: JsonObject, tokenizer: Tokenizer) -> JsonObject:
    model = json.loads(tokenizer.to_str())["model"]
    unknown = model.get("unk_token")
    return {
        "max_length": config.get("max_length", _MODEL2VEC_LENGTH),
        "left_out": tokenizer.token_to_id(unknown) if isinstance(unknown, str) else model.get("unk_id"),
        "characters": int(np.median([len(token) for token in tokenizer.get_vocab()])),
    }


class StaticTable:
    """The mean of the vectors of a text's tokens, of rows of token ids.

    Args:
        embeddings: the table `[V, d]`, one row per token, in float32, float16 or int8.
        weights: `[V]`, a factor for each row; with int8 these are the scales.
        normalize: return unit vectors.
        left_out: id of a token that does not count.

    Example:
        >>> table = StaticTable(np.array([[3, 0], [0, 4]], np.float32), normalize=False)
        >>> table.encode_rows([[0], [0, 1], []]).tolist()
        [[3.0, 0.0], [1.5, 2.0], [0.0, 0.0]]
    """

    def __init__(
        self,
        embeddings: np.ndarray,
        weights: NDArray[np.floating] | None = None,
        normalize: bool = True,
        left_out: int | None = None,
    ) -> None:
        if embeddings.ndim != 2 or (weights is not None and weights.shape != embeddings.shape[:1]):
            got = None if weights is None else weights.shape
            raise InputError(f"the table must be [V, d] and weights [V]; got {embeddings.shape} and {got}")
        if embeddings.dtype.kind != "f" and embeddings.dtype != np.int8:
            raise InputError(f"the table is of {embeddings.dtype}; give floats, or int8")
        if weights is not None and weights.dtype.kind != "f":
            raise InputError(f"the weights are of {weights.dtype}; give floats")
        self.embeddings, self.weights, self.normalize, self.left_out = embeddings, weights, normalize, left_out
        self._table: Vectors | None = None

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""
        return int(self.embeddings.shape[1])

    def encode_rows(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Vectors `[len(rows), d]` of token ids.

        Args:
            rows: token ids; an empty row gives zeros.

        Raises:
            InputError: an id has no vector.
        """
        return self._means(*flat(rows))

    def token_vectors(self, row: Sequence[int]) -> Vectors:
        """Vectors `[tokens, d]` of the tokens of one row that count, before their mean is taken."""
        ids = np.asarray(row, np.int32)
        return self._rows(ids if self.left_out is None else ids[ids != self.left_out])

    def _means(self, ids: Ids, lengths: Lengths) -> Vectors:
        check_id(int(ids.max(initial=0)), len(self.embeddings), None)
        if self.left_out is not None:
            ids, lengths = _those(ids, lengths, ids != self.left_out)
        few = self._table is None and len(ids) < _FEW_TOKENS
        vectors = self._few(ids, lengths) if few else self._many(ids, lengths)
        vectors /= np.maximum(lengths, 1)[:, None].astype(np.float32)
        return unit_vectors(vectors) if self.normalize else vectors

    def _few(self, ids: Ids, lengths: Lengths) -> Vectors:
        """The sum of each text's token vectors, with rows read from the stored table."""
        vectors = self._rows(ids)
        output = np.zeros((len(lengths), self.embeddings.shape[1]), np.float32)
        filled = lengths > 0
        if filled.any():
            starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
            output[filled] = np.add.reduceat(vectors, starts[filled], axis=0)
        return output

    def _many(self, ids: Ids, lengths: Lengths) -> Vectors:
        """The same sums, as the product of a sparse matrix of ones and the table in float32, if SciPy is installed."""
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        if importlib.util.find_spec("scipy") is None:
            cuts = np.arange(_SUMMED_TOGETHER, len(lengths), _SUMMED_TOGETHER)
            parts = zip(np.split(ids, bounds[cuts]), np.split(lengths, cuts), strict=True)
            return np.concatenate([self._few(*part) for part in parts])
        from scipy.sparse import csr_matrix

        if self._table is None:
            plain = self.weights is None and self.embeddings.dtype == np.float32
            self._table = self.embeddings if plain else self.table()
        counts = csr_matrix((np.ones(len(ids), np.float32), ids, bounds), shape=(len(lengths), len(self._table)))
        return np.asarray(counts @ self._table)

    def table(self) -> Vectors:
        """The vectors of all tokens `[V, d]`, weighted, in float32."""
        return self._rows(np.arange(len(self.embeddings)))

    def _rows(self, ids: np.ndarray) -> Vectors:
        vectors = np.asarray(self.embeddings[ids], np.float32)
        if self.weights is not None:
            vectors *= self.weights[ids][:, None].astype(np.float32)
        return vectors


class StaticVectors(StaticTable):
    """A static model: the vector of a text is the mean of its tokens' vectors in a table.

    `SentenceEncoder` encodes static models with it, so both give the same vectors and the same `fingerprint`;
    `SentenceEncoder(vectors)` adds prompts, streams and all else that commands and indices use.

    Args:
        embeddings: the table `[V, d]`, one row per token, in float32, float16 or int8.
        tokenizer: a `tokenizers.Tokenizer`; its special tokens are not added.
        weights: `[V]`, a factor for each row; with int8 these are the scales.
        normalize: return unit vectors.
        folder: the folder that it was loaded from.
        name: its name in reports; by default that of the folder.
        reading: how it reads a text; by default to its end, and every token counts.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> words = Tokenizer(models.WordLevel({"cat": 0, "dog": 1, "?": 2}, unk_token="?"))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> encoder = StaticVectors(np.array([[1, 0], [0, 1], [0, 0]], np.float32), words)
        >>> encoder.encode(["cat", "cat dog"]).astype(float).round(2).tolist()
        [[1.0, 0.0], [0.71, 0.71]]
        >>> encoder.encode("dog").shape
        (2,)
    """

    pooling = "mean"
    device = "cpu"
    opens_again = True
    #: The torch model and the tokenizer of transformers, once an encoder was asked for them
    in_torch: tuple[PreTrainedModel, PreTrainedTokenizerBase] | None = None
    bucket_limits: dict[str, float] = {"max_padding": 1.0, "max_tokens": 16_384}  # nothing is padded here

    def __init__(
        self,
        embeddings: np.ndarray,
        tokenizer: Tokenizer,
        weights: NDArray[np.floating] | None = None,
        normalize: bool = True,
        folder: Path | None = None,
        name: str | None = None,
        reading: Reading = Reading(),
    ) -> None:
        super().__init__(embeddings, weights, normalize, reading.left_out)
        self.reading = reading
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer, self.folder = tokenizer, folder
        self.name = name or ("model" if folder is None else folder_name(folder))
        self._words = WordCache(tokenizer) if reads_word_by_word(tokenizer) else None

    @classmethod
    def from_pretrained(cls, folder: str | Path, name: str | None = None) -> StaticVectors:
        """Open a model folder of this package, of model2vec or of sentence-transformers.

        Raises:
            InputError: the folder does not hold a static model, or a file of it is damaged.
        """
        from tokenizers import Tokenizer

        folder = Path(folder)
        with about(folder):
            inside = _table_folder(folder)
            if missing := [name for name in FILES[1:] if not (inside / name).is_file()]:
                raise InputError(f"{folder} is not a static model: {', '.join(missing)} is missing")
            config = static_config(folder)
            tensors = read_tensors(inside / "model.safetensors")
            tokenizer = Tokenizer.from_file(str(inside / "tokenizer.json"))
            reading = Reading.of_folder(folder, tokenizer)
        table = tensors.get("embeddings", tensors.get("embedding.weight"))
        if table is None:
            held = ", ".join(sorted(tensors)) or "nothing"
            raise InputError(f"{folder}/model.safetensors holds {held}; a static model has the tensor embeddings")
        if "mapping" in tensors:  # from a token to the row that it shares with others
            table = table[tensors["mapping"]]
        tokens = tokenizer.get_vocab_size()  # greater ids, if some are missing, are an error when a text has one
        if tokens > len(table):
            raise InputError(f"{folder}: {tokens} tokens but {len(table)} vectors; save it again")
        if reading.left_out is not None:  # other loaders count it: zeros do not turn the mean
            table[reading.left_out] = 0
        weights = tensors.get("weights")
        if config.get("model_type") != "static":
            table, weights = _as_copied(table, weights, tokenizer)
        normalize = bool(config.get("normalize", False))
        return cls(table, tokenizer, weights, normalize, folder, name, reading)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that opens here, in `SentenceEncoder` and in model2vec: a copy of the one it was loaded from.

        The copy is opened before it gets its name. Of an existing folder, the files of the model are replaced.

        Raises:
            InputError: it was made in memory, or the copy does not give the same vectors.
        """
        if self.folder is None:
            raise InputError(f"{self.name} was made in memory; save it as a StaticEncoder")
        table = _table_folder(self.folder)
        with replace_model(folder) as new:
            for path in {*self.folder.iterdir(), *table.iterdir()}:
                if path.suffix in (".json", ".safetensors", ".py") and not path.name.endswith(CLASSIFIER):
                    to = new / path.relative_to(self.folder)
                    to.parent.mkdir(exist_ok=True)
                    shutil.copyfile(path, to)
            if not (new / FILES[0]).is_file():
                use = read_json(new / _USE, dict) if (new / _USE).is_file() else {}
                write_json(new / _USE, {**use, "normalize": self.normalize, "max_length": self.max_length})
            if StaticVectors.from_pretrained(new).fingerprint != self.fingerprint:
                raise InputError(f"{self.name} was not saved: its folder {self.folder} has changed since it was opened")

    @cached_property
    def silent(self) -> set[int]:
        """The id of the unknown token, or nothing where every text has tokens."""
        model = self.tokenizer.model
        unknown = getattr(model, "unk_id", None)  # Unigram has the id, the other models the token
        token = getattr(model, "unk_token", None)
        unknown = self.tokenizer.token_to_id(token) if unknown is None and token is not None else unknown
        return set() if unknown is None else {unknown}

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens of the tokenizer; all ids are smaller."""
        return int(self.tokenizer.get_vocab_size())

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a text; None if there is no limit."""
        return self.reading.max_length

    @property
    def fingerprint(self) -> str:
        """A hash (32 hexadecimal digits) of all that decides the vectors: table, tokenizer, how it reads, and so on."""
        return self.hash(self.max_length, None, "")

    def encode(self, texts: str | Sequence[str], *, show_progress_bar: bool = False) -> Vectors:
        """Vectors of the texts, float32 `[len(texts), d]`, in the same order; for a single string, `[d]`.

        Args:
            texts: a string or a list of strings; a text without a known token gives a zero vector.
            show_progress_bar: show the rate and the time left.

        Raises:
            InputError: a text is not a string.
        """
        items = list_of_texts(texts)
        with progress(len(items)) if show_progress_bar else nullcontext(lambda count: None) as done:
            output = self.of_texts(items, None, 0, Pass(done=done))
        return np.asarray(output[0] if isinstance(texts, str) else output)

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which texts have a token that the model knows, bool `[len(texts)]`, as for `SentenceEncoder.knows`."""
        return known(self.token_rows(list_of_texts(texts)), self.silent)

    # ------------------------------------------------------------------ what `SentenceEncoder` asks, as of `Running`

    def length(self, asked: int | None) -> int | None:
        """Maximum number of tokens of a text; None if there is no limit."""
        return asked or self.reading.max_length

    def precision(self, asked: str) -> tuple[str, bool]:
        """float32, whatever is asked for: nothing would be faster."""
        return "fp32", False

    def hash(self, max_length: int | None, truncate_dim: int | None, *others: object) -> str:
        """A hash of all that decides the vectors of an encoder with these settings."""
        digest = hashlib.blake2b(digest_size=16)  # of what an encoder cannot change
        for array in (self.embeddings, self.weights):
            if array is not None:
                digest.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        digest.update(f"{self.normalize} {self.tokenizer.to_str()}".encode())
        if self.reading.left_out is not None or self.reading.characters:
            digest.update(f" {self.reading.left_out} {self.reading.characters}".encode())
        fixed = digest.hexdigest()
        if max_length is None and truncate_dim is None and not any(others):
            return fixed
        decides = f"{fixed} {max_length} {truncate_dim} {others}"
        return hashlib.blake2b(decides.encode(), digest_size=16).hexdigest()

    def token_rows(self, texts: Sequence[str], longest: int | None = None, prompt: str = "") -> list[list[int]]:
        """Token ids of each text after a prompt, at most `longest`, for `encode_rows`."""
        ids, lengths = self._read([prompt + text for text in texts], longest)
        flat, ends = ids.tolist(), [0, *np.cumsum(lengths).tolist()]
        return [flat[start:end] for start, end in pairwise(ends)]

    def of_texts(self, texts: Sequence[str], longest: int | None, before: int, run: Pass, prompt: str = "") -> Vectors:
        """Vectors `[len(texts), d]`, for `SentenceEncoder.encode`: nothing is padded, and a prompt counts."""
        output = np.empty((len(texts), self.embeddings.shape[1]), np.float32)
        for start in range(0, len(texts), _READ_TOGETHER):
            part = [prompt + text for text in texts[start : start + _READ_TOGETHER]]
            output[start : start + _READ_TOGETHER] = self._means(*self._read(part, longest))
            run.done(len(part))
        return output

    def vectors(self, rows: list[list[int]], before: int, run: Pass) -> Vectors:
        """Vectors `[len(rows), d]` of token ids."""
        return self.encode_rows(rows)

    def stream(self, buckets: Iterable[tuple[Sequence[Sequence[int]], int] | None]) -> Iterator[Vectors]:
        """Vectors of each bucket of rows."""
        return (self.encode_rows(bucket[0]) for bucket in buckets if bucket is not None)

    def _read(self, texts: Sequence[str], longest: int | None = None) -> tuple[Ids, Lengths]:
        """The token ids of all texts, one after the other, and the number of tokens of each text."""
        longest = longest or self.reading.max_length
        read = self.reading.beginnings(without_surrogates(texts), longest)
        if self._words is not None:
            with about(self.name):
                ids, lengths = self._words.ids(read)
        else:
            rows = self.tokenizer.encode_batch_fast(read, add_special_tokens=False)
            ids, lengths = flat([row.ids for row in rows])
        if longest is None or lengths.max(initial=0) <= longest:
            return ids, lengths
        return _those(ids, lengths, np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths) < longest)


def _those(ids: Ids, lengths: Lengths, kept: NDArray[np.bool_]) -> tuple[Ids, Lengths]:
    """The ids that are kept, and how many there are of each text."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return ids[kept], np.bincount(row[kept], minlength=len(lengths))


def _as_copied(
    table: NDArray[np.generic], weights: NDArray[np.floating] | None, tokenizer: Tokenizer
) -> tuple[NDArray[np.generic], NDArray[np.floating] | None]:
    """A table, its weights and its tokenizer as in a copy by this package, which has the same fingerprint."""
    from tokenizers import normalizers, processors

    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    tokenizer.normalizer = tokenizer.normalizer or normalizers.Sequence([])
    if weights is not None and table.dtype == np.float32:
        return table * weights[:, None].astype(np.float32), None
    if weights is None and table.dtype in (np.float16, np.int8):
        return table, np.ones(len(table), np.float32)
    return table, weights


def _table_folder(folder: Path) -> Path:
    """The folder of the table: that of the module `StaticEmbedding` in modules.json, if there is one."""
    modules = read_json(folder / "modules.json", list) if (folder / "modules.json").is_file() else []
    paths = [module.get("path", "") for module in modules if str(module.get("type")).endswith(".StaticEmbedding")]
    return folder / Path(paths[0]).name if paths else folder


def static_config(folder: Path) -> JsonObject:
    """What a folder says of its table; sentence-transformers has it in modules.json alone.

    A config without a model_type is model2vec's, of a model that was made in memory.
    """
    path = folder / "config.json"
    if path.is_file():
        return {"model_type": "model2vec", **json.loads(path.read_text(encoding="utf-8"))}
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    return {"normalize": any(str(module["type"]).endswith(".Normalize") for module in modules)}
