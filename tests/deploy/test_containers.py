"""The container file and the compose file agree with the package."""

import shlex
from pathlib import Path

import yaml

from contrastive_st.cli import _parser
from contrastive_st.search.postgres.server import _SETTINGS

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
    expected = settings(_SETTINGS.splitlines())
    assert expected.pop("listen_addresses") == ""  # the service listens for the other containers
    assert settings(command[2::2]) == expected


def test_the_services_run_commands_that_exist():
    parser, _ = _parser()
    for name in ("api", "page"):
        service = COMPOSE["services"][name]
        args = parser.parse_args(service["command"])
        (port,) = service["ports"]
        assert port.startswith("127.0.0.1:")
        assert port.endswith(f":{args.port}")
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
