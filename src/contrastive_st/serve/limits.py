"""What a request may ask for, what all requests together may hold, and how long a server waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

MOST_INPUTS = 4_096  # texts or token rows of a request
MOST_FLOATS = 1 << 22  # of the vectors of an answer
MOST_HITS = 1_000  # of a search
DEEPEST = 200  # lists and objects inside each other; orjson writes 254, and Python's recursion ends at some hundreds
KEYS = 64  # lists and objects of a request besides its inputs
MOST_BYTES = 2 << 20  # of a body; while orjson parses it, no other thread runs
ALL_BYTES = 64 << 20  # of the bodies of all requests under way
ALL_FLOATS = 1 << 24  # of the vectors that are computed or sent
MOST_UNDER_WAY = 512  # requests
MOST_CONNECTIONS = 2_048  # beyond them uvicorn answers 503
KEEP_ALIVE_SECONDS = 10  # of a connection without a request
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
