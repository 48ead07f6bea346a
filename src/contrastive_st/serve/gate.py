"""What every server here has: a socket that is taken early, and a gate before the application."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from contrastive_st.data.reading.content import decode
from contrastive_st.errors import InputError, about, one_line
from contrastive_st.serve.limits import BODY_RATE, BODY_SECONDS, DROP_BYTES, DROP_SECONDS
from contrastive_st.terminal import tell

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[bytes, str]
Refusal = tuple[int, str]  # status, and one line
_BOTH = {b"content-length", b"transfer-encoding"}  # which say how long a body is


class Gate(ABC):
    """An ASGI application that passes requests on to another one, and refuses those that may not come in.

    Each request needs the token, if the server has one, and a body of bounded size. On loopback it also needs a host
    name of this machine: otherwise a foreign web page could reach the server by a host name that points here (DNS
    rebinding). A subclass defines how a request carries the token, and the answer to a refused request.

    Args:
        app: the application.
        host: the address that the server is bound to.
        token: every request needs it; None if no request does.
    """

    most_bytes: int  # of a request's body
    without_token: frozenset[str] = frozenset()  # paths that everyone may ask for
    token_help: str  # how to send the token

    def __init__(self, app: App, host: str, token: str | None = None) -> None:
        self.app, self.token = app, token
        self.hosts = {"localhost", "127.0.0.1", "::1"} if is_loopback(host) else None

    @abstractmethod
    def tokens(self, scope: Scope, headers: Headers) -> Iterable[str]:
        """The tokens that a request carries."""

    @abstractmethod
    def refuse(self, status: int, message: str, scope: Scope) -> App:
        """The answer to a request that is refused."""

    def also_refused(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Why this application in particular refuses a request that has the token; None if it does not."""
        return None

    def added_headers(self, scope: Scope, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Headers that are added to the answer."""
        return []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI defines it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refused = next(self._refusals(scope, headers), None)
        body = _Body(receive, send, headers, self.most_bytes)
        if refused is None:
            added = self.added_headers(scope, headers)
            await self.app(scope, body.receive, _with_headers(body.send, added) if added else body.send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.refuse(*refused, scope)(scope, body.receive, body.send)

    def is_token(self, given: str, wanted: str | None = None) -> bool:
        """Whether this is the token; takes equally long for every wrong one."""
        return hmac.compare_digest(given.encode(), str(wanted or self.token).encode())

    def wanted(self, path: str) -> str | None:
        """The token that a path needs; None if it needs none."""
        return None if path in self.without_token else self.token

    def _refusals(self, scope: Scope, headers: Headers) -> Iterator[Refusal]:
        if self.hosts is not None and _host_name(headers.get(b"host", "")) not in self.hosts:
            yield 421, "This server answers to the names of this machine alone."
        wanted = self.wanted(scope.get("path", ""))
        if wanted is not None and not any(self.is_token(item, wanted) for item in self.tokens(scope, headers)):
            yield 401, self.token_help
        if other := self.also_refused(scope, headers):
            yield other
        if headers.keys() >= _BOTH:  # RFC 9112, 6.3: two servers may differ on where such a request ends
            yield 400, "a request has Content-Length or Transfer-Encoding, not both"
        declared = headers.get(b"content-length", "0")
        if not declared.isdecimal() or int(declared) > self.most_bytes:
            yield 413, too_large(self.most_bytes)


class _Body:
    """The body of a request, with a bound on its size and on the time that it takes.

    What nobody has read when the answer begins is read and dropped, since with data on the way the connection would be
    reset, and the client lose the answer. A body that is long or slow, or whose end is not known, ends the connection.
    """

    def __init__(self, receive: Receive, send: Send, headers: Headers, most_bytes: int) -> None:
        self._receive, self._send, self.most_bytes = receive, send, most_bytes
        self.complete = headers.get(b"content-length", "0") == "0" and b"transfer-encoding" not in headers
        self.known = not headers.keys() >= _BOTH  # where it ends
        self.complete = self.complete and self.known
        self._read, self._started = 0, time.monotonic()

    async def receive(self) -> Message:
        """The next part.

        Raises:
            HTTPException: 413, the body is too large, whatever length it declared; 408, it is too slow.
        """
        if self.complete:
            return await self._receive()  # that the client has gone
        left = self._started + BODY_SECONDS + self._read / BODY_RATE - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), max(left, 0))
        except asyncio.TimeoutError:
            raise HTTPException(408, "the body of the request comes too slowly") from None
        self._read += len(message.get("body", b""))
        if self._read > self.most_bytes:
            raise HTTPException(413, too_large(self.most_bytes))
        self.complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send on, with `Connection: close` where the body was not read to its end."""
        if message["type"] == "http.response.start":
            with contextlib.suppress(HTTPException, asyncio.TimeoutError):
                await asyncio.wait_for(self._drop(), DROP_SECONDS)
            if not self.complete:
                message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        await self._send(message)

    async def _drop(self) -> None:
        while self.known and not self.complete and self._read < DROP_BYTES:
            await self.receive()


def too_large(most_bytes: int) -> str:
    """The message for a request whose body is too large."""
    return f"a request may have at most {most_bytes:,} bytes; send less at once"


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
        InputError: the port is taken or not valid, or the host is not this machine's.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError, TypeError, ValueError) as error:  # a host that is not a name is a TypeError here
        listener.close()
        why = (error.strerror if isinstance(error, OSError) else None) or one_line(error)
        raise InputError(f"cannot serve on {host}:{port}: {why}; choose another --port or --host") from None
    return listener


def address(listener: socket.socket) -> str:
    """The URL of a reserved socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def tell_if_open(host: str, token: str | None, what: str) -> None:
    """Tell what everyone can do with a server without a token that others reach, and what option asks for one."""
    if token is None and not is_loopback(host):
        tell(f"{host}: everyone who reaches this machine can {what} requires a token")


def read_token(file: str | None, variable: str, flag: str = "token_file") -> str | None:
    """The token of a file, or else of an environment variable; on a command line every account could read it.

    Args:
        file: the file, whose first line is the token.
        variable: the environment variable.
        flag: the flag of the file, for messages.

    Returns:
        The token; None if neither is given.

    Raises:
        InputError: the first line of the file is empty.
        OSError: the file cannot be read.
    """
    if file is None:
        return os.environ.get(variable) or None
    with about(f"--{flag} {file}"):
        content = Path(file).expanduser().read_bytes()
    token = decode(content, f"--{flag} {file}")[0].partition("\n")[0].strip()
    if not token:
        raise InputError(f"--{flag} {file}: its first line is empty")
    return token


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
