"""House words in prose, by the list of `words.txt`: a line for each, and exit code 1 if there are any.

python .ci/words.py
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_PROSE = re.compile(r"^```.*?^```$|<!--.*?-->|`[^`]*`|(?<=\])\([^)]*\)|^ {4}.*?$", re.M | re.S)
PAGES = (
    "docs/*.md",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "model_cards/**/*.md",
    "examples/**/*.md",
    "benchmarks/**/*.md",
    "findings/**/*.md",
    "src/**/*.md",
)
CODE = ("docs/*.py", "examples/**/*.py", "benchmarks/**/*.py", "src/**/*.py")
COMMANDS = re.compile(r"`[^`]*`|>>>.*|^ +(?:python|accelerate|contrastive-st|sh) .*", re.M)


def rules() -> list[tuple[re.Pattern[str], str]]:
    """The list: each expression, and what to write instead of what it finds."""
    lines = (Path(__file__).with_name("words.txt")).read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" -> ") for line in lines if " -> " in line and not line.startswith("#")]
    return [(re.compile(rf"(?<![\w.-])(?:{words.strip()})(?![\w-])", re.I), instead) for words, instead in pairs]


def blank(match: re.Match[str]) -> str:
    """As many lines as what is passed over has, so that the numbers of lines stay."""
    return "\n" * match[0].count("\n") + "x"


def pages() -> Iterator[tuple[Path, str]]:
    """The Markdown files, without code, comments and addresses; of the changelog the newest section."""
    for path in sorted({*(path for pattern in PAGES for path in ROOT.glob(pattern)), ROOT / "CHANGELOG.md"}):
        text = path.read_text(encoding="utf-8")
        if path.name == "CHANGELOG.md":
            text = "\n## ".join(text.split("\n## ")[:2])
        yield path, NOT_PROSE.sub(blank, text)


def modules() -> Iterator[tuple[Path, str]]:
    """The Python files: their comments, and their strings with a space, each on its line."""
    for path in sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        source = path.read_text(encoding="utf-8")
        texts = {token.start[0]: token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)
                 if token.type == tokenize.COMMENT}  # fmt: skip
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                texts[node.lineno] = f"{texts.get(node.lineno, '')} {node.value}"
        for line, text in texts.items():
            yield path, "\n" * (line - 1) + COMMANDS.sub(blank, text)


def findings() -> Iterator[str]:
    """A line for each word of the house."""
    for path, text in (*pages(), *modules()):
        name = path.relative_to(ROOT).as_posix()
        for words, instead in rules():
            for match in words.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{name}:{line}: {' '.join(match[0].split())!r}: write {instead.strip()}"


if __name__ == "__main__":
    found = list(dict.fromkeys(findings()))
    print("\n".join(found) or "no house words")
    sys.exit(bool(found))
