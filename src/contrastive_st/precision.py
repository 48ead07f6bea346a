"""The names of precisions: of a model's weights and activations, and of the vectors that are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastive_st.device import asked_device

if TYPE_CHECKING:
    import torch

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

    device = torch.device(device or asked_device() or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))
