"""What computes: the device, the precisions of a model and of stored vectors, and the memory of a process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

#: The variable with the device on which a process runs models, which `--device` sets; else torch has the choice
DEVICE = "CONTRASTIVE_ST_DEVICE"
#: Of a model: `auto` is bf16 where the hardware is faster with it
MODEL_PRECISIONS = ("auto", "bf16", "fp32", "int8")
#: Of stored vectors: 32, 8 or 1 bits for each dimension
VECTOR_PRECISIONS = ("float32", "int8", "ubinary")
#: Other encodings of the same codes, as in sentence-transformers: unsigned bytes, and bits as signed bytes
OTHER_CODES = {"uint8": ("int8", "uint8"), "binary": ("ubinary", "int8")}
ALL_CODES = (*VECTOR_PRECISIONS, *OTHER_CODES)


def bf16_is_fast(device: torch.device | str | None = None) -> bool:
    """Whether the hardware multiplies bfloat16 matrices faster than float32: recent CUDA, AMX or AVX-512 BF16.

    Args:
        device: device of the model; by default the GPU if there is one.
    """
    import torch

    device = torch.device(device or os.environ.get(DEVICE) or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and (has_amx() or bool(torch.cpu.get_capabilities().get("avx512_bf16")))


def has_amx() -> bool:
    """Whether the processor multiplies tiles of bfloat16 numbers by AMX."""
    import torch

    return bool(torch.cpu.get_capabilities().get("amx_bf16"))


def peak_resident(process: int | str = "self") -> int:
    """Peak resident memory so far, in bytes, of this process or of another on this machine.

    It is 0 where the system does not report it: on Windows, and for another process outside Linux.

    Example:
        >>> peak_resident() > 10 * 2**20
        True
    """
    if sys.platform == "win32":
        return 0
    status = f"/proc/{process}/status"
    if os.path.exists(status):  # getrusage also counts the parent before the fork
        with open(status, encoding="ascii", errors="replace") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    if process != "self":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
