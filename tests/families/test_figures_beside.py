"""What stands beside a known message, or on the line below it, becomes its figures: heaps, budgets, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

GIB = 1024**3
MIB = 1024**2
HBM = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. "
BREAKER = "ElasticsearchException: CircuitBreakingException: [parent] Data too large, data for [<bulk>] would be "

BESIDE = (
    # a program's own guard, with all that it counted
    (
        (
            f"{BREAKER}[2098200576/1.9gb], which is larger than the limit of [2040109465/1.8gb], "
            "real usage: [2098200064/1.9gb], new bytes reserved: [512/512b]"
        ),
        {"needed_bytes": 2098200576, "limit_bytes": 2040109465, "used_bytes": 2098200064, "tried_bytes": 512},
    ),
    (
        (
            "[ERROR][breaker] New used memory 5368709999 [5gb] from field [tags] would be larger than "
            "configured breaker: 5368709120 [5gb], breaking"
        ),
        {"needed_bytes": 5368709999, "limit_bytes": 5368709120},
    ),
    ("nanny - WARNING - Worker exceeded 90% memory budget. Restarting", {"fraction": 0.9}),
    (
        (
            "load failed: OOM if load, maxSegmentSize = 100 MB, memUsage = 7000.5 MB, predictMemUsage = 7900.5 MB, "
            "totalMem = 8192 MB thresholdFactor = 0.800000"
        ),
        {"used_bytes": round(7000.5 * MIB), "fraction": 0.8, "limit_bytes": 8 * GIB},
    ),
    # the heap of a runtime
    (
        (
            "INFO After the sort freeMemory: 1048576000; totalMemory: 4294967296; maxMemory: 8589934592\n"
            "java.lang.OutOfMemoryError: Java heap space"
        ),
        {"heap_free_bytes": 1048576000, "heap_committed_bytes": 4294967296, "heap_limit_bytes": 8589934592},
    ),
    (
        (
            "[7:0x5581c0de0000]  100 ms: Mark-sweep 900.0 (910.0) -> 890.0 (905.0) MB, 1 / 0 ms"
            "[7:0x5581c0de0000]  190 ms: Mark-sweep 990.0 (999.0) -> 980.0 (995.0) MB, 1 / 0 ms\n"
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory"
        ),
        {"heap_used_bytes": 980 * MIB, "heap_committed_bytes": 995 * MIB},
    ),
    (
        "ERROR store: Out of memory, free: 73014444032, map: Cannot allocate memory (os error 12)",
        {"free_bytes": 73014444032, "errno": 12},
    ),
    # the largest of a pod's containers
    (
        (
            "The node was low on resource: memory. Container a-side was using 2048Ki, which exceeds its request of 0. "
            "Container main was using 4096Mi, which exceeds its request of 0."
        ),
        {"used_bytes": 4 * GIB, "container": "main"},
    ),
    ("Error: call to cuMemAlloc returned error 2 (CUDA_ERROR_OUT_OF_MEMORY): Out of memory", {"code": 2}),
    # what a terminal broke
    (
        f"{HBM}Used 20.00G of 16.00G hbm.\n Exceeded hbm capacity by 4.00G.",
        {"used_bytes": 20 * GIB, "exceeded_bytes": 4 * GIB},
    ),
    (
        (
            "Error: No available node types can fulfill resource request\n"
            "defaultdict(<class 'float'>, {'CPU': 3.0, 'GPU': 2.0}). Add suitable node types to this cluster."
        ),
        {"requested": {"CPU": 3.0, "GPU": 2.0}},
    ),
)
NEAR = (
    f"{HBM}Used 20.00G of 16.00G hbm.\n The next line speaks of something else.",
    "Error: No available node types can fulfill resource request\nno request stands here",
)


def stated(report: dict[str, Any]) -> dict[str, Any]:
    event = next(event for event in report["events"] if event["role"] == "root")
    return {**event["usage"], **event["threshold"], **event["fields"]}


@pytest.mark.parametrize(("text", "figures"), BESIDE)
def test_all_its_figures_are_fields(text: str, figures: dict[str, Any], tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    read = stated(report)
    assert {name: read.get(name) for name in figures} == figures


@pytest.mark.parametrize("text", NEAR)
def test_what_does_not_belong_to_it_is_left(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["events"][0]["end_line"] == 1
    assert not {"exceeded_bytes", "requested"} & {name for name, value in stated(report).items() if value is not None}


@pytest.mark.parametrize("option", ["--mem=64G", "--mem 64G"])
def test_a_script_of_slurm_states_its_limit(option: str, tmp_path: Path) -> None:
    report = body(tmp_path, f"#SBATCH {option}\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=9.0.")
    assert {"limit_bytes": 64 * GIB} in [event["threshold"] for event in report["events"]]


def test_the_trace_of_a_group_is_a_limit(tmp_path: Path) -> None:
    head = (
        "java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=-9\n Call Trace:\n [<0>] dump_stack+0x1/0x2\n"
    )
    limit = body(tmp_path, f"{head} [<0>] mem_cgroup_oom_synchronize+0x5/0x8")
    machine = body(tmp_path, f"{head} [<0>] out_of_memory+0x5/0x8")
    assert limit["diagnoses"][0]["pool"] == "cgroup"
    assert machine["diagnoses"][0]["pool"] == "host_ram"
