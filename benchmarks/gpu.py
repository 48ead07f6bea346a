"""Training and encoding on a GPU and by sentence-transformers: random weights of two sizes, texts of random words.

    sh benchmarks/gpu.sh                    # the tests marked `cuda`, then this
    python benchmarks/gpu.py --out FOLDER   # this alone: FOLDER/gpu.json and FOLDER/gpu.md
    python benchmarks/gpu.py --only "4096 pairs, BERT" "32768 pairs"   # the cases with one of these in their name
    python benchmarks/gpu.py --smoke        # tiny sizes, on a CPU too: does it run?

Unsupervised SimCSE (each text twice, in-batch negatives, cosine / 0.05) in bfloat16, lengths as those of sentences of
Wikipedia (log-normal, median 28 words, at most 126). Trainers of both packages, with their defaults but for bf16, and
four workers. "sentence-transformers, unpadded" has flash attention, with which it computes no padding; that takes a GPU
and `flash_attn`, or `pip install kernels` and its kernel in the cache of the Hub. Cached steps are run in chunks of
sentences and of tokens by either system: compare the best of each.
"useful" are the operations of the matrix products over real tokens: 6 a weight and token in a step, 8 in a GradCache
step, and those of attention; its share is of the rate at which this device multiplies bf16 matrices of 8192 x 8192,
measured here. Cases that no time is left for are written down as not run, those that the memory is too small for as
such.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import logging
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from transformers import BertConfig, PreTrainedTokenizerFast, TrainerCallback
from transformers.utils import is_flash_attn_2_available

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
WARM_UP = 2  # steps that are not counted
SIZES = {"MiniLM-sized": (384, 6, 12, 1536), "BERT-base-sized": (768, 12, 12, 3072)}
#: A small batch, a batch, those of GradCache with the sizes of their chunks, and how many texts are encoded
FULL = 64, 512, (4096, 512, 32_768), ("256", "512", "16384 tokens"), 16_384
SMOKE = 8, 8, (16,), ("8", "16", "256 tokens"), 64
WORDS = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="gpu-results")
    parser.add_argument("--seconds", type=float, default=480, help="begin no case after so long")
    parser.add_argument("--tests", type=int, help="exit status of the tests, for the report")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help='in "PAIRS pairs, SIZE, CHUNK, SYSTEM"')
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    logging.getLogger("contrastive_st").setLevel(logging.ERROR)
    until = time.monotonic() + args.seconds
    sizes = {"tiny": (32, 2, 2, 64)} if args.smoke else SIZES
    found: dict[str, Any] = {"about": about(args), "training": [], "encoding": []}
    found["about"]["matrix_tflops"] = matrix_rate(256 if args.smoke else 8192) / 1e12
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = make_tokenizer()
        for name, shape in sizes.items():
            save_model(Path(folder, name), shape, tokenizer)
        for kind, case in cases(sizes, args.smoke):
            if not any(text in name_of(case) for text in args.only):
                continue
            row = {**case, **measured(kind, case, Path(folder), until)}
            print(json.dumps(row), flush=True)
            found[kind].append(row)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (out / "gpu.md").write_text(report(found), encoding="utf-8")
    print(f"written: {out / 'gpu.json'}, {out / 'gpu.md'}")


def about(args: argparse.Namespace) -> dict[str, Any]:
    """Date, device and versions."""
    import sentence_transformers

    device = torch.cuda.get_device_name() if CUDA else f"{platform.machine()}, {torch.get_num_threads()} CPU threads"
    return {
        "date": str(date.today()),
        "device": device,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sentence_transformers": sentence_transformers.__version__,
        "smoke": args.smoke,
        "tests_exit_status": args.tests,
    }


def cases(sizes: dict[str, Any], smoke: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is measured, in the order of its weight."""
    small, batch, cached, chunks, texts = SMOKE if smoke else FULL
    smallest = next(iter(sizes))

    def training(models: Iterable[str], batch: int, chunk: str | None, *systems: str) -> Iterator[Any]:
        for model, system in itertools.product(models, systems):
            yield "training", {"model": model, "system": system, "batch": batch, "chunk": chunk}

    peers = "sentence-transformers", "sentence-transformers, unpadded"
    yield from training(sizes, batch, None, "ours", *peers, "ours, buckets")
    for model, system in itertools.product(sizes, ("ours", *peers)):
        yield "encoding", {"model": model, "system": system, "texts": texts}
    for size, chunk in itertools.product(cached, chunks):
        models = sizes if size == cached[0] else (smallest,)
        yield from training(models, size, chunk, "ours", *peers)
    yield from training(sizes, small, None, "ours", *peers)
    yield from training(sizes, batch, None, "ours, padded")


def name_of(case: dict[str, Any]) -> str:
    """What `--only` looks for: "4096 pairs, BERT-base-sized, 16384 tokens, ours"."""
    unit = "pairs" if "batch" in case else "texts"
    count = case.get("batch", case.get("texts"))
    return ", ".join(
        str(part) for part in (f"{count} {unit}", case["model"], case.get("chunk"), case["system"]) if part
    )


def measured(kind: str, case: dict[str, Any], folder: Path, until: float) -> dict[str, Any]:
    """The results of a case, or why there are none."""
    if time.monotonic() > until:
        return {"missing": "not run: no time was left"}
    if case["system"] == "sentence-transformers, unpadded" and not (CUDA and is_flash_attn_2_available(True)):
        return {"missing": "not run: no flash attention"}
    gc.collect()
    if CUDA:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        figures = (train if kind == "training" else encode)(case, folder)
    except torch.cuda.OutOfMemoryError:
        return {"missing": "out of memory"}
    except (ImportError, OSError) as error:  # the kernel of flash attention could not be fetched
        return {"missing": f"not run: {type(error).__name__}"}
    memory = {"peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)} if CUDA else {}
    return {**figures, **memory}


# ------------------------------------------------------------------ the models and texts


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word, [CLS] and [SEP] around a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = {word: i for i, word in enumerate(special + [f"w{i}" for i in range(WORDS)])}
    own = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    own.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=own, model_max_length=128, **names)


def save_model(folder: Path, shape: tuple[int, int, int, int], tokenizer: Any) -> None:
    """A random BERT that both packages open, mean-pooled."""
    from contrastive_st import BertForCL

    dim, layers, heads, inner = shape
    config = BertConfig(
        vocab_size=WORDS + 5, hidden_size=dim, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=inner, max_position_embeddings=128,
    )  # fmt: skip
    torch.manual_seed(0)
    BertForCL(config, pooling="mean").save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_texts(count: int, seed: int = 0) -> list[str]:
    """Random words, in the lengths of sentences."""
    random = np.random.default_rng(seed)
    lengths = random.lognormal(np.log(28), 0.6, count).astype(int).clip(3, 126)
    words = random.integers(0, WORDS, int(lengths.sum()))
    starts = np.concatenate([[0], lengths.cumsum()])
    return [" ".join(f"w{word}" for word in words[a:b]) for a, b in itertools.pairwise(starts)]


def useful(folder: Path, model: str, lengths: np.ndarray, each: int) -> float:
    """Operations of the matrix products over these real tokens; `each` is 2 for a forward pass, 6 for a step."""
    config = json.loads((folder / model / "config.json").read_text(encoding="utf-8"))
    dim, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    weights = layers * (4 * dim * dim + 2 * dim * inner)
    return each * float(weights * lengths.sum() + layers * 2 * dim * (lengths.astype(float) ** 2).sum())


def matrix_rate(size: int, dtype: torch.dtype = torch.bfloat16, seconds: float = 1.0) -> float:
    """Operations a second of a product of two square matrices.

    A processor without bf16 may multiply it in one thread, a hundred times as slowly as float32. So the size doubles up
    to the one asked for only while three products of the next take less than these seconds.
    """
    own, took = min(size, 128), 0.0
    while True:
        a, b = (torch.randn(own, own, device=DEVICE, dtype=dtype) for _ in range(2))
        for _ in range(2):  # the first product of a shape takes longer
            wait()
            began = time.perf_counter()
            a @ b
            wait()
            took = time.perf_counter() - began
        if own == size or 3 * 8 * took > seconds:
            break
        own = min(2 * own, size)
    count = max(1, int(seconds / 2 / max(took, 1e-6)))
    began = time.perf_counter()
    for _ in range(count):
        a @ b
    wait()
    return count * 2 * own**3 / (time.perf_counter() - began)


def wait() -> None:
    """For the device."""
    if CUDA:
        torch.cuda.synchronize()


# ------------------------------------------------------------------ one case


class Clock(TrainerCallback):
    """How long a step took, of those after the first."""

    def __init__(self) -> None:
        self.ticks: list[tuple[int, float]] = []

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in (WARM_UP, state.max_steps):
            wait()
            self.ticks.append((state.global_step, time.perf_counter()))

    @property
    def step_seconds(self) -> float:
        (first, began), (last, ended) = self.ticks[0], self.ticks[-1]
        return (ended - began) / (last - first)


def train(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Texts a second of a system's trainer, over its steps after the first two."""
    batch, chunk = case["batch"], case["chunk"]
    steps = max(2, min(30, 16_384 // batch)) if CUDA else 3
    texts = make_texts(batch * (steps + WARM_UP))
    lengths = np.array([len(text.split()) + 2 for text in texts[batch * WARM_UP :]]).repeat(2)
    clock = Clock()
    settings = {
        "output_dir": str(folder / "run"), "per_device_train_batch_size": batch, "max_steps": steps + WARM_UP,
        "learning_rate": 5e-5, "logging_steps": steps + WARM_UP, "save_strategy": "no", "report_to": "none",
        "disable_tqdm": True, "bf16": True, "dataloader_num_workers": 4 if CUDA else 0, "use_cpu": not CUDA,
    }  # fmt: skip
    make: Callable[..., Any] = peer if case["system"].startswith("sentence-transformers") else ours
    trainer = make(folder / case["model"], texts, settings, chunk, clock, case["system"])
    trainer.train()
    rate = useful(folder, case["model"], lengths, 8 if chunk else 6) / steps / clock.step_seconds
    return {"texts_per_second": round(batch / clock.step_seconds, 1), "useful_tflops": round(rate / 1e12, 3)}


def size_of(chunk: str | None, sentences: str, tokens: str) -> dict[str, int]:
    """The size of a chunk by the name of the argument that takes it."""
    if chunk is None:
        return {}
    size, _, unit = chunk.partition(" ")
    return {tokens if unit else sentences: int(size)}


def ours(model: Path, texts: list[str], settings: dict, chunk: str | None, clock: Clock, system: str) -> Any:
    """This package's trainer."""
    from contrastive_st import (
        AutoModelForCL,
        ContrastiveTrainer,
        ContrastiveTrainingArguments,
        DropoutPairCollator,
        tokenize,
    )

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    own = AutoModelForCL.from_pretrained(model)
    own.length_bucketing = system != "ours, padded"
    rows = tokenize(Dataset.from_dict({"text": texts}), tokenizer, 128)
    chunks = size_of(chunk, "chunk_size", "chunk_tokens")
    args = ContrastiveTrainingArguments(**settings, **chunks, unpadded=False if "," in system else None)
    return ContrastiveTrainer(
        own, args, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer), callbacks=[clock]
    )


def peer(model: Path, texts: list[str], settings: dict, chunk: str | None, clock: Clock, system: str) -> Any:
    """The trainer of sentence-transformers."""
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses

    own = SentenceTransformer(str(model), device=DEVICE, model_kwargs=attention(system))
    own.max_seq_length = 128
    if chunk:
        sizes = size_of(chunk, "mini_batch_size", "mini_batch_num_tokens")
        loss = losses.CachedMultipleNegativesRankingLoss(own, **sizes)
    else:
        loss = losses.MultipleNegativesRankingLoss(own)
    args = SentenceTransformerTrainingArguments(**settings)
    pairs = Dataset.from_dict({"anchor": texts, "positive": texts})
    return SentenceTransformerTrainer(own, args, train_dataset=pairs, loss=loss, callbacks=[clock])


def attention(system: str) -> dict[str, str]:
    """What sentence-transformers computes no padding with."""
    return {"attn_implementation": "flash_attention_2"} if "unpadded" in system else {}


def encode(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Texts a second of bf16 weights, the best of two passes; tokenizing is in it."""
    texts, path = make_texts(case["texts"], 1), str(folder / case["model"])
    if case["system"] == "ours":
        from contrastive_st import SentenceEncoder

        encoder = SentenceEncoder(path, device=DEVICE, precision="bf16")
        run = lambda: encoder.encode(texts)
    else:
        from sentence_transformers import SentenceTransformer

        chosen = {"dtype": torch.bfloat16, **attention(case["system"])}
        other = SentenceTransformer(path, device=DEVICE, model_kwargs=chosen)
        run = lambda: other.encode(texts, batch_size=256)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        run()
        wait()
        seconds.append(time.perf_counter() - began)
    lengths = np.array([len(text.split()) + 2 for text in texts])
    best = min(seconds[1:])
    rate = useful(folder, case["model"], lengths, 2) / best
    return {"texts_per_second": round(len(texts) / best, 1), "useful_tflops": round(rate / 1e12, 3)}


# ------------------------------------------------------------------ what is written


def report(found: dict[str, Any]) -> str:
    """The tables."""
    about = found["about"]
    tests = {None: "not run", 0: "passed"}.get(about["tests_exit_status"], "FAILED: see tests.txt")
    lines = [
        f"{about['date']}, {about['device']}, torch {about['torch']}, transformers {about['transformers']}, "
        f"sentence-transformers {about['sentence_transformers']}; bf16 products of 8192 x 8192 matrices: "
        f"{about['matrix_tflops']:.1f} TFLOP/s. Tests marked `cuda`: {tests}.",
        *(["", "**A smoke run: tiny sizes; these results mean nothing.**"] if about["smoke"] else []),
    ]
    for kind, columns in (
        ("training", ("model", "batch", "chunk", "system")),
        ("encoding", ("model", "texts", "system")),
    ):
        lines += [
            "",
            f"| {' | '.join(columns)} | texts/s | x sentence-transformers | useful TFLOP/s (share) | peak GiB |",
        ]
        lines += ["|" + "---|" * (len(columns) + 4)]
        for row in found[kind]:
            lines.append(
                "| " + " | ".join([*(str(row[name] or "-") for name in columns), *figures(row, found, kind)]) + " |"
            )
    return "\n".join(lines) + "\n"


def figures(row: dict[str, Any], found: dict[str, Any], kind: str) -> list[str]:
    """Cells of a row: rate, ratio, share of the peak, memory."""
    if "missing" in row:
        return [row["missing"], "", "", ""]
    same = ("model", "batch", "chunk", "texts")
    other = [
        o["texts_per_second"] for o in found[kind]
        if o["system"] == "sentence-transformers" and "missing" not in o and all(o.get(n) == row.get(n) for n in same)
    ]  # fmt: skip
    ratio = f"{row['texts_per_second'] / other[0]:.2f}" if other and row["system"] != "sentence-transformers" else ""
    share = row["useful_tflops"] / found["about"]["matrix_tflops"]
    return [
        f"{row['texts_per_second']:,}",
        ratio,
        f"{row['useful_tflops']} ({share:.0%})",
        str(row.get("peak_gib", "")),
    ]


if __name__ == "__main__":
    main()
