"""What the log shows to be so already, or to matter nothing there, is no remedy; what is left says what to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of, cuda, kill
from reports import body

from oomdoctor.signs.offload import sleeping_engines_have_it

WINDOWS = (
    "{line}\nTraceback (most recent call last):\n"
    '  File "E:\\studio\\loader.py", line 61, in fill\n    state = read(path)\n'
    '  File "E:\\studio\\env\\lib\\site-packages\\torch\\nn\\modules\\module.py", line 810, in _apply\n'
    "    p = fn(param)\n"
    "RuntimeError: [enforce fail at ..\\c10\\core\\impl\\alloc_cpu.cpp:72] data. DefaultCPUAllocator: not enough "
    "memory: you tried to allocate 41943040 bytes.\n"
)
KERNEL = (
    "[ 901.100000] [    701]  1000   701   {first}   {first}   307200      0             0 python\n"
    "[ 901.100001] [    702]  1000   702   {second}   {second}   307200      0             0 python\n"
    "[ 901.100002] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job7,mems_allowed=0,"
    "oom_memcg=/docker/job7,task_memcg=/docker/job7,task=python,pid=701,uid=1000\n"
)
MUCH, LITTLE = 52_428_800, 262_144  # pages: 200 GiB and 1 GiB
ENGINE = "INFO 11-20 10:00:00 vllm/v1/engine/core.py:1\nTraceback (most recent call last):\n"
RUNNER = '  File "/env/vllm/v1/worker/gpu_model_runner.py", line 3000, in {function}\n    {code}\n'
SAMPLER = (
    '  File "/env/vllm/v1/sample/sampler.py", line 200, in compute_logprobs\n    return logits.log_softmax(dim=-1)\n'
)
POOL = "[torch_memory_saver.cpp] CUresult error: 2 (out of memory) file=csrc/utils.h func=cu_mem_create line=201"
PROGRAM = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5368709120 "
    "bytes.\n"
    "BufferAssignment OOM Debugging.\nBufferAssignment stats:\n"
    "             parameter allocation:  {arguments}\n"
    "              constant allocation:       64B\n"
    "        maybe_live_out allocation:    {outputs}\n"
    "     preallocated temp allocation:    2.00GiB\n"
    "                 total allocation:   12.00GiB\n"
)


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("Loading weights from base_v2.safetensors", False),
        ("    with safetensors.safe_open(path) as opened:", False),
        ("    with open(path) as opened:", True),
        ("Loading weights from base_v2.ckpt", True),
        ("Loading weights from safetensors_notes.bin", True),
        ("Loading weights, safetensors is not installed", True),
    ],
)
def test_files_that_are_mapped_already_need_no_other_format(line: str, given: bool) -> None:
    chosen, _ = advise(WINDOWS.format(line=line), "low-memory-loading", cause="host-model-load")
    assert ("low-memory-loading" in chosen) == given


def test_a_framework_with_an_option_of_its_own_keeps_it() -> None:
    log = "axolotl train run.yml\nmodel-00001.safetensors\n" + kill(60, 64, "")
    chosen, _ = advise(log, "low-memory-loading", cause="host-model-load")
    assert chosen["low-memory-loading"].setting == "low_cpu_mem_usage"


@pytest.mark.parametrize(("on", "words"), [(True, "On Windows, RAM and page file"), (False, "A full Linux machine")])
def test_only_the_limits_of_the_machine_are_named(on: bool, words: str, tmp_path: Path) -> None:
    log = WINDOWS.format(line="x").replace("E:\\studio\\", "/srv/").replace("\\", "/").replace("../c10", "c10")
    log = log.replace("not enough memory: you tried to allocate", "can't allocate memory: you tried to allocate")
    report = body(tmp_path, WINDOWS.format(line="x") if on else log)
    found = [one for one in report["incidents"][0]["diagnoses"] if one["cause"] == "address-space-limit"]
    assert words in found[0]["explanation"]


@pytest.mark.parametrize(("on", "words"), [(True, "Close other programs"), (False, "Use a node")])
def test_a_desktop_is_no_node(on: bool, words: str) -> None:
    log = WINDOWS.format(line="x") if on else "python job.py\nMemoryError: Unable to allocate 9.00 GiB\n"
    chosen, _ = advise(log, "more-host-memory", cause="address-space-limit")
    assert chosen["more-host-memory"].action.startswith(words)


@pytest.mark.parametrize(
    ("first", "second", "given"), [(MUCH, LITTLE, False), (MUCH, MUCH, True), (MUCH, MUCH // 4, True), (0, MUCH, False)]
)
def test_fewer_workers_free_little_where_one_process_holds_all(first: int, second: int, given: bool) -> None:
    log = "python fit.py --num_workers 8\n" + KERNEL.format(first=first, second=second)
    assert ("fewer-workers" in advise(log, "fewer-workers", cause="container-limit")[0]) == given


@pytest.mark.parametrize(
    ("function", "given"), [("_get_prompt_logprobs_dict", False), ("_sample", True), ("execute_model", True)]
)
def test_the_rows_of_one_prompt_are_no_sequences(function: str, given: bool) -> None:
    log = ENGINE + RUNNER.format(function=function, code="logprobs = self.sampler(logits)") + SAMPLER
    log += "torch.OutOfMemoryError: " + cuda()
    chosen, _ = advise(log, "fewer-sequences", "smaller-prefill", cause="logits-spike")
    assert ("fewer-sequences" in chosen) == given
    assert ("log-probabilities of the prompt" in chosen["smaller-prefill"].action) != given


def test_what_an_engine_prints_of_its_settings_is_no_frame() -> None:
    log = ENGINE + "SamplingParams(prompt_logprobs=None)\n" + RUNNER.format(function="_sample", code="x = y")
    assert "fewer-sequences" in advise(log + "torch.OutOfMemoryError: " + cuda(), "fewer-sequences")[0]


def test_a_pool_that_sleeps_is_as_large_as_its_share() -> None:
    knobs = ("fewer-sequences", "smaller-prefill", "shorter-context", "lower-engine-reservation", "free-the-gpu")
    chosen, _ = advise(POOL, *knobs, cause="vllm-utilization-too-high")
    assert set(chosen) == {"lower-engine-reservation", "free-the-gpu"}
    share = chosen["lower-engine-reservation"]
    assert share.setting == "--mem-fraction-static"
    assert "not in the log" in share.assumes[0]
    assert "trainer" in chosen["free-the-gpu"].action


@pytest.mark.parametrize(
    "log",
    [
        "RuntimeError: CUDA Error: out of memory at /w/csrc/cumem_allocator.cpp:62",
        "python -m sglang.launch_server --model-path m\n" + POOL,
    ],
)
def test_whose_pool_it_is_is_assumed_only_of_the_saver(log: str) -> None:
    chosen, _ = advise(log, "lower-engine-reservation", cause="vllm-utilization-too-high")
    assert not any("torch_memory_saver" in each for each in chosen["lower-engine-reservation"].assumes)


@pytest.mark.parametrize(
    ("arguments", "outputs", "donates"),
    [("512.00MiB", "9.50GiB", False), ("4.00GiB", "8.50GiB", False), ("5.00GiB", "9.50GiB", True)],
)
def test_what_is_donated_saves_no_more_than_it_takes(arguments: str, outputs: str, donates: bool) -> None:
    log = PROGRAM.format(arguments=arguments, outputs=outputs)
    remedy = advise(log, "smaller-buffers", cause="activations")[0]["smaller-buffers"]
    assert ("donate_argnums" in (remedy.snippet or "")) == donates
    assert ("device_get" in (remedy.snippet or "")) != donates


@pytest.mark.parametrize(("name", "given"), [("RayWorkerVllm", True), ("RayWorkerWrapper", False), ("MyWorker", False)])
def test_the_name_of_its_worker_tells_the_age_of_an_engine(name: str, given: bool) -> None:
    log = (
        "Memory on the node (IP: 10.1.1.7, ID: 11) where the task (actor ID: 22, name="
        f"{name}.__init__, pid=77, memory used=20.00GB) was running was 30.50GB / 32.00GB (0.953125), which exceeds "
        "the memory usage threshold of 0.95. Ray killed this worker (ID: 33) because it was the most recently "
        "scheduled task.\n"
    )
    chosen, _ = advise("vllm serve m\n" + log, "less-swap-space", "quantize-weights", cause="process-ram-hog")
    assert ("less-swap-space" in chosen) == given
    quantized = chosen.get("quantize-weights")
    assert (quantized is not None and quantized.snippet == "--quantization fp8") != given


WHOLE = (
    "E tensorflow/core/framework/bfc_allocator.cc:101] Allocator ran out of memory trying to allocate {tried} Bytes\n"
    'Traceback (most recent call last):\n  File "/w/fit.py", line 31, in <module>\n    {call}\n'
    "tensorflow.python.framework.errors_impl.InternalError: Failed copying input tensor from device:CPU:0 to "
    "device:GPU:0 in order to run {node}: Dst tensor is not initialized.\n"
)
OF_A_BATCH = ("smaller-microbatch", "smaller-partitions", "gradient-checkpointing")


@pytest.mark.parametrize(
    ("call", "node", "tried", "whole"),
    [
        ("net.fit(images, marks, batch_size=48)", "_EagerConst", 7_516_192_768, True),
        ("net.fit(images, marks, batch_size=48)", "AddV2", 7_516_192_768, False),
        ("net.fit(images, marks, batch_size=48)", "_EagerConst", 75_161_927, False),
        ("y = step(images, batch_size=48)", "_EagerConst", 7_516_192_768, False),
    ],
)
def test_a_tensor_of_all_data_has_no_batches(call: str, node: str, tried: int, whole: bool) -> None:
    log = WHOLE.format(call=call, node=node, tried=tried)
    chosen, _ = advise(log, *OF_A_BATCH, "stream-data", cause="dataset-in-ram")
    assert ("smaller-microbatch" in chosen) != whole
    assert ('tf.device("CPU:0")' in str(chosen["stream-data"].snippet)) == whole


def test_what_fit_is_given_is_not_in_parts() -> None:
    log = WHOLE.format(call="net.fit(images, marks)", node="_EagerConst", tried=7_516_192_768)
    assert list(advise(log, *OF_A_BATCH, "stream-data", cause="dataset-in-ram")[0]) == ["stream-data"]


ENGINES = "".join(f"{5200 + n}\t{11.5 - n / 10:.2f}\tray::LLMRayActor\n" for n in range(4))
ASLEEP = "INFO 03-02 07:10:00 [gpu_worker.py:95] Sleep mode freed 22.40 GiB memory, 3.10 GiB memory is still in use."


@pytest.mark.parametrize(
    ("line", "rows", "awake"),
    [
        (ASLEEP, ENGINES, True),
        ("INFO 03-02 07:10:00 [gpu_worker.py:90] Loading took 3 s", ENGINES, False),
        (ASLEEP, ENGINES.replace("LLMRayActor", "DataActor"), False),
    ],
)
def test_what_sleeping_engines_hold_no_pinned_page_gives_back(line: str, rows: str, awake: bool) -> None:
    log = f"from openrlhf.cli import train_ppo_ray\n{line}\n" + kill(62.0, 64.0, rows)
    chosen, _ = advise(log, "less-offload", "unpin-memory", cause="cpu-offload-overcommit")
    assert list(chosen) == (["less-offload"] if awake else [])
    assert all((one.setting or "").endswith("enable_sleep") for one in chosen.values())


def test_memory_that_an_option_pins_is_unpinned() -> None:
    log = "python transformers_train.py --dataloader_pin_memory True\n" + kill(62.0, 64.0, ENGINES)
    frame = 'File "/env/transformers/trainer.py", line 9, in train\n'
    assert "unpin-memory" in advise(frame + log, "unpin-memory", cause="cpu-offload-overcommit")[0]


@pytest.mark.parametrize(("rows", "sure"), [(ENGINES, True), ("5199\n" + ENGINES, False)])
def test_of_a_table_without_its_first_rows_nobody_is_sure(rows: str, sure: bool) -> None:
    whole = f"{ASLEEP}\n" + kill(62.0, 64.0, rows)
    log = whole if sure else ENGINES + whole[whole.index("Refer to the documentation") :] + ASLEEP + "\n"
    seen = sleeping_engines_have_it(crashes_of(log)[0])
    assert seen is not None
    assert seen.unsure != sure


@pytest.mark.parametrize(
    ("function", "given"),
    [("_allocate_kv_cache_tensors", False), ("initialize_kv_cache_tensors", False), ("capture_model", True)],
)
def test_graphs_are_captured_when_the_cache_is_there(function: str, given: bool) -> None:
    log = ENGINE + RUNNER.format(function=function, code="held = torch.zeros(size)")
    chosen, _ = advise(log + "torch.OutOfMemoryError: " + cuda(), "eager-mode", cause="vllm-utilization-too-high")
    assert ("eager-mode" in chosen) == given


KILLED = "+ {launch} fit.py --per_device_train_batch_size 12\n{before}run.sh: line 12: 90210 Killed    python fit.py\n"
SHARDED = "[INFO] DeepSpeed info: version=0.16.9\n"


@pytest.mark.parametrize(
    ("launch", "before", "cause", "given"),
    [
        ("deepspeed", SHARDED, "killed-without-evidence", False),
        ("python", SHARDED, "killed-without-evidence", False),
        ("python", "", "killed-without-evidence", True),
        ("deepspeed", SHARDED, "dataset-in-ram", True),
        ("deepspeed", SHARDED, "host-memory-exhausted", True),
    ],
)
def test_batches_of_who_shards_over_gpus_are_no_host_memory(launch: str, before: str, cause: str, given: bool) -> None:
    log = KILLED.format(launch=launch, before=before)
    assert ("smaller-microbatch" in advise(log, "smaller-microbatch", cause=cause)[0]) == given


LLAMA = "llama-server {flags}\nggml_vulkan: Device memory allocation of size 735051776 failed.\n"


@pytest.mark.parametrize(
    ("flags", "setting"),
    [
        ("-hf some/model-GGUF:Q8_0", "-hf"),
        ("--hf-repo some/model-GGUF", "-hf"),
        ("-m model.gguf", "-m"),
        ("-m model-hf.gguf", "-m"),
        ("--flash-attn on", "-m"),
    ],
)
def test_a_model_is_named_as_it_was(flags: str, setting: str) -> None:
    chosen, _ = advise(LLAMA.format(flags=flags), "smaller-model", cause="model-does-not-fit")
    assert chosen["smaller-model"].setting == setting


FULL_STORE = (
    "ray.exceptions.ObjectStoreFullError: Failed to put object {id} in object store because it is full. {size}\n"
)


@pytest.mark.parametrize(
    ("before", "snippet"),
    [
        ("", "ray.init(object_store_memory=int(0.3 * psutil.virtual_memory().available) + 734003200)"),
        (
            "ray start --head\n",
            "ray start --head --object-store-memory=$(free -b | awk '/^Mem/ {printf \"%d\", 0.3 * $7 + 734003200}')",
        ),
    ],
)
def test_a_store_of_unknown_size_gets_as_much_more_as_the_object_has(before: str, snippet: str) -> None:
    log = before + FULL_STORE.format(id="ab" * 28, size="Object size is 734003200 bytes.")
    chosen, _ = advise(log, "bigger-object-store", cause="object-store-full")
    assert chosen["bigger-object-store"].snippet == snippet
    assert "700 MiB" in chosen["bigger-object-store"].action


@pytest.mark.parametrize(
    ("before", "size", "snippet"),
    [
        ("import ray\n", 20, "ray.init(object_store_memory=23622320128)"),
        ("ray start --head\n", 20, "ray start --head --object-store-memory=23622320128"),
        ("", 10, "ray.init(object_store_memory=11811160064)"),
        (
            "",
            9.99,
            "ray.init(object_store_memory=int(0.3 * psutil.virtual_memory().available) + 10726680821)",
        ),  # beside what may fill it
    ],
)
def test_a_store_holds_at_least_its_largest_object(before: str, size: float, snippet: str) -> None:
    log = before + FULL_STORE.format(id="ab" * 28, size=f"Object size is {int(size * 1024**3)} bytes.")
    chosen, _ = advise(log, "bigger-object-store", cause="object-store-full")
    assert chosen["bigger-object-store"].snippet == snippet


def test_no_store_holds_an_object_that_the_node_does_not() -> None:
    log = f"MemTotal: {21 * 1024**2} kB\n" + FULL_STORE.format(
        id="ab" * 28, size=f"Object size is {20 * 1024**3} bytes."
    )
    assert "exceeds the node's memory" in advise(log, "bigger-object-store")[1]["bigger-object-store"].why


GROUP = (
    "ValueError: Cannot provide a placement group requiring 6.0 GPUs (placement_group_specs=[{}]) within 900 seconds.\n"
)
PAIRS = "{'node:10.3.0.9': 0.001, 'GPU': 2.0}, {'GPU': 2.0}, {'GPU': 2.0}"
OF_AN_ENGINE = "(EngineCore_DP0 pid=12) ERROR 03-09 07:11:20 [core.py:900] "


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (OF_AN_ENGINE + GROUP.format(PAIRS), "Lower --tensor-parallel-size"),
        (GROUP.format(PAIRS), "Compare 6 GPU in 3 bundles"),
        (GROUP.format("{'GPU': 6.0}"), "Compare a bundle of 6 GPU"),
        ("python3 -m openrlhf.cli.train_ppo_ray\nvllm 0.8.3\n" + GROUP.format(PAIRS), "Compare 6 GPU in 3 bundles"),
    ],
)
def test_a_group_is_compared_bundle_by_bundle(log: str, words: str) -> None:
    chosen, _ = advise(log, "fix-resource-request", cause="ray-unschedulable")
    assert chosen["fix-resource-request"].action.startswith(words)


@pytest.mark.parametrize(
    ("specs", "words"), [(PAIRS, "6 GPU in 3 bundles: given up"), ("{'GPU': 6.0}", "with 6 GPU: given up")]
)
def test_the_bundles_of_a_group_are_counted(specs: str, words: str, tmp_path: Path) -> None:
    report = body(tmp_path, GROUP.format(specs))
    assert words in report["diagnoses"][0]["explanation"]


@pytest.mark.parametrize(("sizes", "most"), [((20, 20, 20, 20), 3), ((28, 20, 16, 16), 2), ((44, 12, 12, 12), 3)])
def test_each_worker_may_grow_to_the_size_of_the_largest(sizes: tuple[int, ...], most: int) -> None:
    rows = "".join(f"{100 + n}\t{size}.00\tray::Reader.run\n" for n, size in enumerate(sizes))
    remedy = advise(kill(96.0, 100.0, rows), "fewer-workers", cause="too-many-workers")[0]["fewer-workers"]
    assert remedy.suggested == most


@pytest.mark.parametrize(
    ("prefix", "file", "words"),
    [
        ("", "/env/torch/serialization.py", "without the optimizer states"),
        ("[rank3]: ", "/env/torch/serialization.py", "shard"),  # of ranks each may write its own
        ("", "/srv/store.py", None),  # of one process, and nobody knows in what
    ],
)
def test_one_process_has_no_shards_to_write(prefix: str, file: str, words: str | None) -> None:
    lines = (
        "Traceback (most recent call last):",
        f'  File "{file}", line 61, in save',
        "    _save(obj)",
        "MemoryError",
    )
    log = "".join(f"{prefix}{line}\n" for line in lines)
    remedy = advise(log, "sharded-checkpoint", cause="checkpoint-spike")[0].get("sharded-checkpoint")
    assert (remedy is None) is (words is None)
    assert remedy is None or (words or "") in remedy.action


@pytest.mark.parametrize(
    ("flags", "setting"),
    [
        ("--batch_size 64", "batch_size"),
        ("--batch_size 64 --microbatch_size 16", "microbatch_size"),
        ("--batch_size 64 --micro_batch_size 0", "batch_size"),
        ("--batch_size 64 --micro_rollout_batch_size 16", "batch_size"),
    ],
)
def test_the_piece_that_is_computed_at_once_is_made_smaller(flags: str, setting: str) -> None:
    log = (
        f"$ python fit.py {flags}\n"
        'Traceback (most recent call last):\n  File "/env/jax/_src/array.py", line 623, in _value\n'
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 2181038080 bytes.\n"
    )
    assert advise(log, "smaller-microbatch", cause="activations")[0]["smaller-microbatch"].setting == setting


@pytest.mark.parametrize(("allocated", "given"), [("21.70 GiB", False), ("12.00 GiB", True)])
def test_who_fills_the_card_alone_looks_for_nobody(allocated: str, given: bool) -> None:
    """A message whose part on PyTorch's cache was left out."""
    log = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.36 GiB. GPU 0 has a total capacity of "
        f"23.65 GiB of which 1.30 GiB is free. Of the allocated memory {allocated} is allocated by PyTorch.\n"
    )
    assert ("free-the-gpu" in advise(log, "free-the-gpu", cause="gpu-memory-exhausted")[0]) is given


@pytest.mark.parametrize(("allocated", "given"), [("22.44 GiB", False), ("6.20 GiB", True)])
def test_who_holds_more_than_the_card_looks_for_nobody(allocated: str, given: bool) -> None:
    """Windows' driver goes on in the host's memory."""
    log = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacty of "
        f"8.00 GiB of which 0 bytes is free. Of the allocated memory {allocated} is allocated by PyTorch, and 3.16 MiB "
        "is reserved by PyTorch but unallocated.\n"
    )
    assert ("free-the-gpu" in advise(log, "free-the-gpu", cause="activations")[0]) is given
