"""Word vectors in GloVe's, word2vec's and fastText's formats -> words and an array, row by row."""

from __future__ import annotations

import gzip
import re
import zlib
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

from contrastive_st.data.readers import utf8
from contrastive_st.data.tokenizers import PAD_ID, UNK_ID, reachable, with_more_words, word_tokenizer, words_of
from contrastive_st.errors import InputError
from contrastive_st.vectors import unit_vectors

# --- Word vectors of a corpus itself, by latent semantic analysis.


def lsa_word_vectors(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, size: int) -> torch.Tensor:
    """Vectors of a tokenizer's words from the texts that they stand in: words of the same texts are near each other.

    The right singular vectors of the TF-IDF matrix, times the singular values (latent semantic analysis, Deerwester et
    al. 1990), each row then of length one. Words that are in no text have zeros.

    Args:
        texts: N of them; hundreds at least.
        tokenizer: whose ids are the rows.
        size: the dimension of a vector; where there are fewer texts or words, the rest of it is zeros.

    Returns:
        `[len(tokenizer), size]`, float32.
    """
    tfidf = TfidfVectorizer(analyzer=tokenizer.tokenize, vocabulary=tokenizer.get_vocab(), sublinear_tf=True)
    weights = tfidf.fit_transform(texts)
    rank = min(size, *weights.shape)
    svd = TruncatedSVD(rank, random_state=0).fit(weights)
    seen = weights.getnnz(0)[:, None] > 0
    vectors = np.where(seen, svd.components_.T * svd.singular_values_, 0.0)
    return functional.pad(torch.from_numpy(unit_vectors(vectors)).float(), (0, size - rank))


_HEADER = re.compile(rb"(\d+)[ \t]+(\d+)[ \t]*\r?\n?")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_READ, _LONGEST_WORD, _LONGEST_LINE = 1 << 20, 1 << 16, 1 << 22
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # what a fastText .bin, which is a model, starts with

Row = tuple[int, str, NDArray[np.float32]]  # the 1-based number of a line or row, the word, its vector [d]


@dataclass(frozen=True)
class WordVectors:
    """A table of word vectors.

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
    r"""Read a vector file; its format is told by its content, and it may be compressed by gzip.

    | format                      | what is in it                                                   |
    |-----------------------------|-----------------------------------------------------------------|
    | GloVe                       | a word and d numbers a line; the word may hold spaces           |
    | word2vec text, fastText .vec | the same after a first line with the number of words and d      |
    | word2vec binary             | that first line, then word, space and d little-endian float32   |

    Only spaces part cells and only line feeds end lines. Memory is that of the result: rows that are not wanted are not
    kept, and the array grows with what is read.

    Args:
        path: the file.
        limit: read the first rows only; they are the most frequent words in all the published files.
        words: keep these only.

    Raises:
        InputError: the file is empty, cut short, or has a row of another dimension, a repeated word, or something
            that is no finite number. Names the file and the line (in a binary file, the row).

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "vectors.txt")
        ...     _ = path.write_text("the 0.5 1\n. . . 2 -1e-1\n")
        ...     read_word_vectors(path)
        WordVectors(words=['the', '. . .'], vectors=array([[ 0.5,  1. ], [ 2. , -0.1]], dtype=float32))
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit {limit}: read at least one row of {path}")
    try:
        with open(path, "rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
        with cast(BinaryIO, gzip.open(path, "rb")) if packed else open(path, "rb") as file:
            unit, rows = _open(file, str(path))
            return _collect(rows, unit, str(path), limit, None if words is None else frozenset(words))
    except (OSError, EOFError, zlib.error) as error:  # the latter two: a damaged or unfinished archive
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({reason}); check the path and the file") from error


def _collect(
    rows: Iterator[Row], unit: str, source: str, limit: int | None, wanted: frozenset[str] | None
) -> WordVectors:
    seen: dict[str, int] = {}
    vectors = np.empty((0, 0), dtype=np.float32)
    for count, (number, word, vector) in enumerate(rows, 1):
        if wanted is None or word in wanted:
            size = len(seen)
            if seen.setdefault(word, number) != number:
                where = f"{source}, {unit} {number}"
                raise InputError(f"{where}: {word!r} is there already, in {unit} {seen[word]}; keep one of them")
            if size == len(vectors):
                vectors.resize((size + size // 8 + 1024, len(vector)), refcheck=False)  # in place, where it can
            vectors[size] = vector
        if count == limit or (wanted is not None and len(seen) == len(wanted)):
            break
    if not seen:
        raise InputError(f"{source}: none of the {len(wanted or ())} words wanted is in it; is it the right table?")
    vectors.resize((len(seen), vectors.shape[1]), refcheck=False)
    return WordVectors(list(seen), vectors)


def _open(file: BinaryIO, source: str) -> tuple[str, Iterator[Row]]:
    """What a row is called, and the rows."""
    first = file.readline(_LONGEST_LINE)
    if not first.strip():
        raise InputError(f"{source}, line 1: empty; a vector file holds a word and its numbers in each line")
    if first.startswith(_FASTTEXT_MODEL):
        raise InputError(f"{source}: a fastText model; give its vectors, the .vec file")
    header = _HEADER.fullmatch(first)
    if header is None:
        return "line", _text_rows(first, file, source, 1, _dimension(first, source), None)
    count, dimension = int(header[1]), int(header[2])
    if not count or not dimension:
        raise InputError(f"{source}, line 1: {count} words of {dimension} dimensions; is it a vector file?")
    start = file.tell()
    is_text = _is_text(file.readline(_LONGEST_LINE))
    file.seek(start)
    if is_text:
        return "line", _text_rows(file.readline(), file, source, 2, dimension, count)
    return "row", _binary_rows(file, source, dimension, count)


# ---- text


def _text_rows(
    line: bytes, file: BinaryIO, source: str, number: int, dimension: int, count: int | None
) -> Iterator[Row]:
    last = None if count is None else number + count - 1
    while line:
        if last is not None and number > last:
            raise InputError(f"{source}, line {number}: the first line says {count} words, and here is one more")
        word, _, numbers = line.rstrip(b" \r\n").partition(b" ")
        vector = _parsed(numbers)
        if vector is None or len(vector) != dimension:  # a word with spaces, or a fault
            word, vector = _from_the_right(line, source, number, dimension)
        yield number, *_checked(word, vector, f"{source}, line {number}")
        line, number = file.readline(), number + 1
    if last is not None and number <= last:
        what = f"the first line says {count} words, and there are {number - 2}"
        raise InputError(f"{source}, line {number}: {what}; the file is cut short")


def _parsed(numbers: bytes) -> NDArray[np.float32] | None:
    try:
        with np.errstate(over="ignore"):  # infinite numbers are named with their line
            return np.array(numbers.split(), dtype=np.float32)
    except ValueError:
        return None


def _from_the_right(line: bytes, source: str, number: int, dimension: int) -> tuple[bytes, NDArray[np.float32]]:
    cells = line.rstrip(b" \r\n").rsplit(b" ", dimension)
    vector = np.empty(dimension, dtype=np.float32)
    if len(cells) <= dimension:
        what = f"{max(len(cells) - 1, 0)} numbers where there must be {dimension}"
        raise InputError(f"{source}, line {number}: {what}; mend the row, or read only those before it (limit)")
    for i, cell in enumerate(cells[1:]):
        try:
            vector[i] = float(cell)
        except ValueError:
            shown = cell.decode("utf-8", "replace")[:40]
            what = f"{shown!r} is no number, and {dimension} must end the line"
            raise InputError(f"{source}, line {number}: {what}; mend the row") from None
    _, space, end = cells[0].rpartition(b" ")
    if space and _is_number(end):  # words with spaces there are, but none that ends in a number
        what = f"{dimension + 1} or more numbers where there must be {dimension}"
        raise InputError(f"{source}, line {number}: {what}; mend the row")
    return cells[0], vector


def _dimension(line: bytes, source: str) -> int:
    """How many numbers end a line, the first cell never counted: it is the word, even where it is a number."""
    cells = line.split()
    count = 0
    while count < len(cells) - 1 and _is_number(cells[-1 - count]):
        count += 1
    if not count:
        raise InputError(f"{source}, line 1: not a word and its numbers; is it a vector file?")
    return count


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _checked(word: bytes, vector: NDArray[np.float32], place: str) -> tuple[str, NDArray[np.float32]]:
    if not word:
        raise InputError(f"{place}: no word before the numbers; mend the row")
    if not np.isfinite(vector).all():
        raise InputError(f"{place}: NaN or infinite numbers; mend the row")
    return utf8(word, place, "is it a vector file?"), vector


def _is_text(line: bytes) -> bool:
    """Whether a row is text: the bytes of float32 numbers hardly ever are UTF-8 without a control character."""
    try:
        return not _CONTROL.search(line.decode("utf-8"))
    except UnicodeDecodeError:
        return False


# ---- binary


def _binary_rows(file: BinaryIO, source: str, dimension: int, count: int) -> Iterator[Row]:
    pending, at, width = b"", 0, 4 * dimension
    for number in range(1, count + 1):
        while (space := pending.find(b" ", at)) < 0 or len(pending) < space + 1 + width:
            more = file.read(_READ)
            if not more or (space < 0 and len(pending) - at > _LONGEST_WORD):
                what = f"the first line says {count} words of {dimension} dimensions"
                raise InputError(f"{source}, row {number}: {what}, and the file is cut short or damaged here")
            pending, at = pending[at:] + more, 0
        word = pending[at:space].lstrip(b"\n")
        vector = np.frombuffer(pending, "<f4", dimension, space + 1).astype(np.float32)
        at = space + 1 + width
        yield number, *_checked(word, vector, f"{source}, row {number}")


# --- Word vectors and a tokenizer -> the matrix of an embedding layer; a trained one grown to a larger vocabulary.

_CHUNK = 65_536  # words that are mapped at a time


def vector_tokenizer(vectors: WordVectors, max_length: int = 128, lowercase: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer of the words of a vector table, in its order; those that no text can give are left out.

    Left out are, with `lowercase`, words with capitals, and those that the tokenizer cuts, such as "well-known".

    Args:
        vectors: the table.
        max_length: the tokenizer's `model_max_length`, in words.
        lowercase: False for a table whose words have capitals (GloVe 840B, word2vec's GoogleNews, fastText crawl).

    Raises:
        InputError: no word is left.

    Example:
        >>> table = WordVectors(["the", "well-known", "cat"], np.eye(3, dtype=np.float32))
        >>> vector_tokenizer(table)("The cat!")["input_ids"]
        [2, 3, 1]
    """
    words = reachable(vectors.words, word_tokenizer(["a"], max_length, lowercase))
    return word_tokenizer(words, max_length, lowercase)


def embedding_matrix(vectors: WordVectors, tokenizer: PreTrainedTokenizerFast) -> Tensor:
    """Rows for `torch.nn.Embedding`, `[len(tokenizer), d]`, float32.

    A token's row is its vector; that of padding (id 0) is zero; that of the unknown word (id 1), and of every token
    that the table lacks, is the mean of the table's vectors.

    Raises:
        InputError: the table has none of the tokenizer's words.

    Example:
        >>> table = WordVectors(["cat", "dog"], np.array([[1, 0], [0, 3]], np.float32))
        >>> embedding_matrix(table, word_tokenizer(["dog", "saw"])).tolist()
        [[0.0, 0.0], [0.5, 1.5], [0.0, 3.0], [0.5, 1.5]]
    """
    matrix = np.empty((len(tokenizer), vectors.vectors.shape[1]), dtype=np.float32)
    matrix[:] = vectors.vectors.mean(0, dtype=np.float64)
    rows, ids = _shared(vectors, tokenizer)
    if not len(rows):
        raise InputError(f"none of the tokenizer's {len(tokenizer) - 2} words has a vector; do capitals differ?")
    matrix[ids] = vectors.vectors[rows]
    matrix[PAD_ID] = 0
    return torch.from_numpy(matrix)


def expand_vocabulary(
    tokenizer: PreTrainedTokenizerFast, embeddings: Tensor, vectors: WordVectors
) -> tuple[PreTrainedTokenizerFast, Tensor]:
    """Give a trained encoder the words of a larger vector table: Skip-Thoughts' vocabulary expansion.

    A linear map with an offset, fitted by least squares on the words that both have, takes the table's space to that of
    the trained embeddings (Kiros et al. 2015, section 2.2; Logeswaran and Lee 2018). The table's further words that a
    text can give get their vector mapped; the words the tokenizer has keep their ids and their rows, bit by bit.

    Args:
        tokenizer: the encoder's, of this package's word tokenizers.
        embeddings: `[len(tokenizer), e]`, trained.
        vectors: the table, of any dimension d.

    Returns:
        The larger tokenizer, and its embeddings `[len(larger), e]` in the dtype of `embeddings`.

    Raises:
        InputError: fewer than d + 1 words in common, which do not determine the map; or `embeddings` of another length.

    Example:
        >>> table = WordVectors(["cat", "dog", "owl", "bee"], np.array([[0], [1], [2], [3]], np.float32))
        >>> trained = torch.tensor([[0.0, 0.0], [9.0, 9.0], [1.0, 0.0], [2.0, -1.0]])  # pad, unknown, cat, dog
        >>> larger, grown = expand_vocabulary(word_tokenizer(["cat", "dog"]), trained, table)
        >>> larger("owl bee")["input_ids"], grown[4:].round(decimals=4).tolist()
        ([4, 5], [[3.0, -2.0], [4.0, -3.0]])
    """
    if embeddings.ndim != 2 or len(embeddings) != len(tokenizer):
        shape = list(embeddings.shape)
        raise InputError(f"embeddings of shape {shape} for {len(tokenizer)} tokens; give those of this tokenizer")
    rows, ids = _shared(vectors, tokenizer)
    needed = vectors.vectors.shape[1] + 1
    if len(rows) < needed:
        what = f"{len(rows)} words in common do not determine a map from {needed - 1} dimensions"
        raise InputError(f"{what}; it needs {needed} or more")
    known = set(words_of(tokenizer))
    at = {word: i for i, word in enumerate(vectors.words) if word not in known}
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
    """The words that both have: their rows in the table, and their ids."""
    id_of = {word: i for i, word in enumerate(words_of(tokenizer)) if i > UNK_ID}
    pairs = [(row, id_of[word]) for row, word in enumerate(vectors.words) if word in id_of]
    rows, ids = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return rows, ids


def _with_one(x: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1, dtype=np.float64)
