"""Remedies that the log's own figures and names decide: what cannot be enough is left out, what is printed goes in."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise
from reports import body

REFUSED = (
    "ValueError: To serve at least one request with the models's max seq len (200000), ({needed} GiB KV cache is "
    "needed, which is larger than the available KV cache memory (2.00 GiB). Try increasing `gpu_memory_utilization` or "
    "decreasing `max_model_len` when initializing the engine.\n"
)
SHARE = "raise-engine-reservation"


@pytest.mark.parametrize(
    ("flags", "needed", "raised"),
    [
        ("", "23.00", False),  # 0.05 of 432 GB are 20.1 GiB
        ("", "21.00", True),
        ("--gpu-memory-utilization 0.4", "23.00", True),  # 0.55 are left
    ],
)
def test_no_gpu_has_what_a_share_cannot_give(flags: str, needed: str, raised: bool) -> None:
    log = f"$ vllm serve m --max-model-len 200000 {flags}\n{REFUSED.format(needed=needed)}"
    chosen, rejected = advise(log, SHARE, cause="max-model-len-too-long")
    assert (SHARE in chosen) is raised
    assert (SHARE in rejected) is not raised


EXECUTOR = "INFO 06-28 06:53:56 {}:56] # GPU blocks: 378, # CPU blocks: 512\n"
OF_V1 = "(EngineCore_0 pid=71) INFO 06-28 06:53:56 [multiproc_executor.py:88] worker ready\n"


@pytest.mark.parametrize(
    ("before", "one"),
    [
        ("", True),
        (EXECUTOR.format("gpu_executor.py"), True),
        (OF_V1, True),  # V1 may have one worker there
        ("$ vllm serve m --pipeline-parallel-size 1\n", True),
        (EXECUTOR.format("distributed_gpu_executor.py"), False),
        (EXECUTOR.format("ray_gpu_executor.py"), False),
        ("$ vllm serve m --pipeline-parallel-size 2\n", False),
    ],
)
def test_who_has_several_workers_is_not_on_one_gpu(before: str, one: bool) -> None:
    log = before + REFUSED.format(needed="4.00")
    action = advise(log, "tensor-parallel", cause="max-model-len-too-long")[0]["tensor-parallel"].action
    assert ("instead of 1" in action) is one


BUFFER = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9148.04 MiB on device 0: cudaMalloc failed: out of memory\n"
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
)
LOADS = "load_tensors: loading model tensors, this can take a while... (mmap = true{})\n"


@pytest.mark.parametrize(
    ("before", "snippet"),
    [
        (LOADS.format(", direct_io = false"), "-ngl auto"),
        ("llama_params_fit: fitting params to free memory took 0.41 seconds\n", "-ngl auto"),
        (LOADS.format(""), None),
        ("$ llama-server -m m.gguf -ngl 40 --ctx-size 8192\n" + LOADS.format(", direct_io = true"), "-ngl 20"),
    ],
)
def test_a_build_that_chooses_its_layers_is_left_to_it(before: str, snippet: str | None) -> None:
    assert advise(before + BUFFER, "offload-parameters")[0]["offload-parameters"].snippet == snippet


PROBE = (
    "E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:439] Could not create cudnn handle: "
    "CUDNN_STATUS_INTERNAL_ERROR\n"
    "E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:443] Memory usage: {free} bytes free, {total} bytes total.\n"
    'Traceback (most recent call last):\n  File "/opt/lib/python3.11/site-packages/jax/_src/random.py", line 137, in '
    "PRNGKey\n    key = prng.seed_with_impl(impl, seed)\n"
    "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed.\n"
)


@pytest.mark.parametrize(
    ("free", "total", "others"),
    [
        (15, 100, True),  # 10 GiB are left for others
        (3, 16, True),  # a context and some hundreds of MiB
        (3, 15, False),
        (1, 20, True),  # 4 GiB
        (5, 20, False),  # nothing
        (6, 20, True),  # JAX took less than its default
    ],
)
def test_whom_jax_leaves_no_room_is_not_looked_for(free: int, total: int, others: bool) -> None:
    log = PROBE.format(free=free * 2**30, total=total * 2**30)
    chosen, rejected = advise(log, "free-the-gpu", cause="framework-preallocation")
    assert ("free-the-gpu" in chosen) is others
    assert ("free-the-gpu" in rejected) is not others


CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
ENGINE = "INFO 10-02 12:09:40 [core.py:58] Initializing a V1 LLM engine (v0.10.2) with config: model='m'\n"
NCCL = "n4:52:77 [1] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'"


@pytest.mark.parametrize(
    ("log", "elsewhere"),
    [
        (CUBLAS, True),
        (NCCL, False),
        (CUBLAS.replace("ALLOC_FAILED", "NOT_INITIALIZED"), False),  # it does not say that it got none
        (f"$ CUDA_VISIBLE_DEVICES=2 python fit.py\n{CUBLAS}", False),
        (f"$ torchrun --nproc_per_node 4 fit.py\n{CUBLAS}", False),
        (f"{ENGINE}{CUBLAS}", False),
    ],
)
def test_who_runs_alone_may_take_another_gpu(log: str, elsewhere: bool) -> None:
    chosen, _ = advise(log, "fix-placement", cause="non-torch-memory")
    assert any("on a free GPU" in one.action for one in chosen.values()) is elsewhere
    assert not chosen or "CUDA_VISIBLE_DEVICES" not in log  # of ranks each has a GPU of its own


CONSTANT = (
    "E itex/core/devices/bfc_allocator.cc:101] Allocator ran out of memory trying to allocate 10528350208 Bytes "
    "(rounded to 10528350208 Bytes)\n"
    "Cell In[36], line 1\n----> 1 {call}\n"
    "File /opt/lib/python3.9/site-packages/tensorflow/python/framework/constant_op.py:98, in "
    "convert_to_eager_tensor(value, ctx, dtype)\n---> 98 return ops.EagerTensor(value, ctx.device_name, dtype)\n"
    "InternalError: Failed copying input tensor from /job:localhost/replica:0/task:0/device:CPU:0 to "
    "/job:localhost/replica:0/task:0/device:XPU:0 in order to run _EagerConst: Dst tensor is not initialized.\n"
)


@pytest.mark.parametrize(
    ("call", "slices", "fit"),
    [
        ("net.fit(a,b, batch_size=48, epochs=7)", "((a, b)).batch(48)", "net.fit(data, epochs=7)"),
        ("net.fit(a, b, epochs=7)", "((a, b)).batch(32)", "net.fit(data, epochs=7)"),
        ("net.fit(load('a;b'), b, batch_size=48)", "((x, y)).batch(BATCH_SIZE)", "model.fit(data)"),
        ("net.fit(a, b, callbacks=[stop()])", "((x, y)).batch(BATCH_SIZE)", "model.fit(data)"),
    ],
)
def test_the_call_as_it_was_written(call: str, slices: str, fit: str) -> None:
    lines = (advise(CONSTANT.format(call=call), "stream-data")[0]["stream-data"].snippet or "").splitlines()
    assert lines[1].endswith(slices)
    assert lines[2] == fit


TASK = "[{pid:>7}]  1000 {pid} 80000000 {rss:>9} 620000000 {swap:>8}             0 {name}\n"
KILL = (
    "[1.0] python invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0\n"
    "[1.1] Tasks state (memory values in pages):\n"
    "[1.1] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
    "[1.2] {row}"
    "[1.3] Out of memory: Killed process 91 (python) total-vm:320000000kB, anon-rss:104857600kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:1000 pgtables:620000kB oom_score_adj:0\n"
)


@pytest.mark.parametrize(("swap", "said"), [(4194304, "116.00 GiB"), (262144, "101.00 GiB"), (0, "100.00 GiB")])
def test_what_lies_in_swap_has_to_be_in_memory(swap: int, said: str) -> None:
    log = KILL.format(row=TASK.format(pid=91, rss=26214400, swap=swap, name="python"))
    action = advise(log, "more-host-memory")[0]["more-host-memory"].action
    assert said in action
    assert ("alone held" in action) is (swap == 0)


GROUP = "$ ray start --head --num-gpus=8\n[{'GPU': 6, 'CPU': 60}]\nWaiting for placement group to be scheduled\n"
TASK_OF_RAY = (
    "WARNING worker.py:2001 -- Warning: The following resource request cannot be scheduled right now: {'GPU': 6.0}. "
    "This is likely due to all cluster resources being claimed by actors. Consider creating fewer actors or adding "
    "more nodes to this Ray cluster.\n"
)


@pytest.mark.parametrize(("log", "one"), [(GROUP, True), (TASK_OF_RAY, False)])
def test_a_bundle_lies_on_one_node(log: str, one: bool) -> None:
    found = advise(log, "add-nodes")[0].get("add-nodes")
    assert ("do not add up" in (found.action if found is not None else "")) is one


VRAM = "[drm] amdgpu: {}M of VRAM memory ready\n"
HIDDEN = (
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate {tried} GiB. GPU 0 has a total capacity of 15.00 GiB "
    "of which 14.00 GiB is free. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by "
    "PyTorch but unallocated.\n"
)


@pytest.mark.parametrize(
    ("there", "tried", "line"),
    [
        (98304, "50.00", "uname -r"),  # 62.5 GiB; 15 + 96 / 2 are 63
        (98304, "51.00", "amd-ttm --set 64"),
        (32768, "25.00", "amd-ttm --set 32"),
    ],
)
def test_nothing_is_set_below_what_the_kernel_gives_by_itself(there: int, tried: str, line: str) -> None:
    log = VRAM.format(there) + HIDDEN.format(tried=tried)
    found = advise(log, "raise-allocator-cap", cause="allocator-cap")[0]["raise-allocator-cap"]
    assert (found.snippet or "").startswith(line)


CAPTURED = (
    "INFO [kv_cache_utils.py:829] GPU KV cache size: 150,745 tokens\n"
    "INFO [gpu_model_runner.py:3118] Graph capturing finished in 9 secs, took 0.46 GiB\n{}torch.OutOfMemoryError\n"
)


@pytest.mark.parametrize(
    ("then", "serves"),
    [
        ("", False),
        ("INFO [core.py:218] init engine (profile, create kv cache, warmup model) took 31.20 seconds\n", True),
        ("INFO:     Application startup complete.\n", True),
    ],
)
def test_no_request_is_served_before_the_engine_is_up(then: str, serves: bool, tmp_path: Path) -> None:
    first = body(tmp_path, CAPTURED.format(then))["diagnoses"][0]
    assert ("while serving" in first["headline"]) is serves
    assert (first["stage"] == "serving") is serves
