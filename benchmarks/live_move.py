"""A move to another model under a client that searches all the time, with kills of the command and of the server.

    python benchmarks/live_move.py --data DATA --model NEW [--old OLD] [--rows 100000] [--kills 50] [--share 1.0]

Sentences of Wikipedia are indexed with OLD (by default the static model of the package), in the embedded server. A
client opens the collection again every 20 searches and takes the model that it records; it tells every error and every
search without ten hits. `contrastive-st migrate` is killed, or the server is, at random moments, and started again. At
the end all ids and vectors are compared with those of a fresh index. `--picture FILE` draws the quality over
time (recall@10 of the client's searches against the new model's ranking of all documents).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pyarrow.parquet as pq

from contrastive_st.errors import InputError
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.postgres.database import Database
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.vectors import unit_vectors
from machine import machine

NAME, QUERIES, K = "live", 100, 10


def main() -> None:
    """Index, move with kills, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pause", type=float, default=8.0, help="longest time between two kills, in seconds")
    parser.add_argument("--model", required=True)
    parser.add_argument("--old")
    parser.add_argument(
        "--share", default="1.0", help="of the command; a small one leaves time for kills while it encodes"
    )
    parser.add_argument("--work", default=str(Path(tempfile.gettempdir(), "contrastive-st-live")))
    parser.add_argument("--picture", help="draw quality over time here, of the run without kills")
    parser.add_argument("--client", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        return client(Path(args.work), args.old, args.model, args.client[0])
    print(machine(), flush=True)
    work = Path(args.work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    work.chmod(0o755)
    table = pq.read_table(Path(args.data, "wikipedia.parquet"), columns=["text"])
    pq.write_table(table.slice(0, args.rows), work / "rows.parquet")
    pq.write_table(table.slice(args.rows, QUERIES), work / "queries.parquet")
    command(
        work, "index", str(work / "rows.parquet"), "--collection", NAME, *(["--model", args.old] if args.old else [])
    )
    for kills in dict.fromkeys((0, args.kills)):
        run(work, args, kills)
    compare(work, args)
    return None


def command(work: Path, *words: str) -> None:
    """Run a command of the package to its end."""
    argv = [sys.executable, "-m", "contrastive_st.cli", *words, "--store", str(work / "store")]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def run(work: Path, args: Any, kills: int) -> None:
    """One move while a client searches."""
    log = work / f"client-{kills}.jsonl"
    argv = [sys.executable, __file__, "--work", args.work, "--model", args.model, "--client", str(log), "x"]
    argv += ["--old", args.old] if args.old else []
    asking = subprocess.Popen(argv)
    while not log.exists() or not log.stat().st_size:
        time.sleep(0.2)
    started, chance = time.time(), random.Random(kills)
    told = {"command": 0, "server": 0}
    move = [sys.executable, "-m", "contrastive_st.cli", "migrate", NAME, "--model", args.model, "--store",
            str(work / "store"), *(["--share", args.share] if kills else [])]  # fmt: skip
    process = subprocess.Popen(move, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while sum(told.values()) < kills:
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.5, args.pause))
        if process.poll() == 0:  # too early: once more, from the beginning
            command(work, "migrate", NAME, "--rollback")
        elif process.poll() is None and chance.random() < 0.5:
            with suppress(OSError, ValueError, IndexError):
                os.kill(int((work / "store/pgdata/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
                told["server"] += 1
        elif process.poll() is None:
            process.kill()
            process.wait()
            told["command"] += 1
        if process.poll() is not None:
            process = subprocess.Popen(move, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if kills:  # the rest at full speed
        process.kill()
        process.wait()
        move = move[: move.index("--share")]
        process = subprocess.Popen(move, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = process.communicate()[0]
    ended = time.time()
    time.sleep(3 if kills else 20)
    asking.terminate()
    asking.wait()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [line for line in lines if line["at"] >= started]
    news = [line["at"] for line in lines if line.get("model") == "new"]
    gap = max(b["at"] - a["at"] for a, b in itertools.pairwise(lines))
    print(f"{kills} kills wanted, {told['command']} of the command and {told['server']} of the server: "
          f"{process.returncode=}, {ended - started:.0f} s; the new model answers the client after "
          f"{news[0] - started if news else float('nan'):.0f} s; {len(lines):,} searches, "
          f"{sum('error' in line for line in lines)} errors, "
          f"{sum(line.get('hits') == 0 for line in lines)} without hits, "
          f"longest time between two answers {gap:.1f} s", flush=True)  # fmt: skip
    print(
        "".join(f"    {line}\n" for line in said.splitlines() if "documents" not in line or "sample" in line),
        flush=True,
    )
    for line in [line for line in lines if "error" in line][:5]:
        print("    client:", line["error"])
    if args.picture and not kills:
        draw(lines, started, ended, Path(args.picture))
    if kills:
        return
    command(work, "migrate", NAME, "--rollback")


def client(work: Path, old: str | None, model: str, log: str) -> None:
    """Search until it is ended; a line of JSON for each search."""
    encoders = {
        one.fingerprint: (name, one) for name, one in (("old", open_encoder(old)), ("new", open_encoder(model)))
    }
    texts = pq.read_table(work / "queries.parquet")["text"].to_pylist()
    rows = pq.read_table(work / "rows.parquet")["text"].to_pylist()
    vectors = {name: unit_vectors(one.encode_query(texts)) for name, one in encoders.values()}
    documents = unit_vectors(encoders[next(key for key, own in encoders.items() if own[0] == "new")][1].encode(rows))
    best = np.argpartition(-(vectors["new"] @ documents.T), K, axis=1)[:, :K]
    true = [set(own.tolist()) for own in best]
    del documents
    database = Database(str(work / "store"))  # the server goes on while nobody else uses it
    with open(log, "w", encoding="utf-8") as file:
        while True:
            try:
                with VectorStore(str(work / "store"), NAME) as store:
                    name, _ = encoders[store.fingerprint]
                    for _ in range(20):
                        i = random.randrange(len(texts))
                        hits = store.search(vectors[name][i], K)[0]
                        recall = len({hit.id for hit in hits} & true[i]) / K
                        file.write(json.dumps({"at": time.time(), "model": name, "hits": len(hits), "recall": recall}))
                        file.write("\n")
                        file.flush()
                        time.sleep(0.02)
            except Exception as error:
                file.write(json.dumps({"at": time.time(), "error": f"{type(error).__name__}: {error}"}) + "\n")
                file.flush()
    database.close()


def compare(work: Path, args: Any) -> None:
    """The collection after the move and a fresh index."""
    command(work, "index", str(work / "rows.parquet"), "--collection", "fresh", "--model", args.model)
    with VectorStore(str(work / "store"), NAME) as one, VectorStore(str(work / "store"), "fresh") as other:
        if one.fingerprint != other.fingerprint:
            raise InputError("the collection has another model than it was moved to")
        own, fresh = ([np.concatenate(part) for part in zip(*((ids, vectors) for ids, _, _, vectors in index.scan()),
                       strict=True)] for index in (one, other))  # fmt: skip
        cosines = (unit_vectors(own[1]) * unit_vectors(fresh[1])).sum(1)
        print(f"ids equal: {np.array_equal(own[0], fresh[0])} ({len(own[0]):,}); vectors equal: "
              f"{np.mean((own[1] == fresh[1]).all(1)):.2%}, least cosine {cosines.min():.6f}, greatest difference "
              f"{np.abs(own[1] - fresh[1]).max():.5f}; index {one.index}")  # fmt: skip


def draw(lines: list[dict[str, Any]], started: float, ended: float, path: Path) -> None:
    """Recall over time, in windows of five seconds, and the mean of each phase with its name."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = [{**line, "at": line["at"] - started} for line in lines if "recall" in line]
    bridged = next((line["at"] for line in found if line["model"] == "new"), ended - started)
    windows: dict[int, list[float]] = {}
    for line in found:
        windows.setdefault(int(line["at"] // 5), []).append(line["recall"])
    figure, axis = plt.subplots(figsize=(8, 3.4), layout="constrained")
    at = sorted(windows)
    axis.plot([5 * i + 2.5 for i in at], [np.mean(windows[i]) for i in at], color="#1f5fa8", lw=1.2, alpha=0.5)
    last = max(line["at"] for line in found)
    for name, begin, end in (("old vectors", 0, bridged), ("old vectors, lifted", bridged, ended - started - 2),
                             ("all encoded", ended - started, last + 1)):  # fmt: skip
        own = [line["recall"] for line in found if begin <= line["at"] < end]
        if own:
            axis.plot([begin, end], [np.mean(own)] * 2, color="#1f5fa8", lw=3, solid_capstyle="butt")
            right = end >= last
            axis.text(end if right else begin, np.mean(own) + (0.02 if right else 0.13), f"{name}: {np.mean(own):.2f}",
                      ha="right" if right else "left")  # fmt: skip
    axis.set_xlabel("seconds since contrastive-st migrate; a client searches all the time")
    axis.set_ylabel("of the new model's ten nearest")
    axis.set_ylim(0, 1.1)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
