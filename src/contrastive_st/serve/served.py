"""Models behind the API: inputs to token rows, and these to vectors, together with what other requests ask for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

import numpy as np
import orjson

from contrastive_st.search.index import VectorIndex
from contrastive_st.search.values import one_line
from contrastive_st.serve.answers import FEW
from contrastive_st.serve.batcher import Batcher, Rows, Vectors
from contrastive_st.serve.limits import DEEPEST, KEYS, MOST_FLOATS, MOST_INPUTS, ApiError
from contrastive_st.vectors import unit_vectors

if TYPE_CHECKING:
    from contrastive_st.models import SentenceEncoder

UNKNOWN = "X-Unknown-Inputs"  # a header of answers
# Bodies and texts, one after the other: two threads take the interpreter from the event loop for twice as long.
_READING = ThreadPoolExecutor(1, thread_name_prefix="reading")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")
_SLICE = 1 << 16
_ROUNDED = 2.0**63  # orjson reads integers of more than 64 bits as floats, of which none is smaller


async def in_reading(function: Callable[..., _Result], *arguments: object) -> _Result:
    """What a function returns, from a thread that reads bodies and texts."""
    return await asyncio.get_running_loop().run_in_executor(_READING, function, *arguments)


def parsed(body: bytes) -> object:
    """The value of a JSON document that holds no more than a request may; its integers are exact, however long.

    Raises:
        ApiError: 413, a list or an object is too long (lists of numbers may be of any length), or there are too many;
            422, they are too deep inside each other.
        orjson.JSONDecodeError: it is not JSON.

    Example:
        >>> parsed(b'{"input": ["a", "b"]}'), parsed(b'{"n": 18446744073709551616}')
        ({'input': ['a', 'b']}, {'n': 18446744073709551616})
    """
    value = orjson.loads(body)
    refused, exact = _looked_at(value)
    if refused:
        del value  # here, since the event loop would wait until all of it is freed
        raise refused
    return value if exact else json.loads(body)


def _looked_at(value: object) -> tuple[ApiError | None, bool]:
    """The error if a value holds more than a request may, and whether orjson can have rounded none of its integers."""
    level, number, exact = [value], 0, True
    for _ in range(DEEPEST + 1):
        inner: list[object] = []
        for item in level:
            if not isinstance(item, (dict, list)):
                exact = exact and not (isinstance(item, float) and abs(item) >= _ROUNDED)
                continue
            number += 1
            types = _number_types(item) if isinstance(item, list) else None
            if number > MOST_INPUTS + KEYS or (len(item) > MOST_INPUTS and types is None):
                return ApiError(413, f"a request may have at most {MOST_INPUTS:,} inputs; send less at once"), exact
            if types is None:
                inner += item.values() if isinstance(item, dict) else item
            elif float in types and isinstance(item, list):
                exact = exact and all(max(map(abs, part)) < _ROUNDED for part in _slices(item))
        if not inner:
            return None, exact
        level = inner
    return ApiError(422, f"lists and objects are more than {DEEPEST} deep inside each other"), exact


class Encoded(NamedTuple):
    """An encoded input.

    Args:
        vectors: `[n, d]`.
        tokens: how many it has.
        unknown: positions of the texts without a token that the model knows.
    """

    vectors: Vectors
    tokens: int
    unknown: list[int]

    @property
    def headers(self) -> dict[str, str]:
        """Of the answer: which texts are `unknown`; their vectors, zeros or all alike, say nothing of them."""
        most = 20  # a proxy may refuse long headers
        shown = ", ".join(map(str, self.unknown[:most])) + ", ..." * (len(self.unknown) > most)
        return {UNKNOWN: shown} if shown else {}


class Read(NamedTuple):
    """The token rows of an input.

    Args:
        rows: token ids.
        prompts: the prompt that each row begins with and that is not pooled, blank if there is none.
        unknown: positions of the rows without a token that the model knows, beyond those of the prompt.
    """

    rows: Rows
    prompts: list[str]
    unknown: list[int]


@dataclass
class Served:
    """A model behind the API.

    Args:
        encoder: a `SentenceEncoder`.
        truncate: truncate texts longer than the model reads; else the answer is 413. A request may override it.
        batcher: by default with the limits of `Batcher`.
        precision: with which the model is opened that an index moves to.
    """

    encoder: SentenceEncoder
    truncate: bool = True
    batcher: Batcher = field(default=None)  # type: ignore[assignment]
    precision: str = "auto"

    def __post_init__(self) -> None:
        self.batcher = self.batcher or Batcher(self.encoder.encode_buckets, self.encoder.bucket_limits)
        self.dimension: int = self.encoder.dimension

    def rows(self, value: object, prompt: str, truncate: bool | None) -> Read:
        """Token rows of an input: a text, texts, or token ids.

        Each text has the prompt before it; token ids are taken as they are, with the prompt's or without them.

        Args:
            value: the input.
            prompt: goes before each text.
            truncate: whether to truncate; None as the server does.

        Raises:
            ApiError: it is none of these, too much or too long, or an id is not that of a token.
        """
        row = _token_ids(value)
        items: list[object] = value if isinstance(value, list) and not row else [value]
        if not items:
            raise ApiError(400, "the input is an empty list; give a text or several")
        if len(items) > MOST_INPUTS or len(items) * self.dimension > MOST_FLOATS:
            most = min(MOST_INPUTS, MOST_FLOATS // self.dimension)
            raise ApiError(413, f"a request may have at most {most:,} inputs; send fewer")
        cut = self.truncate if truncate is None else truncate
        pooled = getattr(getattr(self.encoder, "checkpoint", None), "include_prompt", True)
        unpooled = "" if pooled else prompt
        if isinstance(items[0], str):
            texts = [item if isinstance(item, str) else _refuse(number, item) for number, item in enumerate(items)]
            rows: Rows = self.encoder.token_rows(texts, prompt)
            if not cut and self.encoder.truncated(texts, rows, prompt):
                raise ApiError(413, f"a text has more than {self.encoder.max_length} tokens, the maximum length of the "
                               "model; shorten it, or send truncate: true to /embed")  # fmt: skip
            known = self.encoder.known_rows(rows, prompt)
            return Read(rows, [unpooled] * len(rows), np.flatnonzero(~known).tolist())
        most, max_length = self.encoder.vocabulary_size, self.encoder.max_length
        read = [row] if row else map(_token_ids, items)
        rows = [_refuse(number, items[number]) if ids is None else ids for number, ids in enumerate(read)]
        if not all(rows) or any(min(ids) < 0 or max(ids) >= most for row in rows for ids in _slices(row)):
            raise ApiError(400, f"token ids must be from 0 to {most - 1:,}, one or more per row; or send texts")
        if max_length is not None and max(map(len, rows)) > max_length:
            if not cut:
                raise ApiError(413, f"an input has more than {max_length} tokens, the maximum length of the model")
            rows = [ids[:max_length] for ids in rows]
        begin = self.encoder.begin_with(rows, unpooled)
        known = self.encoder.known_rows(rows)
        if unpooled:
            known = np.where(begin, self.encoder.known_rows(rows, unpooled), known)
        return Read(rows, [unpooled if one else "" for one in begin], np.flatnonzero(~known).tolist())

    async def vectors(
        self,
        value: object,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        truncate: bool | None = None,
        dimensions: int | None = None,
        normalize: bool = True,
    ) -> Encoded:
        """The vectors of an input; by default with the checkpoint's prompt.

        Args:
            value: as for `rows`.
            prompt: goes before each text.
            prompt_name: the name of a recorded prompt, if no prompt is given.
            truncate: as for `rows`.
            dimensions: return only so many of the first dimensions.
            normalize: divide each vector by its length.

        Returns:
            The vectors `[n, d]`, float32, with what is said of the input.
        """
        if dimensions is not None and not 1 <= dimensions <= self.dimension:
            raise ApiError(400, f"dimensions {dimensions}: the model has {self.dimension}")
        prompt = self.encoder.prompt_text(prompt_name) if prompt is None else prompt
        rows, prompts, unknown = await in_reading(self.rows, value, prompt, truncate)
        vectors = await self.batcher.submit(rows, prompts)
        vectors = vectors[:, :dimensions]
        if normalize:
            few = vectors.size <= FEW
            vectors = unit_vectors(vectors) if few else await asyncio.to_thread(unit_vectors, vectors)
        return Encoded(vectors, sum(map(len, rows)), unknown)


def _slices(items: list[_Item]) -> Iterator[list[_Item]]:
    """Parts of a list, for functions in C that read each in a millisecond; no other thread runs meanwhile."""
    return (items[start : start + _SLICE] for start in range(0, len(items), _SLICE))


def _number_types(items: list[object]) -> set[type] | None:
    """The types of a list of numbers alone, which are `int` and `float`; None of any other list."""
    if not isinstance(next(iter(items), 0), (int, float)):
        return None
    types: set[type] = set()
    for part in _slices(items):
        types |= set(map(type, part))
        if not types <= {int, float}:
            return None
    return types


def _token_ids(item: object) -> list[int] | None:
    """A list of whole numbers as such; JSON has one kind of numbers. None if it is something else."""
    if not isinstance(item, list) or (types := _number_types(item)) is None:
        return None
    if float not in types:
        return item
    ids = list(map(int, item))
    return ids if ids == item else None


def _refuse(number: int, item: object) -> NoReturn:
    tokens = json.JSONEncoder(ensure_ascii=False).iterencode(item)
    shown = one_line("".join(islice(tokens, 20)), 20)
    raise ApiError(422, f"element {number} of the input is {shown}; give texts alone, or token ids alone")


@dataclass(frozen=True)
class IndexServed:
    """An index behind `/search`, and the model for its queries."""

    index: VectorIndex
    model: Served
