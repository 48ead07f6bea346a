"""Rules that make (summary, explanation) pairs of docstrings; modules are parsed with `ast` and never imported.

This file imports only the standard library, because it also runs as a script: each worker is a new interpreter that
runs this file. So workers do not import torch, do not run the caller's `__main__` again and are not forked from a
process with threads. Calls are safe under `accelerate launch`, in pytest and in notebooks.
"""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import itertools
import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

TITLE_WORDS = (3, 60)
TEXT_WORDS = (8, 120)
GENERATED = re.compile(rb"auto(matically|-)? ?generated|do not edit", re.IGNORECASE)

STRUCTURAL = re.compile(
    r"(other |keyword |optional |required |default |model |init )*"
    r"(param(eter)?s?|arg(ument)?s?|kwargs|returns?|yields?|receives|raises|exceptions?|warns|errors?|examples?"
    r"|usage|see also|seealso|references?|bibliography|attributes?|methods|properties|fields|members|todos?"
    r"|inputs?|outputs?|shapes?|type|history|authors?|credits|contents|index|changelog|versions?|functions"
    r"|classes|constants)"
    r"( usage| section|s)?",
    re.IGNORECASE,
)
UNDERLINE = re.compile(r"([-=~^*#+\"'`])\1{2,}\s*")
INLINE_HEADER = re.compile(r"\**([A-Z][A-Za-z]*(?: [A-Za-z]+){0,2})\s*:{1,2}\**:?\s*")
NOT_PROSE = re.compile(r"\s*(>>>|\.\.\s|[-*+•]\s|\(?\w{1,2}[.)]\s|[:@]\w+|\||```|#|\$|<|%|\+[-=])")
LIST_ITEM = re.compile(r"\s*([-*+•]\s|\(?\d{1,2}[.)]\s|>>>|```|:param|:return|@param|\.\. )")
SIGNATURE = re.compile(r"[\w.]+\s?\(.*\)(\s*->.*)?:?(\s--)?|[\w.]+\(.*\)\s*->\s*\S.*")
BOILERPLATE = re.compile(
    r"copyright|licen[sc]ed?\b|spdx|warrant(y|ies)\b|all rights reserved|permission is hereby|fixme|\btodo\b"
    r"|(is|was) auto-?generated|do not edit|check the superclass documentation|see (the )?base class",
    re.IGNORECASE,
)
NOT_A_TITLE = re.compile(
    r"^\W*(note|notice|warning|caution|deprecated|experimental|internal)\b[^.]{,9}:|[:,]$", re.IGNORECASE
)
LONG_STRING = re.compile(rb"""(\"{3}|'{3})(.*?)\1""", re.DOTALL)
LEADS_ON = re.compile(  # the end of a sentence that continues in a list, a formula or code
    r"([:;,=-]|\b(by|as|is|are|the|of|to|and|or|in|with|where|for|a|an|follows|following|form|returns|example"
    r"|see|if|that|which|e\.g))$"
)
PLACEHOLDER = re.compile(r"%\(\w|%[sdr]\b|\{\w*\}|\$\w+\$|\\[a-z]|[|`]|__\w+__.*__\w+__|https?://|>>>|:\w+:")
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
COMMON_WORD = re.compile(  # prose has two of these; a formula or a list of names has hardly any
    r"\b(a|an|the|of|to|in|is|are|be|for|on|with|by|as|at|from|that|this|its?|if|when|which|or|and|not|can|will)\b"
)
SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)(?<!resp\.)(?<!\b[A-Z]\.)\s+(?=[A-Z\"'(])"
)
MARKUP = [
    # :class:`~a.b.C`, :ref:`text <to>`
    (re.compile(r":[\w:+.-]+:`(?:~[\w.]*\.)?([^`<]*?)(?:\s*<[^`>]*>)?`"), r"\1"),
    (re.compile(r"``(.+?)``"), r"\1"),
    (re.compile(r"\[`(?:~[\w.]*\.)?([^`]*)`\](?:\([^)]*\))?"), r"\1"),  # [`~a.b.C`]
    (re.compile(r"\[([^\]]+)\]\([^)\s]*\)"), r"\1"),  # [text](address)
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}"), r"\1"),  # `text <address>`_
    (re.compile(r"`(?:~[\w.]*\.|[.!])?([^`]+)`_{0,2}"), r"\1"),
    (re.compile(r"\s*\[[\w,\s]{1,12}\]_|\s*\(https?://[^\s)]*\)"), ""),  # [1]_, (https://...)
    (re.compile(r"(?<![\w*])(\*{1,2})(?=[^\s*])([^*]*[^\s*])\1(?![\w*])"), r"\2"),
]


@functools.lru_cache(maxsize=4096)
def pair_of(docstring: str) -> tuple[str, str] | None:
    """The title and the explanation in a docstring, or None if it does not have both.

    Example:
        >>> pair_of("Sort rows in place.\\n\\nArgs:\\n    key: the column.\\n\\n"
        ...         "The order of rows that are equal in ``key`` stays as it was.")
        ('Sort rows in place.', 'The order of rows that are equal in key stays as it was.')
    """
    if "\n" not in docstring.strip():
        return None
    blocks = paragraphs(docstring)
    first = next((lines for lines in blocks if not SIGNATURE.fullmatch(" ".join(lines).strip())), [""])
    title = clean(first)
    if any(map(LIST_ITEM.match, first)) or first[0].endswith(":") or NOT_A_TITLE.search(title):
        return None
    if not is_sentence(title, *TITLE_WORDS):
        return None
    for lines in blocks:
        if text := prose(lines):
            return None if text.casefold().startswith(title.casefold().rstrip(".")) else (title, text)
    return None


def paragraphs(docstring: str) -> Iterator[list[str]]:
    """The paragraphs of a docstring as lists of lines, without sections such as arguments and examples."""
    lines = [*inspect.cleandoc(docstring).splitlines(), ""]
    block: list[str] = []
    skipping = ""  # "": no; "underlined": until the next header; "indented": until a line at the margin
    first = True
    for line, following in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        at_margin = bool(line.strip()) and not line[0].isspace()
        underlined = at_margin and UNDERLINE.fullmatch(following) is not None
        inline = INLINE_HEADER.fullmatch(line) if at_margin else None
        is_rule = UNDERLINE.fullmatch(line) is not None
        if not line.strip() or underlined or inline or is_rule:
            if block:
                yield block
            first, block = first and not block, []
        if underlined or inline:
            name = inline[1] if inline else line.strip(" :*")
            if STRUCTURAL.fullmatch(name):
                skipping = "underlined" if underlined else "indented"
            else:
                skipping = ""
                if first:
                    yield [line]
                    first = False
            continue
        if skipping == "indented" and at_margin:
            skipping = ""
        if line.strip() and not skipping and not is_rule:
            block.append(line)


def prose(lines: list[str]) -> str:
    """A paragraph as one line of whole sentences within TEXT_WORDS, or "" if it is not prose."""
    items = [number for number, line in enumerate(lines) if LIST_ITEM.match(line)]
    lines = lines[: items[0]] if items else lines
    margins = {len(line) - len(line.lstrip()) for line in lines}
    if len(margins) != 1 or margins.pop() > 0 or NOT_PROSE.match(lines[0]):
        return ""
    text = clean(lines)
    sentences = SENTENCE_END.split(text)
    words = list(itertools.accumulate(len(sentence.split()) for sentence in sentences))
    sentences = [s for s, total in zip(sentences, words, strict=True) if total <= TEXT_WORDS[1]]
    while sentences and (items or LEADS_ON.search(sentences[-1])) and sentences[-1][-1] not in ".!?)":
        sentences.pop()
    text = " ".join(sentences)
    return text if is_sentence(text, *TEXT_WORDS) and len(set(COMMON_WORD.findall(text))) >= 2 else ""


def clean(lines: list[str]) -> str:
    """One line of plain text, without the markup of reStructuredText and Markdown."""
    text = " ".join(" ".join(lines).split())
    for pattern, replacement in MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def is_sentence(text: str, least: int, most: int) -> bool:
    """Whether `text` has `least` to `most` words, begins like a sentence, is mostly letters and not boilerplate."""
    words = len(re.findall(r"\S*[^\W\d_]\S*", text))
    letters = sum(map(str.isalpha, text.encode("ascii", "ignore").decode()))
    return (
        least <= words <= len(text.split()) <= most
        and (text[0].isalpha() or text[0] in "\"'(")
        and letters >= 0.8 * (len(text) - text.count(" "))
        and not BOILERPLATE.search(text)
        and not PLACEHOLDER.search(text)
        and text.isprintable()  # no control characters, no lone surrogates
    )


# ---- many files


def docstrings(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """(dotted name, docstring) of a module, its classes, functions and methods, in the order of the file."""
    stack: list[tuple[str, ast.AST]] = [(module, tree)]
    while stack:
        name, node = stack.pop()
        if isinstance(node, (ast.Module, *DEFINITIONS)):
            yield name, ast.get_docstring(node, clean=False) or ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from attached_docstring(node.value, module)
        if not isinstance(node, DEFINITIONS[1:]):  # definitions inside a function are left out
            for child in reversed(list(ast.iter_child_nodes(node))):
                if isinstance(child, (ast.stmt, ast.excepthandler)):
                    stack.append((f"{name}.{child.name}" if isinstance(child, DEFINITIONS) else name, child))


def attached_docstring(call: ast.Call, module: str) -> Iterator[tuple[str, str]]:
    """Docstrings that torch, numpy and scipy give to compiled code: add_docstr(torch.abs, "..."), add_newdoc(...)."""
    if call.args and ast.unparse(call.func).split(".")[-1].startswith(("add_docstr", "add_newdoc")):
        constants = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
        strings = [constant for constant in constants if isinstance(constant, str)]
        names = [string for string in strings if re.fullmatch(r"[A-Za-z][\w.]*", string)]
        name = ".".join(names) or ast.unparse(call.args[0])
        yield name if "." in name else f"{module}.{name}", max(strings, key=len, default="")


def pairs_of_files(files: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """The pairs in files, given as (path, module name); files that cannot be read or parsed are skipped."""
    result = []
    for path, module in files:
        try:
            source = Path(path).read_bytes()
            strings = (string[2].decode("utf8", "replace") for string in LONG_STRING.finditer(source))
            if GENERATED.search(source, 0, 600) or not any(map(pair_of, strings)):
                continue  # a quarter of the code need not be parsed, which saves a fifth of the time
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # other people's invalid escapes
                tree = ast.parse(source)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for name, docstring in docstrings(tree, module):
            if pair := pair_of(docstring):
                result.append((*pair, name))
    return result


if __name__ == "__main__":
    gc.disable()  # syntax trees have no cycles, and the search for them takes a third of the time
    json.dump(pairs_of_files(json.load(sys.stdin)), sys.stdout)
