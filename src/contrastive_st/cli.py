"""The `contrastive-st` command: one parser, to which each sub-package adds its own commands."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Any, Literal

from contrastive_st import __version__
from contrastive_st.commands import MODEL_HELP, POOLING_HELP, Parser, add_command, run, snake_case_flags
from contrastive_st.device import peak_resident
from contrastive_st.errors import InputError, suggestion
from contrastive_st.options import Options, option
from contrastive_st.scripts.cli import TRAIN_HELP, train
from contrastive_st.terminal import note, progress_is_shown, say, tell

#: The commands as `--help` lists them, by group, each with the module that has its class
GROUPS = {
    "train": {"mine": "search.cli", "train": "", "distill": "scripts.cli", "soup": "hub.cli"},
    "evaluate": {
        "compare": "compare.cli",
        "evaluate": "evaluation.cli",
        "similarity": "cli",
        "neighbors": "evaluation.cli",
        "classify": "classification.cli",
    },
    "publish": dict.fromkeys(("push", "pull", "card", "convert", "merge", "export"), "hub.cli"),
    "search": {
        "encode": "cli",
        "index": "search.index_cli",
        "search": "search.cli",
        "similar": "search.cli",
        "delete": "search.cli",
        "collections": "search.database_cli",
        "database": "search.database_cli",
        "migrate": "search.migration.cli",
        "trends": "search.cli",
        "duplicates": "search.cli",
        "group": "search.cli",
        "serve": "serve.cli",
        "api": "serve.cli",
    },
    "this machine": {"doctor": "cli"},
}
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, or 2 after a one-line error message."""
    argv = snake_case_flags(sys.argv[1:] if argv is None else argv)
    index = next((index for index, word in enumerate(argv) if word in COMMANDS), 0)
    before = argv[:index]  # such as --quiet
    general = not before or (before[0].startswith("-") and "--version" not in before)
    if argv[index : index + 1] == ["train"] and general:
        return train([*argv[index + 1 :], *before])  # each script has its parser, with --help
    return run(lambda: _run(argv))


def _run(argv: list[str]) -> None:
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        raise InputError(f"no command {argv[0]}; {suggestion(argv[0], COMMANDS)}")
    named = next((word for word in argv if word in COMMANDS), None)  # after `--device cpu`, for example
    parser, commands = _parser([named] if named else COMMANDS)
    args, unknown = parser.parse_known_args(argv)
    commands.get(args.command, parser).refuse(unknown)
    if args.command is None:
        parser.print_help()
        return
    args.function(args)


class _GroupedHelp(Parser):
    """Lists the commands by group."""

    commands: Mapping[str, str] = {}

    def format_help(self) -> str:
        lines = [f"usage: {self.prog} COMMAND [options]", "", str(self.description)]
        for group, names in GROUPS.items():
            lines += ["", f"{group}:", *(f"  {name:12} {self.commands[name]}" for name in names)]
        lines += [
            "",
            f"{self.prog} COMMAND --help shows the options of a command; --version shows the version.",
            "--quiet prints only errors and warnings; --verbose also prints what other libraries print.",
        ]
        return "\n".join(lines) + "\n"


def _parser(names: Iterable[str] = COMMANDS) -> tuple[Parser, dict[str, Parser]]:
    """The parser with some of the commands, and the parsers of these; their modules are imported."""
    parser = _GroupedHelp(prog="contrastive-st", description="Contrastive sentence embeddings.")
    parser.add_argument("--version", action="version", version=f"contrastive-st {__version__}")
    commands: Any = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name in names:
        if name == "train":  # its scripts parse their options themselves
            commands.add_parser("train", help=TRAIN_HELP)
        else:
            module = importlib.import_module(f"contrastive_st.{COMMANDS[name]}")
            add_command(commands, getattr(module, name.title()))
    parser.commands = {choice.dest: choice.help for choice in commands._choices_actions}
    return parser, commands.choices


@dataclass
class Encode(Options):
    """encode the lines of a file or of stdin; resumes after an interruption

    contrastive-st encode sentences.txt --output vectors.npy
    """

    input: str = option(
        "a text file (one sentence per line), or any file that `train` reads; - is stdin", default="-", positional=True
    )
    model: str | None = option(MODEL_HELP, short="-m")
    output: str = option("a .npy or .parquet file to write", default=MISSING, short="-o")
    columns: str | None = option("column to encode, by name or position (from 0), if the file has several")
    pooling: str | None = option(POOLING_HELP)
    precision: Literal["float32", "int8", "ubinary"] = option(
        "type of the vectors: float32, int8, or ubinary (only signs, eight per byte)", default="float32"
    )
    ranges: str | None = option(
        "for vectors of --precision int8: a .npy file [2, d] with the minimum and the maximum of each dimension "
        "(default: those of the first 16,384 texts)", metavar="FILE",
    )  # fmt: skip
    normalize: bool = option("write unit vectors", default=False)
    bf16: bool = option("run the model in bfloat16 if the hardware is faster with it", default=False)
    overwrite: bool = option("replace an output that is complete or was started with other options", default=False)

    def __call__(self) -> None:
        """Write the vectors."""
        started = time.perf_counter()
        from contrastive_st.search.encoding import encode_file

        done = encode_file(
            self.input, self.output, self.model, column=self.columns, pooling=self.pooling, normalize=self.normalize,
            model_precision="auto" if self.bf16 else "fp32", precision=self.precision, ranges=self.ranges,
            overwrite=self.overwrite, show_progress_bar=progress_is_shown(),
        )  # fmt: skip
        seconds, memory = time.perf_counter() - started, f"peak memory {peak_resident() / 2**30:.2f} GiB"
        what = f"{done.rows:,} vectors of {done.dimension} dimensions in {self.output}"
        note(f"{what}; {done.encoded:,} encoded in {seconds:.0f} s, {memory}")
        if done.truncated:
            which = "are longer than the maximum length of the model: only their beginnings were encoded"
            tell(f"{done.truncated:,} of the encoded texts {which}")
        if done.unknown:
            which = "are blank or have no token that the model knows: their vectors have no meaning"
            tell(f"{done.unknown:,} of the encoded texts {which}")


@dataclass
class Similarity(Options):
    """print the similarity of two sentences (the cosine, or what the model records), or of one and each line of stdin

    contrastive-st similarity "a cat sat" "a feline rested"
    """

    sentences: list[str] = option(
        "sentences; the first is compared with the others, or with each line of stdin if it is the only one",
        positional=True,
        metavar="SENTENCE",
    )
    model: str | None = option(MODEL_HELP, short="-m")
    pooling: str | None = option(POOLING_HELP)

    def __call__(self) -> None:
        """Print the similarities."""
        from contrastive_st.models.protocol import open_encoder, warn_of_unknown

        first, *others = self.sentences
        if not others:
            from contrastive_st.data.reading.content import stdin_texts

            others = stdin_texts()
        if not others:
            raise InputError("nothing to compare with: give a second sentence, or sentences on stdin, one per line")
        encoder = open_encoder(self.model, pooling=self.pooling)
        warn_of_unknown(encoder, [first, *others])
        scores = encoder.similarity([first], others)[0]
        if len(self.sentences) == 2:
            print(f"{scores[0]:.4f}")
            return
        for score, text in sorted(zip(scores.tolist(), others, strict=True), reverse=True):
            say(f"{score:.4f}\t{text}")


@dataclass
class Doctor(Options):
    """print versions, hardware, precision, threads, PostgreSQL, settings and folders

    contrastive-st doctor
    """

    def __call__(self) -> None:
        """Print the report."""
        from contrastive_st.doctor import facts

        for name, value in facts():
            say(f"{name:22} {value}")


if __name__ == "__main__":
    sys.exit(main())
