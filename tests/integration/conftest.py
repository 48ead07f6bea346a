"""Fixtures of the tests that start processes."""

import sys
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
