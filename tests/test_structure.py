"""The shape of the source: short functions, documented names, nothing written twice."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import contrastive_st

ROOT = Path(contrastive_st.__file__).parent
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.parent.name.isidentifier()]  # no code of checkpoints
EQUAL_LINES = 8


def test_functions_fit_a_screen():
    long = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or 0) - node.lineno + 1
                long += [f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines"] if lines > 60 else []
    assert not long, long


def test_public_names_are_documented():
    bare = []
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                private = node.name.startswith("_") or ast.get_docstring(node)
                bare += [] if private else [f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"]
    assert not bare, bare


def code_lines(path):
    """Lines that count as code, with their numbers: no blank ones, comments, imports or lone brackets."""
    source = path.read_text(encoding="utf-8")
    skipped = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for number, line in enumerate(source.split("\n"), 1):
        text = line.strip()
        if number not in skipped and text and not text.startswith("#") and re.search(r"\w", text):
            yield number, text


def test_nothing_is_written_twice():
    places = defaultdict(list)
    for path in FILES:
        lines = list(code_lines(path))
        for start in range(len(lines) - EQUAL_LINES + 1):
            run = tuple(text for _, text in lines[start : start + EQUAL_LINES])
            places[run].append(f"{path.relative_to(ROOT)}:{lines[start][0]}")
    twice = [where for where in places.values() if len(where) > 1]
    assert not twice, twice
