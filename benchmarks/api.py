"""The endpoint under load: 64 clients for a minute, against `encode` of the same texts without a server.

    python benchmarks/api.py MODEL texts.parquet [--clients 64] [--seconds 60] [--per_request 32]

Each client sends a request of `--per_request` texts to `/v1/embeddings` (base64, as the `openai` client asks), waits
for the answer and sends the next; after 429 it waits as long as it is told. The clients run on the cores of the
server. `encode` of the same texts runs in this process before and after. At the end SIGTERM comes under the same
load: 200 is an answer, a refused connection one that the server no longer took; anything else would be a request
lost.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import psutil

from contrastive_st.data import read_texts
from contrastive_st.models.default import open_encoder


@dataclass
class Load:
    """What the clients saw."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    texts: int = 0


async def client(address: str, batches: Any, until: float, load: Load) -> None:
    """One client: requests one after the other until the time is over or the server is gone."""
    async with httpx.AsyncClient(base_url=address, timeout=600) as http:
        while time.perf_counter() < until:
            batch = next(batches)
            started = time.perf_counter()
            try:
                answer = await http.post("/v1/embeddings", json={"input": batch, "encoding_format": "base64"})
            except httpx.ConnectError:
                load.statuses["refused connection"] += 1
                return
            except httpx.TransportError as error:
                load.statuses[type(error).__name__] += 1
                return
            load.statuses[str(answer.status_code)] += 1
            if answer.status_code == 200:
                load.seconds.append(time.perf_counter() - started)
                load.texts += len(batch)
            elif answer.status_code == 429:
                await asyncio.sleep(float(answer.headers["Retry-After"]))


async def press(address: str, args: argparse.Namespace, batches: Any, seconds: float, stop: Any = None) -> Load:
    """All clients at once; `stop` is called after half of the time."""
    load, until = Load(), time.perf_counter() + seconds
    clients = [asyncio.create_task(client(address, batches, until, load)) for _ in range(args.clients)]
    if stop is not None:
        await asyncio.sleep(seconds / 2)
        stop()
    await asyncio.gather(*clients)
    return load


def offline(encoder: Any, texts: list[str], seconds: float = 15) -> float:
    """Sentences a second of `encode`, on as many of the texts as take about so long."""
    encoder.encode(texts[:64])
    count, took = 256, 0.0
    while took < seconds / 2 and count < len(texts):
        count *= 2
        started = time.perf_counter()
        encoder.encode(texts[:count])
        took = time.perf_counter() - started
    return min(count, len(texts)) / took


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--per_request", type=int, default=32)
    args = parser.parse_args()
    texts = read_texts(args.texts)["text"][:20_000]
    per = args.per_request
    batches = itertools.cycle([texts[i : i + per] for i in range(0, len(texts) - per + 1, per)])
    encoder = open_encoder(args.model, precision="auto")
    rates = [offline(encoder, texts)]
    command = [sys.executable, "-m", "contrastive_st.cli", "api", args.model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        assert server.stdout is not None
        address, process = server.stdout.readline().strip(), psutil.Process(server.pid)
        asyncio.run(press(address, args, batches, 5))
        memory = [process.memory_info().rss]
        started = time.perf_counter()
        load = asyncio.run(press(address, args, batches, args.seconds))
        rate = load.texts / (time.perf_counter() - started)
        memory.append(process.memory_info().rss)
        rates.append(offline(encoder, texts))
        last = asyncio.run(press(address, args, batches, 8, lambda: server.send_signal(signal.SIGTERM)))
        code = server.wait(60)
    p50, p99 = (1000 * float(np.quantile(load.seconds, q)) for q in (0.5, 0.99))
    print(f"{args.clients} clients, {args.seconds:.0f} s, {per} texts a request: {dict(load.statuses)}")
    print(f"  p50 {p50:.0f} ms, p99 {p99:.0f} ms, {rate:,.0f} texts/s; encode {', '.join(f'{r:,.0f}' for r in rates)} "
          f"texts/s; ratio {rate / statistics.mean(rates):.2f}")  # fmt: skip
    print(
        f"  memory of the server: {memory[0] / 2**20:,.0f} MiB after 5 s, {memory[1] / 2**20:,.0f} MiB after the load"
    )
    print(f"  SIGTERM under load: {dict(last.statuses)}, exit code {code}")


if __name__ == "__main__":
    main()
