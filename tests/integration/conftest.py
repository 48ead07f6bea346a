"""Fixtures of the tests that start processes."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from hub_server import HubClients, HubServer


@pytest.fixture(scope="module")
def bare_site(tmp_path_factory):
    """A folder of everything installed but this package; no .pth file in it is read."""
    site = tmp_path_factory.mktemp("site")
    for folder in map(Path, sys.path):
        if folder.name in ("site-packages", "dist-packages"):
            for entry in folder.iterdir():
                if "contrastive_st" not in entry.name and not (site / entry.name).exists():
                    (site / entry.name).symlink_to(entry)
    return site


@pytest.fixture(scope="session")
def hub_clients(tmp_path_factory):
    return HubClients(tmp_path_factory.mktemp("hub") / "home")


@pytest.fixture
def hub(hub_clients):
    with HubServer(hub_clients.port) as server:
        yield server


def pytest_terminal_summary(terminalreporter):
    """How many snippets of README and docs ran, and why the others did not."""
    outcomes = Counter(
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "snippet" and report.when == "call"
    )
    if outcomes:
        left_out = "".join(f"\n  {count} not run: {why}" for why, count in outcomes.most_common() if why != "executed")
        terminalreporter.write_line(f"{outcomes['executed']} snippets of README and docs executed{left_out}")
