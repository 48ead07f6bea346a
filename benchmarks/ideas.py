"""Ideas of the sources that had no results: reconstruction, transformer towers, SimCSE's temperatures, ordered corpora.

    CONTRASTIVE_ST_DATA=DATA python benchmarks/ideas.py --jobs 6 --until 600 --output ideas.jsonl [--only NAME ...]

DATA has `wikipedia.parquet` (sentences in article order; the first 240,000 are used) and `senteval/`. Each run is a
training script of `examples/` with the flags that are printed, or a row of `simcse_lift.py`; so many run at a time, one
after the other in the order of the list, and none begins after `--until` seconds. The runs:

* QuickThoughts, the published loss on a GRU: contrast alone, and a decoder or a bag of words in addition,
  at three weights;
* the same with transformer towers, at two rates, and with word vectors frozen and trained together;
* SimCSE on a small BERT, which is first trained on the same text by masked LM: temperatures, masked LM as a second
  loss, and the alignment and uniformity of STS-B dev on the way (Figure 2 of Gao et al. 2021); TSDAE
  on the same BERT;
* a student of `model_cards/minilm-1-layer`, over shuffled sentences and over a short path through its vectors.

A line of JSON for each run: Spearman over all pairs x100 of STS12, 14, 15, STS-B dev and test and SICK-R trial, and
their time. `--table FILE` prints means and deviations over the seeds from such lines.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("CONTRASTIVE_ST_DATA", ""))
SENTENCES, BATCH = 240_000, 400
TASKS = "STS12,STS14,STS15,STSB,SICKR"
COLUMNS = ("STS12", "STS14", "STS15", "STS-B", "mean", "STS-B dev", "SICK-R trial")
GRU = "--hidden_size 300 --embedding_size 200 --vocab_size 20000 --max_length 50 --targets next --eval_strategy no"
SIMCSE = "--max_length 32 --pooling mean --dropout 0.1 --per_device_train_batch_size 64 --learning_rate 1e-4"
RESTORED = "--max_length 32 --per_device_train_batch_size 64 --learning_rate 1e-4"
BERT = "--hidden_size 256 --block_size 64 --vocab_size 16000 --save_strategy no"
STUDENT = "--hidden_size 256 --num_layers 3 --max_length 32 --warmup_steps 0.1 --per_device_train_batch_size 128"
WEIGHTS, TEMPERATURES = ("0.1", "0.3", "1"), (0.001, 0.01, 0.05, 0.1, 1.0)
CURVES = ("dropout 0.1", "no dropout", "dropout 0.1, one mask for both views",
          "dropout 0.1 and 10% of the words deleted", "dropout 0.1 and 10% of the words cropped")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        name: of the row of the table.
        seed: of the training.
        script: `run_SCRIPT.py` with `flags`; or `lift`, a variant of `simcse_lift.py`.
        flags: of the script.
        variant, temperature, every: of `lift`: the variant, its temperature, the steps between two points of its curve.
        needs_base: whether it starts from the BERT that the run `base` trains, or from `--start`.
    """

    name: str
    seed: int
    script: str
    flags: str = ""
    variant: str = CURVES[0]
    temperature: float = 0.05
    every: int = 0
    needs_base: bool = False


def runs(args: argparse.Namespace) -> Iterator[Run]:
    """The runs, in the order in which they begin: the base, then all of one seed before the next."""
    size = f"--num_layers {args.base_layers} --per_device_train_batch_size {args.base_batch}"
    yield Run("base", 0, "mlm", f"{BERT} {size} --max_steps {args.base_steps}")
    gru = f"{GRU} --readout max --learning_rate 2e-3"
    for seed in args.seeds:
        yield Run("contrast alone", seed, "quickthoughts", gru)
        yield from reconstructed("sequence", seed, gru)
        for temperature in TEMPERATURES:
            yield Run(f"SimCSE, temperature {temperature:g}", seed, "lift", temperature=temperature, needs_base=True)
        for rate in ("5e-4", "2e-3"):
            flags = f"{GRU} --encoder transformer --readout mean --learning_rate {rate}"
            yield Run(f"transformer towers, rate {rate}", seed, "quickthoughts", flags)
        for use in ("trained", "frozen", "multichannel"):
            flags = f"{gru} --word_vectors corpus --word_vectors_use {use}"
            yield Run(f"word vectors of the corpus, {use}", seed, "quickthoughts", flags)
        for weight in ("0", "0.1"):
            second = f"{SIMCSE} --do_mlm true --mlm_weight {weight}" if weight != "0" else SIMCSE
            flags = f"{second} --temperature 0.1 --max_steps {args.lift_steps}"
            yield Run(f"SimCSE with masked LM, weight {weight}", seed, "simcse", flags, needs_base=True)
        yield Run("TSDAE", seed, "tsdae", f"{RESTORED} --max_steps {args.lift_steps}", needs_base=True)
        for order in ("0", str(args.order_seconds)):
            flags = f"{STUDENT} --learning_rate 1e-3 --max_steps {args.student_steps} --order_seconds {order}"
            label = "ordered by the teacher" if order != "0" else "shuffled"
            yield Run(f"student, {label}", seed, "distill", f"{flags} --teacher {ROOT / 'model_cards/minilm-1-layer'}")
        if seed == args.seeds[0]:
            for variant in CURVES:
                yield Run(f"curve, {variant}", seed, "lift", variant=variant, every=args.every, needs_base=True)
    for seed in args.seeds:
        untrained = f"{GRU} --readout max --learning_rate 1e-12 --max_steps 1"
        yield Run("before training", seed, "quickthoughts", untrained)
        yield Run(
            "word vectors of the corpus, before training", seed, "quickthoughts", f"{untrained} --word_vectors corpus"
        )
        yield from reconstructed("bag", seed, gru)


def reconstructed(way: str, seed: int, gru: str) -> Iterator[Run]:
    """QuickThoughts with reconstruction, at each weight."""
    for weight in WEIGHTS:
        flags = f"{gru} --reconstruction {weight} --reconstruction_as {way}"
        yield Run(f"{way}, weight {weight}", seed, "quickthoughts", flags)


# ------------------------------------------------------------------ one run, in a process that has many


def judged(model: Any, **options: Any) -> dict[str, float]:
    """The scores of `COLUMNS`."""
    from contrastive_st import evaluate

    found = {
        (s.task, s.split): 100 * s.value
        for s in evaluate([model], TASKS, DATA / "senteval", **options).scores
        if s.value is not None and s.metric == "spearman" and s.aggregation == "all"
    }
    names = {"STSB": "STS-B", "SICKR": "SICK-R"}
    figures = {
        f"{names.get(task, task)}{'' if split == 'test' else f' {split}'}": value
        for (task, split), value in found.items()
    }
    figures["mean"] = sum(figures[name] for name in COLUMNS[:4]) / 4
    figures["SICK-R trial"] = figures.pop("SICK-R dev")
    return {name: round(value, 3) for name, value in figures.items()}


def work(run: Run, args: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Train and evaluate one run; its output goes to a file."""
    started, out = time.time(), Path(folder, f"{run.name}-{run.seed}".replace(" ", "_").replace("/", "_"))
    with open(f"{out}.log", "w", encoding="utf-8") as log, contextlib.redirect_stdout(log), _stderr(log.fileno()):
        found = lifted(run, args, folder) if run.script == "lift" else scripted(run, args, folder, out)
    shown = replace(run, flags=run.flags.replace(f"{ROOT}{os.sep}", ""))  # no path of this machine
    return {**asdict(shown), **found, "seconds": round(time.time() - started, 1)}


@contextlib.contextmanager
def _stderr(to: int) -> Iterator[None]:
    kept = os.dup(2)
    os.dup2(to, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def scripted(run: Run, args: argparse.Namespace, folder: str, out: Path) -> dict[str, Any]:
    """A training script of `examples/`; in this process, which has imported everything for the next one."""
    sys.path[:0] = [str(ROOT / "examples")]
    os.environ.pop("CONTRASTIVE_ST_DATA", None)  # scripts evaluate nothing themselves
    flags = [
        "--train_file", args.sentences, "--output_dir", str(Path(folder, "base") if run.name == "base" else out),
        "--seed", str(run.seed), "--report_to", "none", "--disable_tqdm", "true", "--logging_steps", "100",
        *run.flags.split(),
    ]  # fmt: skip
    if run.script == "quickthoughts":
        flags += ["--per_device_train_batch_size", str(BATCH)] + (["--max_steps", "4"] if args.tiny else [])
    if run.script == "distill":
        flags += ["--max_train_samples", str(args.student_sentences), "--cache", str(Path(folder, "vectors"))]
    if run.needs_base:
        flags += ["--model_name_or_path", args.start or str(Path(folder, "base"))]
    if args.device == "cpu":
        flags += ["--use_cpu", "true"]
    importlib.import_module(f"run_{run.script}").main(flags)
    return judged(f"{folder}/base", pooling="mean") if run.name == "base" else judged(str(out))


def lifted(run: Run, args: argparse.Namespace, folder: str) -> dict[str, Any]:
    """A variant of SimCSE, at a temperature; with a curve if asked."""
    import simcse_lift
    from contrastive_st import InfoNCE

    [variant] = [found for found in simcse_lift.VARIANTS if found.name == run.variant]
    loss = type(variant.loss)(run.temperature) if run.temperature != 0.05 else variant.loss
    assert isinstance(loss, InfoNCE)
    start = args.start or str(Path(folder, "base"))
    given = argparse.Namespace(
        start=start, sentences=args.sentences, triplets=None, senteval=DATA / "senteval", steps=args.lift_steps
    )
    curve: list[dict[str, float]] = []
    figures = simcse_lift.trained(
        given, replace(variant, loss=loss), args.lift_rate, run.seed, judge=judged,
        every=run.every, curve=curve,
    )  # fmt: skip
    return {**figures, **({"curve": curve} if curve else {})}


# ------------------------------------------------------------------ all of them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--until", type=float, default=1e9, help="begin no run after so many seconds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="runs whose names begin so")
    parser.add_argument("--output", type=Path, default=Path("ideas.jsonl"))
    parser.add_argument("--logs", type=Path, help="folder of models and logs; by default none is kept")
    parser.add_argument("--tiny", action="store_true", help="a few steps each: does it run?")
    parser.add_argument(
        "--start", help="an encoder for SimCSE to start from, in place of the BERT that is trained here"
    )
    parser.add_argument("--base_steps", type=int, default=1500)
    parser.add_argument("--base_layers", type=int, default=4)
    parser.add_argument("--base_batch", type=int, default=128)
    parser.add_argument("--lift_steps", type=int, default=300)
    parser.add_argument("--lift_rate", type=float, default=1e-4)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--student_steps", type=int, default=900)
    parser.add_argument("--student_sentences", type=int, default=40_000)
    parser.add_argument("--order_seconds", type=int, default=20)
    parser.add_argument("--table", type=Path, help="print the table of such a file, and train nothing")
    args = parser.parse_args()
    if args.table:
        print(table([json.loads(line) for line in args.table.read_text(encoding="utf-8").splitlines()]))
        return
    if args.tiny:
        small = {"base_steps": 3, "lift_steps": 3, "every": 2, "student_steps": 3, "student_sentences": 400}
        vars(args).update(small, order_seconds=1)
    began = time.time()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        args.sentences = str(first_sentences(folder / "sentences.parquet", 2000 if args.tiny else SENTENCES))
        waiting = [
            run for run in runs(args) if not args.only or run.name == "base" or run.name.startswith(tuple(args.only))
        ]
        if args.start or not any(run.needs_base for run in waiting):
            waiting = waiting[1:]
        train(waiting, args, str(folder), began)


def first_sentences(path: Path, count: int) -> Path:
    """The first rows of the corpus."""
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.parquet.read_table(DATA / "wikipedia.parquet")[:count], path)
    return path


def train(waiting: list[Run], args: argparse.Namespace, folder: str, began: float) -> None:
    """Keep `--jobs` processes busy, until the time is up."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["HF_DATASETS_CACHE"] = str(Path(folder, "datasets"))
    base, running = not any(run.name == "base" for run in waiting), {}
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        while waiting or running:
            ready = [run for run in waiting if base or not run.needs_base]
            late = time.time() - began > args.until
            while ready and len(running) < args.jobs and not late:
                running[pool.submit(work, ready[0], args, folder)] = ready[0]
                waiting.remove(ready.pop(0))
            if not running:
                break
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                run = running.pop(done)
                base |= run.name == "base" and done.exception() is None
                report(done, run, args, began)
    for run in waiting:
        print(json.dumps({"name": run.name, "seed": run.seed, "not run": "no time was left"}), flush=True)


def report(done: Future[dict[str, Any]], run: Run, args: argparse.Namespace, began: float) -> None:
    """Print the line of a run, and append it to the file."""
    error = done.exception()
    found = {"name": run.name, "seed": run.seed, "error": f"{error!r:.500}"} if error else done.result()
    line = json.dumps({**found, "ended": round(time.time() - began, 1)})
    print(line, flush=True)
    with open(args.output, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def table(rows: list[dict[str, Any]]) -> str:
    """Means and deviations over the seeds, in the order of the names."""
    sys.path[:0] = [str(Path(__file__).parent)]
    from compare import cell_of

    of_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if "mean" in row:
            of_name.setdefault(row["name"], []).append(row)
    lines = [f"| run | seeds | {' | '.join(COLUMNS)} |", f"|---|---:|{'---:|' * len(COLUMNS)}"]
    for name, found in of_name.items():
        cells = [cell_of([row[column] for row in found], 1) for column in COLUMNS]
        lines.append(f"| {name} | {len(found)} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
