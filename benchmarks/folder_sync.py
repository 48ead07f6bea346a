"""A folder that changes: what indexing it again takes, whether the collection is then that made at once, and kills.

    python benchmarks/folder_sync.py --files 10000 --text wikipedia.parquet

writes Markdown files, indexes them, changes a hundredth of them, adds and removes half as many, and indexes the folder
again with `--sync`. Then it changes as many, and kills the command at random moments; and so from an empty collection.
After each the collection is compared with one that is made at once: ids, texts, metadata and vectors.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from machine import machine

SENTENCES = 110  # of a file, on average
WORDS = (
    "tide",
    "moon",
    "rain",
    "hill",
    "river",
    "mill",
    "boat",
    "rope",
    "sail",
    "wind",
    "bread",
    "salt",
    "glass",
    "sand",
)


class Folder:
    """Markdown files with front matter, in folders of a hundred, that can be changed."""

    def __init__(self, path: Path, sentences: Iterator[str], seed: int = 0) -> None:
        self.path, self.sentences, self.moments = path, sentences, random.Random(seed)
        self.files: list[Path] = []

    def add(self, count: int) -> None:
        """Write new files."""
        for _ in range(count):
            number = 1 + max((int(file.stem) for file in self.files[-1:]), default=-1)
            self.files.append(self.path / f"{number // 100:03}" / f"{number:06}.md")
            self._write(self.files[-1])

    def change(self, count: int) -> None:
        """Change so many files, add half as many, and remove half as many."""
        for file in self.moments.sample(self.files, count):
            self._write(file)
        for file in self.moments.sample(self.files, count // 2):
            file.unlink()
            self.files.remove(file)
        self.add(count // 2)

    def _write(self, file: Path) -> None:
        text = [next(self.sentences) for _ in range(self.moments.randint(SENTENCES // 2, SENTENCES * 3 // 2))]
        paragraphs = ["\n".join(text[at : at + 8]) for at in range(0, len(text), 8)]
        author, month = self.moments.choice(["Ann", "Bo", "Cy"]), self.moments.randint(1, 12)
        front = f"---\nauthor: {author}\ndate: 2024-{month:02}-01\n---\n"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(front + f"# {file.stem}\n\n" + "\n\n".join(paragraphs) + "\n", encoding="utf-8")


def sentences_of(text: str | None, seed: int = 0) -> Iterator[str]:
    """Sentences without end: those of a Parquet file with a column `text`, or words in random order."""
    if text is not None:
        import pyarrow.parquet as pq

        while True:
            for batch in pq.ParquetFile(text).iter_batches(columns=["text"]):
                yield from batch.column("text").to_pylist()
    moments = random.Random(seed)
    while True:
        yield " ".join(moments.choices(WORDS, k=12)).capitalize() + "."


def command(folder: Folder, store: Path, collection: str, *flags: str) -> list[str]:
    """The command that indexes the folder."""
    where = ["--store", str(store), "--collection", collection]
    return [sys.executable, "-m", "contrastive_st.cli", "index", str(folder.path), *where, *flags]


def seconds(*arguments: Any) -> NDArray[np.float64]:
    """The seconds that the command takes, and those of processors without the database's; it prints what it does."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command(*arguments), check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processors = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return np.array([time.perf_counter() - started, processors])


def killed(longest: float, moments: random.Random, *arguments: Any) -> None:
    """Run the command, and kill it at a random moment."""
    process = subprocess.Popen(command(*arguments), stderr=subprocess.DEVNULL)
    time.sleep(moments.uniform(0.2, 1) * longest)
    process.kill()
    process.wait()


def contents(store: Path, collection: str) -> tuple[list[Any], NDArray[np.float32]]:
    """Id, text and metadata of each document, and the vectors, ordered by id."""
    from contrastive_st.search.opening import open_index

    index = open_index(store, collection)
    try:
        batches = list(index.scan())
        rows = [row for ids, *own, _ in batches for row in zip(ids.tolist(), *own, strict=True)]
        return rows, np.concatenate([vectors for *_, vectors in batches])
    finally:
        index.close()


def check(folder: Folder, store: Path, collection: str, *flags: str) -> int:
    """Compare a collection with one that is made at once; return how many documents it has."""
    at_once = f"at_once_{time.time_ns() % 10**9}"
    seconds(folder, store, at_once, "--index", "none", *flags)
    (found, vectors), (wanted, others) = contents(store, collection), contents(store, at_once)
    assert found == wanted, f"{len(found)} documents, not {len(wanted)}"
    np.testing.assert_allclose(vectors, others, atol=1e-3)  # the last bits depend on what is encoded with them
    return len(found)


def main() -> None:
    """Print the seconds, and what was compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--text", help="a .parquet file of sentences (default: words in random order)")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--split_into", default="whole")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory(prefix="folder-sync-") as work:
        os.chmod(work, 0o755)  # the account of the database passes through
        run(args, Path(work))


def run(args: argparse.Namespace, work: Path) -> None:
    """All of it, in an empty folder."""
    from contrastive_st.search.postgres.server import EmbeddedServer

    folder, store, flags = Folder(work / "files", sentences_of(args.text), args.seed), work / "store", ()
    flags = ("--split_into", args.split_into)
    folder.add(args.files)
    changed, moments = max(args.files // 100, 2), random.Random(args.seed)
    with EmbeddedServer(store):
        first = seconds(folder, store, "documents", *flags)
        folder.change(changed)
        again = seconds(folder, store, "documents", "--sync", *flags)
        rows = check(folder, store, "documents", *flags)
        print(f"{machine()}\n{args.files:,} files, {rows:,} documents; {changed} changed, {changed // 2} new, "
              f"{changed // 2} gone: as made at once", flush=True)  # fmt: skip
        for what, one, other in zip(("seconds", "seconds of processors"), first, again, strict=True):
            print(f"{what}: {one:.1f}, then {other:.2f}: {other / one:.1%}", flush=True)
        flags = (*flags, "--shard_rows", str(max(rows // 10, 1)))  # a kill loses one of these
        for collection, longest in (("documents", again[0]), ("begun_anew", first[0])):
            for _ in range(args.kills):
                folder.change(changed)
                killed(longest, moments, folder, store, collection, "--sync", *flags)
            seconds(folder, store, collection, "--sync", *flags)
            rows = check(folder, store, collection, *flags)
            print(f"{args.kills} kills, changes before each: {rows:,} documents, the same as made at once", flush=True)


if __name__ == "__main__":
    main()
