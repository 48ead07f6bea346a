"""What the site has beside the pages of docs/: linked files of the repository, and the reference made from the code."""

from __future__ import annotations

import argparse
import contextlib
import io
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File

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


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference, and every file outside of docs/ that a page links."""
    pages = {"reference/cli.md": "\n".join(cli_reference())}
    pages |= {f"reference/{name}.md": "\n".join(module_reference(name)) for name in PACKAGES}
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    waiting = [Path("docs", file.src_uri) for file in files.documentation_pages() if file.src_uri not in pages]
    seen = set(waiting)
    while waiting:
        for path in linked(waiting.pop()):
            if path not in seen:
                seen.add(path)
                if path.parts[0] != "docs":
                    files.append(File.generated(config, path.as_posix(), abs_src_path=str(ROOT / path)))
                if path.suffix == ".md":
                    waiting.append(path)
    return files


def linked(page: Path) -> Iterator[Path]:
    """The files of the repository that a page links, as paths from its root."""
    for target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        path = Path(posixpath.normpath((page.parent / target).as_posix()))
        if (ROOT / path).is_file():
            yield path


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links as they are in the repository, made links of the site."""
    uri = page.file.src_uri
    source = Path("docs", uri) if (ROOT / "docs" / uri).is_file() else Path(uri)
    if not (ROOT / source).is_file():
        return markdown

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath((source.parent / match[1]).as_posix()).removeprefix("docs/")
        return posixpath.relpath(target, posixpath.dirname(uri) or ".")

    return LINK.sub(moved, markdown)


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


class Examples(griffe.Extension):
    """Makes `Example:` of a docstring the section that griffe calls `Examples:`, which is code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
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
