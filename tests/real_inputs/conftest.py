"""A cache of data sets of its own."""

import datasets
import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    before = datasets.config.HF_DATASETS_CACHE
    datasets.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("cache")
    yield
    datasets.config.HF_DATASETS_CACHE = before
