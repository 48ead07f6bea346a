"""Answers of the API: vectors as JSON, written in parts, large ones in a thread, and sent as the client reads."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.responses import Response

from contrastive_st.serve.gate import Receive, Scope, Send

_WRITING = ThreadPoolExecutor(1, thread_name_prefix="writing")
_FLOATS = 1 << 16  # of a part of an answer: a millisecond or two to write
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


class Answer(Response):
    """JSON that is written in parts, each when the client has taken the part before it.

    So an answer of any size needs the memory of one part, and the event loop does not wait for one.

    Args:
        parts: the JSON.
        size: how many numbers it has.
        headers: further headers.
    """

    def __init__(self, parts: Iterator[bytes], size: int, headers: Mapping[str, str]) -> None:
        super().__init__(headers=headers, media_type="application/json")
        self.parts, self.small = parts, size <= FEW
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer in parts, as ASGI defines it."""
        part, last = await self._next()
        headers = [*self.raw_headers, (b"content-length", str(len(part)).encode())] if last else self.raw_headers
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        while not last:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            part, last = await self._next()
        await send({"type": "http.response.body", "body": part})

    async def _next(self) -> tuple[bytes, bool]:
        if self.small:
            return self._joined()
        return await asyncio.get_running_loop().run_in_executor(_WRITING, self._joined)

    def _joined(self) -> tuple[bytes, bool]:
        """Parts of some size together, and whether they are the last."""
        result: list[bytes] = []
        for part in self.parts:
            result.append(part)
            if sum(map(len, result)) > _BYTES:
                return b"".join(result), False
        return b"".join(result), True


_BYTES = 1 << 19  # of the parts that are sent together


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
