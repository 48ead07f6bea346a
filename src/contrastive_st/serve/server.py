"""Serve an application until a signal ends it: requests that were taken are answered first.

A slow or silent client holds a connection. In `deploy/compose.yaml` nginx, which has the deadlines, comes before.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys

import uvicorn
from starlette.responses import PlainTextResponse

from contrastive_st.serve.gate import App, Message, Receive, Scope, Send
from contrastive_st.serve.limits import KEEP_ALIVE_SECONDS, MOST_CONNECTIONS, SHUTDOWN_SECONDS


class _Server(uvicorn.Server):
    """Prints its address when it answers, and so when a signal ends it as it should."""

    def __init__(self, config: uvicorn.Config, shown: str) -> None:
        super().__init__(config)
        self.shown = shown

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self.shown, flush=True)


def serve(app: App, listener: socket.socket, shown: str) -> None:
    """Serve an application on a reserved socket until SIGINT or SIGTERM; requests that were taken are answered first.

    What is not answered after `SHUTDOWN_SECONDS` is dropped. After the signal, answers carry `Connection: close`.
    Without it a client may send its next request just before the connection ends, and loses it.

    Args:
        app: the ASGI application.
        listener: the socket.
        shown: the address, which is printed when the server answers.
    """

    async def until_stopped(scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def closing(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start" and server.should_exit:
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        try:
            await app(scope, receive, closing)
        except asyncio.CancelledError:  # it took longer than the server may take to end
            if not started:
                await PlainTextResponse("Service Unavailable", 503)(scope, receive, closing)

    # After each system call, of which an answer takes ten, the event loop waits as long as this for a thread that runs
    # Python code; the default is 5 ms.
    sys.setswitchinterval(0.0001)
    gc.collect()
    gc.freeze()  # a collection would go through all objects of the libraries, for a third of a second
    gc.set_threshold(1_000_000)  # a body of half a million lists would set off many collections
    server = _Server(
        uvicorn.Config(
            until_stopped, http="h11", ws="none", loop="asyncio", log_level="error", access_log=False,
            limit_concurrency=MOST_CONNECTIONS, timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ),
        shown,
    )  # fmt: skip
    server.run(sockets=[listener])
