"""Every command, public name and folder is in the ledger of capabilities, with who asked for it."""

import sys
from pathlib import Path

import contrastive_st
from contrastive_st.cli import GROUPS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import capabilities  # noqa: E402


def in_ledger(column):
    return [value for row in capabilities.rows() for value in capabilities.several(row[column])]


def assert_each_once(listed, existing):
    assert sorted(listed) == sorted(existing), set(listed) ^ set(existing)


def test_each_command_and_training_script_has_one_row():
    scripts = [f"train {path.stem.removeprefix('run_')}" for path in (ROOT / "examples").glob("run_*.py")]
    commands = [command for group in GROUPS.values() for command in group]
    assert_each_once(in_ledger("commands"), commands + scripts)


def test_each_public_name_has_one_row():
    assert_each_once(in_ledger("names"), [name for name in dir(contrastive_st) if not name.startswith("_")])


def test_each_folder_has_a_row_and_each_row_says_who_asked():
    folders = [path.parent.name for path in (ROOT / "src/contrastive_st").glob("*/__init__.py")]
    assert set(in_ledger("folder")) == set(folders)
    assert all(row["asked by"] and row["capability"] for row in capabilities.rows())


def test_the_page_prints_the_ledger():
    page = capabilities.PAGE.read_text(encoding="utf-8")
    assert capabilities.written(page) == page
