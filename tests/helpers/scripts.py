"""The training scripts of `examples/`, and the comparison of `benchmarks/`, as modules."""

import importlib.util
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
#: A few steps
FEW = ["--max_steps", "3", "--per_device_train_batch_size", "4", "--report_to", "none", "--disable_tqdm", "true"]
FEW += ["--logging_steps", "1", "--bf16", "false"]
#: A small encoder, and a few steps
TINY = ["--num_layers", "1", "--hidden_size", "16", "--per_device_train_batch_size", "4", "--max_steps", "3"]
TINY += ["--disable_tqdm", "true", "--learning_rate", "1e-3", "--logging_steps", "1", "--report_to", "none"]


def tiny(*args, flags=TINY):
    """`flags` and further ones; the first four are the size of a new encoder, which one to start from has."""
    return [*flags[4 * ("--model_name_or_path" in args) :], *args]


def load(name, folder=EXAMPLES):
    """The module of `examples/NAME.py`, run anew, without its `main`."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # which dataclasses look up
    spec.loader.exec_module(module)
    return module
