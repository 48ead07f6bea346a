"""The page on the network: loopback unless told otherwise, an optional token, and nothing fetched from elsewhere."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from contrastive_st.errors import InputError
from contrastive_st.search.app.page import build_page, page_options
from contrastive_st.search.app.session import SearchSession

COOKIE = "contrastive_st_token"
MOST_BYTES = 8 << 20  # of a request: the longest queries are cut by the page, which says so
_SENT_TO = {f"/gradio_api/{route}" for route in ("queue/join", "cancel", "reset")}
_POLICY = (  # the browser itself keeps the page from fetching anything from elsewhere
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; form-action 'self'; base-uri 'self'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def make_app(session: SearchSession, host: str = "127.0.0.1", token: str | None = None) -> App:
    """The page as an ASGI application."""
    import gradio
    from fastapi import FastAPI

    page = build_page(session)
    return Guard(gradio.mount_gradio_app(FastAPI(docs_url=None), page, path="/", **page_options()), host, token)


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


def serve(session: SearchSession, listener: socket.socket, token: str | None = None) -> None:
    """Serve the page on a reserved socket until interrupted."""
    import uvicorn

    host, port = listener.getsockname()[:2]
    app = make_app(session, host, token)
    print(f"http://{f'[{host}]' if ':' in host else host}:{port}/{f'?token={token}' if token else ''}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])


class Guard:
    """Lets requests through to the page that carry the token, for a host name that is this server's.

    The token comes once as `?token=...` and then as a cookie. On loopback only loopback's names are taken as the host,
    so that a page elsewhere cannot reach this one through a name of its own that it lets point here (DNS rebinding).
    What is sent goes to the page's own queue alone, from the page itself and of bounded size: there is no upload.

    Args:
        app: the page.
        host: what the server is bound to.
        token: asked of every request; None asks for none.
    """

    def __init__(self, app: App, host: str, token: str | None = None) -> None:
        self.app, self.token = app, token
        self.hosts = {"localhost", "127.0.0.1", "::1"} if is_loopback(host) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if self.hosts is not None and _host_name(headers.get(b"host", "")) not in self.hosts:
            await _refuse(send, scope, 421, "This page is served to this machine alone.")
            return
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if self.token is not None and not any(map(self._is_token, (asked, _cookie(headers.get(b"cookie", ""))))):
            await _refuse(send, scope, 401, "This page asks for a token: open the address that `serve` printed.")
            return
        if scope["type"] == "http" and (refusal := _refusal(scope, headers)):
            await _refuse(send, scope, *refusal)
            return
        fresh = self.token is not None and self._is_token(asked)

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
                if fresh:
                    cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                    message["headers"].append((b"set-cookie", cookie.encode()))
            await send(message)

        await self.app(scope, receive, send_on)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), str(self.token).encode())


def _refusal(scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
    """Status and words for a request that sends something and may not; None where it may, or sends nothing."""
    if scope["method"] in ("GET", "HEAD"):
        return None
    if scope["method"] != "POST" or scope["path"].rstrip("/") not in _SENT_TO:
        return 405, "This page takes queries alone."
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    if site not in ("same-origin", "none", None) or (site is None and origin and not _is_of(origin, headers)):
        return 403, "This page takes queries from itself alone."
    length = headers.get(b"content-length", "")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        return 413, f"A query has {MOST_BYTES:,} bytes at most."
    return None


def _is_of(origin: str, headers: dict[bytes, str]) -> bool:
    return origin.rpartition("//")[2] == headers.get(b"host")


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


def check_token(token: str | None) -> str | None:
    """The token, or one line on why it will not do."""
    if token is not None and (len(token) < 8 or not all(c.isascii() and (c.isalnum() or c in "-_.~") for c in token)):
        raise InputError("--token: 8 or more letters, digits and -_.~ (python -c 'import secrets; "
                         "print(secrets.token_urlsafe())' makes one)")  # fmt: skip
    return token


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


async def _refuse(send: Send, scope: Scope, status: int, words: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": words.encode()})
