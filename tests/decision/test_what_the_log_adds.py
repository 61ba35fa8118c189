"""What stands beside a failure and changes its answer: listings, a driver's code, held-back lines, a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

from oomdoctor import diagnose
from oomdoctor.report.words import headline

BUS = "RuntimeError: DataLoader worker (pid 41) is killed by signal: Bus error.\n"
NVML = 'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/w/c10/cuda/CUDACachingAllocator.cpp":838\n'
NVMAP = "NvMapMemAllocInternalTagged: 536870912 error {code}\n"
BUNDLES = "[{'GPU': 3, 'CPU': 24}]\n"
WAITS = "Waiting for placement group to be scheduled\n"
PROFILED = (
    "(RayWorkerWrapper pid=51, ip=10.2.0.9) INFO 05-11 08:00:0{second} [worker.py:267] Memory profiling takes 5.02 "
    "seconds{repeated}\n"
)
CAPTURING = "(RayWorkerWrapper pid=52) INFO 05-11 08:00:05 [model_runner.py:1442] Capturing cudagraphs for decoding.\n"
REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 MiB. GPU 1 has a total capacity of 31.50 GiB "
    "of which 2.00 MiB is free.\n"
)
UNLISTED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 12.00 GiB "
    "of which 1.50 GiB is free. {others}Including non-PyTorch memory, this process has 6.00 GiB memory in use. Of the "
    "allocated memory 5.50 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n"
)
TRIAL = (
    "ray.exceptions.RayTaskError(RuntimeError): ray::ImplicitFunc.train() (pid=61, ip=10.2.0.4, repr=<lambda>)\n"
    '  File "/env/site-packages/ray/tune/trainable/trainable.py", line 300, in train\n    raise skipped\n'
    '{own}  File "/env/site-packages/torch/nn/modules/module.py", line 900, in to\n    return self._apply(convert)\n'
    "RuntimeError: No CUDA GPUs are available\n"
)


def first(folder: Path, log: str) -> dict[str, Any]:
    incident: dict[str, Any] = body(folder, log)["incidents"][0]
    return incident


def listings(*used: str, total: str = "16G", left: str = "200M") -> str:
    rows = [f"tmpfs   {total}   {one}   {left}   {n}% /dev/shm" for n, one in enumerate(used, start=90)]
    return "\n".join(rows) + "\n" + BUS


def test_a_memory_that_only_fills_has_something_that_keeps_it(tmp_path: Path) -> None:
    best = first(tmp_path, listings("64M", "7.5G", "16G"))["diagnoses"][0]
    assert "filled from 64 MiB to 16.00 GiB in 3 listings" in best["explanation"]
    assert [one["knob"] for one in best["remedies"]][:3] == ["clear-references", "fewer-workers", "bigger-shm"]


@pytest.mark.parametrize(
    "log",
    [
        listings("64M", "16G"),
        listings("64M", "9G", "5G", "16G"),
        listings("12G", "15G", "16G"),
        listings("64M", "2G", "4G", left="12G"),
        listings("64M", "7.5G", "7.9G").replace("16G", "8G", 1),
        BUS,
    ],
)
def test_a_memory_that_is_given_back_or_seldom_listed_is_only_small(tmp_path: Path, log: str) -> None:
    best = first(tmp_path, log)["diagnoses"][0]
    assert "nothing was given back" not in best["explanation"]
    assert best["remedies"][0]["knob"] != "clear-references"


def test_the_driver_of_an_embedded_gpu_says_how_much_it_had_not(tmp_path: Path) -> None:
    incident = first(tmp_path, NVMAP.format(code=12) + NVML)
    assert incident["headline"] == "NvMap could not allocate 512 MiB of the RAM that CPU and GPU share (error 12)"
    remedies = incident["diagnoses"][0]["remedies"]
    assert "drop_caches" in remedies[0]["snippet"]
    assert [one["knob"] for one in remedies][:3] == ["free-the-gpu", "pin-version", "smaller-model"]
    assert "nv_tegra_release" in remedies[1]["snippet"]


@pytest.mark.parametrize("line", ["", NVMAP.format(code=5), "Jetson AGX Orin, JetPack 6.2\n"])
def test_without_its_code_nobody_knows_how_much(tmp_path: Path, line: str) -> None:
    incident = first(tmp_path, line + NVML)
    assert "NvMap got" not in incident["headline"]
    assert not any("nv_tegra_release" in (one["snippet"] or "") for one in incident["diagnoses"][0]["remedies"])


def test_figures_of_the_gpu_go_before_the_code_of_its_driver(tmp_path: Path) -> None:
    assert "NvMap" not in first(tmp_path, NVMAP.format(code=12) + REFUSED)["headline"]


@pytest.mark.parametrize(
    ("repeated", "order", "stage"),
    [
        (" [repeated 7x across cluster]", (CAPTURING, PROFILED), "cuda_graph_capture"),
        ("", (CAPTURING, PROFILED), "kv_cache_init"),
        (" [repeated 7x across cluster]", (PROFILED, CAPTURING), "cuda_graph_capture"),
        (" [repeated 7x across cluster]", (PROFILED,), "kv_cache_init"),
    ],
)
def test_what_ray_held_back_is_not_the_last_step(
    tmp_path: Path, repeated: str, order: tuple[str, ...], stage: str
) -> None:
    log = "".join(order).format(second=3, repeated=repeated) + REFUSED
    assert first(tmp_path, log)["diagnoses"][0]["stage"] == stage


@pytest.mark.parametrize("head", ["", "INFO grpo.py:88 - Requesting bundles: "])
def test_the_bundles_that_a_program_prints_are_what_it_waits_for(tmp_path: Path, head: str) -> None:
    incident = first(tmp_path, head + BUNDLES + "some other line\n" + WAITS)
    assert "a placement group of 3 GPUs, 24 CPUs" in incident["headline"]
    remedy = incident["diagnoses"][0]["remedies"][0]
    assert remedy["knob"] == "fix-resource-request"
    assert "3 GPU, 24 CPU" in remedy["action"]
    assert remedy["setting"] is None


@pytest.mark.parametrize(
    "above", ["", "[{'name': 'a', 'GPU': 3}]\n", "{'GPU': 3}\n", "[{'GPU': 3}] were taken\n", BUNDLES + "x\n" * 30]
)
def test_no_other_list_is_a_request(tmp_path: Path, above: str) -> None:
    incident = first(tmp_path, above + WAITS)
    assert "3 GPU" not in incident["headline"]


def test_a_group_that_is_placed_waits_no_more(tmp_path: Path) -> None:
    assert body(tmp_path, BUNDLES + WAITS + "step 1: 12%|# | 1/8 [00:01<00:07]\n")["verdict"] == "no-oom"


@pytest.mark.parametrize(
    ("launch", "setting"), [("--num_learners_per_node 3\n", "--num_learners_per_node"), ("ray start --head\n", None)]
)
def test_what_a_node_offers_is_not_what_a_job_requests(tmp_path: Path, launch: str, setting: str | None) -> None:
    remedy = first(tmp_path, launch + BUNDLES + WAITS)["diagnoses"][0]["remedies"][0]
    assert remedy["setting"] == setting
    unknown = first(tmp_path, "ray start --head\nerror: no free GPUs in the Ray cluster for this job\n")
    named = [one["setting"] for one in unknown["diagnoses"][0]["remedies"] if one["knob"] == "fix-resource-request"]
    assert named in ([None], [])


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ("", "4.50 GiB of 12.00 GiB on GPU 0 is not this process's"),
        ("Process 77 has 4.40 GiB memory in use. ", "PID 77"),
        ("Process 77 has 300.00 MiB memory in use. ", "Other processes hold"),
    ],
)
def test_who_is_not_listed_is_not_called_a_process(tmp_path: Path, others: str, words: str) -> None:
    shared = [
        one for one in first(tmp_path, UNLISTED.format(others=others))["diagnoses"] if one["cause"] == "gpu-shared"
    ]
    assert words in shared[0]["headline"]


@pytest.mark.parametrize(
    ("own", "place"),
    [
        ('  File "/tmp/ipykernel_61/3141592.py", line 27, in fit\n', "3141592.py:27"),
        ('  File "/srv/fit.py", line 9, in fit\n    net.to("cuda")\n', "fit.py:9"),
        ('  File "/srv/fit.py", line 9, in fit\n    go()\n  File "/srv/net.py", line 4, in go\n', "net.py:4"),
        ('  File "<stdin>", line 1, in <module>\n', "trainable.py:300"),
    ],
)
def test_a_line_of_the_job_needs_no_source_to_be_named(tmp_path: Path, own: str, place: str) -> None:
    assert f"({place})" in first(tmp_path, TRIAL.format(own=own))["headline"]


@pytest.mark.parametrize(
    ("log", "banner"),
    [
        (TRIAL.format(own=""), "GPU NOT VISIBLE"),
        (BUNDLES + WAITS, "NOT SCHEDULED"),
        (REFUSED, "OUT OF MEMORY"),
    ],
)
def test_a_process_that_runs_was_scheduled(tmp_path: Path, log: str, banner: str) -> None:
    path = tmp_path / "job.log"
    path.write_text(log, encoding="utf-8")
    assert headline(diagnose(path).incidents[0]).verdict == banner
