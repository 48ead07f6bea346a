"""Word vectors and a tokenizer -> the matrix of an embedding layer; a trained one grown to a larger vocabulary."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from contrastive_st.data.word_vectors import WordVectors
from contrastive_st.data.words import PAD_ID, UNK_ID, reachable, with_more_words, word_tokenizer, words_of
from contrastive_st.errors import InputError

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
