"""Fixtures of the tests that start processes."""

import pytest
from hub_server import HubClients, HubServer


@pytest.fixture(scope="session")
def hub_clients(tmp_path_factory):
    return HubClients(tmp_path_factory.mktemp("hub") / "home")


@pytest.fixture
def hub(hub_clients):
    with HubServer(hub_clients.port) as server:
        yield server
