"""transformers' common tests of models, from its source distribution, on the class of every family.

`make test-contracts` fetches what they need into `CONTRASTIVE_ST_CONTRACTS`. What does not apply stands in
`tests/helpers/transformers_common.py`, with the reason.
"""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import transformers

CACHE = os.environ.get("CONTRASTIVE_ST_CONTRACTS")
TESTS = Path(__file__).parents[1] / "helpers/transformers_common.py"


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot fetch {arguments[-1]}: {done.stderr.strip().splitlines()[-1]}")


def fetched(folder):
    """The unpacked source distribution of the installed transformers, and the folder of what its tests import."""
    name, needs = f"transformers-{transformers.__version__}", folder / "needs"
    if not (folder / name).is_dir():
        pip("download", "--no-deps", "--no-binary", ":all:", "--dest", folder, name.replace("-", "=="))
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    if not needs.is_dir():
        pip("install", "--no-deps", "--target", needs, "parameterized==0.9.0")
    return folder / name, needs


@pytest.mark.slow
@pytest.mark.skipif(CACHE is None, reason="make test-contracts fetches transformers' tests")
def test_what_transformers_asks_of_its_models(tmp_path):
    source, needs = fetched(Path(CACHE))
    path = os.pathsep.join([str(needs), os.environ.get("PYTHONPATH", "")])
    options = ["--noconftest", "-p", "no:cacheprovider", "-p", "no:warnings", "-q", "--tb", "short"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", tmp_path, *options, TESTS],
        env={**os.environ, "PYTHONPATH": path, "CONTRASTIVE_ST_TRANSFORMERS": str(source), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 1_500
