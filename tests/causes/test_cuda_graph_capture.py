from __future__ import annotations

import pytest
from engine_logs import RUNNER, grade, judged, refusal, started, traceback

from oomdoctor.decision.judgement import Finding, RuledOut
from oomdoctor.signs import Grade

CAUSE = "cuda-graph-capture"
FULL = refusal("96.00 MiB", 23.55, 0.05, 23.4, 22.7)


def failing_in(*functions: str) -> str:
    return traceback(*((RUNNER, function) for function in functions), end=FULL)


@pytest.mark.parametrize("function", ["profile_run", "load_model", "_allocate_kv_cache_tensors", "execute_model"])
def test_other_moments(function: str) -> None:
    assert judged(CAUSE, failing_in(function, "forward")) is None


def test_graphs_that_were_captured_before_are_ruled_out() -> None:
    log = "INFO 05-15 18:23:45 [gpu_model_runner.py:1626] Graph capturing finished in 78 secs, took 2.28 GiB\n"
    judgement = judged(CAUSE, log + failing_in("execute_model"))
    assert isinstance(judgement, RuledOut)
    assert "2.28 GiB" in judgement.why


def test_the_advice_before_every_capture_is_no_sign() -> None:
    advice = "INFO 02-11 09:31:44 [model_runner.py:14] If out-of-memory error occurs during cudagraph capture, do\n"
    assert judged(CAUSE, advice + failing_in("execute_model")) is None


def test_eager_mode_captures_nothing() -> None:
    log = "INFO args: Namespace(model='/models/demo', enforce_eager=True, max_num_seqs=64)\n"
    assert isinstance(judged(CAUSE, log + failing_in("capture_model")), RuledOut)


@pytest.mark.parametrize(
    ("version", "says"),
    [("0.10.2", "on top of the engine's share"), ("0.21.0", "the estimate was too low")],
)
def test_where_graphs_count_depends_on_the_version(version: str, says: str) -> None:
    finding = judged(CAUSE, started(version) + failing_in("compile_or_warm_up_model", "capture_model", "_dummy_run"))
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES
    assert says in finding.why


def test_pytorchs_own_capture() -> None:
    log = traceback(
        ("vllm/compilation/cuda_graph.py", "__call__"),
        ("torch/cuda/graphs.py", "capture_end"),
        end="RuntimeError: CUDA error: out of memory",
    )
    assert grade(CAUSE, log) == Grade.PROVES


def test_sglang_names_the_capture() -> None:
    log = "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 530.00 MiB.\n"
    assert grade(CAUSE, log) == Grade.PROVES


def test_a_capture_that_only_the_progress_shows_is_less_sure() -> None:
    begun = "Capturing CUDA graphs (decode, FULL):  40%|####      | 14/35 [00:05<00:08,  2.5it/s]\n"
    assert grade(CAUSE, started("0.10.2") + begun + FULL) == Grade.NAMES
    assert judged(CAUSE, started("0.10.2") + FULL) is None
