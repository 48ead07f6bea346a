"""The command line of a training script: fields of dataclasses as flags, and errors of one line."""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from transformers import HfArgumentParser, TrainingArguments
from transformers.hf_argparser import string_to_bool
from transformers.integrations import get_reporting_integration_callbacks

from contrastive_st.commands import DEVICE_HELP, VERBOSITY, Parser, snake_case_flags
from contrastive_st.errors import InputError, suggestion
from contrastive_st.training.arguments import ContrastiveTrainingArguments


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
        self.flags, self.changed = [flag for flag, *_ in VERBOSITY], dict[str, Any]()
        super().__init__(kinds, **kwargs)

    def add_argument(self, *flags: Any, **kwargs: Any) -> Any:
        """As in `argparse`; what is true, false or None needs no value, which transformers wants."""
        self.flags += flags
        optional = kwargs.get("type") is string_to_bool and kwargs.get("nargs") is None
        return super().add_argument(*flags, **kwargs | ({"nargs": "?", "const": True} if optional else {}))

    def parse(self, argv: Sequence[str] | None = None, defaults: Mapping[str, Any] | None = None) -> list[Any]:
        """Parse a command line into one instance of each dataclass.

        Args:
            argv: the command line; by default that of this process.
            defaults: replace the defaults of the dataclasses, also in `--help`.

        Returns:
            The instances, in the order of the dataclasses.

        Raises:
            InputError: an unknown flag, a value of the wrong type, or one that a dataclass refuses.
        """
        self.changed = dict(defaults or {})
        self.set_defaults(**self.changed)
        argv = snake_case_flags(sys.argv[1:] if argv is None else argv)
        *parsed, unknown = self.parse_args_into_dataclasses(
            argv, return_remaining_strings=True, look_for_args_file=False
        )
        for args in parsed:
            _check_reporting(getattr(args, "report_to", []))
        if unknown:
            flag = unknown[0].partition("=")[0]
            raise InputError(f"unknown argument {flag}; {self._instead(flag)}")
        return parsed

    def format_help(self) -> str:
        """The options of the script and of contrastive training; those of transformers are only named."""
        usual = {spec.name for spec in fields(TrainingArguments)} - set(
            vars(ContrastiveTrainingArguments)["__annotations__"]
        )
        lines = [f"usage: {self.prog} [options]", "", str(self.description or ""), "", "options:"]
        for kind in self.dataclass_types:
            for spec in fields(kind):
                if spec.init and spec.name not in usual:
                    text = str(spec.metadata.get("help", ""))
                    if spec.name in self.changed:  # the script has a default of its own
                        text = re.sub(r"; by default .*?\.(?= |$)", ".", text)
                    lines += _option(spec.name, text, self.get_default(spec.name))
        for flag, message in (("--device", DEVICE_HELP), *((flag, message) for flag, _, message in VERBOSITY)):
            lines += _option(flag[2:], message, None)
        changed = {name: value for name, value in self.changed.items() if name in usual}
        lines += ["", "Every field of transformers.TrainingArguments is an option too. This script sets:"]
        message = ", ".join(f"--{name} {_shown(value)}" for name, value in changed.items()) or "none of them"
        return "\n".join([*lines, *textwrap.wrap(message, 100, initial_indent="  ", subsequent_indent="  ")]) + "\n"

    def _instead(self, flag: str) -> str:
        near = suggestion(flag, [name for name in self.flags if name.startswith("--")])
        return near if near.startswith("did you mean") else "--help lists all arguments"


def _option(name: str, text: str, default: Any) -> list[str]:
    given = text if default is None else f"{text} (default: {_shown(default)})"
    head = f"  --{name}"
    body = textwrap.wrap(given, 76) or [""]
    first = [f"{head:28}{body[0]}"] if len(head) < 27 else [head, " " * 28 + body[0]]
    return [*first, *(" " * 28 + line for line in body[1:])]


def _shown(value: Any) -> str:
    return shlex.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _check_reporting(report_to: Sequence[str]) -> None:
    """Raise if a logger is not installed. (The Trainer would only find out after the data has been read.)"""
    for callback in get_reporting_integration_callbacks(report_to):
        callback()
