"""The API under load, against `encode` without a server and against sentence-transformers in FastAPI.

    python benchmarks/api.py MODEL texts.parquet [--clients 64] [--seconds 20] [--rounds 3] [--per_request 1 8 32]
        [--shapes sentence long] [--systems float base64 sentence-transformers]

The systems take turns, round by round; every result is the median of its ratios to the `encode` of its own round, with
the least and the greatest. Each client sends a request of `--per_request` texts to `/v1/embeddings`, reads the whole
answer and sends the next; after 429 it waits as long as Retry-After says. The clients run on the cores of the server.
`wall` is the ratio of texts a second. `processor` is that of texts per second of processor time of the server, which
other programs on the same machine change less. The texts of the shape `long` have 300 words, more than most small
models read: the lengths of the published test of text-embeddings-inference (a full input, one and 32 a request).

sentence-transformers is `SentenceTransformer(MODEL).encode(texts, normalize_embeddings=True).tolist()` in a route of
FastAPI, in float32, as its documentation has it. At the end SIGTERM comes under load: 200 is an answer, a refused
connection one that the server no longer took, 503 one that it could not give in time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
from pydantic import BaseModel

from contrastive_st.data import read_texts
from contrastive_st.models.protocol import open_encoder


@dataclass
class Load:
    """What the clients saw."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    texts: int = 0

    def clear(self) -> None:
        """Forget it."""
        self.__init__()  # type: ignore[misc]


@dataclass
class Server:
    """A server in a process of its own."""

    process: psutil.Process
    child: subprocess.Popen[str]
    port: int

    def processor(self) -> float:
        """Seconds of processor time so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


class Asked(BaseModel):
    """A request to the server of sentence-transformers."""

    input: list[str]
    encoding_format: str = "float"


async def client(port: int, requests: Iterator[tuple[int, bytes]], until: float, load: Load) -> None:
    """One client: requests one after the other, until the time is over or the server is gone."""
    writer = None
    while time.perf_counter() < until:
        count, request = next(requests)
        started = time.perf_counter()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length: " in head:
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
            else:
                await reader.readuntil(b"\r\n0\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError) as error:
            load.statuses["refused connection" if isinstance(error, ConnectionRefusedError) else "lost"] += 1
            return
        status = head.split(b" ", 2)[1].decode()
        load.statuses[status] += 1
        if b"connection: close" in head:
            writer.close()
            writer = None
        if status == "200":
            load.seconds.append(time.perf_counter() - started)
            load.texts += count
        else:
            await asyncio.sleep(1)


async def press(port: int, clients: int, requests: Any, seconds: float, stop: Callable[[], object]) -> Load:
    """All clients at once, until each has its last answer; `stop` is called after half of the time."""
    load, until = Load(), time.perf_counter() + seconds
    tasks = [asyncio.create_task(client(port, requests, until, load)) for _ in range(clients)]
    await asyncio.sleep(seconds / 2)
    stop()
    await asyncio.gather(*tasks)
    return load


async def measure(server: Server, clients: int, requests: Any, seconds: float) -> tuple[Load, float, float]:
    """What was answered while all clients were at work, texts a second, and texts per second of processor time.

    The clients are at work before and after: neither the first requests of an idle server count nor its last ones.
    """
    load = Load()
    tasks = [asyncio.create_task(client(server.port, requests, float("inf"), load)) for _ in range(clients)]
    while load.texts < clients * next(requests)[0]:  # about one answer each
        await asyncio.sleep(0.05)
    load.clear()
    before, started = server.processor(), time.perf_counter()
    await asyncio.sleep(seconds)
    texts, used, took = load.texts, server.processor() - before, time.perf_counter() - started
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return load, texts / took, texts / max(used, 1e-9)


def requests_of(texts: list[str], per_request: int, encoding: str) -> Iterator[tuple[int, bytes]]:
    """Requests without an end, each with its number of texts."""
    head = "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    made = []
    for i in range(0, len(texts) - per_request + 1, per_request):
        body = json.dumps({"input": texts[i : i + per_request], "encoding_format": encoding}).encode()
        made.append((per_request, f"{head}{len(body)}\r\n\r\n".encode() + body))
    return itertools.cycle(made)


def offline(encoder: Any, texts: list[str], seconds: float) -> tuple[float, float]:
    """Texts a second of `encode`, and per second of processor time, on as many texts as take about so long."""
    count, took, used = min(512, len(texts)), 0.0, 0.0
    encoder.encode(texts[:64])
    while took < seconds / 2 and count < len(texts):
        count = min(2 * count, len(texts))
        started, before = time.perf_counter(), time.process_time()
        encoder.encode(texts[:count])
        took, used = time.perf_counter() - started, time.process_time() - before
    return count / took, count / used


@contextmanager
def served(command: list[str]) -> Iterator[Server]:
    """A server that prints its address when it is ready."""
    child = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert child.stdout is not None
        yield Server(psutil.Process(child.pid), child, int(child.stdout.readline().rsplit(":", 1)[1]))
    finally:
        child.kill()
        child.wait()


def sentence_transformers_server(model: str) -> None:
    """What most people write: their model in a route of FastAPI."""
    import uvicorn
    from fastapi import FastAPI
    from sentence_transformers import SentenceTransformer

    from contrastive_st.serve.gate import address, reserve

    app, encoder, listener = FastAPI(), SentenceTransformer(model, device="cpu"), reserve("127.0.0.1", 0)
    turn = threading.Lock()

    @app.post("/v1/embeddings")
    def embeddings(asked: Asked) -> Any:
        with turn:  # tokenizers serve one thread at a time
            vectors = encoder.encode(asked.input, normalize_embeddings=True).tolist()
        return {"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]}

    print(address(listener), flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


def shaped(texts: list[str], shape: str) -> list[str]:
    """Sentences as they are, or so many of them together that each text has 300 words."""
    if shape == "sentence":
        return texts[:20_000]
    words = [word for text in texts for word in text.split()]
    return [" ".join(words[i : i + 300]) for i in range(0, min(len(words), 300 * 3_000) - 300, 300)]


def compare(args: argparse.Namespace, servers: dict[str, Server], encoder: Any, texts: list[str], per: int) -> None:
    """The rounds of one shape and one number of texts a request, and their line for each system."""
    found: dict[str, list[tuple[float, float, Load]]] = {name: [] for name in args.systems}
    rates = []
    for _ in range(args.rounds):
        base, base_processor = offline(encoder, texts, args.seconds)
        rates.append(base)
        for name in args.systems:
            server = servers["st" if name == "sentence-transformers" else "api"]
            requests = requests_of(texts, per, "float" if name == "sentence-transformers" else name)
            load, rate, processor = asyncio.run(measure(server, args.clients, requests, args.seconds))
            found[name].append((rate / base, processor / base_processor, load))
    alone = []
    for start in range(0, len(texts) - per, len(texts) // 100):
        started = time.perf_counter()
        encoder.encode(texts[start : start + per])
        alone.append(1000 * (time.perf_counter() - started))
    print(f"  {per} a request; encode {', '.join(f'{rate:,.0f}' for rate in rates)} texts/s, a request alone p50 "
          f"{statistics.median(alone):.1f} ms")  # fmt: skip
    for name, rounds in found.items():
        seconds = sorted(second for *_, load in rounds for second in load.seconds)
        statuses = sum((load.statuses for *_, load in rounds), Counter())
        wall, processor = (
            f"{statistics.median(own):.2f} ({min(own):.2f} to {max(own):.2f})"
            for own in list(zip(*rounds, strict=True))[:2]
        )
        print(f"    {name:22} wall {wall}, processor {processor}; p50 {1000 * seconds[len(seconds) // 2]:.1f} ms, "
              f"p99 {1000 * seconds[int(0.99 * len(seconds))]:.0f} ms; {dict(statuses)}", flush=True)  # fmt: skip


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("texts", nargs="?")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--per_request", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--shapes", nargs="+", default=["sentence", "long"], choices=("sentence", "long"))
    systems = ("float", "base64", "sentence-transformers")
    parser.add_argument("--systems", nargs="+", default=list(systems), choices=systems)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        sentence_transformers_server(args.model)
        return
    texts = read_texts(args.texts)["text"][:40_000]
    encoder = open_encoder(args.model, precision="auto")
    with ExitStack() as stack:
        servers = {"api": stack.enter_context(served(["-m", "contrastive_st.cli", "api", args.model, "--port", "0"]))}
        if "sentence-transformers" in args.systems:
            servers["st"] = stack.enter_context(served([__file__, args.model, "--serve"]))
        for shape in args.shapes:
            own = shaped(texts, shape)
            print(
                f"{shape}: {len(own):,} texts, {statistics.mean(map(len, own)):.0f} characters; {args.clients} clients"
            )
            for per in args.per_request:
                compare(args, servers, encoder, own, per)
        api = servers["api"]
        memory = api.process.memory_info().rss
        requests = requests_of(shaped(texts, "sentence"), 32, "base64")
        last = asyncio.run(press(api.port, args.clients, requests, 8, lambda: api.child.send_signal(signal.SIGTERM)))
        print(f"memory of the server {memory / 2**20:,.0f} MiB; SIGTERM under load: {dict(last.statuses)}, exit code "
              f"{api.child.wait(60)}")  # fmt: skip


if __name__ == "__main__":
    main()
