"""The list of words of the house finds what CONTRIBUTING.md shows as wrong, and not what it shows as right."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("words", ROOT / ".ci/words.py")
words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(words)


def found(text):
    """What the list finds in a text."""
    return [match[0] for pattern, _ in words.rules() for match in pattern.finditer(text)]


def test_wrong_examples_are_found_and_right_ones_are_not():
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## How to write\n")[1]
    pairs = re.findall(r"^\| `(.+)` \| (.+) \|$", section, re.M)
    assert len(pairs) >= 20
    assert not [right for _, right in pairs if found(right)]
    assert sum(bool(found(wrong)) for wrong, _ in pairs) >= 15


def test_prose_is_read_and_code_is_not(tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("One\n`gold`\n\n```\ngold\n```\n\nThe gold\nlabel.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 2\n\nNew.\n\n## 1\n\nThe gold label.\n")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/a.py").write_text('gold = {"gold": 1}\nprint("the gold label")  # some 100 rows\n')
    monkeypatch.setattr(words, "ROOT", tmp_path)
    places = [line.split(": ")[0] for line in words.findings()]
    assert sorted(places) == ["README.md:8", "benchmarks/a.py:2", "benchmarks/a.py:2"]
