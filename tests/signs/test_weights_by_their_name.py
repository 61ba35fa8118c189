"""Weights that fill the GPU by the model's name and its size, while an engine lays them out beside PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

FITS = "model-does-not-fit"
SERVE = "lmdeploy serve api_server {model} {flags}\n"
PAD = "    return torch._C._nn.pad(input, pad, mode, value)\n"
DEPLOY = (
    "Traceback (most recent call last):\n"
    '  File "/srv/lmdeploy/turbomind/deploy/module.py", line 31, in export\n'
    "    w = f(w)\n"
)
SAMPLE = "    probs = torch.softmax(logits, dim=-1)\n"
REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of {total} "
    "GiB of which 21.00 MiB is free. Including non-PyTorch memory, this process has {total} GiB memory in use. Of the "
    "allocated memory 300.00 MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
)


def best(tmp_path: Path, model: str, flags: str = "", code: str = PAD, total: str = "17.50") -> dict[str, Any]:
    log = SERVE.format(model=model, flags=flags) + code + REFUSED.format(total=total)
    first: dict[str, Any] = body(tmp_path, log)["diagnoses"][0]
    return first


@pytest.mark.parametrize(
    ("model", "code", "total"),
    [
        ("some/Chat-8B", PAD, "17.50"),
        ("some/Chat-8B", DEPLOY, "15.00"),
        ("some/Chat-1_8B-8b", PAD, "3.90"),
    ],
)
def test_the_model_is_too_large_before_any_cache(tmp_path: Path, model: str, code: str, total: str) -> None:
    first = best(tmp_path, model, code=code, total=total)
    assert first["cause"] == FITS
    assert [remedy["knob"] for remedy in first["remedies"]][:2] == ["quantize-weights", "tensor-parallel"]
    assert "lower-engine-reservation" not in [remedy["knob"] for remedy in first["remedies"]]
    assert "x 2 bytes = " in first["explanation"]


@pytest.mark.parametrize(
    ("model", "flags", "code", "total"),
    [
        ("some/Chat-8B", "", PAD, "17.60"),  # 14.90 GiB are 84.7 %
        ("some/Chat-8B-AWQ", "", PAD, "15.00"),
        ("some/Chat-8B", "--model-format awq", PAD, "15.00"),
        ("some/Chat-8B", "--tp 2", PAD, "15.00"),
        ("some/Chat-8B", "", SAMPLE, "15.00"),
        ("some/Chat-8B", "", "    y = torch.cat(parts)\n", "15.00"),
        ("some/Chat-large", "", PAD, "15.00"),
    ],
)
def test_what_may_be_its_cache(tmp_path: Path, model: str, flags: str, code: str, total: str) -> None:
    assert best(tmp_path, model, flags, code, total)["cause"] != FITS
