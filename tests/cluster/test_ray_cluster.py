"""A Ray cluster of two hosts encodes and trains as one machine does."""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hosts import Cluster
from safetensors.torch import load_file

from contrastive_st import SentenceEncoder

pytest.importorskip("ray", reason="Ray is not installed: pip install 'contrastive-st[ray]'")
DRIVER = Path(__file__).with_name("ray_driver.py")
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus", "2", "--object-store-memory", "100000000"]
pytestmark = pytest.mark.slow


def test_two_nodes_encode_and_train_as_one():
    folder = Path(tempfile.mkdtemp(prefix="cst-ray-"))  # the paths of its sockets must be short
    try:
        with Cluster("one", "two") as cluster:
            one, two = cluster.addresses.values()
            quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_MEMORY_MONITOR": "1"}
            head = ["--head", "--port", "6379", "--include-dashboard", "false", "--temp-dir", folder / "r", "--block"]
            cluster.start("one", *RAY, "--node-ip-address", one, *head, **quiet)
            cluster.start("two", *RAY, "--node-ip-address", two, "--address", f"{one}:6379", "--block", **quiet)
            done = cluster.run("one", sys.executable, DRIVER, f"{one}:6379", folder, timeout=240, **quiet)
            told = json.loads(done.stdout.splitlines()[-1])
            assert told["encoded"] == [one, two]
            assert told["STRICT_SPREAD"] == [one, two]
            assert len(set(told["STRICT_PACK"])) == 1
        np.testing.assert_array_equal(
            np.load(folder / "vectors.npy"), SentenceEncoder().encode(json.loads((folder / "texts.json").read_text()))
        )
        spread, pack = (load_file(folder / name / "model.safetensors") for name in ("STRICT_SPREAD", "STRICT_PACK"))
        assert all(bool((spread[name] == pack[name]).all()) for name in pack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
