"""The command line of a training script: that of a command, the arguments of transformers, and files of options."""

from __future__ import annotations

import json
import re
import shlex
import sys
import textwrap
from argparse import SUPPRESS, Action
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks

from contrastive_st import commands
from contrastive_st.commands import VERBOSITY, Parser, snake_case_flags
from contrastive_st.data.reading.content import reading
from contrastive_st.errors import InputError
from contrastive_st.files.reading import read_yaml
from contrastive_st.options import add_flags, default_words
from contrastive_st.training.arguments import ContrastiveTrainingArguments

CONFIG_HELP = "YAML or JSON file of options by name. Options on the command line take precedence."
_OPTION_FILES = (".yaml", ".yml", ".json")
_SWITCHES = {flag for flag, *_ in VERBOSITY}  # take no value on a command line
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
    """The parser of a training script; flags may be in snake_case or kebab-case.

    The help lists the options of the script and of contrastive training; those of transformers are only named.

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

    def __init__(self, kinds: Iterable[Any] | Any, **kwargs: Any) -> None:
        super().__init__([], general=False, **{"prog": commands.program, "usage": "%(prog)s [options]", **kwargs})
        self.dataclass_types = list(kinds) if isinstance(kinds, Iterable) else [kinds]
        added = vars(ContrastiveTrainingArguments)["__annotations__"]
        self.usual = {spec.name for spec in fields(TrainingArguments)} - set(added)
        add_flags(self, *self.dataclass_types, hidden=self.usual)
        for kind in self.dataclass_types:  # as transformers switches off what is true by default
            for spec in fields(kind):
                if spec.default is True:
                    self.add_argument(f"--no_{spec.name}", action="store_false", dest=spec.name, help=SUPPRESS)
        self.add_argument("--config", default=SUPPRESS, metavar="FILE", help=CONFIG_HELP)
        self.add_general()

    def parse(self, argv: Sequence[str] | None = None, defaults: Mapping[str, object] | None = None) -> list[Any]:
        """Parse a command line into one instance of each dataclass.

        Args:
            argv: the command line; by default that of this process. `--config` names a file of further options.
            defaults: replace the defaults of the dataclasses, also in `--help`.

        Returns:
            The instances, in the order of the dataclasses.

        Raises:
            InputError: an unknown flag, a value of the wrong type, or one that a dataclass refuses.
        """
        argv = with_file(sys.argv[1:] if argv is None else argv, self._option_string_actions)
        given = {word.partition("=")[0] for word in argv}
        changed = dict(defaults or {})
        if "--num_train_epochs" in given and "--max_steps" not in given:
            changed.pop("max_steps", None)  # the script's number of steps would take precedence over these epochs
        self.set_defaults(**changed)
        for name in changed.keys() - self.usual:  # the script has a default of its own
            action = self._option_string_actions.get(f"--{name}")
            if action is not None and action.help:
                words = re.sub(r"; by default .*?\.(?= |$)", ".", re.sub(r" \(default: .*\)$", "", action.help))
                action.help = words + default_words(changed[name]).replace("%", "%%")
        options = (_words(name, value) for name, value in changed.items() if name in self.usual)
        message = ", ".join(map(shlex.join, options)) or "none of them"
        self.epilog = "Every field of transformers.TrainingArguments is an option too. This script sets:\n" + (
            textwrap.fill(message, 100, initial_indent="  ", subsequent_indent="  ")
        )
        *parsed, unknown = self.parse_args_into_dataclasses(
            argv, return_remaining_strings=True, look_for_args_file=False
        )
        for args in parsed:  # a logger may be missing; the Trainer would only find out after the data has been read
            for callback in get_reporting_integration_callbacks(getattr(args, "report_to", [])):
                callback()
        self.refuse(unknown)
        return parsed

    def instead(self, flag: str) -> str:
        """What to give in place of a flag that there is not, which another trainer may have."""
        if flag == "--group_by_length":
            return "leave it out: rows of similar length are encoded together anyway"
        other = _ELSEWHERE.get(flag, "")
        return f"give {other}" if other.partition(",")[0] in self._option_string_actions else super().instead(flag)


def is_option_file(word: str) -> bool:
    """Whether the first word of a command line is a file of options."""
    return word.endswith(_OPTION_FILES) and not word.startswith("-")


def with_file(argv: Sequence[str], flags: Mapping[str, Action] | None = None) -> list[str]:
    """A command line in snake_case, after the options of the file that `--config` or its first word names.

    An option that is in both comes from the command line.

    Args:
        argv: the command line.
        flags: those that there are; by default any.

    Raises:
        InputError: the file cannot be read, has no names of options, or names another file of options; or two files
            are given.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "conf.yaml")
        ...     _ = path.write_text("train_file: [a.csv, b.csv]\\nmax_steps: 8\\nbf16: false")
        ...     with_file(["--config", str(path), "--max-steps", "9"])
        ['--train_file', 'a.csv', 'b.csv', '--bf16=false', '--max_steps', '9']
    """
    argv = snake_case_flags(["--config", *argv] if argv and is_option_file(argv[0]) else argv)
    reader = Parser(prog="train", general=False, add_help=False)
    reader.add_argument("--config", type=Path, action="append", default=[])
    parsed, others = reader.parse_known_args(argv)
    if not parsed.config:
        return argv
    if len(parsed.config) > 1:
        raise InputError(f"{' and '.join(map(str, parsed.config))}: give one file of options, which has them all")
    (file,) = parsed.config
    with reading(file):
        content = json.loads(file.read_text(encoding="utf-8-sig")) if file.suffix == ".json" else read_yaml(file)
    if not isinstance(content, Mapping):
        raise InputError(f"{file} has no options; write each as NAME: VALUE, such as max_steps: 100")
    options = {str(name).replace("-", "_"): value for name, value in content.items()}
    if twice := _given_twice(file):
        raise InputError(f"{file}: {twice} is there twice; keep one of them")
    if "config" in options:
        raise InputError(f"{file}: config cannot name a further file of options; write its options here")
    if empty := [name for name, value in options.items() if value == []]:
        raise InputError(f"{file}: {empty[0]} has an empty list; leave it out for its default, or write a value")
    given = {word.partition("=")[0].replace("--no_", "--") for word in others}
    given |= _SWITCHES if given & _SWITCHES else set()  # only one of them can be given
    words = (_words(name, value, flags) for name, value in options.items() if f"--{name}" not in given)
    return [*chain.from_iterable(words), *others]


def _given_twice(file: Path) -> str | None:
    """The first option that a file has twice; the readers of JSON and YAML take the last one silently."""
    import yaml

    text = file.read_text(encoding="utf-8-sig")
    if file.suffix == ".json":
        names = [name for name, _ in json.loads(text, object_pairs_hook=list)]
    else:
        names = [str(key.value) for key, _ in yaml.compose(text).value]
    names = [name.replace("-", "_") for name in names]
    return next((name for name in names if names.count(name) > 1), None)


def _words(name: str, value: object, flags: Mapping[str, Action] | None = None) -> list[str]:
    """The words of a command line that give an option a value; none for null, if there is such an option."""
    flag, there = f"--{name}", flags is None or f"--{name}" in flags
    if isinstance(value, bool) and (flag in _SWITCHES or name.startswith("no_")):
        return [flag] if value or not there else []
    if value is False and "no" in (getattr((flags or {}).get(flag), "choices", None) or ()):
        value = "no"  # which YAML reads as false
    if isinstance(value, list):
        return [flag, *map(str, value)]
    if isinstance(value, (bool, Mapping)):
        value = json.dumps(value)
    if value is None:
        return [] if there else [flag]
    return [f"{flag}={value}"]
