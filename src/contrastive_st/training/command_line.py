"""The command line of a training script: its arguments, its output folder, and one line for what is wrong with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks

from contrastive_st.errors import InputError, first_line
from contrastive_st.terminal import Parser, snake_case_flags, suggestion
from contrastive_st.training.checkpoints import check_checkpoint, newest_checkpoint


class TrainingParser(Parser, HfArgumentParser):
    """`transformers.HfArgumentParser` that says in one line what is wrong; flags in snake_case or kebab-case.

    Args:
        kinds: dataclasses, whose fields become flags.
        kwargs: as for `argparse.ArgumentParser`.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Arguments:
        ...     max_length: int = 32
        >>> TrainingParser(Arguments).parse(["--max_length", "64"])
        [Arguments(max_length=64)]
    """

    def __init__(self, kinds: Any, **kwargs: Any) -> None:
        super().__init__(kinds, **kwargs)

    def parse(self, argv: Sequence[str] | None = None, defaults: Mapping[str, Any] | None = None) -> list[Any]:
        """One instance of each dataclass.

        Args:
            argv: the command line; by default that of this process.
            defaults: in place of those of the dataclasses; shown by `--help`.

        Raises:
            InputError: an unknown flag, a value of the wrong type, or one that a dataclass refuses.
        """
        self.set_defaults(**(defaults or {}))
        argv = snake_case_flags(sys.argv[1:] if argv is None else argv)
        try:
            found: list[Any] = list(
                self.parse_args_into_dataclasses(argv, return_remaining_strings=True, look_for_args_file=False)
            )
            unknown = found.pop()
            for args in found:
                _check_reporting(getattr(args, "report_to", []))
        except InputError:
            raise
        except json.JSONDecodeError as error:
            raise InputError(f"{error.doc[:60]}: not JSON: {error}") from error
        except Exception as error:  # what transformers raises of arguments has every type
            raise InputError(first_line(error)) from error
        if unknown:
            flag = unknown[0].partition("=")[0]
            raise InputError(f"unknown argument {flag}; {self._instead(flag)}")
        return found

    def _instead(self, flag: str) -> str:
        flags = [name for name in self._option_string_actions if name.startswith("--")]
        near = suggestion(flag, flags)
        return near if near.startswith("did you mean") else "--help lists those there are"


def check_output_dir(training: TrainingArguments, overwrite: bool = False) -> str | None:
    """The checkpoint to resume from, if one is asked for.

    Args:
        training: `output_dir` and `resume_from_checkpoint` (a folder, or `true` for the last one) are read.
        overwrite: write into a folder that holds another run.

    Raises:
        InputError: there is no such checkpoint, or the folder holds another run.
    """
    folder = Path(str(training.output_dir))
    resume = training.resume_from_checkpoint
    if resume and resume.lower() in ("true", "1", "yes"):
        newest = newest_checkpoint(folder)
        if newest is None:
            raise InputError(f"{folder} holds no checkpoint to resume from; start without --resume_from_checkpoint")
        return str(newest)
    if resume and resume.lower() in ("false", "0", "no"):
        resume = None
    if resume:
        check_checkpoint(resume)
    if not resume and not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder}/ holds another run; choose another --output_dir, go on with --resume_from_checkpoint true, "
            "or give --overwrite_output_dir"
        )
    return resume


def _check_reporting(report_to: Sequence[str]) -> None:
    """Raise where a logger that was asked for is not installed (the Trainer would find out after the data is read)."""
    for callback in get_reporting_integration_callbacks(report_to):
        callback()
