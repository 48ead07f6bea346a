"""The pages of the site, put together in a folder that the generator reads: docs/, what it links, and a reference.

    python docs/site_pages.py build/docs

copies the pages of docs/ and every file of the repository that a page links, makes the links of the repository links of
the site, and writes the reference: of the command line from its parsers, of the modules for mkdocstrings.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

from contrastive_st import cli
from contrastive_st.scripts.cli import script_files, train

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "losses",
    "data",
    "models",
    "training",
    "evaluation",
    "classification",
    "search",
    "hub",
    "integrations",
    "files",
)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def write_site(target: Path) -> None:
    """Write the pages, and what they link, into an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    waiting = [path.relative_to(ROOT) for path in sorted((ROOT / "docs").glob("*.md"))]
    seen = set(waiting)
    for source in waiting:
        place = target / (source.relative_to("docs") if source.parts[0] == "docs" else source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            place.write_text(moved_links(source), encoding="utf-8")
            found = dict.fromkeys(linked(source))
            waiting += [path for path in found if path not in seen]
            seen |= found.keys()
        else:
            shutil.copyfile(ROOT / source, place)
    (target / "reference").mkdir()
    (target / "reference/cli.md").write_text("\n".join(cli_reference()), encoding="utf-8")
    for name in PACKAGES:
        (target / f"reference/{name}.md").write_text("\n".join(module_reference(name)), encoding="utf-8")


def linked(page: Path) -> Iterator[Path]:
    """The files of the repository that a page links, as paths from its root."""
    for target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        path = Path(posixpath.normpath((page.parent / target).as_posix()))
        if (ROOT / path).is_file():
            yield path


def moved_links(page: Path) -> str:
    """The text of a page with the links of the repository made links of the site, where docs/ is the root."""
    place = posixpath.dirname(page.as_posix().removeprefix("docs/")) or "."

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath((page.parent / match[1]).as_posix()).removeprefix("docs/")
        return posixpath.relpath(target, place)

    return LINK.sub(moved, (ROOT / page).read_text(encoding="utf-8"))


# --- The reference of the command line, from its parsers


def cli_reference() -> Iterator[str]:
    """The lines of the page: each command by group, each script below `train`."""
    parser, commands = cli._parser()
    yield from ("# Command line", "")
    yield "Flags may be written with `-` or `_` between their words. Errors are one line and exit code 2."
    for group, names in cli.GROUPS.items():
        yield from ("", f"## {group[0].upper()}{group[1:]}")
        for name in names:
            yield from ("", f"### contrastive-st {name}", "", sentence(parser.commands[name]), "")
            if name == "train":
                yield from scripts_reference()
            else:
                yield from options(commands[name])


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A table of what a parser takes."""
    actions = [action for action in parser._actions if action.dest != "help"]
    if not actions:
        yield f"`{parser.prog} --help` lists its options."
        return
    yield from ("| argument | |", "|---|---|")
    for action in actions:
        values = action.metavar or (action.dest.upper() if action.option_strings and action.nargs != 0 else "")
        choices = " or ".join(map(str, action.choices)) if action.choices else str(values)
        name = ", ".join(action.option_strings) or action.metavar or action.dest
        words = f"{name} {choices}" if action.option_strings and choices else str(name)
        yield row(words, (action.help or "").replace("%%", "%"))


def scripts_reference() -> Iterator[str]:
    """The help of each training script."""
    for name in script_files():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            train([*([name] if name else ["--train_file", "FILE"]), "--help"])
        yield from ("", f"#### contrastive-st train {name}".rstrip(), "", "```text", printed.getvalue(), "```")


def row(name: str, words: str) -> str:
    """A row of a table whose first cell is code."""
    return f"| `{name}` | {words.replace('|', chr(92) + '|').replace('<', '&lt;').replace('[', chr(92) + '[')} |"


def sentence(words: str) -> str:
    """The words with a capital and a full stop."""
    return f"{words[0].upper()}{words[1:].rstrip('.')}."


# --- The reference of the modules, from their docstrings by mkdocstrings


# --- The reference of the modules, from their docstrings by mkdocstrings


class Examples(griffe.Extension):
    """Makes `Example:` of a docstring the section that griffe calls `Examples:`, which is code (in mkdocs.yml)."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section in the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)


def module_reference(package: str) -> Iterator[str]:
    """The lines of the page of a package: its public modules, one after the other."""
    folder = ROOT / "src" / "contrastive_st" / package
    yield from (f"# contrastive_st.{package}", "")
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        if parts[-1] not in ("__init__", "cli") and not any(part.startswith("_") for part in parts):
            yield from (f"::: {'.'.join(parts)}", "")


if __name__ == "__main__":
    write_site(Path(sys.argv[1]))
