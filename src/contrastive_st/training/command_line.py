"""The command line of a training script: dataclasses of arguments, and one line for whatever is wrong with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import HfArgumentParser
from transformers.integrations import get_reporting_integration_callbacks

from contrastive_st.errors import InputError, first_line
from contrastive_st.terminal import Parser, snake_case_flags, suggestion


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
            *found, unknown = self.parse_args_into_dataclasses(
                argv, return_remaining_strings=True, look_for_args_file=False
            )
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


def _check_reporting(report_to: Sequence[str]) -> None:
    """Raise where a logger that was asked for is not installed (the Trainer would find out after the data is read)."""
    for callback in get_reporting_integration_callbacks(report_to):
        callback()
