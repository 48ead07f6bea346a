"""`Batcher`: the texts of many clients are encoded together, without a pause."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive_st.buckets import bucket_rows
from contrastive_st.serve.limits import ApiError, overloaded

Rows = list[list[int]]
Vectors = NDArray[np.float32]
Bucket = tuple[Rows, str]

# One thread for all that torch computes, opening a model included: each thread that computes has its OpenMP threads,
# and if there are more of them than cores, they sleep after every product instead of waiting for the next.
COMPUTING = ThreadPoolExecutor(1, thread_name_prefix="computing")
_OLDEST = 3  # one bucket of so many is that of the oldest row
_TURN = 1.0  # seconds after which a busy model lets another one compute


class _Job:
    """The rows of a request, and their vectors as far as they are there."""

    def __init__(self, rows: Rows, prompts: Sequence[str]) -> None:
        self.rows, self.prompts, self.done = rows, prompts, Future[Vectors]()
        self.missing, self.vectors = len(rows), np.empty((0, 0), np.float32)

    def fill(self, places: list[int], vectors: Vectors) -> bool:
        """Take vectors; whether they were the last ones."""
        if not len(self.vectors):
            self.vectors = np.empty((len(self.rows), vectors.shape[1]), np.float32)
        self.vectors[places] = vectors
        self.missing -= len(places)
        return not self.missing


class _Row(NamedTuple):
    job: _Job
    position: int

    @property
    def tokens(self) -> int:
        """Its length; a row without tokens costs a little too."""
        return max(len(self.job.rows[self.position]), 1)

    @property
    def prompt(self) -> str:
        """The prompt that it begins with and that is not pooled."""
        return self.job.prompts[self.position]


class Batcher:
    """Encodes the rows of many requests together, on the thread of all models.

    The model takes one bucket of rows of about the same length after the other, from all requests that wait: every
    third time the one with the row that has waited longest, else the one with the most tokens, and so the least
    padding. So nothing waits for the end of a batch, and a large request does not hold up small ones.

    Args:
        encode: vectors `[n, d]` of each bucket of a stream, as `SentenceEncoder.encode_buckets`.
        limits: options of `bucket_rows` for a bucket.
        batch_tokens: so many of the tokens that wait, the oldest first, are sorted into buckets.
        most_waiting: tokens that may wait or be under way; a request beyond is refused with the seconds to wait.
        gather: seconds that the first request of an idle server waits for others, if there were several at once before.

    Example:
        >>> async def two_clients():
        ...     sums = lambda buckets: (np.array([[sum(row)] for row in rows], np.float32) for rows, _ in buckets)
        ...     batcher = Batcher(sums)
        ...     return await asyncio.gather(batcher.submit([[1, 2], [3]]), batcher.submit([[4]]))
        >>> [vectors.tolist() for vectors in asyncio.run(two_clients())]
        [[[3.0], [3.0]], [[4.0]]]
    """

    _turns = 0  # batchers whose models wait for the thread

    def __init__(
        self,
        encode: Callable[[Iterable[Bucket | None]], Iterator[Vectors]],
        limits: Mapping[str, float] | None = None,
        batch_tokens: int = 65_536,
        most_waiting: int = 1 << 20,
        gather: float = 0.003,
    ) -> None:
        self.encode, self.limits, self.batch_tokens = encode, dict(limits or {"max_tokens": 2048}), batch_tokens
        self.most_waiting, self.gather = most_waiting, gather
        self.waiting = 0  # tokens
        # called with the numbers of rows and of tokens of each bucket, whoever asked for them
        self.count: Callable[[int, int], object] = lambda rows, tokens: None
        self._arrived: deque[_Job] = deque()
        self._rows: deque[_Row] = deque()  # like the next one, of the thread that computes
        self._computed: deque[list[_Row]] = deque()  # buckets that the model has
        self._mutex = threading.Lock()  # of `_running`, and of what has arrived; held for a moment by the event loop
        self._running = False
        self._several = False  # whether requests were computed together in the last turn
        self._taken = 0  # buckets
        self._rate = 1e4  # tokens a second

    async def submit(self, rows: Rows, prompts: Sequence[str] = ()) -> Vectors:
        """The vectors of a request's rows.

        What is cancelled is not computed.

        Args:
            rows: token ids.
            prompts: the prompt that each row begins with and that is not pooled, blank if there is none; by default all
                are blank.

        Returns:
            `[len(rows), d]`, float32.

        Raises:
            ApiError: 429, too much is waiting; 413, the request alone is more than may wait.
        """
        tokens = sum(map(len, rows)) + rows.count([])
        if tokens > self.most_waiting:
            raise ApiError(413, f"{tokens:,} tokens in one request; at most {self.most_waiting:,} are accepted")
        if self.waiting + tokens > self.most_waiting:
            raise overloaded(max(math.ceil(self.waiting / self._rate), 1))
        job = _Job(rows, prompts or [""] * len(rows))
        self.waiting += tokens
        try:
            with self._mutex:
                self._arrived.append(job)
                start, self._running = not self._running, True
            if start:
                asyncio.get_running_loop().call_later(self.gather * self._several, self._start)
            return await asyncio.wrap_future(job.done)
        finally:
            self.waiting -= tokens

    # ------------------------------------------------------------------ in the thread that computes

    def _start(self) -> None:
        Batcher._turns += 1
        COMPUTING.submit(self._run)

    def _run(self) -> None:
        """Compute what waits; another turn follows if something is left."""
        Batcher._turns -= 1
        started, tokens, jobs = time.perf_counter(), 0, set[_Job]()
        try:
            for vectors in self.encode(self._buckets(started + _TURN)):
                bucket = self._computed.popleft()
                self.count(len(bucket), sum(len(row.job.rows[row.position]) for row in bucket))
                places: dict[_Job, list[int]] = {}
                for number, row in enumerate(bucket):
                    places.setdefault(row.job, []).append(number)
                jobs.update(places)
                for job, item in places.items():
                    filled = job.fill([bucket[number].position for number in item], vectors[item])
                    if filled and job.done.set_running_or_notify_cancel():  # its client has not gone
                        job.done.set_result(job.vectors)
                tokens += sum(row.tokens for row in bucket)
                seconds = max(time.perf_counter() - started, 1e-6)
                if seconds > 0.1:
                    self._rate = tokens / seconds
        except Exception as error:  # whatever it is, it is the answer to these requests, and the next are served
            for job in {row.job for bucket in self._computed or [self._next()] for row in bucket}:
                if job.done.set_running_or_notify_cancel():
                    job.done.set_exception(error)
            self._computed.clear()
        self._several = len(jobs) > 1
        with self._mutex:
            self._running = bool(self._rows or self._arrived)
        if self._running:
            self._start()

    def _buckets(self, until: float) -> Iterator[Bucket | None]:
        """Buckets as long as rows wait or are computed, and no other model waits longer than its turn.

        None where no row waits, but some are computed: who gets their vectors may send the next rows meanwhile.
        """
        while not (Batcher._turns and time.perf_counter() > until):
            if bucket := self._next():
                self._computed.append(bucket)
                yield [row.job.rows[row.position] for row in bucket], bucket[0].prompt
            elif self._computed:
                yield None
            else:
                return

    def _next(self) -> list[_Row]:
        """Rows of a similar length and the same prompt as the oldest row has; empty if none waits."""
        while self._arrived:
            job = self._arrived.popleft()
            self._rows.extend(_Row(job, position) for position in range(len(job.rows)))
        window: list[_Row] = []
        others: list[_Row] = []
        tokens = 0
        while self._rows and tokens < self.batch_tokens:
            row = self._rows.popleft()
            if row.job.done.done():  # cancelled, or failed in another bucket
                continue
            fits = not window or row.prompt == window[0].prompt
            (window if fits else others).append(row)
            tokens += row.tokens
        if not window:
            return []
        lengths = np.array([row.tokens for row in window])
        buckets = bucket_rows(lengths, **self.limits)  # type: ignore[arg-type]
        self._taken += 1
        if self._taken % _OLDEST:
            best = max(buckets, key=lambda bucket: lengths[bucket].sum())
        else:
            best = next(bucket for bucket in buckets if 0 in bucket)
        chosen = set(best.tolist())
        left = [row for number, row in enumerate(window) if number not in chosen]
        self._rows.extendleft(reversed(left + others))
        return [window[number] for number in sorted(chosen)]
