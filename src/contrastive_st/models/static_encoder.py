"""A static encoder: a trainable table of token vectors, and its closed-form fit to a teacher."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Le
from numpy.typing import NDArray
from scipy import sparse
from tokenizers import Tokenizer, normalizers
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.buckets import flat_indices
from contrastive_st.errors import InputError, choice
from contrastive_st.files.reading import read_json
from contrastive_st.files.writing import write_json
from contrastive_st.losses.functional import normalize
from contrastive_st.models.architectures.static import STORAGES, StaticConfig, StaticModel
from contrastive_st.models.base import OwnArchitecture
from contrastive_st.models.saving import register, write_modules, write_tensors
from contrastive_st.options import checked
from contrastive_st.prefetch import in_chunks
from contrastive_st.static_vectors import Reading, StaticVectors
from contrastive_st.tokens import each_text
from contrastive_st.vectors import check_finite, unit_vectors


@register
class StaticEncoder(OwnArchitecture, StaticModel):
    """A table with one vector per token; the vector of a sentence is the mean of its tokens' vectors.

    In memory the table is float32. A saved folder gives the same vectors in this package, in sentence-transformers
    (`StaticEmbedding`), in model2vec and, with remote code, in plain `AutoModel`. To encode without torch, open it with
    `contrastive_st.static_vectors.StaticVectors`.

    Args:
        config: rows, dimension, storage.
        settings: settings of the loss, such as `temperature=0.05`; see `contrastive_st.models.configuration`.

    Example:
        >>> model = StaticEncoder(StaticConfig(vocab_size=50, hidden_size=8))
        >>> ids = torch.tensor([[[2, 7], [8, 9]], [[5, 6], [4, 0]]])  # two pairs
        >>> model(ids, attention_mask=(ids > 0).long()).loss.shape
        torch.Size([])
    """

    citation = "tulkens2024model2vec"
    code_class = StaticModel
    is_table = True  # bfloat16 would not make it faster
    _save_dtype: torch.dtype | None = None
    scales: Tensor | None = None  # of the rows of the stored table that was opened
    sparse_gradient = False  # of the rows of the batch's tokens alone, for `contrastive_st.training.optimizers.RowAdam`

    @classmethod
    def from_table(cls, table: NDArray[np.floating] | Tensor, normalize: bool = True, **settings: Any) -> StaticEncoder:
        """Make a model with this table `[V, d]`.

        Example:
            >>> StaticEncoder.from_table(np.eye(4, 3)).config.vocab_size
            4
        """
        table = torch.as_tensor(np.asarray(table) if not isinstance(table, Tensor) else table).float()
        rows, dim = table.shape
        model = cls(StaticConfig(rows, dim, normalize), **settings)
        model.embeddings = nn.Parameter(table.clone())
        return model

    @classmethod
    def from_vectors(cls, vectors: StaticVectors, **settings: object) -> StaticEncoder:
        """Make a model with the table of `vectors`, which reads texts as they do."""
        model = cls.from_table(vectors.table(), vectors.normalize, **settings)
        model.config.reading = vectors.reading.recorded
        model.scales = None if vectors.weights is None else torch.as_tensor(vectors.weights, dtype=torch.float32)
        return model

    def after_loading(self, new_head: bool | None) -> None:
        """Make the table float32 for training, and remember its storage."""
        self.save_dtype = getattr(torch, self.config.storage)
        self.widen()

    @property
    def save_dtype(self) -> torch.dtype | None:
        """The type of the saved table, one of `STORAGES`, if another than float32."""
        return self._save_dtype

    @save_dtype.setter
    def save_dtype(self, dtype: torch.dtype | None) -> None:
        choice("storage", str(dtype or "float32").removeprefix("torch."), STORAGES)
        self._save_dtype = dtype

    def widen(self) -> None:
        """Make the table a float32 parameter, whatever its storage was."""
        if self.config.storage == "float32":
            return
        table, self.scales = self.table().detach(), self.weights.detach()
        for name in ("embeddings", "weights"):
            if hasattr(self, name):
                delattr(self, name)
        self.embeddings = nn.Parameter(table.clone())
        self.config.storage = "float32"

    def save_pretrained(  # type: ignore[override]
        self, save_directory: str | Path, storage: str | None = None, **kwargs: object
    ) -> None:
        """Save the table, the config, the code and the files of the other loaders.

        Args:
            save_directory: the folder; save the tokenizer from `static_tokenizer` there too.
            storage: `float32`, `float16` or `int8` (a quarter of the size, with cosines to float32 above 0.999); by
                default that of the folder that it was opened from (`save_dtype`).
            kwargs: as for every model.
        """
        asked = self.save_dtype
        storage = choice("storage", storage or str(asked or "float32").removeprefix("torch."), STORAGES)
        self.config.architectures = [type(self).__name__]
        self.save_dtype = torch.float32  # whatever it is in memory; `_store` writes the table in its type
        super().save_pretrained(save_directory, **kwargs)
        self.save_dtype = asked
        if storage != "float32" and kwargs.get("is_main_process", True):
            self._store(Path(save_directory), storage)

    def write_other_loaders(self, folder: str | Path, state_dict: dict[str, Tensor] | None) -> None:
        """Write the code, and the files that sentence-transformers and model2vec read."""
        super().write_other_loaders(folder, state_dict)
        folder, config = Path(folder), self.config
        after = [("1_Normalize", "models.Normalize")] if config.normalize else []
        write_modules(folder, (".", "models.StaticEmbedding"), *after)
        (folder / "sentence_bert_config.json").unlink(missing_ok=True)
        edit_config(folder, normalize=config.normalize, max_length=config.reading.get("max_length"))

    def write_max_length(self, folder: Path, length: int | None) -> None:
        """Change the maximum length of texts in a folder where the model and its tokenizer were saved.

        This package and model2vec read it in config.json, and sentence-transformers in tokenizer.json, to which
        transformers writes the length that the tokenizer was last called with.
        """
        reading = replace(Reading(**self.config.reading), max_length=length)
        edit_config(folder, reading=reading.recorded, max_length=length)
        if (file := folder / "tokenizer.json").is_file():
            tokenizer = Tokenizer.from_file(str(file))
            _cut(tokenizer, length)
            tokenizer.save(str(file))

    def _store(self, folder: Path, storage: str) -> None:
        table = self.table().detach().cpu()
        values, scales = int8_rows(table, self.scales) if storage == "int8" else (table.half(), torch.ones(len(table)))
        write_tensors({"embeddings": values.contiguous(), "weights": scales}, folder / "model.safetensors")
        edit_config(folder, storage=storage)

    takes_lengths = True

    def _encode(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        lengths: NDArray[np.int64] | None = None,
        token_type_ids: Tensor | None = None,  # of a tokenizer of BERT
    ) -> BaseModelOutputWithPooling:
        if self.config.storage != "float32":
            return self.encode(input_ids, attention_mask)
        real = self.counted(input_ids, attention_mask)
        counts = real.sum(1)
        starts = counts.cumsum(0) - counts
        all_count = self.config.reading.get("left_out") is None
        total = int(lengths.sum()) if lengths is not None and all_count else None
        tokens = input_ids.flatten()[flat_indices(real, total)]
        table = self.embeddings
        if self.sparse_gradient:
            rows, tokens = tokens.unique(return_inverse=True)
            table = functional.embedding(rows, table, sparse=True)
        means = functional.embedding_bag(tokens, table, starts, mode="mean")
        return BaseModelOutputWithPooling(pooler_output=normalize(means) if self.config.normalize else means)


def int8_rows(table: Tensor, former: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """A table `[V, d]` as int8 and the scale of each row `[V]`: its `former` one where that is as exact.

    Example:
        >>> values, scales = int8_rows(torch.tensor([[1.0, -0.5], [0.0, 0.0]]))
        >>> values.tolist(), (scales * 127).tolist()
        ([[127, -64], [0, 0]], [1.0, 0.0])
        >>> int8_rows(torch.tensor([[3.0, -1.0]]), former=torch.ones(1))[0].tolist()
        [[3, -1]]
    """

    def rounded(scales: Tensor) -> tuple[Tensor, Tensor]:
        values = (table / torch.where(scales == 0, 1.0, scales)[:, None]).round().clamp(-128, 127)
        return values, (values * scales[:, None] - table).abs().amax(1)

    scales = table.abs().amax(1) / 127
    values, errors = rounded(scales)
    if former is not None:  # its steps are others in a row that had no value of 127
        former = functional.pad(former.to(table.device), (0, len(table) - len(former)), value=1.0)
        before, errors_before = rounded(former)
        kept = errors_before <= errors
        values, scales = torch.where(kept[:, None], before, values), torch.where(kept, former, scales)
    return values.to(torch.int8), scales


def _cut(tokenizer: Tokenizer, length: int | None) -> None:
    """Let a tokenizer cut texts to so many tokens."""
    tokenizer.no_truncation() if length is None else tokenizer.enable_truncation(length)


def edit_config(folder: Path, **values: object) -> None:
    """Change entries of a saved `config.json`."""
    path = folder / "config.json"
    write_json(path, read_json(path, dict) | values, sort_keys=True)


def static_tokenizer(tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> PreTrainedTokenizerFast:
    """A copy of a fast tokenizer without special tokens and padding, for a static model.

    Args:
        tokenizer: of transformers.
        max_length: texts are truncated to so many tokens; None reads them to their end.

    Raises:
        InputError: a slow tokenizer, which the other loaders cannot read.

    Example:
        >>> from tokenizers.models import WordPiece
        >>> vocabulary = {"[PAD]": 0, "[UNK]": 1, "a": 2, "cat": 3}
        >>> fast = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordPiece(vocabulary, unk_token="[UNK]")))
        >>> static_tokenizer(fast)("cat")["input_ids"]
        [3]
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise InputError(
            "a static model needs a fast tokenizer (one with a tokenizer.json), and this one is slow; give another"
        )
    state = {**json.loads(backend.to_str()), "post_processor": None, "truncation": None, "padding": None}
    bare = Tokenizer.from_str(json.dumps(state))
    _cut(bare, max_length)
    if bare.normalizer is None:
        bare.normalizer = normalizers.Sequence([])
    special = special_tokens(tokenizer)
    first, unknown = str(bare.id_to_token(0)), state["model"].get("unk_token")
    added = {token.content for token in bare.get_added_tokens_decoder().values()}
    if unknown and first not in added and 0 in bare.encode(first).ids:  # of texts: it would be cut out of other words
        first = unknown
    special.setdefault("pad_token", first)
    return PreTrainedTokenizerFast(tokenizer_object=bare, model_max_length=max_length or int(1e30), **special)


_SPECIAL = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """The special tokens of a tokenizer, as arguments of a copy."""
    return {name: token for name in _SPECIAL if (token := getattr(tokenizer, name, None)) is not None}


def silent_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids that get a zero vector: the special tokens, including that of unknown words, which model2vec leaves out.

    With zero vectors and normalization, every loader gives the same vectors, whether it counts these tokens or not.
    """
    ids = (getattr(tokenizer, f"{name}_id", None) for name in (*_SPECIAL, "bos_token", "eos_token"))
    return sorted({int(id) for id in ids if id is not None})


# --- The closed-form fit to a teacher: ridge regression of its sentence vectors on token counts.

Embed = Callable[[list[str]], NDArray[np.floating]]
_MOST_ENTRIES = 20_000_000  # entries of X that are kept, 160 MB
_SIF = 1e-4  # weight of a token of probability p is _SIF / (_SIF + p) (Arora et al. 2017)


@dataclass
class StaticFit:
    """The sums over texts that the closed-form fit needs; their size does not grow with the number of texts.

    Each text has a row in two matrices: `X` has its token counts divided by the square root of its number of tokens,
    and `T` the teacher's unit vector.

    Args:
        vocab_size: rows of the table.
        dim: dimension of the teacher's vectors.
    """

    vocab_size: int
    dim: int

    def __post_init__(self) -> None:
        self.texts = 0
        self.rows: list[sparse.csr_matrix] = []  # blocks of X, as long as they have few entries
        self.counts: sparse.csr_matrix | None = None  # X'X of all blocks before those
        self.products = np.zeros((self.vocab_size, self.dim), np.float64)  # X'T
        self.totals = np.zeros(self.vocab_size)  # X'1
        self.mean = np.zeros(self.dim)  # sum of T
        self.second = np.zeros((self.dim, self.dim))  # T'T

    def add(self, rows: Sequence[Sequence[int]], vectors: NDArray[np.floating]) -> None:
        """Add n texts as token ids, with the teacher's vectors of them `[n, D]`."""
        vectors = np.asarray(vectors, np.float32)
        if vectors.shape != (len(rows), self.dim):
            raise InputError(f"{len(rows)} texts and vectors {vectors.shape}; give [{len(rows)}, {self.dim}]")
        vectors = unit_vectors(check_finite(vectors, "the teacher"))
        x = count_rows(rows, self.vocab_size)
        self.rows.append(x)
        if sum(block.nnz for block in self.rows) > _MOST_ENTRIES:
            self._fold()
        self.products += x.T @ vectors
        self.totals += np.asarray(x.sum(0)).ravel()
        self.mean += vectors.sum(0, dtype=np.float64)
        self.second += vectors.T @ vectors
        self.texts += len(rows)

    def projection(self, dim: int) -> NDArray[np.float32]:
        """The first `dim` principal directions of the teacher's vectors, `[D, dim]`."""
        checked(f"dim, of a teacher's {self.dim} dimensions,", dim, Annotated[int, Ge(1), Le(self.dim)])
        mean = self.mean / self.texts
        _, directions = np.linalg.eigh(self.second / self.texts - np.outer(mean, mean))
        chosen = directions[:, ::-1][:, :dim]
        signs = np.sign(chosen[np.abs(chosen).argmax(0), np.arange(dim)])  # so that every machine gives the same result
        return np.ascontiguousarray(chosen * signs, dtype=np.float32)

    def solve(
        self,
        prior: NDArray[np.floating],
        projection: NDArray[np.floating],
        regularization: float = 0.1,
        steps: int = 25,
    ) -> NDArray[np.float32]:
        """Solve `(X'X + regularization I) (Z - prior) = X'(T - X prior)`, with T centred, for the table `Z [V, dim]`.

        Args:
            prior: `[V, dim]`; tokens that occur in no text keep this vector.
            projection: `[D, dim]`, applied to the teacher's vectors.
            regularization: how strongly the vectors are kept near the prior.
            steps: number of steps of conjugate gradients, for all columns at once.
        """
        mean = (self.mean / self.texts) @ projection
        target = self.products @ projection - np.outer(self.totals, mean)
        prior = np.asarray(prior, np.float32)
        blocks = [(block, block.T.tocsr()) for block in self.rows]

        def gram(table: NDArray[np.float32]) -> NDArray[np.float32]:
            """X'X times a table, computed as X'(X table) for the blocks of X that are kept, which is cheaper."""
            total = np.zeros_like(table) if self.counts is None else self.counts @ table
            for block, turned in blocks:
                total += turned @ (block @ table)
            return total

        right = np.asarray(target - gram(prior), np.float32)
        return prior + conjugate_gradients(lambda x: gram(x) + np.float32(regularization) * x, right, steps)

    def encoder(
        self,
        teacher: Embed,
        tokenizer: PreTrainedTokenizerBase,
        projection: NDArray[np.floating],
        regularization: float = 0.1,
        steps: int = 25,
        **settings: Any,
    ) -> StaticEncoder:
        """The fitted encoder, with the prior of `token_prior` and zero vectors for the tokens of `silent_ids`.

        `settings` are the settings of the loss for further training.
        """
        table = self.solve(token_prior(teacher, tokenizer) @ projection, projection, regularization, steps)
        table[silent_ids(tokenizer)] = 0
        return StaticEncoder.from_table(table, **settings)

    def _fold(self) -> None:
        for block in self.rows:
            product = (block.T @ block).tocsr()
            self.counts = product if self.counts is None else self.counts + product
        self.rows = []


def fit_static(
    teacher: Embed,
    texts: Iterable[str],
    tokenizer: PreTrainedTokenizerBase,
    dim: int = 256,
    *,
    regularization: float = 0.1,
    steps: int = 25,
    batch_size: int = 8192,
) -> tuple[StaticEncoder, PreTrainedTokenizerFast]:
    """Fit a static encoder to a teacher's vectors of texts, in closed form; also returns its tokenizer.

    The texts are read once; memory does not grow with their number.

    Args:
        teacher: returns an array `[n, D]` for a list of texts, as `SentenceEncoder.encode` does.
        texts: the texts. Texts on the topics that you will encode matter more than many texts.
        tokenizer: a fast tokenizer of transformers, such as the teacher's; special tokens are left out.
        dim: dimension of the table, at most the teacher's; the principal directions are kept.
        regularization: how strongly a token's vector is kept near the teacher's vector of that token.
        steps: number of steps of conjugate gradients.
        batch_size: number of texts given to the teacher at a time.

    Returns:
        The encoder, in float32, and its tokenizer, without special tokens.

    Raises:
        InputError: there are no texts, `dim` is above the teacher's, or a vector is not finite.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"[UNK]": 0, "red": 1, "cat": 2, "dog": 3}, unk_token="[UNK]"))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> fast = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
        >>> teacher = lambda texts: np.array([["red" in text, "cat" in text, "dog" in text] for text in texts]) - 0.3
        >>> model, own = fit_static(teacher, ["red cat", "red dog", "cat", "dog"], fast, dim=2)
        >>> model.config.hidden_size, own.tokenize("red cat")
        (2, ['red', 'cat'])
    """
    bare = static_tokenizer(tokenizer)
    fit: StaticFit | None = None
    for batch in in_chunks(each_text(texts), batch_size):
        vectors = np.asarray(teacher(batch))
        fit = fit or StaticFit(len(bare), vectors.shape[1])
        fit.add(token_rows(bare, batch), vectors)
    if fit is None:
        raise InputError("there are no texts to fit a static encoder to; give at least one")
    return fit.encoder(teacher, bare, fit.projection(dim), regularization, steps), bare


def token_prior(teacher: Embed, tokenizer: PreTrainedTokenizerBase, batch_size: int = 8192) -> NDArray[np.float32]:
    """The teacher's vector of each token as a text, centred, times its SIF weight (frequency from the id, by Zipf)."""
    tokens = [token.removeprefix("##") for token in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    once = {token: number for number, token in enumerate(dict.fromkeys(tokens))}  # "##s" is read as "s" is
    vectors = np.concatenate([np.asarray(teacher(batch), np.float32) for batch in in_chunks(once, batch_size)])
    vectors = unit_vectors(vectors)[[once[token] for token in tokens]]
    inverse = 1 / np.arange(1, len(vectors) + 1)
    weights = _SIF / (_SIF + inverse / inverse.sum())
    return np.asarray((vectors - vectors.mean(0)) * weights[:, None], np.float32)


def count_rows(rows: Sequence[Sequence[int]], vocab_size: int) -> sparse.csr_matrix:
    """Token counts of texts divided by the square root of the text's number of tokens, a sparse matrix `[n, V]`.

    Example:
        >>> count_rows([[2, 2, 0, 1], []], 3).toarray().tolist()
        [[0.5, 0.5, 1.0], [0.0, 0.0, 0.0]]
    """
    lengths = np.array([len(row) for row in rows], np.int64)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.concatenate([np.asarray(row, np.int32) for row in rows]) if len(rows) else np.zeros(0, np.int32)
    values = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths).astype(np.float32)
    matrix = sparse.csr_matrix((values, ids, bounds), shape=(len(rows), vocab_size))
    matrix.sum_duplicates()
    return matrix


def conjugate_gradients(
    apply: Callable[[NDArray[np.float32]], NDArray[np.float32]], right: NDArray[np.float32], steps: int
) -> NDArray[np.float32]:
    """Solve `apply(x) = right` for every column of `right` at once; `apply` must be symmetric and positive definite.

    Example:
        >>> conjugate_gradients(lambda x: np.diag([1.0, 4.0]) @ x, np.array([[2.0], [4.0]]), 5).round(6).tolist()
        [[2.0], [1.0]]
    """
    solution = np.zeros_like(right)
    residual, direction = right.copy(), right.copy()
    size = np.einsum("vd,vd->d", residual, residual)
    for _ in range(steps):
        image = apply(direction)
        step = size / np.maximum(np.einsum("vd,vd->d", direction, image), 1e-30)
        solution += step * direction
        residual -= step * image
        new = np.einsum("vd,vd->d", residual, residual)
        if new.max() < 1e-20:
            break
        direction = residual + new / np.maximum(size, 1e-30) * direction
        size = new
    return solution


def token_rows(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of each text, for a tokenizer from `static_tokenizer`."""
    backend = tokenizer.backend_tokenizer
    return [row.ids for row in backend.encode_batch_fast(list(texts), add_special_tokens=False)]
