"""What every server here has: a socket that is taken early, a gate before the application, and an orderly end."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from contrastive_st.errors import InputError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[bytes, str]
Refusal = tuple[int, str]  # status, and one line


class Gate:
    """An ASGI application that passes requests on to another one, and refuses those that may not come in.

    Each request needs the token, if the server has one, and a body of bounded size. On loopback it also needs a host
    name of this machine: otherwise a foreign web page could reach the server by a name of its own that it lets point
    here (DNS rebinding). A subclass says how a request carries the token, and how a refusal is worded.

    Args:
        app: the application.
        host: the address that the server is bound to.
        token: asked of every request; None asks for none.
    """

    most_bytes: int  # of a request's body
    without_token: frozenset[str] = frozenset()  # paths that everyone may ask for
    token_help: str  # how to send the token

    def __init__(self, app: App, host: str, token: str | None = None) -> None:
        self.app, self.token = app, token
        self.hosts = {"localhost", "127.0.0.1", "::1"} if is_loopback(host) else None

    def tokens(self, scope: Scope, headers: Headers) -> Iterable[str]:
        """The tokens that a request carries."""
        raise NotImplementedError

    def refuse(self, status: int, words: str, scope: Scope) -> App:
        """The answer to a request that is refused."""
        raise NotImplementedError

    def also_refused(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Why this application in particular refuses a request that has the token; None if it does not."""
        return None

    def added_headers(self, scope: Scope, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Headers that are added to the answer."""
        return []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refused = next(self._refusals(scope, headers), None)
        if refused is None:
            added = self.added_headers(scope, headers)
            await self.app(scope, self._bounded(receive), _with_headers(send, added) if added else send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.refuse(*refused, scope)(scope, receive, send)

    def is_token(self, given: str) -> bool:
        """Whether this is the token; takes equally long for every wrong one."""
        return hmac.compare_digest(given.encode(), str(self.token).encode())

    def _refusals(self, scope: Scope, headers: Headers) -> Iterator[Refusal]:
        if self.hosts is not None and _host_name(headers.get(b"host", "")) not in self.hosts:
            yield 421, "This server answers to the names of this machine alone."
        asked = self.token is not None and scope.get("path") not in self.without_token
        if asked and not any(map(self.is_token, self.tokens(scope, headers))):
            yield 401, self.token_help
        if other := self.also_refused(scope, headers):
            yield other
        declared = headers.get(b"content-length", "0")
        if not declared.isdecimal() or int(declared) > self.most_bytes:
            yield 413, self._too_large()

    def _too_large(self) -> str:
        return f"a request has {self.most_bytes:,} bytes at most; send less at once"

    def _bounded(self, receive: Receive) -> Receive:
        """`receive`, which ends a body that is longer than it may be, whatever length it declared."""
        read = 0

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most_bytes:
                from starlette.exceptions import HTTPException

                raise HTTPException(413, self._too_large())
            return message

        return bounded


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is bound to this address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reserve(host: str = "127.0.0.1", port: int = 7860) -> socket.socket:
    """A socket bound to the address, which nobody else can take from now on; to be called before a model is loaded.

    Raises:
        InputError: the port is taken or none, or the host is not this machine's.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        why = (error.strerror if isinstance(error, OSError) else None) or "ports go from 0 to 65535"
        raise InputError(f"cannot serve on {host}:{port}: {why}; choose another --port or --host") from None
    return listener


def address(listener: socket.socket) -> str:
    """The URL of a reserved socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run_app(app: App, listener: socket.socket) -> None:
    """Serve an application on a reserved socket until SIGINT or SIGTERM; requests that were taken are answered first.

    After the signal, answers carry `Connection: close`. Without it a client may send its next request just before the
    connection ends, and loses it.
    """
    import uvicorn

    async def until_told(scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and server.should_exit:
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        await app(scope, receive, closing)

    server = uvicorn.Server(uvicorn.Config(until_told, log_level="warning", access_log=False))
    server.run(sockets=[listener])


def _with_headers(send: Send, added: list[tuple[bytes, bytes]]) -> Send:
    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *added]
        await send(message)

    return send_on


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
