"""A flood against `contrastive-st api` behind nginx: huge or broken bodies, silent clients, and some that ask well.

    python tests/integration/attack/flood.py [--model MODEL] [--seconds 120] [--clients 200] [--connections 1500]

All at once, from processes of their own: every kind of `BODIES` and of `SILENT`, by so many connections; so many
clients that send good requests and compare the answers with the vectors of the model; and one that asks for `/health`
twenty times a second, each time by a new connection, and in turns for that of a server that does nothing, on the same
cores. nginx has the settings of `deploy/nginx.conf`. Then SIGTERM comes, while clients hold connections of the server
itself. Prints what the clients saw, the time that `/health` took, the memory of the server above that before the flood,
and how long it took to end.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
TEXTS = [
    f"{a} {b} {c}" for a in ("a cat", "the rain", "an old book") for b in ("sat", "fell") for c in ("here", "far off")
]
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ONCE = HEAD.replace(b"1.1", b"1.0")  # the answer is not in chunks, and ends with the connection


def filled(element: bytes, size: int = 2 * MIB - 64) -> bytes:
    """A request with a list of equal elements, of about this size."""
    return b'{"input":[' + element * ((size - 13) // len(element)) + element[:-1] + b"]}"


#: Bodies by their names; each is made when it is first sent
BODIES = {
    "empty texts": lambda: filled(b'"",'),
    "nulls": lambda: filled(b"null,"),
    "rows of one token": lambda: filled(b"[5],"),
    "token ids": lambda: filled(b"5,"),
    "deep lists": lambda: b'{"input":' + b"[" * MIB + b"]" * (MIB - 64) + b"}",
    "deep objects": lambda: b'{"input":' + b'{"a":' * (MIB // 4) + b"1" + b"}" * (MIB // 4),
    "a long text": lambda: b'{"input":"' + b"word " * (2 * MIB // 5 - 64) + b'"}',
    "a text without blanks": lambda: b'{"input":"' + b"x" * (2 * MIB - 64) + b'"}',
    "escapes": lambda: b'{"input":"' + b"\\u0041" * (MIB // 3 - 64) + b'"}',
    "too many bytes": lambda: filled(b'"",', 32 * MIB),
    "backslashes": lambda: filled(b'"\\\\",'),
    "many keys": lambda: b'{"input":"a"' + b"".join(b',"%d":0' % i for i in range(MIB // 8)) + b"}",
    "many texts": lambda: b'{"input":[' + b'"the rain fell far off",' * 4095 + b'"a"]}',
    "broken": lambda: b'{"input":["' + os.urandom(MIB),
}
#: What a client sends, and then nothing more
SILENT = {
    "half a header": b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nX-Half: ",
    "half a body": HEAD % b"/v1/embeddings" + b'Content-Length: 1000000\r\n\r\n{"input":["' + b"a" * 1000,
    "nothing": b"",
}


def request(body: bytes, path: bytes = b"/v1/embeddings") -> bytes:
    """A whole request."""
    return ONCE % path + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def exchange(port: int, sent: bytes, seconds: float = 120) -> tuple[int, bytes]:
    """Status and body of one request by a connection of its own; status 0 where the server ended the connection."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * MIB)
        writer.write(sent)
        head, _, body = (await asyncio.wait_for(reader.read(-1), seconds)).partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), body
    except asyncio.TimeoutError:
        return -1, b""
    except (OSError, IndexError, ValueError):
        return 0, b""
    finally:
        if writer is not None:
            writer.close()


# --- The processes of the flood.


async def attack(port: int, seconds: float, connections: int, seed: int) -> dict[str, int]:
    """Send every body again and again, and hold silent connections."""
    seen: Counter[str] = Counter()
    until, rng = time.monotonic() + seconds, random.Random(seed)
    made = {name: make() for name, make in BODIES.items()}

    async def send() -> None:
        while time.monotonic() < until:
            name = rng.choice(list(made))
            status, _ = await exchange(port, request(made[name]), 30)
            seen[f"{name}: {status}"] += 1

    async def dribble() -> None:
        """Chunks of one byte; and an answer that is asked for and not read."""
        while time.monotonic() < until:
            head = HEAD % b"/embed" + b"Transfer-Encoding: chunked\r\n\r\n"
            await exchange(port, head + b"1\r\n[\r\n" * MIB, 10)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(made["many texts"]))
            await asyncio.sleep(2)
            writer.close()

    async def hold(sent: bytes) -> None:
        while time.monotonic() < until:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                await asyncio.wait_for(reader.read(1), max(until - time.monotonic(), 1))
                writer.close()
            except (OSError, asyncio.TimeoutError):
                pass
            seen["silent connections ended"] += 1
            await asyncio.sleep(0.5)

    silent = [hold(list(SILENT.values())[i % len(SILENT)]) for i in range(connections)]
    await asyncio.gather(*[send() for _ in range(16)], *[dribble() for _ in range(4)], *silent, return_exceptions=True)
    return dict(seen)


async def ask(port: int, seconds: float, clients: int, seed: int) -> dict[str, int]:
    """Clients with good requests; their answers are those that the server gave before the flood, or refusals."""
    known = np.array(await vectors(port, TEXTS))
    seen: Counter[str] = Counter()
    until = time.monotonic() + seconds

    async def client(number: int) -> None:
        rng = random.Random(seed + number)
        while time.monotonic() < until:
            chosen = rng.choices(range(len(TEXTS)), k=rng.randint(1, 8))
            encoding = rng.choice(["float", "base64"])
            body = json.dumps({"input": [TEXTS[i] for i in chosen], "encoding_format": encoding}).encode()
            status, content = await exchange(port, request(body))
            if status == 200:
                near = np.allclose(decoded(content), known[chosen], atol=2e-2)  # bf16, padded otherwise
                seen["right" if near else "WRONG"] += 1
            else:
                seen[str(status)] += 1
                await asyncio.sleep(1)

    await asyncio.gather(*(client(i) for i in range(clients)))
    return dict(seen)


def decoded(content: bytes) -> np.ndarray:
    """The vectors of an answer."""
    given = [item["embedding"] for item in json.loads(content)["data"]]
    return np.array([np.frombuffer(base64.b64decode(x), "<f4") if isinstance(x, str) else x for x in given])


async def vectors(port: int, texts: list[str]) -> np.ndarray:
    """Those of some texts."""
    status, content = await exchange(port, request(json.dumps({"input": texts}).encode()))
    assert status == 200, content
    return decoded(content)


def probe(ports: list[int], seconds: float) -> list[list[float]]:
    """Seconds that `/health` of each server took, in turns, from the connection to the answer."""
    took: list[list[float]] = [[] for _ in ports]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for port, own in zip(ports, took, strict=True):
            started = time.monotonic()
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    good = connection.recv(64).startswith(b"HTTP/1.1 200")
            except OSError:
                good = False
            own.append(time.monotonic() - started if good else float("inf"))
            time.sleep(0.05)
    return took


async def idle(ports: Queue[int]) -> None:
    """A server that nobody floods and that does nothing: what it takes is the business of the machine."""

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    ports.put(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def run(function: Callable[..., Coroutine[Any, Any, Any]], *args: object) -> Any:
    """What a function returns that waits, in a process of its own."""
    return asyncio.run(function(*args))


# --- The whole.


def memory(pid: int) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def nginx(port: int) -> Iterator[int]:
    """nginx before a server, with the settings of `deploy/`; its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as work:
        config = (ROOT / "deploy/nginx.conf").read_text().replace("/tmp/", f"{work}/")
        here = {"api:8080": f"127.0.0.1:{port}", "page:7860": f"127.0.0.1:{port}"}
        here |= {"listen 8080": f"listen 127.0.0.1:{own}", "listen 7860": f"listen unix:{work}/page"}
        for name, local in here.items():
            assert name in config
            config = config.replace(name, local)
        Path(work, "nginx.conf").write_text(config)
        user = "user root; " if os.getuid() == 0 else ""  # the folder is this account's
        command = ["nginx", "-p", work, "-e", "stderr", "-c", f"{work}/nginx.conf", "-g", f"{user}daemon off;"]
        with subprocess.Popen(command) as proxy:
            try:
                while proxy.poll() is None:
                    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", own)):
                        break
                    time.sleep(0.1)
                assert proxy.poll() is None
                yield own
            finally:
                proxy.terminate()


def flood(model: list[str], seconds: float, clients: int, connections: int, seed: int) -> dict[str, object]:
    """Start a server, flood it, end it; see above."""
    command = [sys.executable, "-m", "contrastive_st.cli", "api", *model, "--port", "0"]
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(server.kill)
        assert server.stdout is not None
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        asyncio.run(vectors(port, TEXTS))
        before = most = memory(server.pid)
        front = stack.enter_context(nginx(port))
        ports = context.Queue()
        idler = context.Process(target=run, args=(idle, ports))
        idler.start()
        stack.callback(idler.kill)
        pool = stack.enter_context(ProcessPoolExecutor(3, context))
        asked = pool.submit(run, ask, front, seconds, clients, seed)
        attacked = pool.submit(run, attack, front, seconds, connections, seed)
        probed = pool.submit(probe, [front, ports.get()], seconds)
        while not (asked.done() and probed.done()):
            most = max(most, memory(server.pid))
            time.sleep(0.05)
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for number, connection in enumerate(held):
            connection.sendall(list(SILENT.values())[number % 2])
        time.sleep(0.2)
        started = time.monotonic()
        server.send_signal(signal.SIGTERM)
        code, ended = server.wait(120), time.monotonic() - started
        health, control = probed.result()
        return {
            "answers": asked.result(), "attacks": attacked.result(), "exit code": code,
            "seconds to end": round(ended, 1), "health requests": len(health),
            **{f"health p{p} ms": round(1000 * float(np.quantile(health, p / 100))) for p in (50, 95, 100)},
            "idle server p95 ms": round(1000 * float(np.quantile(control, 0.95))), "MiB idle": before >> 20,
            "MiB above idle": (most - before) >> 20,
        }  # fmt: skip


def main() -> None:
    """Print what happened as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--connections", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    print(json.dumps(flood(**vars(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
