"""The notebooks of `examples/notebooks/` run from the first cell to the last, offline, and are kept without outputs."""

import json
import shutil
from pathlib import Path

import pytest
from warm_python import python_with_package

nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient and ipykernel, of the extra dev")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
#: what the last cell that prints says
NOTEBOOKS = {"train_and_search": "'topic': 'nature'", "embedding_space": "have the same class"}


def test_every_notebook_is_run():
    assert {path.stem for path in (ROOT / "examples/notebooks").glob("*.ipynb")} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    for folder in ("examples/data", "examples/notebooks", "model_cards/minilm-1-layer"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    place = tmp_path / "examples/notebooks"
    notebook = nbformat.read(place / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    kernel = tmp_path / "kernels/warm/kernel.json"
    kernel.parent.mkdir(parents=True)
    start = [python_with_package(), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": start, "display_name": "warm", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    resources = {"metadata": {"path": str(place)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="warm", resources=resources).execute()
    printed = "".join(output.get("text", "") for cell in code for output in cell.outputs)
    assert NOTEBOOKS[name] in printed
    figures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(figures) == (2 if name == "embedding_space" else 0)
