"""Headlines of the causes about GPU memory, engines and releases: figures of the crash, and nothing they deny."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "causes"))

import engine_logs
from gpu_logs import ADAM, BACKWARD, FORWARD, LOADING, crash, refused, trace

from oomdoctor.causes import Cause, causes
from oomdoctor.incident.model import Crash
from oomdoctor.report.headline import ROOMS, engine, filled, gpu, headline, names, release, sizes, slots, slots_of

MINE = (
    "absurd-size", "activations", "allocator-cap", "allocator-fragmentation", "cuda-graph-capture",
    "device-misplacement", "eval-accumulation", "framework-preallocation", "framework-regression",
    "gpu-memory-exhausted", "gpu-memory-leak", "gpu-shared", "gpu-visibility", "kv-cache-no-room",
    "kv-pool-exhausted", "logits-spike", "max-model-len-too-long", "model-does-not-fit", "multimodal-profiling",
    "non-torch-memory", "optimizer-states", "profiling-race", "sampler-warmup", "spurious-device-oom",
    "vllm-utilization-too-high", "weight-sync-spike",
)  # fmt: skip
SHORT = "RuntimeError: CUDA error: out of memory"


def of(name: str) -> Cause:
    return next(cause for cause in causes() if cause.id == name)


def told(name: str, *lines: str) -> str:
    return headline(of(name), crash(*lines))


@pytest.mark.parametrize("name", MINE)
def test_every_cause_has_headlines_whose_slots_there_are(name: str) -> None:
    assert of(name).headlines
    for text in of(name).headlines:
        assert set(names(text)) <= slots().keys(), text
        assert text.count("[") == text.count("]")
        assert any(part for part in names(text)), text


def test_no_two_slots_have_one_name() -> None:
    assert sum(len(slots_of(room)) for room in ROOMS) == len(slots())


@pytest.mark.parametrize("slot", sorted(slots()))
def test_a_slot_says_nothing_of_a_log_that_says_nothing(slot: str) -> None:
    said = slots()[slot](crash(SHORT))
    assert said is None or not any(letter.isdigit() for letter in said)


# the allocation and its GPU


def test_a_pass_that_failed_says_what_it_needed_and_what_was_free() -> None:
    lines = (*trace(BACKWARD), refused("2.32 GiB", "11.58 GiB", "115.75 MiB", "11.18 GiB", "10.66 GiB"))
    said = "The backward pass needed 2.32 GiB more; 116 MiB of 11.58 GiB were free on GPU 0"
    assert told("activations", *lines) == said


def test_a_pass_that_failed_without_figures_names_its_line() -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/home/someone/job/train.py", line 118, in forward',
        "    hidden = self.layers(hidden)",
        '  File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in forward',
        "    return self._call_impl(*args, **kwargs)",
        SHORT,
    )
    assert told("activations", *lines) == "The forward pass ran out of memory on the GPU (train.py:118)"


@pytest.mark.parametrize(
    ("tried", "free", "is_short", "is_plenty"),
    [
        ("2.00 GiB", "1.00 GiB", True, False),
        ("2.00 GiB", "2.00 GiB", False, True),
        ("2.00 GiB", "60.00 GiB", False, True),
        ("2.004 GiB", "2.001 GiB", False, False),  # both are 2.00 GiB in print
    ],
)
def test_free_is_what_was_too_little(tried: str, free: str, is_short: bool, is_plenty: bool) -> None:
    it = crash(refused(tried, free=free, own=None))
    assert (gpu.free(it) is not None) is is_short
    assert (gpu.plenty(it) is not None) is is_plenty


def test_a_gpu_with_room_is_not_called_full() -> None:
    line = refused("594.00 MiB", "191.45 GiB", "179.98 GiB", "11.00 GiB", "10.00 GiB", "0 bytes")
    for name in ("spurious-device-oom", "gpu-memory-exhausted"):
        assert "179.98 GiB of 191.45 GiB were free" in told(name, line)
    assert "although 179.98 GiB of 191.45 GiB were free" in told("activations", line)
    said = "An allocation of 594 MiB failed although 179.98 GiB of 191.45 GiB were free on GPU 0"
    assert told("spurious-device-oom", line) == said


def test_the_figures_are_those_of_the_gpu_that_is_named() -> None:
    other = refused("4.00 GiB", free="1.00 GiB").replace("GPU 0", "GPU 5")
    it = crash(f"[rank5]: {other}", f"[rank0]: {refused('3.00 GiB', free='2.00 GiB')}")
    which = {"GPU 0": ("3.00 GiB", "2.00 GiB"), "GPU 5": ("4.00 GiB", "1.00 GiB")}
    assert (gpu.requested(it), gpu.free(it)) == which[gpu.gpu(it) or ""]


def test_what_is_larger_than_the_gpu_says_so() -> None:
    assert gpu.too_small(crash(refused("128.00 GiB"))) == "79.15 GiB"
    assert gpu.too_small(crash(refused("12.00 GiB"))) is None
    assert told("absurd-size", refused("2000.00 TiB")).startswith("One allocation of 1.95 PiB failed: no machine")
    assert (
        told("absurd-size", refused("800.00 GiB"))
        == "One allocation of 800.00 GiB failed: 10 times the memory there is"
    )


def test_a_full_gpu_with_no_more_in_the_log_names_who_asked() -> None:
    said = "Transformers ran out of memory on the GPU in the forward pass (modeling_llama.py:210)"
    assert told("gpu-memory-exhausted", *trace(FORWARD), SHORT) == said
    said = "An allocation of 512 MiB failed on GPU 0: 310 MiB of 79.15 GiB free"
    assert told("gpu-memory-exhausted", refused()) == said


def test_host_memory_is_no_gpus() -> None:
    it = crash("RuntimeError: [enforce fail at alloc_cpu.cpp:66] . DefaultCPUAllocator: can't allocate memory: you "
               "tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)")  # fmt: skip
    assert gpu.gpu(it) is None
    assert gpu.ram(it) == "host memory"
    assert headline(of("activations"), it).startswith("Activations do not fit in host memory")


# who else is there, and what an allocator keeps


def test_others_on_the_gpu_are_named_where_it_is_one() -> None:
    one = refused(
        "2.00 GiB", "79.15 GiB", "1.05 GiB", "10.00 GiB", "9.00 GiB", "0.50 GiB", others=((4711, "68.10 GiB"),)
    )
    said = "PID 4711 holds 68.10 GiB of 79.15 GiB on GPU 0; 2.00 GiB requested, 1.05 GiB free"
    assert told("gpu-shared", one) == said
    two = refused("2.00 GiB", "79.15 GiB", "1.05 GiB", "10.00 GiB", "9.00 GiB", "0.50 GiB",
                  others=((4711, "60.00 GiB"), (9000, "8.10 GiB")))  # fmt: skip
    assert told("gpu-shared", two).startswith("Other processes hold 68.10 GiB of 79.15 GiB on GPU 0")


def test_nobody_else_is_nobody() -> None:
    assert gpu.neighbour(crash(refused())) is None
    assert gpu.gpu_others(crash(SHORT)) is None


def test_processes_of_the_job_are_counted_with_the_one_that_failed() -> None:
    others = tuple((100 + number, "1.19 GiB") for number in range(1, 16))
    line = refused("52.00 MiB", "31.74 GiB", "39.00 MiB", "13.00 GiB", "12.00 GiB", "0.50 GiB", others=others)
    it = crash(f"(Worker pid=100) {line}")
    assert gpu.sharing(it) == "16 processes of this job"
    assert headline(of("device-misplacement"), it).startswith(
        "16 processes of this job share GPU 0; the others hold 17.85"
    )
    assert gpu.sharing(crash(line.replace("Process 1", "Process 7"))) is None


def test_fragments_are_as_much_as_was_requested() -> None:
    cached = refused("2.00 GiB", free="0.10 GiB", own="78.80 GiB", allocated="70.00 GiB", unallocated="6.12 GiB")
    said = "GPU memory is fragmented: 6.12 GiB are cached on GPU 0, but no block of 2.00 GiB is free"
    assert told("allocator-fragmentation", cached) == said
    assert gpu.gpu_idle(crash(refused("8.00 GiB", unallocated="6.12 GiB"))) is None


def test_a_cap_says_what_the_gpu_has() -> None:
    capped = refused("2.00 MiB", "288.00 GiB", "275.31 GiB", None, "1.04 GiB", "0.01 GiB", allowed="1.05 GiB")
    assert told("allocator-cap", capped) == "A memory cap of 1.05 GiB was hit; GPU 0 has 275.31 GiB free"
    assert sizes.cap(crash(refused())) is None


def test_the_optimizer_and_the_model() -> None:
    assert told("optimizer-states", *trace(ADAM), refused()).startswith(
        "The optimizer step needed 512 MiB more; 310 MiB"
    )
    said = "Loading the model filled GPU 0 (78.82 GiB of 79.15 GiB); 512 MiB more requested, 310 MiB free"
    assert told("model-does-not-fit", *trace(LOADING), refused()) == said
    held = refused(own="20.00 GiB", allocated="19.00 GiB")
    assert gpu.own_held(crash(held)) is None


# engines


def test_a_share_that_does_not_fit_says_what_was_free() -> None:
    line = engine_logs.not_enough_free(59.32, 79.15, 0.9)
    it = engine_logs.crash_of(line)
    said = "vLLM wants 0.9 of the GPU (71.24 GiB), but 59.32 GiB of 79.15 GiB were free at its start"
    assert headline(of("vllm-utilization-too-high"), it) == said
    said = "vLLM wants 0.9 of the GPU, but 19.83 GiB of 79.15 GiB were in use before it started"
    assert headline(of("gpu-shared"), it) == said


def test_a_context_that_does_not_fit_says_how_much_does() -> None:
    it = engine_logs.crash_of(engine_logs.context_too_long(32768, 12.0, 9.1, 24848))
    said = "32,768 tokens of context need 12.00 GiB of KV cache, 9.10 GiB are there; 24,848 tokens fit"
    assert headline(of("max-model-len-too-long"), it) == said


def test_no_block_of_the_cache_names_the_engine() -> None:
    it = engine_logs.crash_of(engine_logs.NO_BLOCKS)
    assert headline(of("kv-cache-no-room"), it) == "vLLM has no room for the KV cache on the GPU"


def test_a_warm_up_says_how_many_requests() -> None:
    it = engine_logs.crash_of(engine_logs.WARMUP)
    said = "vLLM's sampler warm-up with 1,024 dummy requests ran out of memory on the GPU"
    assert headline(of("sampler-warmup"), it) == said


def test_a_trainer_beside_an_engine_is_not_the_engine() -> None:
    it = crash(
        "(VllmGenerationWorker pid=31132) INFO 06-05 14:27:41 [core.py:101] Initializing a V1 LLM engine (v0.17.1)",
        "(MegatronPolicyWorker pid=35477) torch.AcceleratorError: CUDA error: out of memory",
    )
    assert engine.server(it) is None
    said = "MegatronPolicyWorker (PID 35477) ran out of memory on the GPU beside vLLM"
    assert headline(of("vllm-utilization-too-high"), it) == said


@pytest.mark.parametrize(("mask", "wanted"), [("16,32", None), ("1632", "1,632 GPUs")])
def test_a_number_that_is_not_printed_is_not_said(mask: str, wanted: str | None) -> None:
    it = crash(f"RuntimeError: only 1 GPUs are visible, but tensor parallel size requests {mask} GPUs")
    assert engine.needed(it) == wanted


# releases


def test_a_release_says_what_is_wrong_and_what_ends_it() -> None:
    it = crash(
        "deepspeed 0.16.3",
        "DeepSpeed info: version=0.16.3, git-hash=unknown, git-branch=unknown",
        "args: Namespace(zero_stage=3, gradient_checkpointing=True)",
        *trace(FORWARD, BACKWARD),
        refused(),
    )
    said = headline(of("framework-regression"), it)
    assert said == "DeepSpeed 0.16.3 leaks ZeRO-3 parameters with gradient checkpointing (fixed in 0.16.8)"


def test_without_a_release_nothing_is_said_of_one() -> None:
    it = crash(refused())
    assert (release.release(it), release.suspect(it), release.flaw(it), release.fixed(it)) == (None,) * 4


# brackets


def test_a_part_without_an_answer_falls_away() -> None:
    it: Crash = crash(refused())
    assert filled("x[ {place}][ on {gpu}]", it) == "x on GPU 0"
    assert filled("x {place}", it) is None


RAYS = (
    "2031-02-15 12:54:0{at},882 WARNING worker.py:1851 -- A worker died or was killed while executing a task by an "
    "unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: aa "
    "Worker ID: {at}f Node ID: cc Worker IP address: 10.1.2.31 Worker port: 33945 Worker PID: {pid} Worker exit type: "
    "{how} Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file."
)


@pytest.mark.parametrize(
    ("deaths", "who"),
    [
        (((907, "SYSTEM_ERROR"),), "Ray worker 907 died"),
        (((907, "SYSTEM_ERROR"), (911, "SYSTEM_ERROR")), "Ray workers 907, 911 died"),
        (((907, "SYSTEM_ERROR"), (907, "SYSTEM_ERROR")), "Ray worker 907 died"),
        (((907, "SYSTEM_ERROR"), (911, "INTENDED_USER_EXIT")), "Ray worker 907 died"),
        (tuple((pid, "SYSTEM_ERROR") for pid in (907, 911, 914, 919)), "Ray workers 907, 911 and 2 others died"),
    ],
)
def test_several_workers_that_died_alike(deaths: tuple[tuple[int, str], ...], who: str) -> None:
    lines = (RAYS.format(at=at, pid=pid, how=how) for at, (pid, how) in enumerate(deaths, 1))
    assert told("killed-without-evidence", *lines).startswith(who)


@pytest.mark.parametrize(("free", "is_filled"), [("310.44 MiB", True), ("7.90 GiB", True), ("7.93 GiB", False)])
def test_a_gpu_with_a_tenth_free_is_not_filled(free: str, is_filled: bool) -> None:
    it = crash(*trace(LOADING), refused(tried="20.00 GiB", free=free, own="60.00 GiB"))
    assert headline(of("model-does-not-fit"), it).startswith("Loading the model filled") is is_filled


@pytest.mark.parametrize(
    ("file", "is_told"),
    [
        ("/opt/ComfyUI/execution.py", False),
        ("/v/site-packages/chainer/training/updaters/standard_updater.py", False),
        ("/v/site-packages/pytorch_lightning/loops/epoch.py", False),
        ("/opt/ComfyUI/nodes.py", True),
        ("/home/ann/chainer_training.py", True),
    ],
)
def test_what_calls_whatever_it_was_handed_is_no_place(file: str, is_told: bool) -> None:
    it = crash("Traceback (most recent call last):", f'  File "{file}", line 7, in run', "    update()", refused())
    assert (gpu.place(it) is not None) is is_told


def test_comfyui_tells_of_a_refusal_in_its_own_words() -> None:
    known = crash("!!! Exception during processing !!! Allocation on device ")
    assert known.root.read_as is None
    assert known.pool == "gpu"


def test_a_checkpoint_in_host_memory_says_so() -> None:
    lines = ('  File "/v/torch/serialization.py", line 604, in _save', "    zip_file.write_record(name, storage, size)")
    it = crash("Traceback (most recent call last):", *lines, "RuntimeError: Could not allocate bytes object!")
    assert headline(of("checkpoint-spike"), it).endswith("ran out of host memory")
