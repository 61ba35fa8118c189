"""Under a limit on address space: what the job did comes before the limit, and threads are refused for their stacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

LIMIT = "+ ulimit -v 1740800\n+ python -u job.py --max-workers 300\n"
TRACE = "Traceback (most recent call last):\n"
REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 19660800 bytes. Error code 12 (Cannot allocate memory)\n"
)
GENERATION = (
    TRACE
    + '  File "/srv/job.py", line 39, in <module>\n    outputs = model.generate(**batch)\n'
    + '  File "/v/site-packages/transformers/generation/utils.py", line 3235, in _sample\n'
    + "    outputs = model_forward(**model_inputs, return_dict=True)\n"
    + '  File "/v/site-packages/transformers/models/llama/modeling_llama.py", line 251, in forward\n'
    + "    key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)\n"
)
CACHE = (
    '  File "/v/site-packages/transformers/cache_utils.py", line 136, in update\n'
    "    self.keys = torch.cat([self.keys, key_states], dim=-2)\n"
)
INDEX = (
    TRACE
    + '  File "/srv/job.py", line 30, in <module>\n    index.add(part)\n'
    + '  File "/v/site-packages/faiss/class_wrappers.py", line 307, in replacement_add\n    self.add_c(n, ptr(x))\n'
    + "MemoryError: std::bad_alloc\n"
)
PAIRS = (
    TRACE
    + '  File "/srv/job.py", line 12, in <module>\n    KernelRidge(kernel="rbf").fit(X, y)\n'
    + '  File "/v/site-packages/sklearn/metrics/pairwise.py", line 409, in _euclidean_distances\n'
    + "    distances = -2 * safe_sparse_dot(X, Y.T, dense_output=True)\n"
    + "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 2.98 GiB for an array with shape (20000, 20000) "
    + "and data type float64\n"
)
BARE = TRACE + '  File "/srv/job.py", line 3, in <module>\n    run()\nMemoryError\n'
THREADS = (
    "RuntimeError: can't start new thread",
    "libgomp: Thread creation failed: Resource temporarily unavailable",
    "OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 64: Resource temporarily unavailable",
    'Exception in thread "main" java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory',
    "runtime: failed to create new OS thread (have 811 already; errno=11)",
)
NO_THREADS = (
    "bash: fork: retry: Resource temporarily unavailable",
    "BlockingIOError: [Errno 11] Resource temporarily unavailable",
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (GENERATION + CACHE + REFUSED, "kv-cache-no-room"),
        (GENERATION + REFUSED, "kv-cache-no-room"),
        (INDEX, "dataset-in-ram"),
        (PAIRS, "dataset-in-ram"),
        (BARE, "address-space-limit"),
    ],
)
def test_the_work_comes_before_the_limit(text: str, cause: str, tmp_path: Path) -> None:
    causes = [one["cause"] for one in body(tmp_path, LIMIT + text)["diagnoses"]]
    assert causes[0] == cause
    assert "address-space-limit" in causes


def test_a_generation_on_the_cpu_is_told_to_take_less_at_once(tmp_path: Path) -> None:
    first = body(tmp_path, LIMIT + GENERATION + CACHE + REFUSED)["diagnoses"][0]
    knobs = [one["knob"] for one in first["remedies"]]
    assert knobs[0] == "smaller-microbatch"
    assert "more-address-space" not in knobs
    assert first["headline"].startswith("The KV cache of the generation does not fit in host memory")


@pytest.mark.parametrize("line", THREADS)
def test_a_thread_without_room_for_its_stack_is_a_failure_of_memory(line: str, tmp_path: Path) -> None:
    first = body(tmp_path, f"{LIMIT}{line}\n")["diagnoses"][0]
    assert first["cause"] == "address-space-limit"
    assert first["headline"] == "A new thread could not be started: address space is limited to 1.66 GiB"
    assert {"fewer-workers", "smaller-buffers", "more-address-space"} == {one["knob"] for one in first["remedies"]}


@pytest.mark.parametrize("line", [*THREADS, *NO_THREADS])
def test_without_such_a_limit_it_is_one_on_processes(line: str, tmp_path: Path) -> None:
    assert body(tmp_path, f"+ ulimit -u 200\n+ python job.py\n{line}\n")["verdict"] == "no-oom"


@pytest.mark.parametrize("line", NO_THREADS)
def test_what_is_no_thread_has_no_stack(line: str, tmp_path: Path) -> None:
    assert body(tmp_path, f"{LIMIT}{line}\n")["verdict"] == "no-oom"
