"""Read word vectors in the formats of GloVe, word2vec and fastText, and make embedding layers of them."""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from contrastive_st.data.tokenizers import PAD_ID, UNK_ID, reachable, with_more_words, word_tokenizer, words_of
from contrastive_st.errors import InputError, about
from contrastive_st.options import Count, checked
from contrastive_st.tokens import list_of_texts
from contrastive_st.vectors import unit_vectors

# --- Word vectors computed from a corpus by latent semantic analysis.


def lsa_word_vectors(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, size: int) -> torch.Tensor:
    """Word vectors by latent semantic analysis of a corpus: words that occur in the same texts have similar vectors.

    They are the right singular vectors of the TF-IDF matrix, times the singular values (Deerwester et al. 1990), with
    each row scaled to unit length. Words that are in no text have zero vectors.

    Args:
        texts: the corpus, at least a few hundred texts.
        tokenizer: row i is the vector of its token i.
        size: the dimension of the vectors; if there are fewer texts or words, the other dimensions are zero.

    Returns:
        `[len(tokenizer), size]`, float32.
    """
    words = lambda text: tokenizer.tokenize(text, verbose=False)  # texts longer than a model's rows count whole
    vocabulary = tokenizer.get_vocab()
    tfidf = TfidfVectorizer(analyzer=words, vocabulary=vocabulary, lowercase=False, sublinear_tf=True)
    weights = tfidf.fit_transform(list_of_texts(texts))
    rank = min(size, *weights.shape)
    svd = TruncatedSVD(rank, random_state=0).fit(weights)
    seen = weights.getnnz(0)[:, None] > 0
    vectors = np.where(seen, svd.components_.T * svd.singular_values_, 0.0)
    return functional.pad(torch.from_numpy(unit_vectors(vectors)).float(), (0, size - rank))


_HEADER = re.compile(rb"(\d+)[ \t]+(\d+)[ \t]*\r?\n?")
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\udc80-\udcff]")  # control characters and what is not UTF-8
_READ, _LONGEST_WORD, _LONGEST_LINE = 1 << 20, 1 << 16, 1 << 22
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # the first bytes of a fastText .bin, which is a model

Row = tuple[int, str, NDArray[np.float32]]  # the number of a line or row, from 1, the word, its vector [d]


@dataclass(frozen=True)
class WordVectors:
    """Word vectors by word.

    Args:
        words: N distinct words, in the order of the file.
        vectors: `[N, d]`, float32.

    Example:
        >>> WordVectors(["cat"], np.ones((1, 3), np.float32)).vectors.shape
        (1, 3)
    """

    words: list[str]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.words)


def read_word_vectors(path: str | Path, limit: int | None = None, words: Collection[str] | None = None) -> WordVectors:
    r"""Read a vector file, which may be compressed by gzip; its content decides the format.

    | format                       | what is in it                                                   |
    |------------------------------|-----------------------------------------------------------------|
    | GloVe                        | per line a word and d numbers; the word may have spaces         |
    | word2vec text, fastText .vec | the same, after a first line with the number of words and d     |
    | word2vec binary              | that first line, then word, space and d little-endian float32   |

    Only spaces separate cells, and only line feeds end lines. Memory is that of the result: rows that are not wanted
    are not kept, and the array grows while rows are read.

    Args:
        path: the file.
        limit: read only this many rows; in all published files the most frequent words come first.
        words: keep only these words.

    Raises:
        InputError: the file is empty or truncated, or has a row of another dimension, a repeated word, or a cell that
            is not a finite number. The message names the file and the line (in a binary file, the row).

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "vectors.txt")
        ...     _ = path.write_text("the 0.5 1\n. . . 2 -1e-1\n")
        ...     read_word_vectors(path)
        WordVectors(words=['the', '. . .'], vectors=array([[ 0.5,  1. ], [ 2. , -0.1]], dtype=float32))
    """
    checked("limit", limit, Count | None)
    seen, requested = dict[str, int](), None if words is None else frozenset(words)
    vectors = np.empty((0, 0), dtype=np.float32)
    with about(path):
        with open(path, "rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
        with cast(BinaryIO, gzip.open(path, "rb")) if packed else open(path, "rb") as file:
            unit, rows = _open(file, str(path))
            for count, (number, word, vector) in enumerate(rows, 1):
                if requested is None or word in requested:
                    size = len(seen)
                    if seen.setdefault(word, number) != number:
                        what = f"{word!r} is there already, in {unit} {seen[word]}; keep one of them"
                        raise InputError(f"{path}, {unit} {number}: {what}")
                    if size == len(vectors):
                        vectors.resize((size + size // 8 + 1024, len(vector)), refcheck=False)  # in place if possible
                    vectors[size] = vector
                if count == limit or (requested is not None and len(seen) == len(requested)):
                    break
    vectors.resize((len(seen), vectors.shape[1]), refcheck=False)
    return WordVectors(list(seen), vectors)


def _open(file: BinaryIO, source: str) -> tuple[str, Iterator[Row]]:
    """What a row is called in messages, and the rows."""
    begin = 3 if file.read(3) == codecs.BOM_UTF8 else 0
    file.seek(begin)
    first = file.readline(_LONGEST_LINE)
    if first.startswith(_FASTTEXT_MODEL):
        raise InputError(f"{source} is a fastText model; give the .vec file with its vectors")
    header = _HEADER.fullmatch(first)
    if header is None or not int(header[1]) * int(header[2]):
        file.seek(begin)
        return "line", _text_rows(file, source, _dimension(first, source), None)
    count, dimension = int(header[1]), int(header[2])
    start = file.tell()
    # bytes of float32 numbers are hardly ever valid UTF-8 without control characters; any of them may be a line feed
    numbers = file.read(_READ).partition(b" ")[2][: 4 * dimension]
    file.seek(start)
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")  # of text, the last character may be cut
    if not _NO_TEXT.search(decoder.decode(numbers)):
        return "line", _text_rows(file, source, dimension, count)
    return "row", _binary_rows(file, source, dimension, count)


def _word(written: bytes, where: str) -> str:
    try:
        return written.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: byte 0x{written[error.start]:02x} is not UTF-8; is it a vector file?") from None


# ---- text


def _text_rows(file: BinaryIO, source: str, dimension: int, count: int | None) -> Iterator[Row]:
    """The rows of a file of text, of which the first line is read already if it says their `count`."""
    number = before = 0 if count is None else 1
    for number, line in enumerate(file, before + 1):
        result, where = _parsed(line.rstrip(b" \r\n"), dimension), f"{source}, line {number}"
        if result is None:
            what = f"{line.decode('utf-8', 'replace').strip()[:40]!r} is not a word and {dimension} finite numbers"
            raise InputError(f"{where}: {what}; fix the row, or read only those before it (limit)")
        yield number, _word(result[0], where), result[1]
    if count not in (None, number - before):
        what = f"the first line says {count} words, but there are {number - before}"
        raise InputError(f"{source}, line {number + 1}: {what}; download the file again")


def _parsed(line: bytes, dimension: int) -> tuple[bytes, NDArray[np.float32]] | None:
    """A word and its numbers; None if the line is something else. Words may have spaces, but none ends in a number."""
    word, _, numbers = line.partition(b" ")
    vector = _numbers(numbers)
    if vector is None or len(vector) != dimension:
        word, *cells = line.rsplit(b" ", dimension)
        vector = None if _is_number(word.rpartition(b" ")[2]) and b" " in word else _numbers(b" ".join(cells))
    valid = word and vector is not None and len(vector) == dimension and np.isfinite(vector).all()
    return (word, vector) if valid and vector is not None else None


def _numbers(cells: bytes) -> NDArray[np.float32] | None:
    try:
        with np.errstate(over="ignore"):  # infinite numbers get an error with their line
            return np.array(cells.split(), dtype=np.float32)
    except ValueError:
        return None


def _dimension(line: bytes, source: str) -> int:
    """How many numbers a line ends in; the first cell is the word and never counts, even if it is a number."""
    cells = line.split()
    count = 0
    while count < len(cells) - 1 and _is_number(cells[-1 - count]):
        count += 1
    if not count:
        raise InputError(f"{source}, line 1 is not a word and its numbers; is it a vector file?")
    return count


def _is_number(cell: bytes) -> bool:
    vector = _numbers(cell)
    return vector is not None and len(vector) == 1


# ---- binary


def _binary_rows(file: BinaryIO, source: str, dimension: int, count: int) -> Iterator[Row]:
    pending, at, width = b"", 0, 4 * dimension
    for number in range(1, count + 1):
        while (space := pending.find(b" ", at)) < 0 or len(pending) < space + 1 + width:
            more = file.read(_READ)
            if not more or (space < 0 and len(pending) - at > _LONGEST_WORD):
                what = f"the first line says {count} words of {dimension} dimensions"
                raise InputError(f"{source}, row {number}: {what}, but the file is truncated or damaged here")
            pending, at = pending[at:] + more, 0
        word = pending[at:space].lstrip(b"\n")
        vector = np.frombuffer(pending, "<f4", dimension, space + 1).astype(np.float32)
        at = space + 1 + width
        if not word or not np.isfinite(vector).all():
            raise InputError(f"{source}, row {number}: {word!r} is not a word with finite numbers; fix the row")
        yield number, _word(word, f"{source}, row {number}"), vector


# --- The matrix of an embedding layer from word vectors and a tokenizer, and its expansion to a larger vocabulary.

_CHUNK = 65_536  # words mapped at a time


def vector_tokenizer(vectors: WordVectors, max_length: int = 128, lowercase: bool = True) -> PreTrainedTokenizerFast:
    """A word tokenizer with the words of a vector table, in the same order.

    Words that the tokenizer can never produce are left out: those that it splits, such as "well-known", and with
    `lowercase` those with capitals.

    Args:
        vectors: the table.
        max_length: the tokenizer's `model_max_length`, in words.
        lowercase: False for a table whose words have capitals (GloVe 840B, word2vec's GoogleNews, fastText crawl).

    Raises:
        InputError: no words are left.

    Example:
        >>> table = WordVectors(["the", "well-known", "cat"], np.eye(3, dtype=np.float32))
        >>> vector_tokenizer(table)("The cat!")["input_ids"]
        [2, 3, 1]
    """
    words = reachable(vectors.words, word_tokenizer(["a"], max_length, lowercase))
    return word_tokenizer(words, max_length, lowercase)


def embedding_matrix(vectors: WordVectors, tokenizer: PreTrainedTokenizerFast) -> Tensor:
    """The weights of a `torch.nn.Embedding` for a tokenizer, `[len(tokenizer), d]`, float32.

    The row of a token is its vector. The row of the padding token (id 0) is zero. The row of the unknown token (id 1),
    and of every token that is not in the table, is the mean of the table's vectors.

    Raises:
        InputError: the table has none of the tokenizer's words.

    Example:
        >>> table = WordVectors(["cat", "dog"], np.array([[1, 0], [0, 3]], np.float32))
        >>> embedding_matrix(table, word_tokenizer(["dog", "saw"])).tolist()
        [[0.0, 0.0], [0.5, 1.5], [0.0, 3.0], [0.5, 1.5]]
    """
    rows, ids = _shared(vectors, tokenizer)
    if not len(rows):
        raise InputError(f"none of the tokenizer's {len(tokenizer) - 2} words has a vector; do capitals differ?")
    matrix = np.empty((len(tokenizer), vectors.vectors.shape[1]), dtype=np.float32)
    matrix[:] = vectors.vectors.mean(0, dtype=np.float64)
    matrix[ids] = vectors.vectors[rows]
    matrix[PAD_ID] = 0
    return torch.from_numpy(matrix)


def expand_vocabulary(
    tokenizer: PreTrainedTokenizerFast, embeddings: Tensor, vectors: WordVectors
) -> tuple[PreTrainedTokenizerFast, Tensor]:
    """Add the words of a larger vector table to a trained encoder (vocabulary expansion of Skip-Thoughts).

    A linear map with an offset, from the space of the table to that of the trained embeddings, is fitted by least
    squares on the words that both have (Kiros et al. 2015, section 2.2; Logeswaran and Lee 2018). It maps the vectors
    of the table's other words that the tokenizer can produce. The words of the tokenizer keep their ids and their rows,
    bit by bit.

    Args:
        tokenizer: the encoder's tokenizer, one of the word tokenizers of this package.
        embeddings: the trained embeddings `[len(tokenizer), e]`.
        vectors: the table, of any dimension d.

    Returns:
        The larger tokenizer, and its embeddings `[len(larger), e]` in the dtype of `embeddings`.

    Raises:
        InputError: fewer than d + 1 words in common, too few for the map.

    Example:
        >>> table = WordVectors(["cat", "dog", "owl", "bee"], np.array([[0], [1], [2], [3]], np.float32))
        >>> trained = torch.tensor([[0.0, 0.0], [9.0, 9.0], [1.0, 0.0], [2.0, -1.0]])  # pad, unknown, cat, dog
        >>> larger, grown = expand_vocabulary(word_tokenizer(["cat", "dog"]), trained, table)
        >>> larger("owl bee")["input_ids"], grown[4:].round(decimals=4).tolist()
        ([4, 5], [[3.0, -2.0], [4.0, -3.0]])
    """
    rows, ids = _shared(vectors, tokenizer)
    needed = vectors.vectors.shape[1] + 1
    if len(rows) < needed:
        what = f"{len(rows)} words in common are too few for a map from {needed - 1} dimensions"
        raise InputError(f"{what}; it needs {needed} or more, so give a table with more of the encoder's words")
    existing = set(words_of(tokenizer))
    at = {word: i for i, word in enumerate(vectors.words) if word not in existing}
    further = reachable(at, tokenizer)
    trained = embeddings.detach().cpu()
    solution = np.linalg.lstsq(_with_one(vectors.vectors[rows]), trained[ids].double().numpy(), rcond=None)[0]
    grown = torch.empty((len(tokenizer) + len(further), trained.shape[1]), dtype=trained.dtype)
    grown[: len(tokenizer)] = trained
    for start in range(0, len(further), _CHUNK):
        chunk = vectors.vectors[[at[word] for word in further[start : start + _CHUNK]]]
        mapped = torch.from_numpy(_with_one(chunk) @ solution)
        grown[len(tokenizer) + start : len(tokenizer) + start + len(chunk)] = mapped.to(trained.dtype)
    return with_more_words(tokenizer, further), grown


def _shared(vectors: WordVectors, tokenizer: PreTrainedTokenizerFast) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The words in both the table and the tokenizer: their rows in the table, and their ids."""
    id_of = {word: i for i, word in enumerate(words_of(tokenizer)) if i > UNK_ID}
    pairs = [(row, id_of[word]) for row, word in enumerate(vectors.words) if word in id_of]
    rows, ids = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return rows, ids


def _with_one(x: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1, dtype=np.float64)
