"""Answers of the API: vectors as JSON, written in parts, large ones in a thread, and sent as the client reads."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.responses import Response, StreamingResponse

_WRITING = ThreadPoolExecutor(1, thread_name_prefix="writing")
_FLOATS, _PARTS = 1 << 15, 4  # of a part of an answer, a millisecond to write; and parts that are sent together
FEW = 1 << 12  # numbers that are written or divided sooner than a thread wakes
Vectors = NDArray[np.float32]


def json_parts(values: Vectors) -> Iterator[bytes]:
    """The JSON of an array `[n]` or `[n, d]`, in parts.

    Example:
        >>> b"".join(json_parts(np.array([[0.5, 1.0], [2.0, 3.0]], np.float32)))
        b'[[0.5,1.0],[2.0,3.0]]'
    """
    yield from _list(map(_json, _parts(values)))


def embedding_parts(vectors: Vectors, encoding: str, model: str, tokens: int) -> Iterator[bytes]:
    """OpenAI's answer with vectors `[n, d]`, in parts.

    Args:
        vectors: the embeddings.
        encoding: `float`, or `base64` of little-endian float32.
        model: its name.
        tokens: number of tokens of the input.

    Returns:
        The JSON in parts, which belong together.

    Example:
        >>> answer = orjson.loads(b"".join(embedding_parts(np.ones((2, 3), np.float32), "float", "m", 5)))
        >>> [item["embedding"] for item in answer["data"]], answer["usage"]["total_tokens"]
        ([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], 5)
    """
    written = (lambda row: base64.b64encode(row.astype("<f4")).decode()) if encoding == "base64" else (lambda row: row)

    def items() -> Iterator[bytes]:
        start = 0
        for part in _parts(vectors):
            yield _json([
                {"object": "embedding", "index": i, "embedding": written(row)} for i, row in enumerate(part, start)
            ])  # fmt: skip
            start += len(part)

    yield b'{"object":"list","data":'
    yield from _list(items())
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    yield b',"model":' + _json(model) + b',"usage":' + _json(usage) + b"}"


def answered(parts: Iterator[bytes], size: int, headers: Mapping[str, str]) -> Response:
    """JSON that is written in parts, each when the client has taken the part before it.

    Args:
        parts: of the JSON.
        size: how many numbers it has; few are written at once.
        headers: of the answer.

    Returns:
        The response; a long one has no Content-Length.
    """
    if size <= FEW:
        return Response(b"".join(parts), headers=headers, media_type="application/json")

    async def written() -> AsyncIterator[bytes]:
        while some := await asyncio.get_running_loop().run_in_executor(_WRITING, b"".join, islice(parts, _PARTS)):
            yield some

    return StreamingResponse(written(), headers=headers, media_type="application/json")


def _parts(values: Vectors) -> Iterator[Vectors]:
    """Some rows after the other, contiguous in memory."""
    rows = max(_FLOATS // max(values[:1].size, 1), 1)
    for start in range(0, len(values), rows):
        yield np.ascontiguousarray(values[start : start + rows])


def _list(parts: Iterator[bytes]) -> Iterator[bytes]:
    """JSON lists as one."""
    yield b"["
    for number, part in enumerate(parts):
        yield b"," * (number > 0) + part[1:-1]
    yield b"]"


def _json(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
