"""Connections of a server: clients that are slow or silent, an orderly end, and files enough for many of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.h11_impl import H11Protocol

from contrastive_st.serve.limits import HEADER_SECONDS, SHUTDOWN_SECONDS, WRITE_SECONDS

_MOST_WAITING = 1_024  # connections without a request
_READ = 16 << 10  # bytes that are read from a connection before the next one has its turn
_LEAST_PAYLOAD = 0.5  # share of the bytes of a body that are not framing ...
_FRAMING = 64 << 10  # ... where more bytes than these have come with less


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1, with what it lacks against clients that hold connections.

    * Headers must be complete `HEADER_SECONDS` after the connection or the last answer.
    * Of the connections without a request, the oldest one ends if there are too many.
    * A client must take some of its answer every `WRITE_SECONDS`.
    * A body in chunks of a few bytes ends: each of them costs as much as a large one.
    * When the server ends, requests that have not come completely are dropped.
    """

    waiting: ClassVar[dict[Connection, None]] = {}  # for the headers of a request, the oldest first

    def connection_made(self, transport: Any) -> None:
        """Start to wait for a request."""
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._framing = 0
        with contextlib.suppress(AttributeError):
            transport.max_size = _READ
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self.waiting.pop(self, None)
        for what in list(self._timers):
            self._stop(what)

    def data_received(self, data: bytes) -> None:
        """Read, and count what of a body is framing."""
        cycle = self.cycle if self.cycle is not None and self.cycle.more_body else None
        before = len(cycle.body) if cycle is not None else 0
        super().data_received(data)
        if cycle is not None and cycle.more_body and len(cycle.body) - before < _LEAST_PAYLOAD * len(data):
            self._framing += len(data)
            if self._framing > _FRAMING:
                self.transport.abort()

    def handle_events(self) -> None:
        """Stop waiting when a request has come."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self.waiting.pop(self, None)
            self._stop("headers")

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._framing = 0
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start to wait for the client to read."""
        super().pause_writing()
        self._start("writing", WRITE_SECONDS)

    def resume_writing(self) -> None:
        """Stop waiting for the client."""
        super().resume_writing()
        self._stop("writing")

    def shutdown(self) -> None:
        """Drop a request that has not come completely; one that has is answered."""
        super().shutdown()
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self.transport.abort()

    # ------------------------------------------------------------------ inside

    def _wait(self) -> None:
        self.waiting.pop(self, None)
        self.waiting[self] = None
        self._start("headers", HEADER_SECONDS)
        if len(self.waiting) > _MOST_WAITING:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.transport.abort()

    def _start(self, what: str, seconds: float) -> None:
        self._stop(what)
        self._timers[what] = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self, what: str) -> None:
        if timer := self._timers.pop(what, None):
            timer.cancel()


class _Server(uvicorn.Server):
    """Prints its address when it answers, and so when a signal ends it as it should."""

    def __init__(self, config: uvicorn.Config, shown: str) -> None:
        super().__init__(config)
        self.shown = shown

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self.shown, flush=True)


def serve(app: Any, listener: socket.socket, shown: str) -> None:
    """Serve an application on a reserved socket until SIGINT or SIGTERM; requests that were taken are answered first.

    What is not answered after `SHUTDOWN_SECONDS` is dropped. After the signal, answers carry `Connection: close`.
    Without it a client may send its next request just before the connection ends, and loses it.

    Args:
        app: the ASGI application.
        listener: the socket.
        shown: the address, which is printed when the server answers.
    """

    async def until_stopped(scope: Any, receive: Any, send: Any) -> None:
        started = False

        async def closing(message: Any) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start" and server.should_exit:
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        try:
            await app(scope, receive, closing)
        except asyncio.CancelledError:  # it took longer than the server may take to end
            if not started:
                await service_unavailable(scope, receive, send)

    _many_files()
    gc.collect()
    gc.freeze()  # a collection would go through all objects of the libraries, for a third of a second
    server = _Server(
        uvicorn.Config(
            until_stopped, http=Connection, ws="none", loop="asyncio", log_level="error", access_log=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ),
        shown,
    )  # fmt: skip
    server.run(sockets=[listener])


def _many_files() -> None:
    """Let this process open more files than the usual 1,024: each connection is one."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows, or not allowed
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8_192)), hard))
