"""Lists of texts, their token ids up to a maximum length, and padded tensors of these; prompts in tokens."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError, about

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

_CHARACTERS = 64  # characters read at first for each token wanted: more than any language needs on average
_NO_LIMIT = 1 << 20  # transformers sets a `model_max_length` above this where there is no limit


def items_in_order(texts: object) -> list[Any]:
    """The items of what people have texts in, in order.

    Args:
        texts: a list, a generator, or a column: of pandas, polars, pyarrow, numpy or datasets, also as the only column
            of a table. The items of an array of numbers are its rows.

    Raises:
        InputError: it has several columns, no order, or nothing to iterate over.

    Example:
        >>> items_in_order(text for text in ("one", "two")), items_in_order(np.array([["one"]], dtype=object))
        (['one', 'two'], ['one'])
    """
    return list(_iterable(texts))


def _iterable(texts: Any) -> Iterable[Any]:
    names = list(getattr(texts, "column_names", None) or [])
    texts = texts[names[0]] if len(names) == 1 else texts
    if hasattr(texts, "__array__") and not isinstance(texts, str):
        texts = np.atleast_1d(np.asarray(texts))
        texts = texts[:, 0] if texts.ndim == 2 and texts.shape[1] == 1 and not _is_numeric(texts) else texts
    shape = [] if _is_numeric(texts) else list(getattr(texts, "shape", ()))
    named = isinstance(texts, Mapping) or hasattr(texts, "column_names")
    unordered = isinstance(texts, (str, set, frozenset, bytes, bytearray)) or not isinstance(texts, Iterable)
    if len(shape) > 1 or named or unordered or hasattr(texts, "nnz"):
        kind = f"an array of shape {shape}" if len(shape) > 1 else f"of the type {type(texts).__name__}"
        what = "a sparse matrix" if hasattr(texts, "nnz") else kind
        raise InputError(f"the texts are {what}; give a list of strings, or one column, such as frame['text']")
    return texts


def list_of_texts(texts: object) -> list[str]:
    """The texts as a list, from one string or from anything that `items_in_order` takes.

    Args:
        texts: a string, a list, a column, ...

    Raises:
        InputError: as for `items_in_order`, or something is not a string.

    Example:
        >>> list_of_texts("one"), list_of_texts(text for text in ("one", "two"))
        (['one'], ['one', 'two'])
        >>> list_of_texts({"text": ["one"]})
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: the texts are of the type dict; give a list of strings, or one column, such as frame['text']
    """  # noqa: E501
    return [texts] if isinstance(texts, str) else list(each_text(texts))


def each_text(texts: object) -> Iterator[str]:
    """The texts one by one, as they are read.

    Args:
        texts: as for `items_in_order`.

    Raises:
        InputError: as for `items_in_order`, or something is not a string.

    Example:
        >>> list(each_text(np.array(["one", "two"], dtype=object)))
        ['one', 'two']
    """
    for number, text in enumerate(_iterable(texts)):
        if not isinstance(text, str):
            raise InputError(f"text {number} is of the type {type(text).__name__}; give strings")
        yield text


def texts_or_vectors(values: object) -> list[str] | NDArray[np.float32]:
    """The texts as a list, or what are not texts as an array of vectors.

    Args:
        values: as for `list_of_texts`; or a tensor, an array or a list of numbers or of vectors.

    Raises:
        InputError: as for `list_of_texts`.

    Example:
        >>> texts_or_vectors("one"), texts_or_vectors([[1, 2]]).tolist()
        (['one'], [[1.0, 2.0]])
    """
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    if not _is_numeric(values):
        values = [values] if isinstance(values, str) else items_in_order(values)
        if not values or any(isinstance(item, str) for item in values):
            return list_of_texts(values)
    return np.asarray(values, np.float32)


def _is_numeric(value: object) -> bool:
    """Whether it is an array of numbers."""
    return getattr(getattr(value, "dtype", None), "kind", "O") in "biuf"


def token_ids(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int | None = None
) -> list[list[int]]:
    """Token ids of each text, special tokens included, cut to `max_length` tokens.

    A tokenizer reads the whole text before it truncates, and takes 150 bytes of memory per character. So only the start
    of a long text is tokenized; while that gives fewer than `max_length` tokens, four times as much is read.

    Args:
        tokenizer: any tokenizer of transformers.
        texts: any number of texts; a lone surrogate, which is not a character, is read as "?".
        max_length: in tokens; by default the tokenizer's `model_max_length`.

    Example:
        >>> from contrastive_st.data import word_tokenizer
        >>> token_ids(word_tokenizer(["a", "cat"]), ["a cat a", "cat " * 1_000_000], 2)
        [[2, 3], [3, 3]]
    """
    return _read(tokenizer, texts, max_length)[1]


def beginnings(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> list[str]:
    """Each text, cut to a start that is long enough for `max_length` tokens.

    Use it before you call a tokenizer yourself (with pairs of texts, for example), where `token_ids` does not do.

    Example:
        >>> from contrastive_st.data import word_tokenizer
        >>> [len(text) for text in beginnings(word_tokenizer(["cat"]), ["a cat", "cat " * 1_000_000], 2)]
        [5, 4091]
    """
    return _read(tokenizer, texts, max_length)[0]


def _read(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int | None
) -> tuple[list[str], list[list[int]]]:
    """The part of each text that was read, and its token ids."""
    longest = tokenizer.model_max_length if max_length is None else max_length
    if longest > _NO_LIMIT:
        return list(texts), _tokenized(tokenizer, texts, None)
    most = _CHARACTERS * max(longest, 64)
    read = [text if len(text) <= most else _start(text, most) for text in texts]
    rows = _tokenized(tokenizer, read, longest)
    while short := [i for i, text in enumerate(texts) if len(text) > most and len(rows[i]) < longest]:
        most *= 4
        again = [texts[i] if len(texts[i]) <= most else _start(texts[i], most) for i in short]
        for i, text, row in zip(short, again, _tokenized(tokenizer, again, longest), strict=True):
            read[i], rows[i] = text, row
    return read, rows


def without_surrogates(texts: Sequence[str]) -> list[str]:
    """The texts with "?" for lone surrogates, which are not characters: tokenizers refuse them."""
    return [text if text.isascii() else text.encode("utf-8", "replace").decode() for text in texts]


def _start(text: str, most: int) -> str:
    """The first `most` characters of a text, cut at the end of a word if there is one."""
    return (text[:most].rsplit(None, 1) or [""])[0]


def _tokenized(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], longest: int | None) -> list[list[int]]:
    if not texts:
        return []
    sound = without_surrogates(texts)
    with about("the tokenizer"):
        asked = {"truncation": longest is not None, "max_length": longest}
        rows: list[list[int]] = tokenizer(sound[:1], **asked)["input_ids"]  # this sets up the backend for the others
        if longest is not None and len(rows[0]) > longest:  # a length without room for special tokens is ignored
            raise InputError(f"max_length {longest}: the tokenizer adds more tokens to each text; give a larger one")
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if len(sound) == 1:
            return rows
        if backend is not None and [row.ids for row in backend.encode_batch_fast(sound[:1])] == rows:
            rows += [row.ids for row in backend.encode_batch_fast(sound[1:])]
        else:  # a tokenizer that does more than its backend, or has none
            rows += tokenizer(sound[1:], **asked)["input_ids"]
    return rows


def tokenizer_state(tokenizer: PreTrainedTokenizerBase) -> dict[str, object]:
    """What decides the token ids of a tokenizer: equal states give equal ids, and can be written as JSON.

    Caches of token ids and the hash of a model use it. The maximum length is not part of it.

    Args:
        tokenizer: any tokenizer of transformers, or an object with a `backend_tokenizer`.

    Example:
        >>> from contrastive_st.data import word_tokenizer
        >>> cats, dogs = (word_tokenizer(["a", name]) for name in ("cat", "dog"))
        >>> tokenizer_state(cats) == tokenizer_state(cats), tokenizer_state(cats) == tokenizer_state(dogs)
        (True, False)
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        state: dict[str, object] = json.loads(backend.to_str())
        state |= {"truncation": None, "padding": None}  # these change when it is used
        if backend.encode_special_tokens:
            state["encode_special_tokens"] = True
    else:  # written in Python: its class and its settings decide, but for names of folders and files
        paths = ("_file", "name_or_path", "model_max_length")  # this last is not part of it
        settings = {name: str(value) for name, value in tokenizer.init_kwargs.items() if not name.endswith(paths)}
        added = {str(number): repr(token) for number, token in tokenizer.added_tokens_decoder.items()}
        state = {"class": type(tokenizer).__name__, "settings": settings, "added": added}
        state["vocab"] = tokenizer.get_vocab()
    if getattr(tokenizer, "truncation_side", "right") != "right":
        state["truncation_side"] = tokenizer.truncation_side
    return state


def lowercase(backend: Tokenizer) -> None:
    """Let a `tokenizers.Tokenizer` read texts in lower case; one that does is left as it is."""
    from tokenizers.normalizers import Lowercase, Sequence as Both

    if not lowercases(backend):
        steps = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = Both([Lowercase(), *steps])


def lowercases(backend: Tokenizer) -> bool:
    """Whether a `tokenizers.Tokenizer` reads texts in lower case."""
    from tokenizers.normalizers import BertNormalizer, Lowercase, Sequence as Several

    normalizer = backend.normalizer
    steps: Any = normalizer if isinstance(normalizer, Several) else [normalizer]
    return any(isinstance(x, Lowercase) or (isinstance(x, BertNormalizer) and x.lowercase) for x in steps)


def pad_rows(
    rows: Sequence[Sequence[int] | NDArray[np.integer] | Tensor],
    padding: int | None = 0,
    multiple_of: int = 1,
    least: int = 1,
) -> tuple[Tensor, Tensor]:
    """Pad rows of token ids on the right to `[N, L]`, whatever the tokenizer's padding side; also the attention mask.

    Args:
        rows: token ids; a row may be empty.
        padding: the id of the padding token; for None (the tokenizer has no such token) 0 is used, since padding is
            masked anyway.
        multiple_of: L is the length of the longest row, rounded up to a multiple of this.
        least: L is at least this.

    Returns:
        Ids and mask, int64. The mask is 1 up to the length of each row, so a padding token inside a text counts as a
        token of the text.

    Example:
        >>> ids, mask = pad_rows([[2, 7, 3], [2]], padding=9)
        >>> ids.tolist(), mask.tolist()
        ([[2, 7, 3], [2, 9, 9]], [[1, 1, 1], [1, 0, 0]])
    """
    import torch  # where it is needed: static models are encoded without

    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    width = -(-max(int(lengths.max(initial=0)), least) // multiple_of) * multiple_of
    mask = np.arange(width) < lengths[:, None]
    ids = np.full(mask.shape, padding or 0, dtype=np.int64)
    if len(rows):
        ids[mask] = np.concatenate(rows, dtype=np.int64, casting="unsafe")
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


def token_types(tokenizer: PreTrainedTokenizerBase, mask: Tensor) -> Tensor | None:
    """The types of the tokens of rows with one text each; None if all are 0, as those of most tokenizers are.

    That of XLNet gives another type to a special token after the text.

    Args:
        tokenizer: any tokenizer of transformers.
        mask: the attention mask `[N, L]` of rows that are padded on the right.

    Returns:
        Types `[N, L]`, int64, 0 on padding.

    Example:
        >>> import torch
        >>> from contrastive_st.data import word_tokenizer
        >>> print(token_types(word_tokenizer(["cat"]), torch.ones(1, 2)))
        None
    """
    if "token_type_ids" not in tokenizer.model_input_names:
        return None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # which is not changed by this, so that others may use it meanwhile
        one = backend.encode("a")
        real = [index for index, is_real in enumerate(one.attention_mask) if is_real]
        types, special = ([row[index] for index in real] for row in (one.type_ids, one.special_tokens_mask))
    else:
        slow = tokenizer("a", return_special_tokens_mask=True)
        types, special = slow["token_type_ids"], slow["special_tokens_mask"]
    if not any(types):
        return None
    of_text = [index for index, is_special in enumerate(special) if not is_special] or [0]
    result: Tensor = mask * types[of_text[0]]
    places = mask.cumsum(1)
    left = mask.sum(1, keepdim=True) - places
    for number, kind in enumerate(types[: of_text[0]], 1):
        result = result.where(places != number, kind * mask)
    for number, kind in enumerate(reversed(types[of_text[-1] + 1 :])):
        result = result.where(left != number, kind * mask)
    return result


# --- Prompts: a prompt is put before every text of one role (query, document), in training and in use.

#: Names that the prompts of queries and of documents may have; the first that exists is used
QUERY, DOCUMENT = ("query",), ("document", "passage", "corpus")


def role_prompt(prompts: Mapping[str, str], names: Sequence[str], default: str | None = None) -> str:
    """The prompt with the first of these `names` that exists, else the one named `default`, else an empty string."""
    name = next((name for name in names if name in prompts), default)
    return "" if name is None else prompts[name]


def column_prompts(columns: Sequence[str], prompts: Mapping[str, str], default: str | None = None) -> dict[str, str]:
    """The prompt of each text column in training.

    If there are several columns, the first holds queries and the others documents; a single column holds neither. A
    column whose role has no prompt takes the default one.

    Args:
        columns: names of the text columns: anchor, positive, hard negatives.
        prompts: each prompt by its name.
        default: the name of the prompt that `encode` puts before every text.

    Example:
        >>> column_prompts(["question", "answer"], {"query": "query: ", "document": "passage: "})
        {'question': 'query: ', 'answer': 'passage: '}
        >>> column_prompts(["text"], {"query": "query: ", "topic": "topic: "}, default="topic")
        {'text': 'topic: '}
    """
    roles: list[tuple[str, ...]] = [QUERY, *[DOCUMENT] * (len(columns) - 1)] if len(columns) > 1 else [()]
    return {column: role_prompt(prompts, role, default) for column, role in zip(columns, roles, strict=True)}


def prompt_length(tokenizer: PreTrainedTokenizerBase, prompt: str, max_length: int | None = None) -> int:
    """Number of tokens of a prompt before a text, counted as in sentence-transformers; 0 for an empty prompt.

    A special token that the tokenizer adds at the start (`[CLS]`) counts as part of the prompt; one at the end is not
    counted.

    Args:
        tokenizer: any tokenizer of transformers.
        prompt: the prompt.
        max_length: maximum number of tokens of prompt and text; by default the tokenizer's `model_max_length`.

    Raises:
        InputError: the prompt leaves no room for a text.

    Example:
        >>> from contrastive_st.data import train_wordpiece
        >>> tokenizer = train_wordpiece(["query a", "query b"] * 5, vocab_size=60)
        >>> tokenizer.tokenize("query a"), prompt_length(tokenizer, "query ")  # [CLS] query
        (['query', 'a'], 2)
    """
    if not prompt:
        return 0
    ids = token_ids(tokenizer, [prompt], _NO_LIMIT)[0]
    longest = tokenizer.model_max_length if max_length is None else max_length
    if len(ids) >= longest:
        raise InputError(
            f"the prompt {prompt!r} takes {len(ids)} tokens and max_length is {longest}; give a shorter prompt or a "
            "larger max_length"
        )
    return len(ids) - (len(ids) > 0 and ids[-1] in tokenizer.all_special_ids)


def check_id(greatest: int, vocabulary: int, tokenizer: Any, name: str = "the model") -> None:
    """Refuse a token id for which a model has no vector, such as that of a token added to its tokenizer alone.

    Args:
        greatest: the greatest of the ids.
        vocabulary: number of ids that have a vector.
        tokenizer: names the token; None if it is not known.
        name: the name of the model in the message.

    Raises:
        InputError: with the token, and how to add a vector for it.
    """
    if greatest < vocabulary:
        return
    token = f"token {greatest}" if tokenizer is None else f"token {tokenizer.convert_ids_to_tokens(greatest)!r}"[:60]
    raise InputError(
        f"{name} has no vector for the {token}, which was added to its tokenizer; resize its embedding matrix "
        "(model.resize_token_embeddings(len(tokenizer))) and train it, or remove the token"
    )


def name_number(name: str) -> int:
    """A number computed from a name alone; it is less than 2^24, so that float32 represents it exactly.

    Example:
        >>> import torch
        >>> name_number("nli") == int(torch.tensor(float(name_number("nli"))))
        True
    """
    return zlib.crc32(name.encode()) % (1 << 24)
