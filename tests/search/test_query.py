"""`index --query`: the rows of a user's own table, whose columns are metadata, also after they have changed."""

import json

import psycopg
import pytest
from refusals import refused

from contrastive_st import open_index
from contrastive_st.cli import main

COUNT = 300
TABLE = """CREATE TABLE own.talks (id bigint PRIMARY KEY, title text, body text, day date, at timestamptz,
    price numeric(10, 2), tags text[], scores int[], about jsonb, open boolean, took interval, of uuid)"""
SELECT = "SELECT * FROM own.talks ORDER BY id;"


@pytest.fixture(scope="module")
def dsn(server):
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA own")
        connection.execute(TABLE)
        connection.execute(
            "INSERT INTO own.talks SELECT i, 'Talk ' || i, 'On tides and rain, part ' || i, date '2000-01-01' + i,"
            " timestamptz '2000-01-01 00:00Z' + i * interval '1 hour', CASE WHEN mod(i, 5) > 0 THEN i * 1.25 END,"
            " ARRAY['sea', 't' || mod(i, 10)], CASE WHEN mod(i, 3) > 0 THEN ARRAY[i, NULL] END,"
            " jsonb_build_object('n', i),"
            " mod(i, 2) = 0, i * interval '1 minute', md5(i::text)::uuid FROM generate_series(1, %s) AS i", (COUNT,)
        )  # fmt: skip
    return server.dsn


def index(dsn, capsys, *words, query=SELECT, code=0):
    assert main(["index", "--query", query, "--store", dsn, "--collection", "talks", *words]) == code
    return capsys.readouterr().err


def there(dsn, filter=None):
    with open_index(dsn, "talks") as found:
        ids = [id for ids, *_ in found.scan() for id in ids.tolist()]
        return found.count(filter), found.count(), {hit.id: hit for hit in found.get(ids)}


def rows(dsn):
    """The number of relations, and of rows of the user's table."""
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT (SELECT count(*) FROM pg_class), count(*) FROM own.talks").fetchone()


def test_a_table_of_mixed_types_and_a_night_of_changes(dsn, capsys, monkeypatch):
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")  # whoever indexes, the same is read
    monkeypatch.setenv("PGDATESTYLE", "German")
    texts = ("--columns", "title", "body", "--index", "none")
    assert f"{COUNT:,} of {COUNT:,} rows added" in index(dsn, capsys, *texts)
    dear, count, hits = there(dsn, "price>=100")
    assert count == len(hits) == COUNT
    assert dear == len([i for i in range(1, COUNT + 1) if i % 5 and i * 1.25 >= 100])
    hit = hits[7]
    assert hit.text == "title: Talk 7\nbody: On tides and rain, part 7"
    assert json.loads(json.dumps(hit.metadata)) == {
        "id": 7, "day": "2000-01-08", "at": "2000-01-01T07:00:00+00:00", "price": 8.75, "tags": ["sea", "t7"],
        "scores": [7, None], "about": {"n": 7}, "open": False, "took": 420.0,
        "of": "8f14e45f-ceea-167a-5a36-dedd4bea2543",
    }  # fmt: skip
    assert there(dsn, "tags=t7")[0] == COUNT // 10
    assert there(dsn, "day<2000-01-11")[0] == 9
    assert there(dsn, "scores=7")[0] == 1

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM own.talks WHERE id <= 100")
        connection.execute("UPDATE own.talks SET body = 'On whales' WHERE id BETWEEN 101 AND 150")
        connection.execute("UPDATE own.talks SET price = 1 WHERE id BETWEEN 151 AND 175")
        connection.execute("INSERT INTO own.talks (id, title, body) VALUES (9000, 'New', 'On comets')")
    said = index(dsn, capsys, *texts, "--sync")
    assert "1 of 201 rows added, 75 updated, 125 unchanged, 100 removed" in said
    cheap, count, hits = there(dsn, "price=1")
    assert (cheap, count, len(hits)) == (25, 201, 201)
    assert hits[101].text.endswith("body: On whales")
    assert hits[9000].metadata == {"id": 9000}
    assert main(["search", "comets", "-k", "1", "--store", dsn, "--collection", "talks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == 9000


@pytest.mark.parametrize(("query", "words", "named"), [
    ("SELECT id FROM nowhere", (), "nowhere"), ("DELETE FROM own.talks", (), "--query"),
    ("SELECT id, body, title AS body FROM own.talks", (), "body"),
    ("SELECT id, body FROM own.talks", ("--columns", "titel"), "titel"),
    ("SELECT id, title, body FROM own.talks", (), "--columns"),
    ("SELECT 1", ("--installed_docs",), "--query"),
    ("SELECT 1 AS id, 'a text' AS body, date 'infinity' AS day", ("--columns", "body"), "day::text"),
    ("SELECT id, body, 1 / (9000 - id) AS n FROM own.talks", ("--columns", "body"), "--query: division by zero"),
])  # fmt: skip
def test_a_query_at_fault_is_one_line_and_writes_nothing(dsn, capsys, query, words, named):
    before = rows(dsn)
    error = index(dsn, capsys, *words, query=query, code=2)
    assert error.count("\n") == 1
    assert named in error
    assert rows(dsn) == before


def test_a_store_in_a_folder_has_no_tables_of_the_user(capsys, tmp_path):
    assert "postgresql://" in refused(capsys, "index", "--query", SELECT, "--store", str(tmp_path / "store"))
