"""The ledgers of engines that print what they allocate line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.contract import Ledger, Report
from oomdoctor.units import GIB, MIB

FIXTURES = Path(__file__).parents[2] / "fixtures"


def report_on(*names: str, tmp_path: Path) -> Report:
    log = tmp_path / "engine.log"
    log.write_bytes(b"".join((FIXTURES / f"{name}.log").read_bytes() for name in names))
    return diagnose(log)


def ledgers(*names: str, tmp_path: Path) -> dict[str, Ledger]:
    return {ledger.device: ledger for ledger in report_on(*names, tmp_path=tmp_path).incidents[0].ledger}


def rows(ledger: Ledger) -> dict[str, int | None]:
    return {row.what: row.bytes for row in ledger.rows}


def test_llama_cpp_has_a_ledger_for_each_card_up_to_the_refusal(tmp_path: Path) -> None:
    found = ledgers("llama_cpp/compute", tmp_path=tmp_path)
    assert rows(found["CUDA0"]) == {"weights": round(4165.37 * MIB), "KV cache": 1088 * MIB}
    assert rows(found["CUDA1"]) == {"weights": round(4120.10 * MIB), "KV cache": 960 * MIB}
    assert found.keys() == {"CUDA0", "CUDA1"}, "what lies with the processor is no part of the card that refused"


def test_the_first_generation_names_no_device(tmp_path: Path) -> None:
    found = ledgers("llama_cpp/first-generation", tmp_path=tmp_path)
    assert rows(found["host"])["all the model needs"] == round(8110.25 * MIB)


def test_ollamas_parts_lie_on_their_devices(tmp_path: Path) -> None:
    found = ledgers("ollama/parts", "ollama/short-allocations", tmp_path=tmp_path)
    assert rows(found["CUDA0"]) == {
        "weights": round(7.3 * GIB), "KV cache": round(1.8 * GIB), "compute buffers": 812 * MIB,
    }  # fmt: skip
    assert "CPU" not in found


def test_tensorrt_llm_leaves_what_it_does_not_print_unexplained(tmp_path: Path) -> None:
    found = ledgers("tensorrt_llm/runtime-start", "tensorrt_llm/creation-failed", tmp_path=tmp_path)
    ledger = found["GPU (figures of TensorRT-LLM)"]
    assert ledger.total_bytes == round(47.54 * GIB)
    assert rows(ledger)["KV cache"] == round(26.21 * GIB)
    assert ledger.unexplained_bytes is not None
    assert 0 < ledger.unexplained_bytes < 4 * GIB


@pytest.mark.parametrize("name", ["tensorrt_llm/creation-failed-cut", "lmdeploy/engine-short", "tgi/warmup"])
def test_without_figures_there_is_no_ledger(name: str, tmp_path: Path) -> None:
    assert ledgers(name, tmp_path=tmp_path) == {}
