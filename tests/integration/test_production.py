"""Every command of the page for administrators, in its order, against a PostgreSQL over TCP."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from ports import free_port
from store_places import tcp_server
from warm_python import python_with_package

from contrastive_st.search.postgres.server import _binaries

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def section():
    page = (ROOT / "docs/production.md").read_text(encoding="utf-8")
    return page.partition("## From an empty PostgreSQL")[2].partition("\n## ")[0]


def test_from_an_empty_postgresql_to_a_served_search(tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    blocks = re.findall(r"^```sh\n(.*?)^```$", section(), re.M | re.S)
    assert len(blocks) == 6
    own = free_port()
    command = tmp_path / "contrastive-st"
    command.write_text(f'#!/bin/sh\nexec {python_with_package()} -m contrastive_st.cli "$@"\n')
    command.chmod(0o700)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with tcp_server() as (_, address):
        port = psycopg.conninfo.conninfo_to_dict(address.format("x"))["port"]
        numbered = (f"printf '\\n# {n}\\n'\n{block}" for n, block in enumerate(blocks))
        script = "\n".join(["trap 'kill $(jobs -p)' EXIT", *numbered])
        script = script.replace("db --port 5432", f"127.0.0.1 --port {port}").replace("db:5432", f"127.0.0.1:{port}")
        script = script.replace("8080", str(own))
        path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), str(_binaries()), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path}, text=True,
            capture_output=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    _, roles, served, swapped, restored, watched, erased = re.split(r"^# \d\n", done.stdout, flags=re.M)
    assert roles.count("CREATE ROLE") == 3
    assert '"index":"documents","hits":[{"id":' in served
    assert re.search(r"^0\.\d+  \d+  ", restored, re.M), "a hit of the restored store"
    assert 'contrastive_st_requests_total{route="/search",status="200"} 1.0' in watched
    assert "role         searcher may read\n" in watched
    assert "swapped their names" in done.stderr
    assert swapped.strip() == erased.strip() == ""
