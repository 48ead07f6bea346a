"""What every server here has: a socket that is taken early, and a gate before the application."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from contrastive_st.data.reading.content import decode
from contrastive_st.errors import InputError, about, one_line
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
        """The tokens that a request carries.

        Args:
            scope: of the request.
            headers: of the request, by their names in small letters.

        Returns:
            The tokens; any of them may be the right one.
        """

    @abstractmethod
    def refuse(self, status: int, message: str, scope: Scope) -> App:
        """The answer to a request that is refused.

        Args:
            status: of HTTP.
            message: one line.
            scope: of the request.

        Returns:
            An application that sends the answer.
        """

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
        if refused is None:
            added = self.added_headers(scope, headers)
            await self.app(scope, _bounded(receive, self.most_bytes), _with_headers(send, added) if added else send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            ends = [(b"connection", b"close")] if headers.keys() >= _BOTH else []
            await self.refuse(*refused, scope)(scope, receive, _with_headers(send, ends))

    def is_token(self, text: str, token: str | None = None) -> bool:
        """Whether this is the token; takes equally long for every wrong one."""
        return hmac.compare_digest(text.encode(), str(token or self.token).encode())

    def token_for(self, path: str) -> str | None:
        """The token that a path needs; None if it needs none."""
        return None if path in self.without_token else self.token

    def _refusals(self, scope: Scope, headers: Headers) -> Iterator[Refusal]:
        try:
            host = urlsplit(f"//{headers.get(b'host', '')}").hostname
        except ValueError:
            host = None
        if self.hosts is not None and host not in self.hosts:
            yield 421, "This server answers to the names of this machine alone."
        token = self.token_for(scope.get("path", ""))
        if token is not None and not any(self.is_token(item, token) for item in self.tokens(scope, headers)):
            yield 401, self.token_help
        if other := self.also_refused(scope, headers):
            yield other
        if headers.keys() >= _BOTH:  # RFC 9112, 6.3: two servers may differ on where such a request ends
            yield 400, "a request has Content-Length or Transfer-Encoding, not both"
        declared = headers.get(b"content-length", "0")
        if not declared.isdecimal() or int(declared) > self.most_bytes:
            yield 413, too_large(self.most_bytes)


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

    Args:
        host: the address.
        port: 0 takes a free one.

    Returns:
        The socket, which listens.

    Raises:
        InputError: the port is taken or not valid, or the host is not this machine's.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # asyncio sets it where a socket names its protocol, which sockets that are accepted here do not; without it the
    # body of an answer waits for the client to acknowledge the headers, for 40 ms on a connection that stays open
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
    """Tell what everyone can do with a server without a token that others reach, and what option asks for one.

    Args:
        host: the address that the server is bound to.
        token: the token of the server; None if it has none.
        what: what everyone can do, and the option that prevents it.
    """
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


def _bounded(receive: Receive, most_bytes: int) -> Receive:
    """The parts of a body, which raise `HTTPException` (413) if it is too large, whatever length it declared."""
    read = 0

    async def bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most_bytes:
            raise HTTPException(413, too_large(most_bytes))
        return message

    return bounded


def _with_headers(send: Send, added: list[tuple[bytes, bytes]]) -> Send:
    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *added]
        await send(message)

    return send_on
