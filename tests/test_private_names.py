"""The private names of other libraries that the code uses are those that docs/design.md lists, each with a reason."""

import ast
import re
from pathlib import Path

import contrastive_st

ROOT = Path(contrastive_st.__file__).parent
FILES = [path for path in ROOT.rglob("*.py") if path.parent.name.isidentifier()]
PUBLIC = {"_asdict", "_exit", "_replace"}  # of os and of named tuples: documented, in spite of their names


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def defined_here(trees):
    found = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            found |= {node.attr} if node.value.id in ("self", "cls") else set()
    return found


def test_private_names_of_other_libraries_are_listed_with_a_reason():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
    ours, used = defined_here(trees), set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and node.attr not in ours:
            used.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and not str(node.module).startswith("contrastive_st"):
            used |= {alias.name for alias in node.names if node.level == 0}
    section = Path("docs/design.md").read_text(encoding="utf-8").split("## Private names of other libraries\n")[1]
    listed = re.findall(r"^\| (`_[^|]*) \|", section.partition("\n## ")[0], re.MULTILINE)
    assert {name for name in used if is_private(name)} - PUBLIC == set(re.findall(r"`(_\w+)`", " ".join(listed)))
