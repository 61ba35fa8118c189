"""Remedies that the log itself shows to be of another world, or to change nothing."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.signs.first_step import shows_a_card
from oomdoctor.signs.host_data import refused_among_tables, step_on_tables
from oomdoctor.signs.machine import is_on_windows

# --- The system -------------------------------------------------------------------------------------------------------

MAPPING = "({}) dlmalloc.cc:129:  Check failed: *handle != nullptr CreateFileMapping() failed. {} = 1450\n"


@pytest.mark.parametrize(
    ("log", "windows"),
    [
        (MAPPING.format("raylet.exe", "GetLastError()"), True),
        ("[core] python.exe\nMemoryError\n", True),
        ("forrtl: severe (41): insufficient virtual memory\nwrf.exe  0000000002E7B2C1\nMemoryError\n", False),
        ("raylet: the last error was 1450\nMemoryError\n", False),
    ],
)
def test_programs_and_calls_tell_windows(log: str, windows: bool) -> None:
    assert is_on_windows(crashes_of(log)[0]) is windows


def test_no_limit_of_a_shell_on_windows() -> None:
    chosen, _ = advise(MAPPING.format("raylet.exe", "GetLastError()"), "more-address-space", "smaller-object-store")
    assert "Win32_ComputerSystem" in (chosen["more-address-space"].snippet or "")
    assert "smaller-object-store" in chosen


# --- The world --------------------------------------------------------------------------------------------------------

POOL = (
    "({who} pid=4107) 2026-01-14 10:00:01.123456: W external/org_tensorflow/tensorflow/core/common_runtime/"
    "bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 48.0KiB (rounded to 49152)"
    "requested by op \n"
    "({who} pid=4107) 2026-01-14 10:00:01.123460: W external/org_tensorflow/tensorflow/core/common_runtime/"
    "bfc_allocator.cc:491] <allocator contains no memory>\n"
)
ENGINE = ("lower-engine-reservation", "start-in-sequence", "shorter-context")


@pytest.mark.parametrize(("who", "runs"), [("FoldWorker", False), ("RayWorkerVllm", True), ("EngineCore", True)])
def test_an_actor_of_jax_is_an_engine_by_its_own_name_alone(who: str, runs: bool) -> None:
    (crash,) = crashes_of(POOL.format(who=who))
    assert crash.job.runs_engine is runs
    assert bool(advise(POOL.format(who=who), *ENGINE, cause="gpu-shared")[0]) is runs


CUBLAS = (
    "2026-01-14 10:00:00.1: E external/xla/xla/stream_executor/cuda/cuda_blas.cc:188] failed to create cublas handle: "
    "the resource allocation failed\n"
)
PJRT = "2026-01-14 10:00:00.2: E external/xla/xla/pjrt/pjrt_stream_executor_client.cc:2644] Execution failed\n"


def test_no_engine_s_share_beside_jax() -> None:
    chosen, _ = advise(CUBLAS + PJRT, "smaller-microbatch", cause="non-torch-memory")
    assert "serving" not in chosen["smaller-microbatch"].action
    torch = '  File "/x/site-packages/torch/nn/functional.py", line 9, in linear\n    y = f(x)\n'
    torch += "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n"
    chosen, _ = advise(torch, "smaller-microbatch", cause="non-torch-memory")
    assert "serving" in chosen["smaller-microbatch"].action


# --- Releases ---------------------------------------------------------------------------------------------------------

TENSOR = (
    "ResourceExhaustedError:  OOM when allocating tensor with shape[7,64,3840,3840] and type float on /job:localhost/"
    "replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[node sequential/conv2d/Relu\n (defined at "
    "/usr/local/lib/python{}/dist-packages/keras/backend.py:4867)\n]]\n"
)


@pytest.mark.parametrize(
    ("python", "line"),
    [
        ("3.7", "tf.recompute_grad"),
        ("3.8", "tf.recompute_grad"),
        ("3.10", "keras.RematScope"),
        ("3.12", "keras.RematScope"),
    ],
)
def test_no_call_that_the_python_has_no_keras_for(python: str, line: str) -> None:
    chosen, _ = advise(TENSOR.format(python), "gradient-checkpointing", cause="activations")
    assert line in (chosen["gradient-checkpointing"].snippet or "")


# --- Data -------------------------------------------------------------------------------------------------------------

FRAME = '  File "/x/lib/python3.11/site-packages/pandas/{}", line 9, in {}\n    {}\n'
MERGED = "Traceback (most recent call last):\n" + '  File "run.py", line 3, in main\n    {}\n'
REFUSED = "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3.1 GiB for an array with shape (52, 8000000)\n"
ON_TABLES = (
    FRAME.format("core/reshape/merge.py", "merge", "return op.get_result()"),
    FRAME.format("core/internals/concat.py", "concatenate_managers", "values = np.concatenate(parts)"),
)


def log(code: str, *frames: str) -> str:
    return MERGED.format(code) + "".join(frames) + REFUSED


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (log("t = a.merge(b, on='k')", *ON_TABLES), "merge"),
        (log("t = pd.concat([read_parts(p) for p in paths])", *ON_TABLES), None),
        (log("t = load_tables()", *ON_TABLES), None),
        (log("t = pd.read_csv(p)", FRAME.format("io/parsers/readers.py", "read", "x = 1"), ON_TABLES[1]), None),
        (log("t = np.vstack(parts)"), None),
        (log("t = pd.concat(parts)"), "concat"),
        (log("wide = frame.pivot_table(index='day')"), "pivot_table"),
        (log("t = os.path.join(folder, name)"), None),
        (log("t = tf.concat(parts, 0)"), None),
        (log("t = pd.concat(load_parts())"), None),
    ],
)
def test_a_step_on_tables_in_memory(text: str, step: str | None) -> None:
    (crash,) = crashes_of(text)
    assert (step_on_tables(crash) if refused_among_tables(crash) is not None else None) == step


def test_tables_that_are_in_memory_are_not_read_in_parts() -> None:
    knobs = ("stream-data", "smaller-partitions", "smaller-microbatch")
    chosen, _ = advise(log("t = a.merge(b, on='k')", *ON_TABLES), *knobs, cause="dataset-in-ram")
    assert not {"stream-data", "smaller-microbatch"} & chosen.keys()
    parts = chosen["smaller-partitions"]
    assert "a.iloc[at:at + 1000000].merge(b, on='k').to_parquet(" in (parts.snippet or "")
    assert parts.assumes.count("1000000 is a usual start value") == 1
    chosen, _ = advise(log("t = load_tables()", *ON_TABLES), *knobs, cause="dataset-in-ram")
    assert "stream-data" in chosen
    assert "smaller-partitions" not in chosen


def test_pieces_of_the_left_table_are_no_outer_merge() -> None:
    outer = log("t = a.merge(b, on='k', how='outer')", *ON_TABLES)
    assert not advise(outer, "smaller-partitions", cause="dataset-in-ram")[0]["smaller-partitions"].snippet


# --- Batches ----------------------------------------------------------------------------------------------------------

LAUNCHED = "python -m fit --batch-size 48 --lr 0.01\n"


@pytest.mark.parametrize(
    ("told", "cause", "offered"),
    [
        ("Note: training is using GPU\n", "killed-without-evidence", False),
        ("Note: training is using GPU\n", "dataset-in-ram", True),
        ("Note: training began\n", "killed-without-evidence", True),
        ("running on cpu\n", "killed-without-evidence", True),
    ],
)
def test_batches_on_a_gpu_are_no_reason_for_a_bare_kill(told: str, cause: str, offered: bool) -> None:
    chosen, _ = advise(f"{LAUNCHED}{told}Killed\n", "smaller-microbatch", cause=cause)
    assert ("smaller-microbatch" in chosen) is offered


def test_a_line_that_says_where_the_job_computes() -> None:
    assert shows_a_card(crashes_of(f"{LAUNCHED}using GPU\nKilled\n")[0])
    assert not shows_a_card(crashes_of(f"{LAUNCHED}using two threads\nKilled\n")[0])


PACKED = (
    "MegatronPolicyWorker.train\n{}get_next_token_logprobs_from_logits (model_utils.py:1383)\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.60 GiB. GPU 0 has a total capacity of 79.19 GiB "
    "of which 9.44 GiB is free.\n"
)


@pytest.mark.parametrize(
    ("frame", "offered"), [("SequencePackingLossWrapper.__call__\n", False), ("LossWrapper.__call__\n", True)]
)
def test_packed_sequences_have_no_batches(frame: str, offered: bool) -> None:
    chosen, _ = advise("import nemo_rl\n" + PACKED.format(frame), "smaller-microbatch", cause="logits-spike")
    assert ("smaller-microbatch" in chosen) is offered


def test_packing_is_an_option_of_a_program() -> None:
    refused = "torch.OutOfMemoryError: " + cuda()
    own = f'Traceback (most recent call last):\n  File "run.py", line 9, in train\n    loss.backward()\n{refused}'
    tokens = "tokenizer loaded\n"
    assert "packing" not in advise(tokens + own, "packing", cause="activations")[0]
    trl = '  File "/x/site-packages/trl/trainer/sft_trainer.py", line 9, in compute_loss\n    x = 1\n'
    assert "packing" in advise(f"Traceback (most recent call last):\n{trl}{refused}", "packing", cause="activations")[0]


# --- Pools of an engine -----------------------------------------------------------------------------------------------

SLOTS = (
    "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. "
    "req_to_token_pool.available_size()=2, num_reqs=5, \n"
)
USAGE = "[2026-01-14 10:00:00 TP0] Decode batch. #running-req: 9, #token: 812, token usage: {}, cuda graph: True\n"


def test_more_slots_where_the_cache_has_room() -> None:
    chosen, _ = advise(USAGE.format("0.02") + SLOTS, "fewer-sequences", cause="kv-pool-exhausted")
    assert chosen["fewer-sequences"].action.startswith("Raise --max-running-requests")
    assert chosen["fewer-sequences"].suggested is None
    launched = "python -m sglang.launch_server --model-path m --max-running-requests 24\n"
    chosen, _ = advise(launched + USAGE.format("0.02") + SLOTS, "fewer-sequences", cause="kv-pool-exhausted")
    assert (chosen["fewer-sequences"].current, chosen["fewer-sequences"].suggested) == (24, 48)
    chosen, _ = advise(USAGE.format("0.97") + SLOTS, "fewer-sequences", cause="kv-pool-exhausted")
    assert "Raise" not in chosen["fewer-sequences"].action


def test_the_batch_that_found_no_page_says_how_many_there_were() -> None:
    decode = "RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 96 tokens.\n"
    decode += "Available tokens: 1024\n"
    chosen, _ = advise(decode, "fewer-sequences", cause="kv-pool-exhausted")
    assert chosen["fewer-sequences"].suggested == 48
    one = decode.replace("96", "1")
    assert "fewer-sequences" not in advise(one, "fewer-sequences", cause="kv-pool-exhausted")[0]


# --- Ray's store ------------------------------------------------------------------------------------------------------

STORE = (
    "ObjectStoreFullError: Failed to put object ffffffffffffffffffffffffffffffffffffffff0100000001000000 in object "
    "store because it is full. Object size is 6388608252 bytes.\nimport ray\n"
)


@pytest.mark.parametrize(("told", "offered"), [("", False), ("started 12 workers\n", True)])
def test_one_large_object_is_not_of_many_workers(told: str, offered: bool) -> None:
    assert ("fewer-workers" in advise(told + STORE, "fewer-workers", cause="object-store-full")[0]) is offered


# --- States on a disk -------------------------------------------------------------------------------------------------

CONFIG = """{{
"zero_optimization": {{
"stage": 3,
"offload_optimizer": {{
"device": "{optimizer}",
"pin_memory": true,
"buffer_count": 4
}},
"offload_param": {{
"device": "{parameters}",
"pin_memory": {pinned},
"buffer_count": 6,
"buffer_size": 4e8,
"max_in_cpu": 2e9
}}
}}
}}
"""
ENDED = "[2026-01-14 10:00:49] [ERROR] [launch.py:321:sigkill_handler] ['python'] exits with return code = -9\n"
OFFLOADED = "cpu-offload-overcommit"


def of_a_config(optimizer: str = "nvme", parameters: str = "nvme", pinned: str = "true") -> str:
    return CONFIG.format(optimizer=optimizer, parameters=parameters, pinned=pinned) + ENDED


def test_states_on_a_disk_leave_buffers_in_ram() -> None:
    chosen, _ = advise(of_a_config(), "less-offload", cause=OFFLOADED)
    less = chosen["less-offload"]
    assert (less.current, less.suggested) == (400_000_000, 200_000_000)
    assert "6 buffers x 400000000 x 2 bytes = 4.47 GiB, then 2.24 GiB" in (less.derivation or "")
    assert "max_in_cpu 2000000000 x 2 bytes = 3.73 GiB" in (less.derivation or "")
    assert not any("buffer_count" in one for one in less.assumes)


@pytest.mark.parametrize(("optimizer", "parameters"), [("cpu", "nvme"), ("nvme", "cpu"), ("cpu", "cpu")])
def test_states_in_ram_are_turned_off(optimizer: str, parameters: str) -> None:
    chosen, _ = advise(of_a_config(optimizer, parameters), "less-offload", cause=OFFLOADED)
    assert chosen["less-offload"].action.startswith("Turn off")


def test_an_optimizer_on_a_disk_is_left_there() -> None:
    alone = of_a_config(parameters="none").replace('"buffer_size": 4e8,\n', "")
    assert "less-offload" not in advise(alone, "less-offload", cause=OFFLOADED)[0]


@pytest.mark.parametrize(("pinned", "both"), [("true", True), ("false", False)])
def test_both_blocks_are_unpinned_where_both_pin(pinned: str, both: bool) -> None:
    snippet = advise(of_a_config(pinned=pinned), "unpin-memory", cause=OFFLOADED)[0]["unpin-memory"].snippet or ""
    assert snippet.count("false") == (2 if both else 1)
    assert "offload_optimizer" in snippet
