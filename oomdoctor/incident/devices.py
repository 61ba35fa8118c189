"""What a job's devices are called: the texts say GPU, and are told where they are others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from oomdoctor.families.event import SIDES
from oomdoctor.families.jax_tf import TPU_WORDS
from oomdoctor.incident.model import Crash
from oomdoctor.language import GPU

# The names of themselves that their allocators, drivers and packages print
_NAMES: Final = (
    ("NPU", r"\bNPU\b|torch_npu|vllm_ascend|\bCANN\b|\bHCCL\b"),
    ("TPU", rf"\bTPU\b|libtpu|{TPU_WORDS}"),
    ("HPU", r"\bHPU\b|habana_frameworks|\bsynapse_helpers\b"),
    ("MLU", r"\bMLU\b|torch_mlu"),
    ("NeuronCore", r"\bTDRV:|\bnrt_[a-z]|\btorch_neuronx?\b|\bNEFF\b"),  # AWS: its runtime, package and programs
)


NVIDIA: Final = "NVIDIA"
# Of GPUs: what their runtimes, drivers and packages call themselves
_MAKERS: Final = (
    ("AMD", r"\bHIP\b|\bhip[A-Z]\w{2,40}|\bROCm\b|\brocm|\bamdgpu\b|\bgfx\d{3,4}\b"),
    (
        "Intel",
        r"\bXPU\b|\bxpu\b|Level[ _-]Zero|\bSYCL\b|intel_extension_for|\b(?:PI|UR)_(?:ERROR|RESULT)_|\bintel_gpu\b",
    ),
    ("Apple", r"\bMPS\b|\bM(?:etal|ETAL)\b|\[metal::|\bkIOGPU"),
    # tt_metal/impl/allocator/bank_manager.cpp
    ("Tenstorrent", r"\b[Tt]enstorrent\b|\bttnn\b|\btt[-_](?:metal|xla|mlir)\b|\b(?:DRAM|L1) buffer across \d+ banks"),
)
_NVIDIA: Final = r"\bCUDA\b|\bcuda[A-Z]\w{2,40}|\bcu(?:BLAS|DNN)|\bNVIDIA\b"
# What PyTorch calls the devices: ROCm's go by CUDA's name
_TORCH_TYPES: Final[Mapping[str, str]] = {
    NVIDIA: "cuda", "AMD": "cuda", "Intel": "xpu", "NPU": "npu", "HPU": "hpu", "Apple": "mps",
}  # fmt: skip
_A_GPU: Final = r"\b(?:GPU|CUDA|cuda|HIP|ROCm|XPU|MPS|Vulkan|Metal)\b"


def device_name(crashes: Iterable[Crash]) -> str:
    """Of the first crash on a device, by the lines around it."""
    for crash in crashes:
        if SIDES[crash.pool] == "device":
            return _name(crash)
    return GPU


def _name(crash: Crash) -> str:
    """The error's own word counts: Lightning prints "TPU available: False" beside every GPU."""
    text = crash.root.at.text
    said = next((name for name, words in _NAMES if re.search(words, text)), None)
    if said is not None or re.search(_A_GPU, text):
        return said or GPU
    return next((name for name, words in _NAMES if crash.mentions(words)), GPU)


def maker(crash: Crash) -> str:
    """Whose tool shows what is on the device: by its name, or by its driver's words; NVIDIA's where none is said."""
    name = _name(crash)
    if name != GPU:
        return name
    text = crash.root.at.text
    said = next((maker for maker, words in _MAKERS if re.search(words, text)), None)
    if said is not None or re.search(_NVIDIA, text):
        return said or NVIDIA
    return next((maker for maker, words in _MAKERS if crash.shows(words)), NVIDIA)


def torch_type(crash: Crash) -> str | None:
    return _TORCH_TYPES.get(maker(crash))
