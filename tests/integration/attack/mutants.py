"""Damaged and hostile files of every kind that is opened: each is opened, or an error that the command line tells.

python tests/integration/attack/mutants.py --count 2000 --resume 500 --seed 1

A mutant is a whole folder in which one file was changed: a value of a JSON, a part of a header of safetensors, bytes of
any file, or its end. Each is opened in a forked child of one process that has imported everything, with a limit of
time and memory. A mutant is a find if its child ends by a signal or with a wrong result, needs more than 10 s or 2 GiB,
starts a process, connects to anything, runs what the folder holds, or raises what the command line would show as a
traceback (`one_line`); which exception it is does not matter. The last line counts all that was opened.
"""

import argparse
import contextlib
import copy
import json
import logging
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

MADE = Path(__file__).parents[2] / "formats" / "made"
SECONDS, MEMORY, AT_MOST = 10, 2 << 30, 8 << 30
HOSTILE = (
    None, True, False, 0, -1, -5, 1, 2, 3, 7, 10**7, 4_000_000_000, 2**63, 10**30, 1e308, float("nan"), float("inf"),
    "", "x", "\ud800", "../../etc/passwd", "/dev/zero", "kernels-community/flash-attn", "evil.Evil", "int8", [], [1],
    {}, {"a": 1}, [[]], "a" * 10_000, {"AutoModel": "evil.Evil", "AutoConfig": "evil.Evil"},
)  # fmt: skip
#: Keys that no file of the samples has, and that a library may look for
KEYS = (
    "auto_map", "_attn_implementation", "_attn_implementation_internal", "_experts_implementation", "dtype",
    "quantization_config", "torch_dtype", "tokenizer_class", "trust_remote_code", "model_type", "architectures",
    "per_layer_config", "vocab_size", "num_hidden_layers", "hidden_act", "base_model_name_or_path", "peft_type",
    "use_kernels", "rope_scaling",
)  # fmt: skip


class Evil:
    """Writes a file if it is unpickled."""

    def __reduce__(self):
        return os.system, (f"touch {os.environ['MUTANT_CANARY']}",)


# --- Mutants.


def places(content, path=()):
    """Every place of a JSON value, as keys and positions."""
    yield path
    entries = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def mutate_json(content, chance):
    """A JSON value with one or two changes."""
    for _ in range(chance.choice((1, 1, 2))):
        found = list(places(content))
        shallow = [path for path in found if len(path) < 3]  # the thousands of a vocabulary would be all that changes
        path = chance.choice(shallow if chance.random() < 0.7 else found)
        if not path:
            if isinstance(content, dict) and chance.random() < 0.9:
                content[chance.choice(KEYS)] = copy.deepcopy(chance.choice(HOSTILE))
            else:
                content = copy.deepcopy(chance.choice(HOSTILE))
            continue
        holder = content
        for key in path[:-1]:
            holder = holder[key]
        if chance.random() < 0.2:
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(chance.choice(HOSTILE))
    return content


def mutate_bytes(data, chance):
    """Bytes with some flipped, cut, doubled, or replaced."""
    kind = chance.randrange(5)
    if kind == 0 and data:
        data = bytearray(data)
        for _ in range(chance.choice((1, 1, 4, 30))):
            data[chance.randrange(min(len(data), chance.choice((16, 400, len(data)))))] = chance.randrange(256)
        return bytes(data)
    if kind == 1:
        return data[: chance.randrange(len(data) + 1)]
    if kind == 2:
        cut = chance.randrange(len(data) + 1)
        return data[:cut] + data[chance.randrange(len(data) + 1) :] + data[cut:]
    if kind == 3:
        return chance.choice((b"", b"\x00" * 64, b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b"null", b"1" * 5_000))
    return chance.randbytes(chance.choice((1, 8, 300)))


def mutate_header(data, chance):
    """A file of safetensors with another header: types, shapes, offsets, names."""
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(mutate_json(json.loads(data[8 : 8 + length]), chance)).encode()
    size = chance.choice((len(header),) * 6 + (0, 2**40, len(header) + 8, 2**64 - 1))
    return size.to_bytes(8, "little") + header + data[8 + length :]


def mutate(path, chance):
    """Change one file in place."""
    data, roll = path.read_bytes(), chance.random()
    if roll < 0.02 and hasattr(os, "mkfifo"):
        path.unlink()
        return chance.choice((lambda: os.mkfifo(path), lambda: os.symlink("/dev/zero", path), path.mkdir))()
    if roll < 0.04:
        with path.open("wb") as file:
            return file.truncate(10 << 30)  # sparse
    if path.suffix == ".json" and roll < 0.8:
        data = json.dumps(mutate_json(json.loads(data), chance)).encode()
    elif path.suffix == ".safetensors" and roll < 0.6:
        data = mutate_header(data, chance)
    else:
        data = mutate_bytes(data, chance)
    return path.write_bytes(data)


# --- What is opened, and how.


def open_model(folder):
    from contrastive_st.models.auto import AutoModelForCL
    from contrastive_st.models.protocol import open_encoder

    open_encoder(folder).encode(["a cat sat on the mat", "", "two"])
    AutoModelForCL.from_pretrained(folder)


def open_rows(folder):
    from contrastive_st.data import read_texts
    from contrastive_st.search.documents import open_corpus

    for path in sorted(folder.iterdir()):
        for read in (lambda source: open_corpus(source).read(), read_texts):
            try:
                for _ in read(str(path)):
                    pass
            except Exception as error:
                if not told(error):
                    raise


def open_state(folder):
    from mutant_run import resume

    resume(folder)


def told(error):
    """Whether the command line tells an error in one line."""
    from contrastive_st.errors import one_line

    return not isinstance(error, (MemoryError, AssertionError)) and len(one_line(error).splitlines()) == 1


def make_rows(folder):
    """One table in each format."""
    import pyarrow
    import pyarrow.parquet

    rows = [{"text": f"row {i} of the table", "label": i % 3} for i in range(20)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "rows.parquet")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "rows.csv").write_text("text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows))


def samples(root):
    """The folders that are mutated, by kind, and the function that opens each."""
    found = {}
    for kind in ("bert", "static", "quickthoughts", "lora"):
        shutil.copytree(MADE / kind, root / kind, ignore=shutil.ignore_patterns("*.py"))
        found[kind] = (root / kind, open_model)
    about = root / "lora" / "adapter_config.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "base_model_name_or_path": str(MADE / "bert")}))
    (root / "rows").mkdir()
    make_rows(root / "rows")
    found["rows"] = (root / "rows", open_rows)
    return found


def arm(folder):
    """Code and pickles, which nothing may run."""
    canary = os.environ["MUTANT_CANARY"]
    (folder / "evil.py").write_text(f"open({canary!r}, 'w').close()\nclass Evil: pass\n")
    if not (folder / "pytorch_model.bin").exists():
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))


# --- One child for each mutant.


def watched(event, args):
    if event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect"):
        os.write(2, f"FORBIDDEN {event} {args!r:.200}\n".encode())
        os._exit(77)


def memory(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) << 10


def child(opened, folder, report):
    """Open a mutant; what happened, as a line."""
    resource.setrlimit(resource.RLIMIT_DATA, (AT_MOST, AT_MOST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.addaudithook(watched)
    try:
        opened(folder)
        ended = "opened"
    except BaseException as error:
        refused = isinstance(error, Exception) and told(error)
        ended = "refused" if refused else f"FOUND {traceback.format_exc()}"
    used = memory("VmHWM")
    os.write(report, f"{used}\n{ended}".encode()[:60_000])
    os._exit(0)


def run_one(opened, folder, idle):
    """What a child told, or how it ended."""
    ours, theirs = os.pipe()
    began = time.monotonic()
    if not (pid := os.fork()):
        child(opened, folder, theirs)
    os.close(theirs)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() - began > SECONDS:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(ours)
            return f"FOUND it took more than {SECONDS} s"
        time.sleep(0.002)
    outcome = os.read(ours, 65_536).decode(errors="replace")
    os.close(ours)
    if code := os.waitstatus_to_exitcode(ended[1]):
        return f"FOUND it ended by {code}"
    used, _, outcome = outcome.partition("\n")
    if int(used) - idle > MEMORY:
        return f"FOUND {(int(used) - idle) >> 20} MiB"
    return "FOUND it ran code" if Path(os.environ["MUTANT_CANARY"]).exists() else outcome


def attack(kinds, count, seed, root):
    """Open `count` mutants of all kinds in turn; the finds, and a count of what happened by kind."""
    for folder, opened in kinds.values():  # so that the children import nothing; a run that resumes writes
        shutil.copytree(folder, root / "whole")
        opened(root / "whole")
        shutil.rmtree(root / "whole")
    idle = memory("VmRSS")
    counts, finds, names = Counter(), [], list(kinds)
    for number in range(count):
        chance, kind = random.Random(f"{seed} {number}"), names[number % len(names)]
        source, opened = kinds[kind]
        mutant = root / "mutant"
        shutil.copytree(source, mutant)
        path = chance.choice(sorted(path for path in mutant.rglob("*") if path.is_file()))
        with contextlib.suppress(ValueError, OverflowError):  # a change that JSON cannot hold
            mutate(path, chance)
        if kind != "rows":
            arm(mutant)
        outcome = run_one(opened, mutant, idle)
        counts[kind, outcome.split(maxsplit=1)[0]] += 1
        if outcome.startswith("FOUND"):
            finds.append(f"{kind} {seed} {number} {path.relative_to(mutant)}: {outcome}")
            print(finds[-1] + "\n", flush=True)
        shutil.rmtree(mutant)
    return finds, counts


def prepare(root):
    """Import once, quietly, and without threads: a lock that a thread holds at a fork is never free again."""
    os.environ |= {"MUTANT_CANARY": str(root / "canary"), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    import torch
    import transformers

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--resume", type=int, default=500, help="mutated checkpoints of a run")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began, finds = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root)
        jobs = [(samples(root), args.count)]
        if args.resume:
            from mutant_run import trained

            jobs.append(({"resume": (trained(root / "run"), open_state)}, args.resume))
        for kinds, count in jobs:
            found, counts = attack(kinds, count, args.seed, root)
            finds += found
            for (kind, ended), number in sorted(counts.items()):
                print(f"{kind:14} {ended:20} {number}")
    seconds = time.monotonic() - began
    print(f"{args.count} + {args.resume} mutants of seed {args.seed} in {seconds:.0f} s: {len(finds)} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
