"""`Batcher`: requests of many clients are encoded together."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = list[list[int]]
Vectors = NDArray[np.float32]


class ApiError(Exception):
    """A request that is refused: the status, one line, and headers."""

    def __init__(self, status: int, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.headers = status, headers


# One thread for all that torch computes, opening a model included: each thread that computes has OpenMP threads of its
# own, and where those of all are more than the cores, they sleep after every product instead of waiting for the next.
# (Many texts are computed by the threads of `on_cores`, for all passes the same.)
COMPUTING = ThreadPoolExecutor(1)


class _Job(NamedTuple):
    rows: Rows
    unpooled: str
    tokens: int
    done: asyncio.Future[Vectors]


class Batcher:
    """Encodes the rows of many requests together, in the order of their coming, on the thread of all models.

    Args:
        encode: token rows to vectors `[len(rows), d]`; its second argument is a prompt that is not pooled, if any.
        batch_tokens: a pass takes requests up to so many tokens, and one request at least.
        most_waiting: tokens that may wait or be under way; a request beyond is refused with the seconds to wait.
        gather: seconds that the first request of an idle server waits for others.

    Example:
        >>> async def two_clients():
        ...     batcher = Batcher(lambda rows: np.array([[sum(row)] for row in rows], np.float32))
        ...     return await asyncio.gather(batcher.submit([[1, 2], [3]]), batcher.submit([[4]]))
        >>> [vectors.tolist() for vectors in asyncio.run(two_clients())]
        [[[3.0], [3.0]], [[4.0]]]
    """

    def __init__(
        self,
        encode: Callable[..., Vectors],
        batch_tokens: int = 16_384,
        most_waiting: int = 1 << 20,
        gather: float = 0.003,
    ) -> None:
        self.encode, self.batch_tokens, self.most_waiting, self.gather = encode, batch_tokens, most_waiting, gather
        self.waiting = 0
        self.passes: Callable[[int], object] = lambda rows: None  # told the rows of each pass
        self._jobs: deque[_Job] = deque()
        self._task: asyncio.Task[None] | None = None
        self._rate = 1e4  # tokens a second, of the last passes

    async def submit(self, rows: Rows, unpooled: str = "") -> Vectors:
        """The vectors of a request's rows, which begin with a prompt that is not pooled, if any.

        Raises:
            ApiError: 429, too much is waiting; 413, the request alone is more than may wait.
        """
        tokens = sum(map(len, rows))
        if tokens > self.most_waiting:
            raise ApiError(413, f"{tokens:,} tokens in one request; at most {self.most_waiting:,} are taken")
        if self.waiting + tokens > self.most_waiting:
            seconds = max(math.ceil(self.waiting / self._rate), 1)
            raise ApiError(429, f"too many requests; come again in {seconds} s", **{"Retry-After": str(seconds)})
        job = _Job(rows, unpooled, tokens, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self.waiting += tokens
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await job.done

    async def _work(self) -> None:
        await asyncio.sleep(self.gather)
        while self._jobs:
            jobs = [self._jobs.popleft()]
            tokens = jobs[0].tokens
            while (
                self._jobs
                and tokens + self._jobs[0].tokens <= self.batch_tokens
                and self._jobs[0].unpooled == jobs[0].unpooled
            ):
                jobs.append(self._jobs.popleft())
                tokens += jobs[-1].tokens
            await self._pass(jobs, tokens)

    async def _pass(self, jobs: Sequence[_Job], tokens: int) -> None:
        rows, started = [row for job in jobs for row in job.rows], time.perf_counter()
        unpooled = [jobs[0].unpooled] if jobs[0].unpooled else []
        try:
            vectors = await asyncio.get_running_loop().run_in_executor(COMPUTING, self.encode, rows, *unpooled)
        except Exception as error:  # whatever it is, it is the answer to these requests, and the next are served
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)
        else:
            ends = np.cumsum([len(job.rows) for job in jobs])
            for job, own in zip(jobs, np.split(vectors, ends[:-1]), strict=True):
                if not job.done.done():  # its client may have gone
                    job.done.set_result(own)
        self.waiting -= tokens
        self.passes(len(rows))
        self._rate += 0.2 * (tokens / max(time.perf_counter() - started, 1e-6) - self._rate)
