"""What the tests of search share."""

import pytest
from store_places import tcp_server


@pytest.fixture(scope="session")
def tcp():
    """An embedded server that listens on 127.0.0.1 too, and its address without a user."""
    with tcp_server() as both:
        yield both
