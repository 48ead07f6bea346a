"""What the training recipe holds of a job's own arguments and data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contrastive_st.hub.recipe import changed_arguments

_DOCUMENTATION = "the documentation of the Python packages installed where it was trained"


def job_facts(args: Any, rows: int, train_file: str | Sequence[str] | None, licence: str = "") -> dict[str, Any]:
    """`ContrastiveTrainer.facts` of a job: its data, by name only, and its arguments that are not at their defaults.

    Args:
        args: the job's dataclass of arguments; its `data_license` wins over `licence`.
        rows: of the training data.
        train_file: files or a data set of the Hub; None is the documentation of the installed packages.
        licence: what the data says of itself.
    """
    files = [train_file] if isinstance(train_file, str) else list(train_file or [])
    on_hub = [name for name in files if not Path(name).exists()]
    data = {"name": ", ".join(name if name in on_hub else Path(name).name for name in files) or _DOCUMENTATION}
    data["from"] = "hub" if on_hub else "files" if files else "installed packages"
    data |= {"licence": args.data_license or licence} if args.data_license or licence else {}
    return {"data": {**data, "rows": rows}, "arguments": changed_arguments(args, "train_file", "data_license")}
