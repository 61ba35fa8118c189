"""What the printed frame, line or option says was allocated decides what is changed first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oomdoctor

CANDLE = (
    'Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")\n'
    "   0: candle_core::quantized::QMatMul::dequantize_f16\n"
    "   1: candle_core::quantized::QMatMul::forward_via_f16\n   2: {crate}::Model::forward\n"
)


def first(folder: Path, log: str) -> dict[str, Any]:
    """The first diagnosis of a log."""
    (folder / "job.log").write_text(log, encoding="utf-8")
    found: dict[str, Any] = oomdoctor.diagnose(folder / "job.log").as_json()["diagnoses"][0]
    return found


def knobs(diagnosis: dict[str, Any]) -> list[str]:
    return [remedy["knob"] for remedy in diagnosis["remedies"]]


def test_an_engine_that_counts_its_layers_puts_fewer_on_the_card(tmp_path: Path) -> None:
    found = first(tmp_path, CANDLE.format(crate="mistralrs_core::quantized_llama"))
    assert found["cause"] == "activations"
    assert "Put fewer layers on the GPU: lower --num-device-layers" in found["remedies"][0]["action"]


def test_who_serves_keeps_nothing_for_a_backward_pass(tmp_path: Path) -> None:
    assert "gradient-checkpointing" not in knobs(first(tmp_path, CANDLE.format(crate="mistralrs_core::llama")))
    assert "gradient-checkpointing" in knobs(first(tmp_path, CANDLE.format(crate="my_trainer::llama")))
