"""The page on the network: its gate, its token, and nothing fetched from elsewhere."""

from __future__ import annotations

import socket

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse

from contrastive_st.errors import InputError
from contrastive_st.serve.gate import App, Gate, Headers, Refusal, Scope, address
from contrastive_st.serve.page import build_page, import_gradio, page_options
from contrastive_st.serve.server import serve as serve_app
from contrastive_st.serve.session import SearchSession

COOKIE = "contrastive_st_token"
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


def make_app(session: SearchSession, host: str = "127.0.0.1", token: str | None = None) -> App:
    """The page as an ASGI application.

    Args:
        session: to search in.
        host: the address that it will be bound to.
        token: every request needs it; None if no request does.

    Returns:
        The application.
    """
    gradio, page = import_gradio(), build_page(session)
    from fastapi import FastAPI

    return PageGate(gradio.mount_gradio_app(FastAPI(docs_url=None), page, path="/", **page_options()), host, token)


def serve(session: SearchSession, listener: socket.socket, token: str | None = None) -> None:
    """Serve the page on a reserved socket until interrupted.

    Args:
        session: to search in.
        listener: the socket.
        token: as for `make_app`.
    """
    app = make_app(session, listener.getsockname()[0], token)
    serve_app(app, listener, f"{address(listener)}/{f'?token={token}' if token else ''}")


class PageGate(Gate):
    """The gate of the page. The token comes once as `?token=...` and is then kept as a cookie.

    Only queries may be sent, to the queue of the page and from the page itself. There is no upload.
    """

    most_bytes = 8 << 20  # the page truncates the longest queries, with a message
    token_help = "This page needs a token: open the address that `serve` printed."

    def tokens(self, scope: Scope, headers: Headers) -> list[str]:
        """The token of the address and the token of the cookie."""
        return [_asked(scope), HTTPConnection(scope).cookies.get(COOKIE, "")]

    def also_refused(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Refuse everything that is sent except queries of the page itself."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST" or scope["path"].rstrip("/") not in _SENT_TO:
            return 405, "This page takes queries only."
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        elsewhere = origin and origin.rpartition("//")[2] != headers.get(b"host")
        if site not in ("same-origin", "none", None) or (site is None and elsewhere):
            return 403, "This page takes queries from itself only."
        return None

    def added_headers(self, scope: Scope, headers: Headers) -> list[tuple[bytes, bytes]]:
        """The content security policy, and the token as a cookie if it came in the address."""
        if self.token is None or not self.is_token(_asked(scope)):
            return _HEADERS
        return [*_HEADERS, (b"set-cookie", f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/".encode())]

    def refuse(self, status: int, message: str, scope: Scope) -> App:
        """One line of text."""
        return PlainTextResponse(message, status, {name.decode(): value.decode() for name, value in _HEADERS})


def check_token(token: str | None) -> str | None:
    """The token, which a cookie must be able to carry.

    Raises:
        InputError: it is too short, or has other characters.
    """
    if token is not None and (len(token) < 8 or not all(c.isascii() and (c.isalnum() or c in "-_.~") for c in token)):
        raise InputError("a token has 8 or more letters, digits and -_.~ (python -c 'import secrets; "
                         "print(secrets.token_urlsafe())' makes one)")  # fmt: skip
    return token


def _asked(scope: Scope) -> str:
    """The token in the address."""
    return HTTPConnection(scope).query_params.get("token", "")
