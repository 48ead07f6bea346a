"""What a request may ask for, what all requests together may hold, and how long a client may take."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

MOST_INPUTS = 4_096  # texts or token rows of a request
MOST_CHARACTERS = 1 << 21  # of all texts of a request
MOST_FLOATS = 1 << 22  # of the vectors of an answer
MOST_HITS = 1_000  # of a search
MOST_BYTES = 32 << 20  # of a body
ALL_BYTES = 128 << 20  # of the bodies of all requests under way
ALL_FLOATS = 1 << 24  # of the vectors that are computed or sent
MOST_UNDER_WAY = 512  # requests
HEADER_SECONDS = 10  # for the headers of a request, from the connection or the last answer on
BODY_SECONDS = 10  # for its body, and one more for each `BODY_RATE` bytes that came
BODY_RATE = 64 << 10
DROP_SECONDS, DROP_BYTES = 1, 1 << 20  # for the rest of a body that is not needed
WRITE_SECONDS = 30  # for a client to take some of its answer
DATABASE_SECONDS = 3  # for a database that does not answer, such as one that is restarted
SHUTDOWN_SECONDS = 8  # for the answers under way when the server stops


class ApiError(HTTPException):
    """A request that is refused: the status, one line, and headers.

    Example:
        >>> error = ApiError(429, "too many requests", **{"Retry-After": "2"})
        >>> error.status_code, error.detail, error.headers
        (429, 'too many requests', {'Retry-After': '2'})
    """

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(status, message, headers)


def overloaded(seconds: int = 1) -> ApiError:
    """The answer to a request that came at a bad time."""
    return ApiError(429, f"too many requests; try again in {seconds} s", **{"Retry-After": str(seconds)})


class Budget:
    """An amount that all requests share.

    Args:
        most: the amount.

    Example:
        >>> budget = Budget(5)
        >>> with budget.held(3):
        ...     budget.used
        3
        >>> budget.used
        0
    """

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._mutex = threading.Lock()

    @contextmanager
    def held(self, amount: int) -> Iterator[None]:
        """Hold a part of it.

        Raises:
            ApiError: 429, too little is left.
        """
        with self._mutex:
            if self.used + amount > self.most:
                raise overloaded()
            self.used += amount
        try:
            yield
        finally:
            with self._mutex:
                self.used -= amount


class JsonCounter:
    """Counts what a JSON document holds while it arrives, so that one that holds too much is never parsed.

    A string may be counted as less, never as more than it is.

    Args:
        strings: most strings, keys included.
        lists: most lists and objects.
        items: most commas between values.

    Raises:
        ApiError: 413, by `add`.

    Example:
        >>> counter = JsonCounter(strings=3, lists=2, items=9)
        >>> counter.add(b'{"input": ["a, b')
        >>> counter.items, counter.lists
        (0, 2)
        >>> counter.add(b'c", "d", "e"]}')
        Traceback (most recent call last):
        ...
        contrastive_st.serve.limits.ApiError: 413: a request may have at most 4,096 inputs and 9 values; ...
    """

    def __init__(self, strings: int, lists: int, items: int) -> None:
        self.most, self.lists_most, self.items_most = 2 * strings, lists, items
        self.quotes = self.lists = self.items = 0
        self._rest = b""  # a backslash whose character has not come

    def add(self, chunk: bytes) -> None:
        """Count the next bytes."""
        for start in range(0, len(chunk), _SLICE):
            self._add(chunk[start : start + _SLICE])
            if self.quotes > self.most or self.lists > self.lists_most or self.items > self.items_most:
                most = f"{MOST_INPUTS:,} inputs and {self.items_most:,} values"
                raise ApiError(413, f"a request may have at most {most}; send less at once")

    def _add(self, chunk: bytes) -> None:
        chunk = self._rest + chunk
        backslashes = len(chunk) - len(chunk.rstrip(b"\\"))
        self._rest = b"\\" * (backslashes % 2)
        if self._rest:
            chunk = chunk[:-1]
        parts = chunk.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[self.quotes % 2 :: 2])
        self.quotes += len(parts) - 1
        self.lists += outside.count(b"[") + outside.count(b"{")
        self.items += outside.count(b",")


_SLICE = 1 << 16
