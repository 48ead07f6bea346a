"""What the light wheel costs in an empty environment: download, disk, and the time to a first vector and a first hit.

    python deploy/lite/measure.py dist/contrastive_st_lite-*.whl

Fails where the wheel alone downloads more than 60 MB or occupies more than 150 MB.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

TEXTS = Path(__file__).parents[2] / "examples/data/documents.jsonl"
FIRST = "from contrastive_st import SentenceEncoder; assert SentenceEncoder().encode('a cat').shape == (256,)"
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]


def size(folder: Path) -> int:
    """Bytes of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def seconds(command: list[str], **options: object) -> float:
    """Seconds that a command takes."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    return time.perf_counter() - started


def installed(folder: Path, wheel: str) -> tuple[Path, int, int]:
    """A new environment with a wheel and what it needs; the bytes downloaded, and those on disk beyond an empty one."""
    venv.create(folder / "env", with_pip=True, clear=True)
    python = folder / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    before = size(folder / "env")
    download = folder / "download"
    subprocess.run([python, *PIP, "download", "--dest", download, wheel], check=True)
    local = ["--no-index", "--find-links", download]
    subprocess.run([python, *PIP, "install", *local, wheel], check=True)
    return python, size(download), size(folder / "env") - before


def main(wheel: str) -> None:
    """Measure the wheel, and the wheel with the extra `search`."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)  # the embedded database of root runs as another user
        python, downloaded, occupied = installed(folder, wheel)
        print(f"lite: {downloaded / 1e6:.0f} MB downloaded, {occupied / 1e6:.0f} MB on disk")
        seconds([str(python), "-c", FIRST])  # compiles, and warms the disk
        before = os.times()
        times = sorted(seconds([str(python), "-c", FIRST]) for _ in range(5))
        used = (sum(os.times()[2:4]) - sum(before[2:4])) / 5
        print(f"start of Python to first vector: {times[2]:.2f} s (median of 5), {used:.2f} s of a processor")
        assert downloaded <= 60e6, "more than 60 MB to download"
        assert occupied <= 150e6, "more than 150 MB on disk"

        python, downloaded, occupied = installed(folder, f"{wheel}[search]")
        print(f"with search: {downloaded / 1e6:.0f} MB downloaded, {occupied / 1e6:.0f} MB on disk")
        rows = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()]
        corpus = folder / "corpus.jsonl"
        corpus.write_text("".join(
            json.dumps({"text": f"{rows[i % len(rows)]['text']} ({i})"}) + "\n" for i in range(1000)
        ))  # fmt: skip
        command = [str(python.with_name("contrastive-st"))]
        environment = {**os.environ, "CONTRASTIVE_ST_STORE": str(folder / "store"), "HF_HUB_OFFLINE": "1"}
        index = seconds([*command, "index", str(corpus)], env=environment)
        search = seconds([*command, "search", "which animals came back"], env=environment)
        print(f"1,000 documents: index {index:.1f} s with a new database, search {search:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1])
