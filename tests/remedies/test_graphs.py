"""CUDA graphs that did not fit: captured up to half the printed size, or not at all."""

from __future__ import annotations

import pytest
from remedy_logs import advise, cuda

from oomdoctor.remedies import Remedy

SGLANG = (
    "[2026-03-01 09:59:50] server_args=ServerArgs(model_path='acme/chat', mem_fraction_static=0.9, tp_size=1, "
    "disable_cuda_graph=False, {})\n"
    "[2026-03-01 10:01:41] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/opt/env/lib/python3.11/site-packages/sglang/srt/model_executor/cuda_graph_runner.py", line 282, in '
    "capture\n"
)
VLLM = (
    "INFO 05-06 11:00:01 [core.py:69] Initializing a V1 LLM engine (v{version}) with config: model='acme/chat', "
    "max_seq_len=8192, tensor_parallel_size=1, enforce_eager=False, compilation_config={{{size}}}\n"
    '  File "/x/site-packages/vllm/v1/worker/gpu_model_runner.py", line 2101, in capture_model\n'
)


def graphs(log: str, cause: str = "cuda-graph-capture") -> Remedy:
    return advise(log + cuda(), "eager-mode", cause=cause)[0]["eager-mode"]


def test_half_of_what_sglang_prints() -> None:
    remedy = graphs(SGLANG.format("cuda_graph_max_bs=96"))
    assert (remedy.setting, remedy.current, remedy.suggested) == ("--cuda-graph-max-bs", 96, 48)
    assert remedy.snippet == "--cuda-graph-max-bs 48"
    assert remedy.derivation == "96 / 2 = 48"
    assert "--disable-cuda-graph" in remedy.action
    assert remedy.assumes


@pytest.mark.parametrize(
    ("version", "size", "flag"),
    [
        ("0.9.1", '"max_capture_size":384', "--cuda-graph-sizes 192"),
        ("0.14.0", "'max_cudagraph_capture_size': 384", "--max-cudagraph-capture-size 192"),
    ],
)
def test_vllms_option_is_its_versions(version: str, size: str, flag: str) -> None:
    remedy = graphs(VLLM.format(version=version, size=size))
    assert remedy.snippet == flag
    assert "--enforce-eager" in remedy.action


@pytest.mark.parametrize("printed", ["cuda_graph_max_bs=None", "cuda_graph_max_bs=1", "host='localhost'"])
def test_without_a_size_to_halve_graphs_are_switched_off(printed: str) -> None:
    assert graphs(SGLANG.format(printed)).snippet == "--disable-cuda-graph"


def test_a_version_without_such_an_option_switches_graphs_off() -> None:
    assert graphs(VLLM.format(version="0.8.5", size='"max_capture_size":512')).snippet == "--enforce-eager"


def test_graphs_that_were_not_refused_are_switched_off() -> None:
    assert graphs(SGLANG.format("cuda_graph_max_bs=96"), "vllm-utilization-too-high").snippet == "--disable-cuda-graph"
