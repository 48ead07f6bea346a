"""The container file and the compose file agree with the package."""

import shlex
from pathlib import Path

import pytest
import yaml
from ports import free_port
from refusals import told
from store_places import store_place

from contrastive_st.cli import _parser
from contrastive_st.search.postgres import server

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))


def settings(lines):
    """Settings of PostgreSQL by name, from lines `name = value`."""
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip(): value.strip().strip("'") for name, _, value in pairs}


def test_the_database_has_the_settings_of_the_embedded_one():
    command = COMPOSE["services"]["postgres"]["command"]
    assert command[0] == "postgres"
    assert command[1::2] == ["-c"] * (len(command) // 2)
    expected = settings(server._SETTINGS.splitlines())
    assert expected.pop("listen_addresses") == ""  # the service listens for the other containers
    assert settings(command[2::2]) == expected


@pytest.mark.slow
def test_a_database_with_the_settings_of_the_compose_file_is_used_by_its_dsn(monkeypatch, capsys):
    psycopg = pytest.importorskip("psycopg")
    database = COMPOSE["services"]["postgres"]
    wanted = settings(database["command"][2::2])
    port = free_port()
    monkeypatch.setenv("PGPORT", str(port))  # of the server, and of addresses without a port
    monkeypatch.setattr(
        server, "_SETTINGS", "\n".join([*database["command"][2::2], "listen_addresses = '127.0.0.1'", f"port = {port}"])
    )
    user, name = (database["environment"][key] for key in ("POSTGRES_USER", "POSTGRES_DB"))
    with store_place() as place, server.EmbeddedServer(place) as embedded:
        with psycopg.connect(embedded.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN SUPERUSER")  # the image of PostgreSQL makes both
            connection.execute(f"CREATE DATABASE {name} OWNER {user}")
        dsn = COMPOSE["x-server"]["environment"]["CONTRASTIVE_ST_STORE"]
        dsn = dsn.replace("${POSTGRES_PASSWORD:?set a password}", "letters8").replace("@postgres/", "@127.0.0.1/")
        with psycopg.connect(dsn) as connection:
            found = {setting: connection.execute(f"SHOW {setting}").fetchone()[0] for setting in wanted}
        assert found == {**wanted, "wal_compression": found["wal_compression"]}
        assert found["wal_compression"] != "off"  # "on" is shown as the method, pglz
        monkeypatch.setenv("CONTRASTIVE_ST_STORE", dsn)
        told(capsys, "index", ROOT / "examples/data/documents.jsonl")
        assert "score" in told(capsys, "search", "which animals came back", "-k", "1", "--json").out


def test_the_services_run_commands_that_exist():
    """Each is reached through nginx alone, from this machine."""
    parser, _ = _parser()
    proxy = (ROOT / "deploy/nginx.conf").read_text(encoding="utf-8")
    for name in ("api", "page"):
        service = COMPOSE["services"][name]
        args = parser.parse_args(service["command"])
        assert "ports" not in service
        assert f"listen {args.port}" in proxy
        assert f"proxy_pass http://{name}:{args.port};" in proxy
        assert f"127.0.0.1:{args.port}:{args.port}" in COMPOSE["services"]["proxy"]["ports"]
        assert args.host == "0.0.0.0"
        assert service["read_only"]
    last = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8").splitlines()[-1]
    assert parser.parse_args(shlex.split(last.removeprefix("CMD").strip(" []").replace(",", " "))).command == "api"


def test_the_image_copies_what_its_context_has():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    lines = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = {word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)
    assert "USER 10001" in lines
