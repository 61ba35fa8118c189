"""The ledgers of engines that print what they allocate line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.contract import Ledger, Report
from oomdoctor.report.words import tells_much
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


REFUSED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 3072.00 MiB on device {0}: cudaMalloc failed: "
    "out of memory\n"
    "ggml_gallocr_reserve_n: failed to allocate CUDA{0} buffer of size 3221225472\n"
)
CACHES = "".join(f"llama_kv_cache_init:      CUDA{n} KV buffer size =   {n}00.00 MiB\n" for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("failed", "told"), [(1, ["CUDA1", "CUDA2", "CUDA3"]), (3, ["CUDA3", "CUDA1", "CUDA2"]), (0, [])]
)
def test_the_card_that_failed_comes_first_and_without_it_no_other(failed: int, told: list[str], tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(CACHES + REFUSED.format(failed), encoding="utf-8")
    report = diagnose(log)
    assert [ledger.device for ledger in report.incidents[0].ledger] == told
    assert not any(map(tells_much, report.incidents[0].ledger))  # one row each, of an unknown whole


def test_two_rows_of_an_unknown_whole_are_held_against_each_other(tmp_path: Path) -> None:
    found = ledgers("llama_cpp/compute", tmp_path=tmp_path)
    assert tells_much(found["CUDA0"])


@pytest.mark.parametrize(("left", "total", "rest"), [("-0.50", 6, -0.5), ("0.25", 10, 0.0)])
def test_what_an_engines_share_lacks_is_no_row(left: str, total: int, rest: float, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(
        "INFO 03-04 worker.py:267] the current vLLM instance can use total_gpu_memory (10.00GiB) x "
        "gpu_memory_utilization (0.60) = 6.00GiB\n"
        "INFO 03-04 worker.py:267] model weights take 5.00GiB; non_torch_memory takes 0.25GiB; PyTorch activation "
        f"peak memory takes {0.75 - float(left):.2f}GiB; the rest of the memory reserved for KV Cache is "
        f"{left}GiB.\nINFO 03-04 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 1024\n"
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.\n",
        encoding="utf-8",
    )
    ledger = diagnose(log).incidents[0].ledger[0]
    assert ledger.total_bytes == total * GIB
    assert all((row.bytes or 0) >= 0 for row in ledger.rows)
    assert ledger.unexplained_bytes == round(rest * GIB)
