"""How many numbers of embeddings differ when the same sentences are encoded in other company; 0 is promised on a CPU.

    python benchmarks/bits.py wikipedia.parquet [--sentences 10000] [--calls 1 2 ... 256] [--model MODEL]

Small encoders of three families, made here with random weights, in float32 and bfloat16, with `cls`, which reads the
last layer alone and has a head, and with all other poolings at once (their vectors in one); or MODEL in both types.
For each size of calls the sentences are shuffled, or sorted so that long and short ones alternate, and encoded in calls
of that many, with one thread and with two. `contrastive-st encode` encodes a file of them, and eight clients at once
ask an API for them. All vectors are compared, bit for bit, with those of one call for all sentences. `cost` is the
processor time of such a call over that of one in which rows of different lengths attend together, as they do in
training.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from transformers import BertConfig, ModernBertConfig, RobertaConfig

from contrastive_st import SentenceEncoder
from contrastive_st.data import train_wordpiece
from contrastive_st.models import POOLINGS, AutoModelForCL, modeling
from contrastive_st.models.poolings import Pooling
from machine import machine

CALLS = (1, 2, 3, 5, 7, 8, 13, 16, 24, 31, 32, 48, 64, 77, 96, 100, 128, 150, 200, 256)
FAMILIES = {"bert": BertConfig, "roberta": RobertaConfig, "modernbert": ModernBertConfig}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
WITHOUT_HEAD = [row for name, row in POOLINGS.items() if name != "cls"]


class Others(Pooling):
    """The vectors of all poolings but `cls`, one after another."""

    def of(self, hidden_states: Sequence[torch.Tensor], attention_mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([pooling.of(hidden_states, attention_mask) for pooling in WITHOUT_HEAD], 1)


POOLINGS["others"] = Others(POOLINGS["mean"].pool, layers=(0, -1))  # of two layers, so that the states of all come
SERVER = "import sys; sys.path.insert(0, sys.argv.pop(1)); import bits; from contrastive_st.cli import main; main()"


def make(family: str, pooling: str, dtype: torch.dtype, texts: list[str], folder: str) -> None:
    """Write a small model of a family into a folder."""
    tokenizer = train_wordpiece(texts[:2000], vocab_size=1000)
    ids = {"vocab_size": len(tokenizer), "pad_token_id": 0, "max_position_embeddings": 160}
    ends = {"cls_token_id": tokenizer.cls_token_id, "sep_token_id": tokenizer.sep_token_id}
    torch.manual_seed(0)
    config = FAMILIES[family](**SIZES, **ids, **(ends if family == "modernbert" else {}))
    AutoModelForCL.from_config(config, pooling=pooling).to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def in_calls(encoder: SentenceEncoder, texts: list[str], size: int, seed: int) -> NDArray[np.float32]:
    """The vectors of texts, encoded so many at a time, in another order."""
    order = np.random.default_rng(seed).permutation(len(texts))
    if seed % 2:  # the shortest with the longest
        by_length = np.argsort([len(text) for text in texts])
        order = np.stack([by_length[: len(texts) // 2], by_length[::-1][: len(texts) // 2]], 1).ravel()
    starts = range(0, len(order), size)
    vectors = np.concatenate([encoder.encode([texts[i] for i in order[start : start + size]]) for start in starts])
    return vectors[np.argsort(order)]


def by_command(folder: str, texts: list[str]) -> NDArray[np.float32]:
    """The vectors that `contrastive-st encode` writes for a file of texts."""
    with tempfile.TemporaryDirectory() as work:
        lines, output = Path(work, "texts.jsonl"), Path(work, "vectors.npy")
        lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        command = [sys.executable, "-c", SERVER, str(Path(__file__).parent), "encode", str(lines), "-m", folder]
        subprocess.run([*command, "--output", str(output)], check=True, capture_output=True)
        return np.load(output)


def by_api(folder: str, texts: list[str]) -> NDArray[np.float32]:
    """The vectors that an API returns to eight clients, who send one to sixteen texts at a time."""
    sizes = np.random.default_rng(0).integers(1, 17, len(texts)).cumsum()
    parts = [part.tolist() for part in np.split(np.array(texts, object), sizes[sizes < len(texts)])]
    command = [sys.executable, "-c", SERVER, str(Path(__file__).parent), "api", folder, "--precision", "fp32"]
    with subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            address = f"{server.stdout.readline().strip()}/v1/embeddings"  # type: ignore[union-attr]

            def ask(part: list[str]) -> list[bytes]:
                body = json.dumps({"input": part, "encoding_format": "base64"}).encode()
                request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(request) as answer:
                    return [base64.b64decode(row["embedding"]) for row in json.load(answer)["data"]]

            with ThreadPoolExecutor(8) as clients:
                rows = [row for part in clients.map(ask, parts) for row in part]
        finally:
            server.terminate()
    return np.frombuffer(b"".join(rows), "<f4").reshape(len(texts), -1)


def cost(encoder: SentenceEncoder, texts: list[str]) -> float:
    """Processor time of encoding, over that with rows of different lengths in one attention; medians of five."""
    packed, seconds = modeling.PackedRows, ([], [])  # type: tuple[list[float], list[float]]
    for turn in range(12):
        loose = mock.patch.object(modeling, "PackedRows", lambda *args: packed(*args[:3], False))
        started = time.process_time()
        with loose if turn % 2 else mock.patch.object(modeling, "PackedRows", packed):
            encoder.encode(texts)
        seconds[turn % 2].append(time.process_time() - started)
    exact, other = (float(np.median(taken[1:])) for taken in seconds)
    return exact / other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", help="a parquet file with the column text")
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--calls", type=int, nargs="+", default=CALLS)
    parser.add_argument("--model")
    args = parser.parse_args()
    column = pq.read_table(args.texts, columns=["text"])["text"]
    texts = column.take(np.random.default_rng(0).choice(len(column), args.sentences, replace=False)).to_pylist()
    print(machine())
    print(
        f"{args.sentences:,} sentences, calls of {args.calls}; differing vectors: 1 thread, 2, file, API; cost",
        flush=True,
    )
    kinds = [(family, dtype, pooling) for pooling in ("others", "cls")
             for dtype in (torch.float32, torch.bfloat16) for family in FAMILIES
             if (family, pooling) != ("modernbert", "cls")]  # which has no pooler  # fmt: skip
    for family, dtype, pooling in (
        kinds if args.model is None else [("", x, "") for x in (torch.float32, torch.bfloat16)]
    ):
        with tempfile.TemporaryDirectory() as folder:
            if args.model is None:
                make(family, pooling, dtype, texts, folder)
            else:
                shutil.copytree(args.model, folder, dirs_exist_ok=True)
                AutoModelForCL.from_pretrained(args.model, dtype=dtype).save_pretrained(folder)
            torch.set_num_threads(1)
            encoder = SentenceEncoder(folder)
            expected, differing = encoder.encode(texts), []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                found = (in_calls(encoder, texts, size, seed) for seed, size in enumerate(args.calls))
                differing.append(sum(int((vectors != expected).any(1).sum()) for vectors in found))
            unit = encoder.encode(texts, normalize_embeddings=True)  # as the API returns them
            ways = ((by_command, expected), (by_api, unit))
            differing += [int((way(folder, texts) != vectors).any(1).sum()) for way, vectors in ways]
            torch.set_num_threads(1)
            print(family, str(dtype).removeprefix("torch."), pooling, args.model or "", *differing,
                  f"{cost(encoder, texts):.2f}", sep="  ", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
