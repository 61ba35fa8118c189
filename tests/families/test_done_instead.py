"""Lines by which a program or a kernel goes on, or gives up, and what a limit's name says of the memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

GLOG = "E1012 10:44:19.220000 40117 torch/_inductor/tune.py:5332] [0/0] "
OOM = (
    "CUDA out of memory. Tried to allocate 3.91 GiB. GPU 0 has a total capacity of 23.52 GiB of which 2.86 GiB is "
    "free. Including non-PyTorch memory, this process has 20.65 GiB memory in use."
)
RECLAIM = (
    'W0905 15:42:16.777355   23506 eviction_manager.go:344] "Eviction manager: attempting to reclaim" '
    'resourceName="memory"\n'
    'I0905 15:42:16.777384   23506 eviction_manager.go:355] "Eviction manager: must evict pod(s) to reclaim" '
    'resourceName="memory"\n'
)
NOBODY = (
    'E0905 15:42:16.777390   23506 eviction_manager.go:366] "Eviction manager: eviction thresholds have been met, but '
    'no pods are active to evict"\n'
)
WARNED = (
    "[W814 15:06:55.441716306 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 3 while "
    "trying to allocate 3177185280 bytes (free: 1243414528, total: 85094825984).\n"
)
NOT_CREATED = f"Out-of-memory: Failed to create object 00{'f' * 36}0100000012000000"
ENDED = "terminate called after throwing\n  what():  "
CUT = (
    'Traceback (most recent call last):\n  File "/srv/fit.py", line 31, in main\n    step(batch)\n'
    '  File "/srv/net.py", line 99, in forward\n    logits = self.head(hidden)\n'
)


TUNE = (
    "== Status ==\nCurrent time: 2022-01-17 11:46:36 (running for {clock})\nMemory usage on this node: 1.4/15.6 GiB\n"
    "Resources requested: {used}/6 CPUs, 0/0 GPUs, 0.0/11.97 GiB heap, 0.0/5.8 GiB objects\n"
    "Number of trials: 1/1 (1 {state})\n"
)
BFC = (
    "2017-07-02 15:57:33.230281: W tensorflow/core/common_runtime/bfc_allocator.cc:217]\n"
    " Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.59GiB. The\n caller {says}\n"
)
QUANTIZED = (
    'Traceback (most recent call last):\n  File "/srv/fit.py", line 31, in main\n    load(name)\n'
    '  File "/env/bitsandbytes/nn/modules.py", line 296, in _quantize\n    w, state = {call}(w)\n'
    '  File "/env/bitsandbytes/functional.py", line 1212, in {call}\n    out = torch.zeros(n, device=A.device)\n'
    "RuntimeError: CUDA driver error: out of memory\n"
)


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        (TUNE.format(clock="00:03:40.19", used="0", state="PENDING"), "oom"),
        (TUNE.format(clock="00:00:40.19", used="0", state="PENDING"), "no-oom"),
        (TUNE.format(clock="00:03:40.19", used="6", state="RUNNING"), "no-oom"),
        (BFC.format(says="indicates that this is not a failure, but may mean that there"), "no-oom"),
        (BFC.format(says="was told so"), "oom"),
    ],
)
def test_what_the_lines_around_say(tmp_path: Path, log: str, verdict: str) -> None:
    assert body(tmp_path, log)["verdict"] == verdict


@pytest.mark.parametrize(("call", "cause"), [("quantize_4bit", "model-does-not-fit"), ("prepare", "gpu-shared")])
def test_what_works_on_a_tensor_of_the_gpu_is_not_its_first_use(tmp_path: Path, call: str, cause: str) -> None:
    log = QUANTIZED.format(call=call)
    assert body(tmp_path, log)["diagnoses"][0]["cause"] == cause


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        (f"{GLOG}Runtime error during autotuning:\n{GLOG}{OOM}\n{GLOG}Ignoring this choice.\n", "no-oom"),
        (f"{GLOG}Runtime error during training:\n{GLOG}{OOM}\n", "oom"),
        (f"RuntimeError: {OOM}\n", "oom"),
        (RECLAIM + NOBODY, "no-oom"),
        (RECLAIM, "oom"),
        (WARNED, "no-oom"),
        (WARNED + CUT, "oom"),
        (CUT, "inconclusive"),
        ("[ 9071.048594] pagefault_out_of_memory: 41 callbacks suppressed\n", "no-oom"),
        ("systemd-oomd[789]: No swap; memory pressure usage will be degraded\n", "no-oom"),
        ("[2026-10-12 15:33:40 TP0] Retraction host KV pool exhausted. Aborting the request.\n", "oom"),
        ("[2026-10-12 15:33:40 TP0] KV pool exhausted, retracted 2 requests.\n", "no-oom"),
        (f"{ENDED}[TM][ERROR] No enough blocks. Assertion fail: batch.cc:52\n", "oom"),
        (f"{ENDED}[QUOTA] No enough blocks. Assertion fail: volume.cc:52\n", "no-oom"),
    ],
)  # fmt: skip
def test_whether_it_goes_on(tmp_path: Path, log: str, verdict: str) -> None:
    assert body(tmp_path, log)["verdict"] == verdict


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "[ 2220.760143] vfio_pin_pages_remote: RLIMIT_MEMLOCK (67108864) exceeded\n",
            "pinned-memory-exhausted",
        ),
        (
            f"[2031-03-05 11:47:26,018 I 18 18] (raylet) queue.cc:130: {NOT_CREATED} of size 6103MB\n",
            "object-store-full",
        ),
        (
            "RuntimeError: The required memory size 17.84 GB for model is higher than the total device memory 16 GB\n",
            "model-does-not-fit",
        ),
    ],
)
def test_its_cause(tmp_path: Path, text: str, cause: str) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["cause"] == cause
