"""Imports point one way."""

import ast
from pathlib import Path

import contrastive_st

ROOT = Path(contrastive_st.__file__).parent
MAY_IMPORT = {
    "errors": set(),
    "storage": {"errors"},
    "objectives": {"errors"},
    "data": {"errors"},
    "models": {"errors", "storage", "objectives"},
    "evaluation": {"errors", "storage", "objectives", "models"},
    "hub": {"errors", "storage", "objectives", "models", "evaluation"},
    "training": {"errors", "storage", "objectives", "models", "data", "evaluation", "hub"},
    "recipes": {"errors", "storage", "objectives", "models", "data", "evaluation", "hub", "training"},
    "search": {"errors", "storage", "objectives", "models", "data", "evaluation"},
    "doctor": {"errors", "evaluation", "training"},
}


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("contrastive_st."):
                yield name.split(".")[1]


def test_imports_point_one_way():
    seen = set()
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part in MAY_IMPORT:
            seen.add(part)
            wrong = set(imported_parts(path)) - MAY_IMPORT[part] - {part}
            assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"
    assert seen == set(MAY_IMPORT)
