"""The API and its OpenAPI document agree: schemathesis, with all of its checks. `make test-contracts` installs it.

It has an environment of its own, since it needs other versions of some libraries.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from warm_python import python_with_package

from contrastive_st.cli import main

pytestmark = pytest.mark.slow
HERE = Path(sys.executable).parent
TOOL = os.environ.get("SCHEMATHESIS") or shutil.which("schemathesis", path=f"{HERE}{os.pathsep}{os.environ['PATH']}")
SECONDS = os.environ.get("CONTRASTIVE_ST_FUZZ_SECONDS", "20")


@pytest.mark.skipif(TOOL is None, reason="schemathesis is not installed; make test-contracts")
def test_every_answer_is_as_the_document_says(tmp_path):
    texts = Path(__file__).parents[2] / "examples/data/documents.jsonl"
    assert main(["index", str(texts), "--model", "static-minilm", "--output", str(tmp_path / "shards")]) == 0
    server = subprocess.Popen(
        [python_with_package(), "-m", "contrastive_st.cli", "api", "static-minilm", "--port", "0", "--index",
         str(tmp_path / "shards")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = server.stdout.readline().strip()
        command = [TOOL, "run", f"{address}/openapi.json", "--checks", "all", "--max-time", SECONDS, "--seed", "1"]
        done = subprocess.run(
            [*command, "--warnings", "off"], cwd=tmp_path, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stdout[-8000:]
    finally:
        server.kill()
        server.wait(30)
