"""The `contrastive-st` command: one thin function a subcommand."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.evaluation.cli import add_commands
from contrastive_st.hub.cli import add_commands as add_hub_commands
from contrastive_st.jobs import neighbors_job as neighbors
from contrastive_st.search.cli import add_commands as add_search_commands
from contrastive_st.search.cli import add_front_commands

JOBS = {"train": "contrastive_st.jobs.simcse", "compare": "contrastive_st.jobs.compare"}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0, or 2 after one line on what to mend."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and argv[0] in JOBS:  # the options are those of the job, help included
        job = importlib.import_module(JOBS[argv[0]])
        return run(lambda: job.main(argv[1:]))
    args = _parser().parse_args(argv)
    return run(lambda: args.function(args))


def run(job: Callable[[], Any]) -> int:
    """Call `job`; bad input ends in one line on stderr and exit code 2."""
    try:
        job()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    _part_from_the_others()
    return 0


def _part_from_the_others() -> None:
    """Leave the process group together: a process that ends while the others still talk aborts."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="contrastive-st", description="Contrastive sentence embeddings.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("train", help="train a SimCSE encoder (options: contrastive-st train --help)")
    commands.add_parser("compare", help="train every method on one budget, and lay the figures side by side "
                        "(options: contrastive-st compare --help)")  # fmt: skip

    encode = commands.add_parser("encode", help="embed the lines of a file or of stdin")
    encode.add_argument(
        "input", nargs="?", default="-", help="a text file, one sentence a line, or any file `train` reads; - is stdin"
    )
    encode.add_argument("--model", "-m", required=True, help="checkpoint folder or Hub name")
    encode.add_argument("--output", "-o", required=True, help="a .npy or .parquet file to write")
    encode.add_argument("--column", help="column to encode, by name or position, where the file has several")
    encode.add_argument("--normalize", action="store_true", help="write unit vectors")
    encode.add_argument(
        "--bf16", action="store_true", help="half-width matrix products, where the hardware is faster so"
    )
    encode.add_argument("--overwrite", action="store_true", help="replace an output file that exists")
    encode.set_defaults(function=_encode)

    similarity = commands.add_parser(
        "similarity", help="cosine similarity of two sentences, or of one with each line of stdin"
    )
    similarity.add_argument("first")
    similarity.add_argument("second", nargs="?")
    similarity.add_argument("--model", "-m", required=True, help="checkpoint folder or Hub name")
    similarity.set_defaults(function=_similarity)

    add_commands(commands)
    add_hub_commands(commands)
    add_search_commands(commands)
    add_front_commands(commands)
    neighbors.add_command(commands)

    doctor = commands.add_parser("doctor", help="print versions, devices, precision, threads and where data was found")
    doctor.set_defaults(function=_doctor)
    return parser


def _encode(args: argparse.Namespace) -> None:
    output = Path(args.output)
    if output.suffix not in (".npy", ".parquet"):
        raise InputError(f"--output {output}: write .npy (vectors) or .parquet (texts and vectors)")
    from contrastive_st.safety.writing import check_target, written_whole

    check_target(output, args.overwrite)
    import numpy as np
    import torch

    from contrastive_st.models import SentenceEncoder

    texts = _texts(args.input, args.column)
    encoder = SentenceEncoder.from_pretrained(args.model)
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    vectors = encoder.encode(texts, normalize=args.normalize, dtype=dtype, progress=sys.stderr.isatty())
    with written_whole(output, args.overwrite) as file:
        if output.suffix == ".npy":
            np.save(file, vectors)
        else:
            from pyarrow import parquet, table

            parquet.write_table(table({"text": texts, "embedding": list(vectors)}), file)
    print(f"{len(vectors)} vectors of {vectors.shape[1]} dimensions in {output}", file=sys.stderr)


def _texts(source: str, column: str | None) -> list[str]:
    if source == "-":
        texts = list(_stdin_lines())
        if not texts:
            raise InputError("stdin is empty; pipe one sentence a line, or name a file")
        return texts
    from contrastive_st.data import read_texts

    columns = None if column is None else [int(column) if column.isdigit() else column]
    rows = read_texts(source, columns)
    return list(rows[rows.column_names[0]])


def _stdin_lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise InputError(f"stdin, line {number}: not UTF-8; convert it first (iconv -t UTF-8)") from None


def _similarity(args: argparse.Namespace) -> None:
    from contrastive_st.models import SentenceEncoder

    others = [args.second] if args.second is not None else [line for line in _stdin_lines() if line]
    if not others:
        raise InputError("nothing to compare with: give a second sentence, or pipe lines")
    encoder = SentenceEncoder.from_pretrained(args.model)
    scores = encoder.similarity([args.first], others)[0]
    if args.second is not None:
        print(f"{scores[0]:.4f}")
        return
    for score, text in sorted(zip(scores.tolist(), others, strict=True), reverse=True):
        print(f"{score:.4f}\t{text}")


def _doctor(args: argparse.Namespace) -> None:
    from contrastive_st.doctor import facts

    for name, value in facts():
        print(f"{name:22} {value}")


if __name__ == "__main__":
    sys.exit(main())
