"""The training scripts of `examples/`, and the comparison of `benchmarks/`, as modules."""

import importlib.util
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name, folder=EXAMPLES):
    """The module of `examples/NAME.py`, run anew, without its `main`."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # which dataclasses look up
    spec.loader.exec_module(module)
    return module


def load_comparison():
    """`compare.py` and `methods.py` of `benchmarks/`, whose folder is not on the path: it has a `training.py`."""
    folder = EXAMPLES.parent / "benchmarks"
    methods = sys.modules.get("methods") or load("methods", folder)
    return sys.modules.get("compare") or load("compare", folder), methods
