"""Make texts safe to publish or to log: remove secrets and absolute paths."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contrastive_st.errors import first_line

logger = logging.getLogger(__name__)

_TOKENS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|api_org_[A-Za-z0-9]{8,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)  # tokens of the Hub, GitHub, GitLab, OpenAI, Slack, Amazon and Google; the last is a JSON web token
_CREDENTIALS = re.compile(r"://[^/\s@]+@")
_NAME = (
    r"(?:[A-Za-z0-9]+[_-])*"
    r"(?:token|password|passwd|passphrase|secret|(?:api|access|private|secret)[_-]?key|credentials?)"
)
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s"',;&|]+)"""
_ASSIGNED = re.compile(rf"""(?<![A-Za-z0-9])({_NAME}["']?\s*[=:]\s*){_VALUE}""", re.IGNORECASE)
_BEARER = re.compile(r"\b(Bearer)\s+[\w.~+/-]{8,}=*", re.IGNORECASE)
_ABSOLUTE = re.compile(r"(?:(?<=file://)|(?<![^\s'\"=,(\[]))(?:~?/|[A-Za-z]:\\)[^\s'\"=,;)\]]+")
HIDDEN = "***"


def without_secrets(text: str) -> str:
    """Hide access tokens, values assigned to names of secrets, and the user and password in an address.

    The values of environment variables with the name of a secret are hidden wherever they occur.

    Example:
        >>> without_secrets("401 for hf_abcdefghijkl at https://me:word@hub.example/x")
        '401 for *** at https://***@hub.example/x'
        >>> without_secrets("lr=3,api_key=abc, 'password': 'x y'")
        "lr=3,api_key=***, 'password': ***"
    """
    for name, value in os.environ.items():
        if len(value) > 5 and _SECRET_NAME.fullmatch(name):
            text = text.replace(value, HIDDEN)
    text = _BEARER.sub(rf"\1 {HIDDEN}", _CREDENTIALS.sub(f"://{HIDDEN}@", _TOKENS.sub(HIDDEN, text)))
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def without_paths(text: str) -> str:
    """Make every absolute path in `text` relative to the working directory, or keep only its last part.

    Example:
        >>> without_paths("--train_file /home/me/data/wiki.txt --lr 3e-5")
        '--train_file wiki.txt --lr 3e-5'
    """
    return _ABSOLUTE.sub(lambda match: _short(match[0]), text)


def publishable(value: object, name: str = "") -> Any:
    """A JSON value without secrets and absolute paths; values under the name of a secret are hidden.

    Example:
        >>> publishable({"file": "/home/me/wiki.txt", "hub_token": "abc", "steps": [1, "hf_abcdefghijkl"]})
        {'file': 'wiki.txt', 'hub_token': '***', 'steps': [1, '***']}
    """
    if isinstance(value, dict):
        return {str(key): publishable(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [publishable(item, name) for item in value]
    if isinstance(value, str):
        return HIDDEN if value and _SECRET_NAME.fullmatch(name.strip("-")) else without_paths(without_secrets(value))
    return value


def publishable_arguments(argv: Sequence[str]) -> list[str]:
    """A command line without secrets and absolute paths.

    Example:
        >>> publishable_arguments(["/usr/bin/train.py", "--hub_token", "abc", "--api-key=abc", "--out=/tmp/run"])
        ['train.py', '--hub_token', '***', '--api-key=***', '--out=run']
    """
    shown: list[str] = []
    for before, argument in zip(["", *argv], argv, strict=False):
        flag, equals, value = argument.partition("=")
        if before.startswith("-") and "=" not in before and not argument.startswith("-"):
            shown.append(publishable(argument, before))
        elif argument.startswith("-") and equals:
            shown.append(f"{flag}={publishable(value, flag)}")
        else:
            shown.append(publishable(argument))
    return shown


def _short(path: str) -> str:
    absolute = Path(path).expanduser()
    try:
        return absolute.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path


@contextlib.contextmanager
def log_failures(failure: str) -> Iterator[None]:
    """Log an exception inside the block instead of raising it, so that a failing card does not stop a checkpoint."""
    try:
        yield
    except Exception as error:
        logger.warning("%s: %s: %s", failure, type(error).__name__, without_secrets(first_line(error)))
