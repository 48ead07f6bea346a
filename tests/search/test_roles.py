"""A reader needs USAGE and SELECT alone, a writer its own rights; each script of SQL makes its role."""

import itertools
import re
import subprocess

import psycopg
import pytest
from refusals import error_of, told

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres import naming
from contrastive_st.search.postgres.dsn import split_schema
from contrastive_st.search.postgres.server import _binaries

pytestmark = pytest.mark.slow

_NUMBERS = itertools.count()
DOCUMENTS = "examples/data/documents.jsonl"
WRITES = r"(INSERT|UPDATE|DELETE|CREATE|LOCK|TRUNCATE)\b|pg_\w*advisory|FOR \w* ?SHARE"
READS = re.compile(rf"(SELECT|EXPLAIN|WITH|BEGIN|COMMIT)\b(?!.*({WRITES}))", re.S)


@pytest.fixture
def login(tcp, request, capsys):
    """The address of a role in a schema that the three scripts made, by the socket of the embedded server or by TCP."""
    running, address = tcp
    schema = f"by_{request.param}_{next(_NUMBERS)}"
    psql = [str(_binaries() / "psql"), "-q", "--set", "ON_ERROR_STOP=1", "--single-transaction", running.dsn]
    for role in ("owner", "writer", "reader"):
        main(["database", "--sql", role, "--store", f"{running.dsn} schema={schema}"])
        subprocess.run(psql, input=capsys.readouterr().out, text=True, check=True)
    with psycopg.connect(running.dsn, autocommit=True) as connection:
        for role in ("owner", "writer", "reader"):
            connection.execute(f"CREATE ROLE {schema}_a_{role} LOGIN IN ROLE {schema}_{role}")
        for role in ("owner", "writer"):
            connection.execute(f"ALTER ROLE {schema}_a_{role} SET role = {schema}_{role}")
        connection.execute(f"ALTER ROLE {schema}_a_reader SET log_statement = 'all'")

    def of(role):
        user = f"{schema}_a_{role}"
        if request.param == "socket":
            return f"{running.dsn} schema={schema}".replace("user=postgres", f"user={user}")
        return f"{address.format(user)}?schema={schema}"

    return of


def statements(tcp, user):
    """The verbs and texts of all statements that a role sent."""
    log = (tcp[0].pgdata / "log").read_text()
    found = re.findall(rf"^user={user} LOG:  (?:statement|execute [^:]*): (.*?)(?=\n\S|\Z)", log, re.M | re.S)
    return [re.sub(r"'[^']*'", "''", statement.strip()) for statement in found]


@pytest.mark.parametrize("login", ["tcp"], indirect=True)
def test_a_reader_only_reads_and_a_writer_writes(tcp, login, capsys):
    told(capsys, "index", DOCUMENTS, "--store", login("writer"))
    reading = (
        ["search", "animals", "--hybrid", "--filter", "year>2000"], ["search", "animals", "--exact"], ["similar", "3"],
        ["collections"], ["collections", "documents"], ["database"], ["trends"], ["duplicates"],
    )  # fmt: skip
    for command in reading:
        assert main([*command, "--store", login("reader")]) == 0, capsys.readouterr().err
    assert "may read\n" in capsys.readouterr().out
    user = psycopg.conninfo.conninfo_to_dict(split_schema(login("reader"))[0])["user"]
    sent = statements(tcp, user)
    assert len(sent) > 30
    assert [statement for statement in sent if not READS.match(statement)] == []
    for writing in (
        ["index", DOCUMENTS, "--replace"], ["collections", "documents", "--rename", "other"],
        ["delete", "documents", "--filter", "year>2000", "--yes"], ["collections", "documents", "--delete"],
    ):  # fmt: skip
        assert "permission denied" in error_of(capsys, *writing, "--store", login("reader"))
    assert main(["search", "animals", "--store", login("reader")]) == 0


@pytest.mark.parametrize("login", ["socket"], indirect=True)
def test_a_second_writer_changes_what_the_first_made(tcp, login):
    main(["index", DOCUMENTS, "--store", login("writer"), "--collection", "first"])
    with psycopg.connect(tcp[0].dsn, autocommit=True) as connection:
        name = split_schema(login("x"))[1]
        connection.execute(f"CREATE ROLE {name}_second LOGIN IN ROLE {name}_writer")
        connection.execute(f"ALTER ROLE {name}_second SET role = {name}_writer")
    second = login("writer").replace("a_writer", "second")
    with open_index(second, "first") as index:
        index.delete([1]), index.set_metadata(2, {"year": 1}), index.build_index("binary")
        naming.rename(index.database, "first", "second")


def test_a_database_without_a_store_is_named(tcp):
    with pytest.raises(InputError, match="contrastive"):
        open_index(f"{tcp[0].dsn} schema=nowhere")
    for wrong in ("pg_x", "a b", "x;", ""):
        with pytest.raises(InputError, match="schema"):
            open_index(f"postgresql://host/name?schema={wrong}")
