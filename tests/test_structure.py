"""The shape of the source: public names are documented."""

import ast
from pathlib import Path

import contrastive_st

ROOT = Path(contrastive_st.__file__).parent
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.parent.name.isidentifier()]  # no code of checkpoints


def test_public_names_are_documented():
    bare = []
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                private = node.name.startswith("_") or ast.get_docstring(node)
                bare += [] if private else [f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"]
    assert not bare, bare
