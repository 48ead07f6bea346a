"""Deleting: what it would delete is shown first, and what was deleted stays away until it is restored."""

import io
import json
import sys

import numpy as np
import pytest

from contrastive_st.cli import main
from contrastive_st.search.opening import open_index

pytestmark = pytest.mark.slow

ROWS = [{"id": i, "text": f"text number {i}", "topic": topic, "year": 2000 + i % 2}
        for i, topic in enumerate(["library", "nature", "sea", "sea", "library"])]  # fmt: skip


@pytest.fixture
def run(place, tmp_path, request, capsys):
    """Runs a command on a collection of this test; returns its exit code and stderr."""
    collection = f"c{abs(hash(request.node.name)) % 10**8}"

    def command(name, *flags):
        capsys.readouterr()
        where = (
            [collection]
            if name == "delete"
            else [str(tmp_path / "c.jsonl"), "--index", "none", "--collection", collection]
        )
        code = main([name, *where, "--store", place, *flags])
        return code, capsys.readouterr().err

    def write(rows):
        (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def ids():
        index = open_index(place, collection)
        try:
            return sorted(int(id) for batch in index.scan() for id in batch[0])
        finally:
            index.close()

    command.write, command.ids = write, ids
    return command


def test_what_would_be_deleted_is_shown_before_it_is(run, monkeypatch):
    run.write(ROWS)
    run("index")
    code, said = run("delete", "--filter", "topic!=library", "--filter", "topic!=nature")
    assert code == 2
    assert "2 of 5 documents" in said
    assert "with topic!=library; topic!=nature\n" in said
    assert said.splitlines()[-1] == "error: nothing was deleted; without a terminal to ask on, give --yes"
    assert len(run.ids()) == 5
    terminal = io.StringIO("n\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    code, said = run("delete", "--filter", "topic=sea")
    assert code == 2
    assert len(run.ids()) == 5
    monkeypatch.undo()
    assert run("delete", "--filter", "topic!=library; topic!=nature", "--yes")[0] == 0
    assert run.ids() == [0, 1, 4]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_of_ids_in_any_encoding(run, tmp_path, encoding):
    run.write(ROWS)
    run("index")
    (tmp_path / "ids.txt").write_text("2\r\n7\r\nno-such\r\n", encoding=encoding)
    code, said = run("delete", "--ids", str(tmp_path / "ids.txt"), "--yes")
    assert code == 0
    assert "no document has 2 of the ids: 7, no-such\n" in said
    assert run.ids() == [0, 1, 3, 4]


@pytest.mark.parametrize("own_ids", [True, False])
def test_what_was_deleted_stays_away_until_it_is_restored(run, own_ids):
    flags = [] if own_ids else ["--id_column", ""]
    run.write(ROWS)
    run("index", *flags)
    run("delete", "--filter", "topic=sea", "--yes")
    code, said = run("index", *flags)
    assert "0 of 5 rows added" in said
    assert "2 rows are left out because they were deleted from the collection; --restore adds them again" in said
    assert run.ids() == [0, 1, 4]
    for flag in ("--restore", "--replace"):
        code, said = run("index", *flags, flag)
        assert code == 0
        assert "2 of 5 rows added" in said
        assert run.ids() == [0, 1, 2, 3, 4]
        assert "left out because" not in run("index", *flags)[1]
        run("delete", "--filter", "topic=sea", "--yes")
    assert run.ids() == [0, 1, 4]


def test_a_change_of_another_row_brings_nothing_back(run):
    run.write(ROWS)
    run("index")
    run("delete", "--filter", "topic=sea", "--yes")
    run.write([{**ROWS[0], "text": "another text"}, *ROWS[1:], {"id": 9, "text": "new", "topic": "sea", "year": 1}])
    said = run("index")[1]
    assert "1 of 6 rows added, 1 updated" in said
    assert "2 rows are left out because they were deleted" in said
    assert run.ids() == [0, 1, 4, 9]
    run.write([{**row, "text": f"all changed {row['id']}"} for row in ROWS])
    run("index")
    assert run.ids() == [0, 1, 4, 9]


def test_a_corpus_without_ids_is_replaced_afresh(run, caplog):
    run.write(ROWS)
    run("index", "--id_column", "")
    run("delete", "--filter", "topic=sea", "--yes")
    run.write(ROWS[::-1])
    assert run("index", "--id_column", "")[0] == 2
    run("index", "--id_column", "", "--replace")
    assert "again, with 2 documents that had been deleted" in caplog.text
    assert len(run.ids()) == 5


def test_deleted_ids_are_listed(run, place):
    run.write(ROWS)
    run("index")
    run("delete", "--filter", "year=2001", "--yes")
    collection = run("index")[1].split("in collection '")[1].split("'")[0]
    with open_index(place, collection) as store:
        assert store.deleted() == [1, 3]
        assert store.describe()["deleted"] == "2: 1, 3"
        store.upsert([3], ["again"], np.ones((1, store.dimension)))  # by hand, on purpose
        assert store.deleted() == [1]
