"""Collections are renamed, exchanged and given aliases while others search; a DSN may name the schema."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from store_places import new_store, unit_vectors

from contrastive_st.cli import main
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres import naming

pytestmark = pytest.mark.slow

COUNT = 60
VECTORS = unit_vectors(COUNT)


@pytest.fixture
def place(server):
    """A DSN with a schema of its own."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS named CASCADE")
        yield f"{server.dsn} schema=named"
        assert connection.execute("SELECT to_regclass('contrastive_st.collections')").fetchone() == (None,)
        connection.execute("DROP SCHEMA named CASCADE")


def filled(place, name, mark, index="hnsw", **options):
    with new_store(place, name, **options) as store:
        store.upsert(range(COUNT), [f"{mark} {i} town" for i in range(COUNT)], VECTORS, [{"of": mark}] * COUNT)
        store.build_index(index)


def marks(index, **options):
    return {hit.text.split()[0] for hit in index.search(VECTORS[0], 20, **options)[0]} - {"new"}


def test_names_are_given_exchanged_and_taken(place, capsys):
    filled(place, "a", "first"), filled(place, "b", "second")
    run = lambda *words: main(["collections", *words, "--store", place])
    for words in (["a", "--swap", "b"], ["a", "--rename", "c"], ["c", "--alias", "live"]):
        assert run(*words) == 0
    filled(place, "a", "third")  # a name that is free again, whose tables are not
    assert run("b", "--alias", "live") == run("live", "--alias", "live") == 0  # what it stands for already
    for name, mark in {"a": "third", "b": "first", "c": "second", "live": "first"}.items():
        with open_index(place, name) as index:
            assert (marks(index), marks(index, text="town"), len(index)) == ({mark}, {mark}, COUNT)
            assert index.database.rows(f"SELECT DISTINCT metadata->>'of' FROM named.{name}") == [(mark,)]
    capsys.readouterr()
    run()
    assert "live                 -> b" in capsys.readouterr().out.splitlines()
    run("live", "--delete")
    run("b", "--alias", "live")
    run("b", "--delete")
    capsys.readouterr()
    run()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["a", "c"]
    for words, message in (
        (["x", "--swap", "a"], "there is no collection 'x'"),
        (["a", "--rename", "c"], "there is a collection 'c' already"),
        (["a", "--alias", "c"], "there is a collection 'c' already"),
        (["a", "--rename", "x_texts"], "not a valid name"),
        (["--delete"], "--delete needs the name"), (["a", "--delete", "--alias", "d"], "--alias needs the name"),
    ):  # fmt: skip
        assert run(*words) == 2
        assert message in capsys.readouterr().err


def test_searches_see_the_state_before_or_after_a_swap(place):
    """Two clients search without a pause, one over all threads of a pool; a third writes; names change all the time."""
    filled(place, "a", "first"), filled(place, "b", "second", "binary", storage="vector")
    some = {"of": ["first", "second"]}
    index, stop, seen = open_index(place, "a"), threading.Event(), []

    def search(**options):
        while not stop.is_set():
            found = marks(index, **options)
            assert len(found) == 1, f"a mixture of {found}"
            seen.append(found.pop())

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            index.set_metadata(1, {"n": number})
            index.upsert([COUNT + 5], ["new town"], VECTORS[:1] + 1)
            index.delete([COUNT + 5])

    with ThreadPoolExecutor(5) as pool:
        jobs = [pool.submit(search, **options) for options in ({}, {"text": "town"}, {"filter": some})]
        jobs.append(pool.submit(write))
        for number in range(30):
            naming.swap(index.database, "a", "b") if number % 3 else naming.rename(index.database, "a", "old")
            if number % 3 == 0:
                naming.rename(index.database, "old", "a")
        stop.set()
        for job in jobs:
            job.result()
    assert set(seen) == {"first", "second"}
    assert len(seen) > 15
    index.close()
