"""What an engine's own files do not hand out, requests of which none can go on, and slices that nobody has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

TRACE = (
    "Traceback (most recent call last):\n"
    '  File "serve.py", line 12, in <module>\n    run(args)\n'
    '  File "/opt/v/lib/python3.11/site-packages/{}", line 211, in alloc\n    raise Refused(message)\n{}'
)
POOL = "sglang/srt/mem_cache/hybrid_memory_pool.py"
NOT_HANDED_OUT = (
    (POOL, "AssertionError: Cannot alloc mamba for load_back"),
    ("sglang/srt/mem_cache/parts/mamba_part.py", "AssertionError: Cannot alloc mamba for load_back"),
    ("sglang/srt/hardware_backend/mlx/radix_cache.py", "RuntimeError: Can not alloc MLX auxiliary cache"),
    (POOL, "AssertionError: Logical allocation failed in alloc_extend"),
    ("sglang/srt/mem_cache/allocator.py", "RuntimeError: page allocation failed in alloc_decode"),
    ("sglang/srt/managers/schedule_batch.py", "RuntimeError: Failed to alloc kv indices for decode"),
    ("sglang/srt/managers/beam.py", "AssertionError: Member spawn needs 6 req-to-token slots but only 2 are free"),
    ("engine/states.py", "RuntimeError: Failed to allocate SSM state slot for request 7"),
    ("engine/cache_engine.py", "RuntimeError: segment cache capacity exceeded; evict older segments"),
    ("vllm/v1/core/encoder_cache_manager.py", "RuntimeError: Encoder cache capacity exceeded"),
    ("transformers/generation/api.py", "RuntimeError: No requests can be scheduled and no request can be offloaded."),
    ("engine/loop.py", "EngineError: no sequence can be admitted, and none can be evicted"),
)
OTHERWISE = (
    ("sglang/srt/mem_cache/allocator.py", "ValueError: Cannot allocate tokens: invalid page_size 0"),
    ("sglang/srt/mem_cache/allocator.py", "RuntimeError: allocation failed in alloc_extend: shape must be 1-D"),
    ("sglang/srt/mem_cache/allocator.py", "NotImplementedError: cannot alloc with dtype fp4"),
    ("sglang/srt/managers/scheduler.py", "AssertionError: failed to allocate task id"),
    ("balancer.py", "AssertionError: Cannot alloc port for load balancing"),
    ("cluster.py", "RuntimeError: cluster name allocation failed in create_cluster"),
    ("engine/loop.py", "RuntimeError: No requests can be scheduled before the engine has started"),
    ("engine/loop.py", "RuntimeError: no request can be cancelled, none is running"),
    ("player.py", "ValueError: playback cache capacity exceeded"),
    ("resolver.py", "RuntimeError: DNS cache capacity exceeded"),
    ("ci.py", "RuntimeError: Unable to reserve cache with key linux-a1, another job may be creating this cache"),
    ("jobs.py", "AssertionError: cannot allocate job id in the cache"),
    ("spawner.py", "RuntimeError: worker spawn needs 6 connection slots but only 2 are open"),
)
OF_THE_HOST = (
    "sglang/srt/mem_cache/pool_host/fabric.py",
    "RuntimeError: host memory exhausted: need 48.0GB, only 12.5GB left",
)
SLICES = (
    "Failed to reserve TPU slice.",
    "Failed to reserve TPU slice. Requested 3 slice(s) of topology '2x2x2'. Ensure that sufficient TPU resources exist",
    "Unable to acquire 2 TPU slices of topology 2x4",
)


def first(tmp_path: Path, file: str, text: str) -> tuple[str, str | None, str | None]:
    said: dict[str, Any] = body(tmp_path, TRACE.format(file, text))
    answer: dict[str, Any] = next(iter(said["diagnoses"]), {})
    return said["verdict"], answer.get("cause"), answer.get("pool")


@pytest.mark.parametrize(("file", "text"), NOT_HANDED_OUT)
def test_an_engine_that_has_no_place_left(tmp_path: Path, file: str, text: str) -> None:
    assert first(tmp_path, file, text) == ("oom", "kv-pool-exhausted", "kv_cache")


def test_what_the_host_keeps_of_the_cache_is_the_host_s(tmp_path: Path) -> None:
    assert first(tmp_path, *OF_THE_HOST)[2] == "host_ram"


@pytest.mark.parametrize(("file", "text"), OTHERWISE)
def test_other_things_that_are_not_handed_out(tmp_path: Path, file: str, text: str) -> None:
    assert first(tmp_path, file, text)[0] == "no-oom"


@pytest.mark.parametrize("text", SLICES)
def test_a_slice_that_no_cluster_has_is_not_placed(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, "ray/util/tpu.py", f"RuntimeError: {text}") == ("oom", "ray-unschedulable", "scheduling")


def test_the_name_of_a_slice_is_no_slice(tmp_path: Path) -> None:
    assert (
        first(tmp_path, "ray/util/tpu.py", "RuntimeError: Unable to find TPU slice name for this host")[0] == "no-oom"
    )


DISTURBED = (
    "The engine could not finish memory profiling because a neighbour on this GPU gave memory back meanwhile.",
    "Could not measure the model's memory: another job freed device memory during the measurement",
    "Profiling failed because free memory grew from 12.00 GiB to 20.00 GiB while it ran",
)
UNDISTURBED = (
    "Could not measure latency because another process holds the GPU",
    "profiler could not finish because another process released the lock while it was measuring memory bandwidth",
    "cannot measure bandwidth, other process freed the counters",
    "unable to start the memory profiler",
)


@pytest.mark.parametrize("text", DISTURBED)
def test_a_neighbour_that_gives_memory_back_disturbs_a_measurement(tmp_path: Path, text: str) -> None:
    behind = "This is NOT an out of memory error: free VRAM went up while it was profiled."
    assert first(tmp_path, "engine/worker.py", f"RuntimeError: {text}\n{behind}") == ("oom", "profiling-race", "gpu")


@pytest.mark.parametrize("text", UNDISTURBED)
def test_other_measurements_that_failed(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, "engine/worker.py", f"RuntimeError: {text}")[0] == "no-oom"


def test_a_measurement_that_is_only_warned_of_goes_on(tmp_path: Path) -> None:
    warned = "WARNING worker.py:9 another process freed GPU memory while measuring; the profile could not be exact"
    assert body(tmp_path, warned)["verdict"] == "no-oom"


# Room that a workspace, a card beside a training, a device's largest buffer has not
REFUSED = (
    ("Allocatable workspace available (180 tokens) is less than minimum requested workspace (512 tokens)", ""),
    ("Not enough free GPU memory to load this model while training is running. Stop the run.", ""),
    ("Refusing to load the model: it needs about 14.2 GiB of VRAM but the running training job leaves 6.0 GiB", ""),
    ("The model was not loaded, training goes first and there is not enough free GPU memory for both.", ""),
    ("vkCreateBuffer: size 6442450944 is larger than maxBufferSize 4294967296", "allocator-cap"),
    ("Exceeded max size of memory objects: requested 6442450944 bytes, but max alloc size is 4294959104 bytes",
     "allocator-cap"),
    ("hipHostMalloc of 24 GB for a host pool failed (rc=2, out of memory)", "pinned-memory-exhausted"),
    ("hipHostRegister failed for 24.0 GiB host pool: out of memory", "pinned-memory-exhausted"),
    ("aclrtMallocHost failed for 8589934592 bytes, ret=207001", "pinned-memory-exhausted"),
)  # fmt: skip
NOT_REFUSED = (
    "Cannot load a model while training is running",
    "The model was not loaded: training goes first on this GPU",
    "Refusing to start: a training job is already active on this GPU",
    "failed to allocate a port for kv events",
    "the config leaves 4 fields for the workspace",
)


@pytest.mark.parametrize(("text", "cause"), REFUSED)
def test_room_that_is_refused(tmp_path: Path, text: str, cause: str) -> None:
    verdict, first_cause, _ = first(tmp_path, "server.py", f"RuntimeError: {text}")
    assert (verdict, first_cause if cause else cause) == ("oom", cause)


@pytest.mark.parametrize("text", NOT_REFUSED)
def test_refusals_of_other_things(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, "server.py", f"RuntimeError: {text}")[0] == "no-oom"


@pytest.mark.parametrize(
    ("second", "pool"),
    [
        ("Not enough memory for 18 blocks of KV cache.", "kv_cache"),
        ("KV cache: 18 blocks.", "gpu"),
        ("Not enough memory for 18 layers of weights.", "gpu"),
    ],
)
def test_the_second_line_of_an_exception_says_what_found_no_room(second: str, pool: str, tmp_path: Path) -> None:
    told = body(tmp_path, f"RuntimeError: NO_ROOM: Lack of device memory. (code: -3)\n{second}\nTry fewer.")
    assert told["diagnoses"][0]["pool"] == pool
