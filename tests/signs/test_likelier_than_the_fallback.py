"""What makes a concrete cause likelier than the fallback: each sign, and what only looks like it."""

from __future__ import annotations

import pytest
from gpu_logs import FORWARD, LOADING, crash, frame, ranking, refused, trace
from host_logs import kill

from oomdoctor.decision.diagnosis import decide
from oomdoctor.signs import (
    arrays,
    checkpoints,
    engine,
    engine_steps,
    host_data,
    kills,
    library,
    logits,
    neighbours,
    offload,
    optimizer,
    passes,
)

RANK_KILLED = "E0613 08:20:00.195000 18275 torch/distributed/elastic/api.py:869] failed (exitcode: -9) local_rank: 3 (pid: 18297) of binary: /opt/env/bin/python"  # fmt: skip # noqa: E501
XLA = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8388608 bytes."


def array(shape: str, device: str = "CPU", kind: str = "float") -> str:
    return (
        f"2021-03-04 10:11:12.131415: W tensorflow/core/framework/op_kernel.cc:1651] OP_REQUIRES failed at "
        f"matmul_op.cc:481 : Resource exhausted: OOM when allocating tensor with shape[{shape}] and type {kind} on "
        f"/job:localhost/replica:0/task:0/device:{device}:0 by allocator {'cpu' if device == 'CPU' else 'GPU_0_bfc'}"
    )


@pytest.mark.parametrize(
    ("line", "offloaded"),
    [
        ("[INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed Basic Optimizer = DeepSpeedCPUAdam", True),
        ("Loading extension module cpu_adam...", True),
        ("Time to load cpu_lion op: 2.34 seconds", True),
        ("[INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed Basic Optimizer = FusedAdam", False),
        ("Loading extension module fused_adam...", False),
        ("Time to load utils op: 0.34 seconds", False),
        ("the cpu_adam extension is not installed", False),
    ],
)
def test_an_optimizer_for_the_cpu_keeps_its_states_there(line: str, offloaded: bool) -> None:
    assert (offload.optimizer_on_the_cpu(crash(line, *kill())) is not None) == offloaded
    assert (ranking(line, *kill())[0] == "cpu-offload-overcommit") == offloaded


@pytest.mark.parametrize(
    ("allocated", "doing", "host"),
    [
        ("0.0", "creating fp32 partitions", True),
        ("14.2", "creating fp32 partitions", False),
        ("0.0", "initializing optimizer states", False),
    ],
)
def test_partitions_that_are_made_off_the_card(allocated: str, doing: str, host: bool) -> None:
    log = crash(
        "[2025-09-10 21:02:14,610] [INFO] [utils.py:781:see_memory_usage] After creating fp16 partitions: 2"
        if host
        else "[2025-09-10 21:02:14,610] [INFO] [utils.py:781:see_memory_usage] Before the first step",
        f"[2025-09-10 21:02:14,612] [INFO] [utils.py:782:see_memory_usage] MA {allocated} GB         "
        f"Max_MA {allocated} GB         CA {allocated} GB         Max_CA 15 GB ",
        f"[2025-09-10 21:02:18,968] [INFO] [utils.py:781:see_memory_usage] Before {doing}",
        RANK_KILLED,
    )
    seen = offload.partitions_off_the_card(log)
    assert (seen is not None and seen.shows_memory) == host


ENGINES = tuple((4100 + n, 14.1 - n / 10, "ray::LLMRayActor") for n in range(4))
SLEEP = "INFO 04-24 18:46:32 [gpu_worker.py:81] Sleep mode freed 30.10 GiB memory, 4.20 GiB memory is still in use."


@pytest.mark.parametrize(
    ("line", "rows", "seen"),
    [
        (SLEEP, ENGINES, True),
        ("", ENGINES, False),
        ("INFO 04-24 18:46:32 the workers sleep for 5 s", ENGINES, False),
        (SLEEP, tuple((pid, 2.2, name) for pid, _, name in ENGINES), False),
        (SLEEP, ((4001, 180.0, "ray::PolicyModelActor.fit"), *ENGINES), False),
        (SLEEP, tuple((pid, gib, "ray::PolicyModelActor.fit") for pid, gib, _ in ENGINES), False),
    ],
)
def test_engines_asleep_keep_their_weights_on_the_host(
    line: str, rows: tuple[tuple[int, float, str], ...], seen: bool
) -> None:
    assert (offload.sleeping_engines_have_it(crash(line, *kill(*rows))) is not None) == seen


def earlyoom(rss: int, victim: str = "worker") -> tuple[str, str]:
    return (
        "Jul 18 09:02:44 n1 earlyoom[912]: mem avail: 54980 of 760617 MiB ( 7.23%), swap free: 0 of 2047 MiB ( 0.00%)",
        f'Jul 18 09:02:44 n1 earlyoom[912]: sending SIGTERM to process 2595 uid 0 "{victim}": VmRSS {rss} MiB',
    )


@pytest.mark.parametrize(("rss", "many"), [(52_611, True), (105_000, True), (110_000, False), (420_000, False)])
def test_the_largest_process_that_held_little_is_one_of_many(rss: int, many: bool) -> None:
    assert (kills.largest_process_held_little(crash(*earlyoom(rss))) is not None) == many


@pytest.mark.parametrize(("bias", "many"), [("0", True), ("996", False), ("-998", False)])
def test_the_kernel_takes_the_largest_only_without_a_bias(bias: str, many: bool) -> None:
    log = crash(
        "[  812.300] python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
        "[  812.301] 67108864 pages RAM",
        f"[  812.390] Out of memory: Killed process 9021 (python3) total-vm:60000000kB, anon-rss:8388608kB, "
        f"file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:20000kB oom_score_adj:{bias}",
    )
    assert (kills.largest_process_held_little(log) is not None) == many


@pytest.mark.parametrize(
    ("settings", "done", "saves"),
    [
        ("--save_steps 50", 200, True),
        ("--save_steps 50", 210, False),
        ("--save_steps 1", 200, False),
        ("--save_steps 0.1", 200, False),
        ("--eval_steps 50", 200, False),
        ("--save_steps 50", 0, False),
    ],
)
def test_a_kill_at_a_step_that_saves(settings: str, done: int, saves: bool) -> None:
    log = crash(
        f"python train.py {settings} --per_device_train_batch_size 2",
        f"  5%|▍         | {done}/4443 [11:37:05<255:23:04, 216.68s/it]",
        RANK_KILLED,
    )
    seen = checkpoints.killed_at_a_step_that_saves(log)
    assert (seen is not None and seen.shows_memory) == saves


@pytest.mark.parametrize(
    ("call", "refusal", "copied"),
    [
        ("model.fit(x, y, batch_size=32)", "in order to run _EagerConst: Dst tensor is not initialized.", True),
        ("model.fit(x, y, batch_size=32)", "in order to run AddV2: Dst tensor is not initialized.", False),
        ("step(x, y)", "in order to run _EagerConst: Dst tensor is not initialized.", False),
    ],
)
@pytest.mark.parametrize(("tried", "large"), [(10_528_350_208, True), (58_982_400, False)])
def test_data_that_goes_to_the_card_as_a_whole(call: str, refusal: str, copied: bool, tried: int, large: bool) -> None:
    lines = (
        f"E itex/core/devices/bfc_allocator.cc:101] Allocator ran out of memory trying to allocate {tried} Bytes",
        "Cell In[6], line 1",
        f"----> 1 {call}",
        f"InternalError: Failed copying input tensor from device:CPU:0 to device:XPU:0 {refusal}",
    )
    assert (host_data.data_goes_to_the_card_in_one_piece(crash(*lines)) is not None) == (copied and large)
    assert ("dataset-in-ram" in ranking(*lines)) == (copied and large)


def test_lines_on_data_do_not_make_a_full_card_the_hosts_matter() -> None:
    assert "dataset-in-ram" not in ranking("Map: 100%|████| 9/9 [00:10<00:00]", *trace(FORWARD), refused())


@pytest.mark.parametrize(
    ("file", "code", "data"),
    [
        ("job/replay_memory.py", "self.frames = np.empty((self.size, 84, 84), dtype=np.uint8)", True),
        ("job/main.py", "memory = ReplayMemory(size)", True),
        ("job/main.py", "memory = working_memory(size)", False),
        ("job/replay.py", "frames = np.empty((size, 84, 84))", False),
        ("job/dataloader/crops.py", "frames = np.empty((size, 84, 84))", True),
        ("job/data_loader.py", "frames = np.empty((size, 84, 84))", True),
        ("job/model_loader.py", "frames = np.empty((size, 84, 84))", False),
    ],
)
def test_a_replay_memory_is_data(file: str, code: str, data: bool) -> None:
    log = crash("Traceback (most recent call last):", *frame(file, "__init__", code), "MemoryError")
    assert (host_data.refused_while_reading_data(log) is not None) == data


@pytest.mark.parametrize(
    ("lines", "guessed"),
    [
        ([refused()], True),
        ([refused(own=None, allocated=None)], True),
        ([refused(tried="16.00 GiB", own=None, allocated="60.00 GiB")], True),
        # larger than the card, others on it
        ([refused(tried="96.00 GiB")], False),
        ([refused(own="20.10 GiB", allocated="19.00 GiB", others=((4711, "58.40 GiB"),))], False),
        ([refused(own="69.00 GiB", allocated="67.00 GiB", others=((4711, "9.70 GiB"),))], False),
        ([refused(own="77.00 GiB", allocated="75.00 GiB", others=((4711, "1.60 GiB"),))], True),
        ([refused(own=None, allocated="31.00 GiB")], False),
        # where something tells what the job was doing
        ([*trace(FORWARD), refused()], False),
        ([*trace(LOADING), refused()], False),
        ([*trace(("job/run.py", "start", "model = model.to(device)")), refused()], False),
        (["Not enough memory to load model 'painter'", refused()], False),
        (["Requested to load painter", refused()], False),
        (["Requested to load painter", "loaded completely 9012.51 6144.25 True", refused()], True),
        (["Loading checkpoint shards:  25%|██▌       | 1/4 [00:02<00:07,  2.51s/it]", refused()], False),
        (
            ["INFO 06-13 [llm_engine.py:161] Initializing an LLM engine (v0.5.4)", refused()],
            False,
        ),
        # where PyTorch was not asked
        ([XLA], False),
    ],
)
def test_a_refusal_that_nothing_explains_is_of_a_running_job(lines: list[str], guessed: bool) -> None:
    assert (passes.tensor_of_a_running_job(crash(*lines)) is not None) == guessed
    assert not guessed or ranking(*lines)[0] == "activations"


def test_what_is_guessed_of_a_running_job_is_likely_at_most() -> None:
    best = decide(crash(refused())).answers[0]
    assert best.finding.unsure
    assert best.confidence < 0.85


@pytest.mark.parametrize(
    ("tried", "used", "free", "seen"),
    [
        (23_085_449_216, 93_197_824, 978_623_968, True),
        (900_000_000, 9_000_000, 100_000_000, False),
        (23_085_449_216, 9_931_978_240, 978_623_968, False),
        (23_085_449_216, 93_197_824, 19_786_239_680, False),
    ],
)
def test_one_buffer_that_is_many_times_what_is_in_use(tried: int, used: int, free: int, seen: bool) -> None:
    log = crash(
        f"Out of Memory: Not enough space to allocate {tried} B DRAM buffer (allocated: {used} B, free: {free} B)"
    )
    assert (passes.a_piece_larger_than_a_card(log) is not None) == seen


def test_a_pass_on_the_cpu_is_the_passes_and_other_host_memory_is_not() -> None:
    refusal = "RuntimeError: [enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough memory: you tried to allocate 264110080 bytes."  # noqa: E501
    assert ranking(*trace(FORWARD), refusal)[0] == "activations"
    assert "activations" not in ranking(refusal)
    assert "activations" not in ranking(*trace(FORWARD), "MemoryError")
    assert "activations" not in ranking(*trace(FORWARD), *kill())


@pytest.mark.parametrize(
    ("shape", "vocabulary"),
    [
        ("1024,50257", True),
        ("8,512,128256", True),
        ("50257,1024", False),
        ("1024,4096", False),
        ("30000,900000", False),
        ("4,50257", False),
    ],
)
def test_an_array_over_a_vocabulary(shape: str, vocabulary: bool) -> None:
    for device in ("CPU", "GPU"):
        assert (logits.array_over_a_vocabulary(crash(array(shape, device))) is not None) == vocabulary


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ("3,3,1280,1280", True),
        ("7,7,64,128", True),
        ("3,3,3,64", False),
        ("16,16,1280,1280", False),
        ("8,3,1280,1280", False),
        ("8,1280,1280", False),
    ],
)
def test_the_weights_of_a_convolution_are_the_models(shape: str, kernel: bool) -> None:
    assert (arrays.array_of_the_model(crash(array(shape, "GPU"))) is not None) == kernel


SERVING = ("vllm/v1/worker/gpu_model_runner.py", "execute_model", "output = self.model(")
SCORING = (
    "vllm/v1/worker/gpu_model_runner.py",
    "_get_prompt_logprobs_dict",
    "logprobs = self.sampler.compute_logprobs(",
)
SAMPLING = ("vllm/v1/sample/sampler.py", "gather_logprobs", "logprobs = raw.log_softmax(dim=-1)")


def test_an_engine_that_scores_prompts() -> None:
    assert logits.engine_scoring_tokens(crash(*trace(SERVING, SCORING, SAMPLING), refused(tried="1.71 GiB")))
    assert not logits.engine_scoring_tokens(crash(*trace(SERVING, SCORING, SAMPLING), refused(tried="20.00 MiB")))
    assert not logits.engine_scoring_tokens(crash(*trace(SERVING, SAMPLING), refused(tried="1.71 GiB")))
    assert not logits.engine_scoring_tokens(crash(*trace(FORWARD), refused(tried="1.71 GiB")))


@pytest.mark.parametrize(
    ("file", "function", "encoder"),
    [
        ("vllm/model_executor/models/qwen2_5_vl.py", "split_qkv", True),
        ("sglang/srt/models/qwen2_vl.py", "forward", True),
        ("vllm/model_executor/models/utils.py", "_merge_multimodal_embeddings", True),
        ("vllm/model_executor/models/utils.py", "make_layers", False),
        ("vllm/model_executor/models/qwen2.py", "forward", False),
        ("vllm/model_executor/models/qwen2_vl.py", "load_weights", False),
        ("vllm/model_executor/layers/linear.py", "forward", False),
    ],
)
def test_an_engines_file_of_a_model_for_pictures_is_the_encoder(file: str, function: str, encoder: bool) -> None:
    log = crash(*trace((file, function, "x = self.proj(x)")), refused())
    assert (engine_steps.in_an_encoder_of_an_engine(log) is not None) == encoder


def test_behind_its_cache_an_engine_has_taken_its_share() -> None:
    blocks = "INFO 08-07 07:53:44 gpu_executor.py:103] # GPU blocks: 7823, # CPU blocks: 512"
    layer = ("vllm/model_executor/layers/linear.py", "apply", "return F.linear(x, layer.weight, bias)")
    bare = "torch.cuda.OutOfMemoryError: CUDA out of memory."
    assert engine.refused_behind_its_cache(crash(blocks, *trace(layer), bare)) is not None
    assert engine.refused_behind_its_cache(crash(*trace(layer), bare)) is None
    assert engine.refused_behind_its_cache(crash(*trace(layer), bare, blocks)) is None


@pytest.mark.parametrize(("needed", "small"), [("24.00MiB", True), ("256.00MiB", True), ("2.50GiB", False)])
def test_a_small_program_finds_the_card_taken(needed: str, small: bool) -> None:
    account = (
        "BufferAssignment OOM Debugging.",
        "BufferAssignment stats:",
        f"                 total allocation:   {needed}",
    )
    assert (neighbours.a_small_program_was_refused(crash(XLA, *account)) is not None) == small
    assert neighbours.a_small_program_was_refused(crash(XLA)) is None


NO_HANDLE = "failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED"


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        (f"E tensorflow/stream_executor/cuda/cuda_blas.cc:226] {NO_HANDLE}", True),
        (f"E external/local_xla/xla/stream_executor/cuda/cuda_blas.cc:226] {NO_HANDLE}", True),
        (f"E external/xla/xla/stream_executor/cuda/cuda_blas.cc:226] {NO_HANDLE}", False),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", False),
    ],
)
def test_tensorflows_pool_is_there_before_its_handles(line: str, taken: bool) -> None:
    assert (library.a_handle_is_refused_in_tensorflow(crash(line)) is not None) == taken
    causes = ranking(line)
    assert causes[0] == "non-torch-memory"  # the library was refused it; who took it is not printed
    assert ("framework-preallocation" in causes) == taken


def test_the_limit_is_where_it_ended_and_growth_is_why() -> None:
    limit = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=91782.0. Some of the step tasks have been OOM Killed."
    )
    assert ranking(limit)[0] == "container-limit"
    assert ranking("INFO    Saving checkpoint...", limit)[:2] == ["checkpoint-spike", "container-limit"]
    assert ranking("INFO    Saved the config", limit)[0] == "container-limit"


CALLS = ("oom_kill_process+0xe6/0x120", "out_of_memory+0x117/0x540")


@pytest.mark.parametrize(
    ("call", "limited"),
    [
        ("mem_cgroup_out_of_memory+0xbb/0xd0", True),
        ("__alloc_pages_slowpath.constprop.0+0xbb/0xd0", False),
        ("pagefault_out_of_memory+0xbb/0xd0", False),
    ],
)
def test_a_dump_that_is_cut_within_its_calls_tells_whose_limit_it_was(call: str, limited: bool) -> None:
    asked = "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
    lines = (f"[35820.551] {asked}", *(f"[35820.552]  {each}" for each in (*CALLS, call)))
    assert (ranking(*lines)[0] == "container-limit") == limited


@pytest.mark.parametrize(
    ("file", "paged"), [("pythonInterface.c", True), ("pythonInterface.cpp", True), ("ops.cu", False)]
)
def test_what_bitsandbytes_checks_between_python_and_its_kernels_are_paged_states(file: str, paged: bool) -> None:
    line = f"Error out of memory at line 380 in file /opt/src/bitsandbytes/csrc/{file}"
    assert (optimizer.paged_states_were_refused(crash(line)) is not None) is paged
    assert (ranking(line)[0] == "optimizer-states") is paged


@pytest.mark.parametrize("file", ["veda/pythonInterface.c", "veda/src/pythonInterface.c", "veda/pythonInterface.cpp"])
def test_a_file_of_this_name_that_lies_elsewhere_is_not_of_bitsandbytes(file: str) -> None:
    told = crash(f"Error out of memory at line 380 in file /opt/{file}")
    assert optimizer.paged_states_were_refused(told) is None


def test_weights_that_took_nothing_are_on_another_card() -> None:
    disturbed = (
        "AssertionError: Error in memory profiling. This happens when the GPU memory was not properly cleaned up."
    )
    weights = "INFO 03-10 21:26:43 model_runner.py:1071] Loading model weights took {} GB"
    assert ranking(weights.format("0.0000"), disturbed)[0] == "device-misplacement"
    assert ranking(weights.format("14.2488"), disturbed)[0] == "profiling-race"


@pytest.mark.parametrize(
    ("words", "limited"),
    [
        ("requested 7516192768 bytes, but max alloc size supported by device is 4294959104 bytes.", True),
        ("requested 7516192768 bytes, larger than maxBufferLength 4294959104", True),
        ("requested 1516192768 bytes, and max alloc size supported by device is 4294959104 bytes.", False),
        ("requested 7516192768 bytes, but the free memory of the device is 4294959104 bytes.", False),
        ("requested 7516192768 bytes, but the max model length is 65536", False),
    ],
)
def test_what_a_device_gives_at_once(words: str, limited: bool) -> None:
    lines = (
        "[GPU] Error: out of device memory: the allocation failed",
        f"[GPU] Exceeded size of memory object: {words}",
    )
    assert (ranking(*lines)[0] == "allocator-cap") == limited
