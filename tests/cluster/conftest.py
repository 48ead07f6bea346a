"""These tests take minutes and make network namespaces: `make test-cluster` runs them, `make test` does not."""

import os

import pytest

collect_ignore = ["ray_driver.py"]  # imports Ray, which is not installed everywhere


def pytest_collection_modifyitems(items):
    if not os.environ.get("CONTRASTIVE_ST_CLUSTER"):
        for item in items:
            if item.path.parent.name == "cluster":
                item.add_marker(pytest.mark.skip(reason="several hosts: make test-cluster, as root"))
