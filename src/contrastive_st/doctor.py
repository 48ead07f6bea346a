"""What machine this is and what was found on it: the facts a bug report needs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

PACKAGES = (
    "torch",
    "transformers",
    "datasets",
    "accelerate",
    "safetensors",
    "huggingface_hub",
    "evaluate",
    "scikit-learn",
)
EXTRAS = ("sentence-transformers", "matplotlib", "peft")


def facts() -> Iterator[tuple[str, str]]:
    """Pairs of a name and its value: versions, devices, precision, thread counts, data.

    Example:
        >>> dict(facts())["python"] == platform.python_version()
        True
    """
    import torch

    from contrastive_st import __version__
    from contrastive_st.evaluation.scorers.sts import DATA_VARIABLE, find_stsb
    from contrastive_st.models.cpu import bf16_is_fast

    yield "contrastive-st", __version__
    yield "python", platform.python_version()
    yield "platform", platform.platform()
    for name in PACKAGES + EXTRAS:
        yield name, _version(name)
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield "GPUs", ", ".join(devices) or "none"
    yield "CPU", str(torch.cpu.get_capabilities().get("cpu_name", platform.processor()))
    yield "precision", "bf16 autocast by default" if bf16_is_fast() else "float32 (no fast bf16 here)"
    yield (
        "threads",
        f"{torch.get_num_threads()} of {os.cpu_count()} cores, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}",
    )
    yield "offline", os.environ.get("HF_HUB_OFFLINE", "no (HF_HUB_OFFLINE not set)")
    yield "data", _short(os.environ.get(DATA_VARIABLE)) or f"not at hand ({DATA_VARIABLE} not set)"
    yield "STS-B dev", _short(find_stsb("dev")) or "not found"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _short(path: str | os.PathLike[str] | None) -> str:
    """A path without the names of the folders that it is in: a bug report is public."""
    parts = Path(path or "").parts
    return os.path.join(*(parts if len(parts) < 3 else ("...", *parts[-2:]))) if parts else ""
