"""Whatever a command is given: exit code 0 or 2, one line on stderr for 2, no traceback, no file changed on failure."""

import contextlib
import csv
import io
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from small_checkpoints import tiny_bert

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL
from contrastive_st.cli import main

pytestmark = pytest.mark.slow

SECONDS = 120  # after which a case counts as hung
NOWHERE = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
VALUES = [
    "", "0", "-1", "1", "2", "nan", "inf", "-inf", "1e400", "2" * 30, "lots", "[]", "{}", '{"a": [', "é", "--",
    "\x1b[2J", "a\nb", "true",
]  # fmt: skip
OUTPUTS = ["v.npy", "v.parquet", "v.csv", "model", "no/v.npy", "a" * 300 + ".npy"]
HEADERS = ["text", "label", "score", "sentence1", "sentence2", "anchor", "positive", "negative"]
JOBS = ["simcse", "sbert", "quickthoughts", "infersent", "use", "skipthoughts", "cert", "distill", "sequences"]
TRAINING_FLAGS = [
    "learning_rate", "per_device_train_batch_size", "num_train_epochs", "warmup_steps", "weight_decay", "seed",
    "logging_steps", "save_steps", "gradient_accumulation_steps", "optim", "optim_args", "lr_scheduler_type",
    "lr_scheduler_kwargs", "chunk_size", "chunk_tokens", "max_length", "temperature", "pooling", "data_license",
    "resume_from_checkpoint", "save_total_limit", "max_grad_norm", "bf16", "report_to", "loss", "deepspeed", "fsdp",
    "accelerator_config", "text_column", "model_name_or_path", "unknown_flag",
]  # fmt: skip

words = st.one_of(st.sampled_from(VALUES), st.text(max_size=12), st.integers(-3, 9).map(str))
texts = st.one_of(st.sampled_from(SENTENCES), st.text(max_size=30), st.integers().map(str), st.floats().map(str))
headers = st.lists(
    st.one_of(st.sampled_from(HEADERS), texts),
    min_size=1, max_size=4,
)  # fmt: skip


def table(rows, delimiter):
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows(rows)
    return written.getvalue().encode("utf-8", errors="surrogatepass")


@st.composite
def files(draw):
    """The name and the content of a file: lines, a table, JSON, or any bytes under any of these names."""
    suffix = draw(st.sampled_from([".txt", ".csv", ".tsv", ".jsonl", ".json", ".parquet", ".fasta", ".md", ""]))
    rows = draw(st.lists(st.lists(texts, min_size=1, max_size=4), max_size=6))
    kind = draw(st.sampled_from(["lines", "table", "records", "bytes", "good"]))
    if kind == "bytes":
        return suffix, draw(st.binary(max_size=200))
    if kind == "good":
        return ".txt", "\n".join(SENTENCES).encode()
    if kind == "records":
        names = draw(headers)
        found = [dict(zip(names, row, strict=False)) for row in rows]
        return suffix, "\n".join(json.dumps(row) for row in found).encode()
    if kind == "table":
        return suffix, table([draw(headers), *rows], "\t" if suffix == ".tsv" else ",")
    return suffix, "\n".join(row[0] for row in rows).encode("utf-8", errors="surrogatepass")


def options(*names):
    """Some of these flags, each with a value of any kind."""
    one = st.tuples(st.sampled_from(names), words).map(lambda pair: [f"--{pair[0]}={pair[1]}"])
    return st.lists(one, max_size=2).map(lambda pairs: [word for pair in pairs for word in pair])


@st.composite
def command_lines(draw, data):
    """A command with its arguments; `data` is the file that was made for it."""
    store = ["--store", NOWHERE]
    tiny = [
        "--train_file", data, "--output_dir", "out", "--max_steps", "1", "--use_cpu", "true", "--disable_tqdm", "true",
        "--per_device_train_batch_size", "4",
    ]  # fmt: skip
    pick = lambda *words: draw(st.sampled_from(words))
    lines = {
        "train": lambda: [pick(*JOBS), *tiny, *draw(options(*TRAINING_FLAGS))],
        "encode": lambda: [
            data, "-m", "model", "-o", pick(*OUTPUTS), *draw(options("column", "normalize", "precision", "ranges")),
        ],
        "similarity": lambda: [draw(words), draw(words), "-m", "model"],
        "evaluate": lambda: [
            "model", "--data", pick(".", "none"), "--cache", "none", "-o", "report", "--pairs", data, "--tasks",
            pick("STSB", "pairs", "space", "x"), *draw(options("pooling", "max_length", "folds", "retrieval", "names")),
        ],
        "classify": lambda: [
            data, "-m", "model", "--train_file", f"a={data}", f"b={data}", "-o", ".",
            *draw(options("classifier", "pooling", "test", "columns", "separator", "head")),
        ],
        "neighbors": lambda: [
            "model", "--corpus", data, "--query", draw(words),
            *draw(options("k", "max_sentences", "pooling", "column", "output")),
        ],
        "card": lambda: ["model", *draw(options("name", "license", "language", "datasets", "output"))],
        "push": lambda: ["model", "alice/model", "--dry-run", *draw(options("license", "message", "revision"))],
        "pull": lambda: [draw(words), "--to", "new"],
        "convert": lambda: [
            "model", pick("new", "model", "a/b/new", "b" * 300), "--to", pick("package", "simcse", "backbone", "x"),
            *draw(options("pooling")),
        ],
        "index": lambda: [
            data, "-m", "model", "-o", "shards",
            *draw(options("column", "split_into", "shard_rows", "precision", "build_memory", "pooling")),
        ],
        "search": lambda: [draw(words), *store, *draw(options("k", "ef_search", "filter", "collection"))],
        "similar": lambda: [draw(words), *store, *draw(options("k", "filter"))],
        "collections": lambda: [*store, *draw(options("delete", "describe"))],
        "trends": lambda: [*store, *draw(options("clusters", "seed", "by", "collection"))],
        "duplicates": lambda: [*store, *draw(options("threshold", "limit", "collection"))],
        "serve": lambda: [*store, *draw(options("port", "host", "model"))],
        "doctor": lambda: draw(options("unknown")),
    }  # fmt: skip
    name = pick(*lines, "any word")
    return [name, *lines[name]()] if name in lines else [draw(words)]


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def hung(*_):
    raise TimeoutError(f"still at work after {SECONDS} s")


def outcome(argv):
    """The exit code and stderr of a command; None and the traceback where an exception came out of it."""
    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, hung)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return main(argv), err.getvalue()
    except SystemExit as error:
        return error.code or 0, err.getvalue()
    except BaseException:
        return None, traceback.format_exc()
    finally:
        signal.alarm(0)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("checkpoint")
    config = tiny_bert(tokenizer, hidden_size=8, intermediate_size=8)
    return save_both(BertForCL(config, pooling="mean"), tokenizer, folder)


@pytest.mark.allow_warnings
def test_200_cases(checkpoint, tmp_path_factory, monkeypatch):
    wrong = {}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    monkeypatch.setenv("CONTRASTIVE_ST_STORE", NOWHERE)
    place = tmp_path_factory.mktemp("cases")

    @settings(
        max_examples=200, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    @given(st.data())
    def case(draws):
        suffix, written = draws.draw(files())
        argv = draws.draw(command_lines(f"data{suffix}"))
        folder = Path(tempfile.mkdtemp(dir=place))
        shutil.copytree(checkpoint, folder / "model")
        (folder / f"data{suffix}").write_bytes(written)
        before = content(folder)
        monkeypatch.chdir(folder)
        code, err = outcome(argv)
        problem = None
        err = "".join(line for line in err.splitlines(keepends=True) if "\r" not in line and "/s]" not in line)  # bars
        if "the reasons are in the report" in err:  # a report that was asked for says what could not be judged
            err, before = err[err.index("error: ") :], content(folder)
        if code is None or code not in (0, 2):
            problem = err.strip().splitlines()[-1][:200] if err.strip() else f"exit code {code}"
        elif code == 2 and (err.count("\n") != 1 or not err.startswith("error: ")):
            problem = f"not one line on stderr: {err[:300]!r}"
        elif code == 2 and content(folder) != before:
            changed = {*content(folder).items()} ^ {*before.items()}
            problem = f"files changed: {sorted({name for name, _ in changed})[:4]}"
        if problem:
            found = f"{argv} data{suffix}={written[:80]!r}\n{err[-1500:]}"
            wrong.setdefault((argv[0], problem.replace(str(folder), "")), found)
        os.chdir(place)
        shutil.rmtree(folder)

    logging.disable(logging.CRITICAL)
    try:
        case()
    finally:
        logging.disable(logging.NOTSET)
        os.chdir(Path(__file__).parent)
    assert not wrong, "\n--- ".join(["", *wrong.values()])
