"""Every error message of the package, for people to read as one list: `tests/messages.txt`.

python tests/helpers/messages.py
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, LIST = ROOT / "src/contrastive_st", ROOT / "tests/messages.txt"


def texts(node: ast.AST) -> Iterator[str]:
    """The texts of an expression, with the names of what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
            for part in node.values
            if isinstance(part, (ast.Constant, ast.FormattedValue))
        )
    elif isinstance(node, (ast.BinOp, ast.IfExp)):
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.body, node.orelse)
        for side in sides:
            yield from texts(side)


def messages(path: Path) -> list[str]:
    """The messages that a file raises, in order."""
    calls = [node.exc for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Raise)]
    found = [
        (call.lineno, text)
        for call in calls
        if isinstance(call, ast.Call) and call.args
        for text in texts(call.args[0])
    ]
    return [text for _, text in sorted(found) if " " in text]


def listed() -> str:
    """The list."""
    parts = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name.isidentifier() and (found := messages(path)):
            parts.append(path.relative_to(SOURCE).as_posix() + "\n" + "".join(f"    {text}\n" for text in found))
    return "\n".join(parts)


if __name__ == "__main__":
    LIST.write_text(listed(), encoding="utf-8")
