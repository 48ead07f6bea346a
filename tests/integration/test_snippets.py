"""Every fenced Python and shell block of the docs runs, in a folder that looks like the root of a clone.

A block that cannot run here has an HTML comment before it, `<!-- not run: the reason -->`; the summary of the test run
counts both kinds (`conftest.py`). The blocks of a page run in their order, in one process and one namespace.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from small_checkpoints import with_fewer_words
from store_places import emptied

from contrastive_st.cli import main
from contrastive_st.data import installed_docs

pytestmark = [pytest.mark.slow, pytest.mark.allow_warnings]
ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
FENCE = re.compile(r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n+)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
KINDS = ("python", "sh")
PACKAGES = ("asyncio", "email", "http", "json", "logging", "urllib")


class Snippet(NamedTuple):
    """A fenced block: its line in the page, its language, its text, and why it is not run, if it is not."""

    line: int
    kind: str
    body: str
    why: str | None


def snippets(text):
    """The Python and shell blocks of a page."""
    for match in FENCE.finditer(text):
        if match["kind"] in KINDS:
            yield Snippet(text.count("\n", 0, match.start("body")), match["kind"], match["body"], match["why"])


def commands(body):
    """The command lines of a shell block."""
    return [line for line in body.replace("\\\n", " ").split("\n") if shlex.split(line, comments=True)]


def run_command(line):
    """Run a line; our own command in this process, which saves the seconds of a start."""
    words = shlex.split(line, comments=True)
    if words[0] == "contrastive-st" and not {"|", ">", "&&"} & set(words):
        assert main(words[1:]) == 0, line
    else:
        subprocess.run(["bash", "-euc", line], check=True)


@pytest.fixture(scope="session")
def clone(tmp_path_factory):
    """The folders of a clone that snippets name, to be written into at will."""
    root = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "examples", root / "examples")
    with_fewer_words(ROOT / "model_cards" / "minilm-1-layer", root / "model_cards" / "minilm-1-layer")
    return root


@pytest.fixture
def folder(clone, one_server, tmp_path, monkeypatch):
    for path in clone.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    roots = [Path(sysconfig.get_path("stdlib"), name) for name in PACKAGES]  # `make demo` reads all that is installed
    monkeypatch.setattr("contrastive_st.compare.queries.installed_docs", partial(installed_docs, roots=roots))
    monkeypatch.delenv("CONTRASTIVE_ST_MODEL", raising=False)
    with emptied(one_server):
        monkeypatch.setenv("CONTRASTIVE_ST_STORE", str(one_server.folder))
        yield tmp_path


@pytest.mark.parametrize(
    "page", [name for name, path in PAGES.items() if name != "README.md" and any(snippets(path.read_text("utf-8")))]
)
def test_the_snippets_of_a_page_run(page, folder, record_property):
    names = {"__name__": "__main__"}
    for snippet in snippets(PAGES[page].read_text(encoding="utf-8")):
        record_property("snippet", snippet.why or "executed")
        if snippet.why:
            continue
        if snippet.kind == "python":
            exec(compile("\n" * snippet.line + snippet.body, page, "exec"), names)
        else:
            for line in commands(snippet.body):
                run_command(line)


@pytest.mark.parametrize("page", PAGES)
def test_python_that_is_not_run_parses_and_commands_have_no_prompt(page):
    for snippet in snippets(PAGES[page].read_text(encoding="utf-8")):
        if snippet.kind == "python":
            compile(snippet.body, page, "exec")
        else:
            assert not [line for line in commands(snippet.body) if line.startswith("$")]


def test_readme_is_short():
    assert len(PAGES["README.md"].read_text(encoding="utf-8").split("\n")) <= 101
