"""The backends that run exported graphs, and which of them a folder was exported for; without torch."""

from __future__ import annotations

from pathlib import Path

from contrastive_st.errors import InputError, choice
from contrastive_st.files.folders import check_weights, read_export

#: what a folder of each holds, where sentence-transformers looks for it
BACKENDS = {"onnx": "onnx/model.onnx", "openvino": "openvino/openvino_model.xml"}


def backend_of(folder: Path, asked: str | None, name: object) -> str | None:
    """Which of `BACKENDS` a folder was exported for; None for torch.

    Args:
        folder: a checkpoint folder, or one written by `export`.
        asked: the backend that must run it, or `torch`; by default that of the folder.
        name: its name in messages.

    Raises:
        InputError: the folder is for another backend; the message has the command that exports it.
    """
    choice("backend", asked or "torch", ("torch", *BACKENDS))
    there = read_export(folder).get("backend", "torch")
    if asked not in (None, there):
        if there == "torch" and any((folder / graph).is_file() for graph in BACKENDS.values()):
            check_weights(folder, name)  # or sentence-transformers wrote the graph, and there is nothing to export
        exported = f"exported for {there}; leave out the backend {asked}, or give the checkpoint"
        how = exported if there != "torch" else f"not exported for {asked}: {export_command(name, str(asked))}"
        raise InputError(f"{name} is {how}")
    return None if there == "torch" else there


def export_command(name: object, form: str) -> str:
    """The command that exports a checkpoint."""
    return f"contrastive-st export {name} --format {form} --output NEW_FOLDER"
