"""The command line of a training script: fields of dataclasses as flags, and errors of one line."""

from __future__ import annotations

import json
import re
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from transformers import HfArgumentParser, TrainingArguments
from transformers.hf_argparser import string_to_bool
from transformers.integrations import get_reporting_integration_callbacks

from contrastive_st import commands
from contrastive_st.commands import DEVICE_HELP, VERBOSITY, Parser, snake_case_flags
from contrastive_st.data.reading.content import reading
from contrastive_st.errors import InputError, suggestion
from contrastive_st.files.reading import read_yaml
from contrastive_st.text_format import TEXT_FORMAT_HELP
from contrastive_st.training.arguments import ContrastiveTrainingArguments

CONFIG_HELP = "YAML or JSON file of options by name. Options on the command line take precedence."
_OPTION_FILES = (".yaml", ".yml", ".json")
#: Options of other trainers, and what to give here
_ELSEWHERE = {
    **dict.fromkeys(("--batch_size", "--train_batch_size"), "--per_device_train_batch_size"),
    **dict.fromkeys(("--model", "--base_model", "--model_name"), "--model_name_or_path"),
    **dict.fromkeys(("--data", "--dataset", "--dataset_name", "--train_data"), "--train_file"),
    "--lr": "--learning_rate",
    "--epochs": "--num_train_epochs",
    "--lora_rank": "--lora_r",
    "--warmup_ratio": "--warmup_steps, which takes a share of the steps too, such as 0.1",
}


class TrainingParser(Parser, HfArgumentParser):
    """`transformers.HfArgumentParser` with one-line errors; flags may be in snake_case or kebab-case.

    Args:
        kinds: dataclasses whose fields become flags.
        kwargs: as for `argparse.ArgumentParser`.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Arguments:
        ...     max_length: int = 32
        >>> TrainingParser(Arguments).parse(["--max_length", "64"])
        [Arguments(max_length=64)]
        >>> args, = TrainingParser(ContrastiveTrainingArguments).parse(["--output_dir", "out", "--unpadded"])
        >>> args.unpadded
        True
    """

    def __init__(self, kinds: Any, **kwargs: Any) -> None:
        self.flags, self.changed = ["--config", *(flag for flag, *_ in VERBOSITY)], dict[str, Any]()
        super().__init__(kinds, **{"prog": commands.program, **kwargs})

    def add_argument(self, *flags: Any, **kwargs: Any) -> Any:
        """As in `argparse`; what is true, false or None needs no value, which transformers wants."""
        self.flags += flags
        optional = kwargs.get("type") is string_to_bool and kwargs.get("nargs") is None
        return super().add_argument(*flags, **kwargs | ({"nargs": "?", "const": True} if optional else {}))

    def parse(self, argv: Sequence[str] | None = None, defaults: Mapping[str, Any] | None = None) -> list[Any]:
        """Parse a command line into one instance of each dataclass.

        Args:
            argv: the command line; by default that of this process. `--config` names a file of further options.
            defaults: replace the defaults of the dataclasses, also in `--help`.

        Returns:
            The instances, in the order of the dataclasses.

        Raises:
            InputError: an unknown flag, a value of the wrong type, or one that a dataclass refuses.
        """
        self.changed = dict(defaults or {})
        self.set_defaults(**self.changed)
        argv = with_file(sys.argv[1:] if argv is None else argv)
        *parsed, unknown = self.parse_args_into_dataclasses(
            argv, return_remaining_strings=True, look_for_args_file=False
        )
        for args in parsed:  # a logger may be missing; the Trainer would only find out after the data has been read
            for callback in get_reporting_integration_callbacks(getattr(args, "report_to", [])):
                callback()
        if unknown:
            flag = unknown[0].partition("=")[0]
            raise InputError(f"unknown argument {flag}; {self._instead(flag)}")
        return parsed

    def format_help(self) -> str:
        """The options of the script and of contrastive training; those of transformers are only named."""
        own = vars(ContrastiveTrainingArguments)["__annotations__"]
        usual = {spec.name for spec in fields(TrainingArguments)} - set(own)
        lines = [f"usage: {self.prog} [options]", "", str(self.description or ""), "", "options:"]
        for kind in self.dataclass_types:
            for spec in fields(kind):
                if spec.init and spec.name not in usual:
                    text = str(spec.metadata.get("help", ""))
                    if spec.name in self.changed:  # the script has a default of its own
                        text = re.sub(r"; by default .*?\.(?= |$)", ".", text)
                    lines += _option(spec.name, text, self.get_default(spec.name))
        general = {f"--{name}": text for name, text in TEXT_FORMAT_HELP.items()}
        general |= {"--config": CONFIG_HELP, "--device": DEVICE_HELP, **{flag: text for flag, _, text in VERBOSITY}}
        for flag, text in general.items():
            lines += _option(flag[2:], text, None)
        changed = {name: value for name, value in self.changed.items() if name in usual}
        lines += ["", "Every field of transformers.TrainingArguments is an option too. This script sets:"]
        message = ", ".join(f"--{name} {_shown(value)}" for name, value in changed.items()) or "none of them"
        return "\n".join([*lines, *textwrap.wrap(message, 100, initial_indent="  ", subsequent_indent="  ")]) + "\n"

    def _instead(self, flag: str) -> str:
        if flag == "--group_by_length":
            return "leave it out: rows of similar length are encoded together anyway"
        known = _ELSEWHERE.get(flag, "")
        if known.partition(",")[0] in self.flags:
            return f"give {known}"
        near = suggestion(flag, [name for name in self.flags if name.startswith("--")])
        return near if near.startswith("did you mean") else "--help lists all arguments"


def is_option_file(word: str) -> bool:
    """Whether the first word of a command line is a file of options."""
    return word.endswith(_OPTION_FILES) and not word.startswith("-")


def with_file(argv: Sequence[str]) -> list[str]:
    """A command line in snake_case; the options of the file that `--config` or the first word names stand first in it.

    Raises:
        InputError: the file cannot be read, or has no names of options.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "conf.yaml")
        ...     _ = path.write_text("train_file: [a.csv, b.csv]\\nmax_steps: 8\\nbf16: false")
        ...     with_file(["--config", str(path), "--max-steps", "9"])
        ['--train_file', 'a.csv', 'b.csv', '--max_steps=8', '--bf16=false', '--max_steps', '9']
    """
    if argv and is_option_file(argv[0]):
        argv = ["--config", *argv]
    reader = Parser(prog="train", general=False, add_help=False)
    reader.add_argument("--config", type=Path)
    found, others = reader.parse_known_args(argv)
    if found.config is None:
        return snake_case_flags(argv)
    with reading(found.config):
        whole = found.config.suffix == ".json"
        content = json.loads(found.config.read_text(encoding="utf-8-sig")) if whole else read_yaml(found.config)
    if not isinstance(content, Mapping):
        raise InputError(f"{found.config} has no options; write each as NAME: VALUE, such as max_steps: 100")
    return snake_case_flags([*(word for name, value in content.items() for word in _words(str(name), value)), *others])


def _words(name: str, value: Any) -> list[str]:
    """The words of a command line that give an option a value; none for null."""
    if isinstance(value, list):
        return [f"--{name}", *map(str, value)]
    if isinstance(value, (bool, Mapping)):
        value = json.dumps(value)
    return [] if value is None else [f"--{name}={value}"]


def _option(name: str, text: str, default: Any) -> list[str]:
    given = text if default is None else f"{text} (default: {_shown(default)})"
    head = f"  --{name}"
    body = textwrap.wrap(given, 76) or [""]
    first = [f"{head:28}{body[0]}"] if len(head) < 27 else [head, " " * 28 + body[0]]
    return [*first, *(" " * 28 + line for line in body[1:])]


def _shown(value: Any) -> str:
    return shlex.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
