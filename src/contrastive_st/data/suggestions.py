"""Commands that messages suggest: each writes a new file from one that cannot be read as it is."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import suppress

from contrastive_st.errors import InputError

#: Rows of Python's own spelling as rows of JSON
PYTHON_AS_JSON = shlex.join(
    ["python", "-c", "import ast, json, sys; [print(json.dumps(ast.literal_eval(row))) "
     'for row in open(sys.argv[1], encoding="utf-8-sig")]']
)  # fmt: skip
#: A table that is drawn with lines or blanks, as psql, mysql, sqlite, Markdown and pandas print it, with tabs
DRAWN_AS_TABS = shlex.join(
    ["python", "-c", r'import re, sys; [print(re.sub(r" *[|│] *| {2,}", "\t", row.strip(" |│\n"))) '
     r'for row in open(sys.argv[1], encoding="utf-8-sig") '
     r'if re.search(r"[^-+=|:\s─-╿]", row) and not re.match(r"\(?\d+ rows?\b", row)]']
)  # fmt: skip
#: Rows that are one cell in quotes each, without these
WITHOUT_QUOTES = """sed -E 's/^"|"[[:space:]]*$//g; s/""/"/g'"""
#: Rows that end with a carriage return, where line ends inside of cells are line feeds
CR_AS_LF = r"tr '\r' '\n' <"
#: A carriage return inside of a cell that has no quotes
CR_AS_BLANK = r"perl -pe 's/\r(?!\n)/ /g'"
_UNPACKED_BY = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
_JSON = (".json", ".jsonl", ".ndjson")


class Part(str):
    """The name of a file that a folder or a pattern stands for: there, what a command writes takes its place."""


def converted(command: str, source: str, end: str = "") -> str:
    """The words that suggest a command, which gets the file unpacked and in UTF-8.

    Args:
        command: its first words, before the name of the file.
        source: the file.
        end: the extension of what it writes; by default that of the file.

    Example:
        >>> converted("sed 7d", "a b.csv")
        "run sed 7d 'a b.csv' > 'a b.new.csv'"
        >>> converted("sed 7d", "a.csv.gz")
        'run gzip -dc a.csv.gz | sed 7d /dev/stdin > a.new.csv'
        >>> converted("sed 7d", Part("d/a.csv"))
        'run mv d/a.csv d/.a.csv && sed 7d d/.a.csv > d/a.csv'
    """
    from contrastive_st.data.reading.content import encoding_of, open_bytes, path_of  # here, because reading needs this

    stem, extension = os.path.splitext(source)
    steps, encoding = list[str](), "utf-8"
    if program := _UNPACKED_BY.get(extension.lower()):
        steps.append(f"{program} -dc")
        stem, extension = os.path.splitext(stem)
    with suppress(OSError, InputError), open_bytes(path_of(source)) as opened:
        encoding = encoding_of(opened, source)
    if not encoding.startswith("utf-8"):
        steps.append(f"iconv -f {encoding.replace('utf-16-', 'utf-16')} -t utf-8")
    first, *others = [*steps, command]
    piped = "".join(f" | {step}" for step in others) + " /dev/stdin" * bool(others)
    file, written = shlex.quote(source), f"{stem}.new{end or extension}"
    if isinstance(source, Part):  # neither folders nor patterns take in a file that is hidden
        hidden = shlex.quote(os.path.join(os.path.dirname(source), f".{os.path.basename(source)}"))
        first, file, written = f"mv {file} {hidden} && {first}", hidden, f"{stem}{end or extension}"
    return f"run {first} {file}{piped} > {shlex.quote(written)}"


def rows_at(path: str, source: str) -> str:
    """The words that suggest jq for the rows at a path of a file of JSON.

    Example:
        >>> rows_at('."train"[]', "a.json")
        'run jq -c \\'."train"[]\\' a.json > a.new.jsonl'
    """
    return converted(f"jq -c {shlex.quote(path)}", source, ".jsonl")


def paths_of_rows(item: object, path: str = "") -> Iterator[str]:
    """The paths, as jq has them, of the lists of objects inside of an object.

    Example:
        >>> list(paths_of_rows({"n": 1, "train": [{"text": "a"}], "of": {"test": [{"text": "b"}]}}))
        ['."train"[]', '."of"."test"[]']
    """
    if isinstance(item, list) and item and all(isinstance(one, dict) for one in item):
        yield f"{path}[]"
    elif isinstance(item, dict):
        for name, value in item.items():
            yield from paths_of_rows(value, f"{path}.{json.dumps(name, ensure_ascii=False)}")


def row_for_each(name: str, source: str, items: bool = False) -> str:
    """The words that suggest a row for each item in a column of lists; blank for a file that is not JSON.

    Args:
        name: the column, whose objects become columns.
        source: the file.
        items: the items are cells of this column instead.

    Example:
        >>> print(row_for_each("label", "a.jsonl", items=True))
        run jq -c '.. | objects | select(has("label")) | . + {"label": ."label"[]}' a.jsonl > a.new.jsonl
        >>> row_for_each("qas", "a.csv")
        ''
    """
    key = json.dumps(name, ensure_ascii=False)
    one = f"{{{key}: .{key}[]}}" if items else f"(.{key} | (arrays | .[]), objects) | del(.{key})"
    return rows_at(f".. | objects | select(has({key})) | . + {one}", source) if source.endswith(_JSON) else ""
