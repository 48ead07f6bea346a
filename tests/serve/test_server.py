"""A server on a socket: bodies that are too large, ambiguous or not read, and its end."""

import asyncio
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="the servers need the extra api or app")

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from contrastive_st.serve import gate, server as serving
from contrastive_st.serve.gate import reserve

pytestmark = pytest.mark.slow

POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
MOST = 1 << 20


class Echo(gate.Gate):
    """Answers with the length of the body, after `x-wait` seconds."""

    most_bytes = MOST

    def tokens(self, scope, headers):
        return []

    def refuse(self, status, words, scope):
        return Response(words, status)


async def echo(scope, receive, send):
    request = Request(scope, receive)
    try:
        size = 0 if scope["path"] == "/unread" else len(await request.body())
    except ClientDisconnect:
        return
    except gate.HTTPException as error:
        response = Response(error.detail, error.status_code)
    else:
        await asyncio.sleep(float(request.headers.get("x-wait", 0)))
        response = Response(str(size))
    await response(scope, receive, send)


@pytest.fixture
def server(monkeypatch):
    """The server and its port; it ends within half a second."""
    monkeypatch.setattr(serving, "SHUTDOWN_SECONDS", 0.5)
    made = []

    class Kept(serving._Server):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(serving, "_Server", Kept)
    listener = reserve("127.0.0.1", 0)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=serving.serve, args=(Echo(echo, "127.0.0.1"), listener, "ready"))
    thread.start()
    while not (made and made[0].started):
        assert thread.is_alive()
        time.sleep(0.01)
    made[0].port, made[0].thread = port, thread
    yield made[0]
    made[0].should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def everything(connection):
    """What comes until the server ends the connection."""
    found = b""
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


def test_both_lengths_are_refused_and_what_follows_is_no_request(server):
    """RFC 9112, 6.3: a proxy may take the one for the end of the body, the server the other."""
    with connected(server) as connection:
        connection.sendall(
            POST
            + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            + POST
            + b"Content-Length: 0\r\n\r\n"
        )
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"not both" in answer
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "length", [b"Content-Length: 2000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n1e8480\r\n"]
)
def test_a_body_that_is_too_large_is_refused(server, length):
    with connected(server) as connection:
        connection.sendall(POST + length + b"a" * (MOST + 1))
        assert connection.recv(1000).startswith(b"HTTP/1.1 413")


def test_a_body_that_nobody_reads_does_not_reset_the_connection(server):
    """As that of a post to a route that is not there."""
    post = POST.replace(b"POST /", b"POST /unread")
    with connected(server) as connection:
        for size in (5, 500_000):
            connection.sendall(post + b"Content-Length: %d\r\n\r\n" % size + b"a" * size)
            answer = b""
            while not answer.endswith(b"\r\n\r\n0"):
                answer += connection.recv(1000)
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"connection: close" not in answer.lower()


def test_the_server_ends_though_bodies_and_headers_are_missing(server):
    """What is answered in time is; what takes longer than the server waits gets 503."""
    sent = {
        "body": POST + b"Content-Length: 9\r\n\r\nab", "header": POST,
        "answer": POST + b"X-Wait: 0.3\r\nContent-Length: 2\r\n\r\nab",
        "late": POST + b"X-Wait: 30\r\nContent-Length: 2\r\n\r\nab",
    }  # fmt: skip
    held = {name: connected(server) for name in sent}
    for name, connection in held.items():
        connection.sendall(sent[name])
    time.sleep(0.2)
    server.should_exit = True
    server.thread.join(10)
    assert not server.thread.is_alive()
    answers = {name: everything(connection).partition(b"\r\n")[0] for name, connection in held.items()}
    assert answers == {
        "body": b"HTTP/1.1 503 Service Unavailable", "header": b"", "answer": b"HTTP/1.1 200 OK",
        "late": b"HTTP/1.1 503 Service Unavailable",
    }  # fmt: skip


def test_an_answer_does_not_wait_for_its_headers_to_be_acknowledged():
    """Nagle's algorithm and delayed acknowledgements add 40 ms to each answer on a connection that is kept."""
    with (
        reserve("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
