"""Programs of XLA: what their own account shows of batches, pictures, gradients and attention, and on which device."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from remedy_logs import advise, crashes_of

from oomdoctor.remedies import Remedy

BATCH, CHECKPOINTS, ATTENTION = "smaller-microbatch", "gradient-checkpointing", "memory-efficient-attention"
INPUT, SEQUENCES = "smaller-input", "shorter-sequences"
KNOBS = (BATCH, CHECKPOINTS, ATTENTION, INPUT, SEQUENCES)
REFUSED = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 21474836480 "
    "bytes.\n"
)
BUFFER = """	Buffer {number}:
		Size: {size}
		Operator: op_name="{op}" source_file="/srv/net.py" source_line=71
		XLA Label: custom-call
		Shape: {shape}
		==========================
"""
CONVOLUTION = "conv_general_dilated[window_strides=(2, 2)]"


def program(op: str, shape: str = "f32[1,96,720,1280]", size: str = "338.00MiB", *, more: Sequence[str] = ()) -> str:
    ops = (op, *more)
    buffers = (BUFFER.format(number=at, size=size, op=one, shape=shape) for at, one in enumerate(ops, 1))
    return REFUSED + "Peak buffers:\n" + "".join(buffers)


def found(log: str) -> dict[str, Remedy]:
    return advise(log, *KNOBS, cause="activations")[0]


# what was computed


@pytest.mark.parametrize(
    ("op", "more", "is_gradient"),
    [
        ("jit(embed)/jit(main)/Tower/Conv_3/conv", (), False),
        ("jit(embed)/jit(main)/jvpress/add", (), False),
        ("jit(update)/jit(main)/jvp(Tower)/Conv_3/conv", (), True),
        ("jit(update)/jit(main)/transpose(jvp(Tower))/dot_general", (), True),
        ("jit(update)/jit(main)/add", ("jit(update)/jit(main)/jvp(Tower)/mul",), True),
    ],
)
def test_only_what_a_gradient_computes_is_computed_again(op: str, more: Sequence[str], *, is_gradient: bool) -> None:
    assert (CHECKPOINTS in found(program(op, more=more))) is is_gradient


def test_a_program_without_names_may_be_of_a_gradient() -> None:
    assert CHECKPOINTS in found(REFUSED)


@pytest.mark.parametrize(
    ("above", "named"),
    [
        ("", False),
        ("loaded a tokenless index\n", False),
        ("    logits = softmax(q @ k.T) @ v\n", True),
        ("context of 8192 tokens per request\n", True),
        ('  File "/srv/net.py", line 4, in self_attention\n', True),
    ],
)
def test_attention_is_advised_where_there_may_be_some(above: str, *, named: bool) -> None:
    assert (ATTENTION in found(above + REFUSED)) is named


@pytest.mark.parametrize(
    ("above", "named"),
    [
        ("", False),
        ("  tension = self.hold(x)\n", False),
        ("  in create_chat_completion\n", True),
        ("attn: 8 heads\n", True),
        ("tokens: 4096\n", True),
    ],
)
def test_nor_has_a_step_of_pytorch_that_shows_none(above: str, *, named: bool) -> None:
    log = f"{above}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.\n"
    assert (ATTENTION in advise(log, ATTENTION, cause="activations")[0]) is named


# pictures and their batch


@pytest.mark.parametrize(
    ("op", "shape", "size", "has_batch", "has_pictures"),
    [
        (CONVOLUTION, "f32[1,96,720,1280]", "338.00MiB", False, True),
        (CONVOLUTION, "f32[6,96,720,1280]", "338.00MiB", True, True),
        (CONVOLUTION, "f32[1,1,512,512]", "1.00MiB", True, True),
        (CONVOLUTION, "f32[1,96,720]", "338.00MiB", True, False),
        ("dot_general", "f32[1,96,720,1280]", "338.00MiB", True, False),
        (CONVOLUTION, "f32[1,96,720,1280]", "20.00GiB", True, False),
    ],
)
def test_the_largest_array_of_a_convolution_has_a_batch_and_a_size(
    op: str, shape: str, size: str, *, has_batch: bool, has_pictures: bool
) -> None:
    chosen = found(program(f"jit(embed)/jit(main)/{op}", shape, size))
    assert (BATCH in chosen) is has_batch
    assert (INPUT in chosen, SEQUENCES in chosen) == (has_pictures, not has_pictures)


@pytest.mark.parametrize(("shape", "has_batch"), [("1,608,608,32", False), ("2,608,608,32", True), ("1,1,64,64", True)])
def test_a_tensor_of_one_picture_has_no_half(shape: str, *, has_batch: bool) -> None:
    log = (
        f"ResourceExhaustedError: OOM when allocating tensor with shape[{shape}] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
    )
    assert (BATCH in found(log)) is has_batch


# one array far beyond the device


@pytest.mark.parametrize(("asked", "parts"), [(900, "1/30"), (159, None)])
def test_an_array_beyond_all_devices_is_looked_at_before_the_batch(asked: int, parts: str | None) -> None:
    log = (
        f"E0301 gpu_async_2 cuMemAllocAsync failed to allocate {asked << 30} bytes: RESOURCE_EXHAUSTED: "
        f"CUDA_ERROR_OUT_OF_MEMORY\n Reported by CUDA: Free memory/Total memory: {30 << 30}/{80 << 30}\n"
    )
    action = found(log)[BATCH].action
    assert action.startswith("Find what makes this one array so large") is (parts is not None)
    assert parts is None or action.endswith(parts)
    assert crashes_of(log)[0].root.process.gpu == 2


# devices


ON_A_TPU = "XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate {}G. That was not possible; (1x0x1_HBM0)\n"


@pytest.mark.parametrize(
    ("log", "is_there"),
    [
        (REFUSED, True),
        (ON_A_TPU.format(7), False),
        ("amdgpu: gfx942, rocm 6.3\n" + REFUSED, False),
        ("the tables of gfx are ready\n" + REFUSED, True),
    ],
)
def test_cudnn_is_named_on_its_makers_gpus_alone(log: str, *, is_there: bool) -> None:
    chosen = found("softmax\n" + log)
    assert ATTENTION in chosen
    assert ("cudnn" in (chosen[ATTENTION].snippet or "")) is is_there


@pytest.mark.parametrize(("log", "is_there"), [(REFUSED, True), (ON_A_TPU.format(9), False)])
def test_what_xla_reserves_is_a_matter_of_gpus(log: str, *, is_there: bool) -> None:
    chosen = advise(log, "cap-preallocation", "allocator-config", cause="framework-preallocation")[0]
    assert any("XLA_" in (one.snippet or "") for one in chosen.values()) is is_there


# a tensor of TensorFlow whose message breaks off

WARNED = "2021-05-06 07:08:09.101112: W tensorflow/core/framework/cpu_allocator_impl.cc:82] Allocation of 9437184000"
REFUSED_TENSOR = "ResourceExhaustedError: OOM when allocating tensor with shape[{}]{}\n"


def lies_on_the_host(*lines: str) -> bool:
    crash = crashes_of("\n".join(lines))[0]
    return crash.pool == "host_ram"


@pytest.mark.parametrize("end", ["", " and type float"])
def test_of_whom_a_cut_message_is_the_warnings_around_tell(end: str) -> None:
    refused = REFUSED_TENSOR.format("96,64,48,32", end)
    assert lies_on_the_host(WARNED, refused)
    assert lies_on_the_host(refused, WARNED)


@pytest.mark.parametrize(
    "lines",
    [
        (REFUSED_TENSOR.format("96,64,48,32", ""),),  # nobody tells
        (WARNED, REFUSED_TENSOR.format("96,64,48,32", " and type float on /job:localhost/device:GPU:1 by allocator x")),
        (WARNED, REFUSED_TENSOR.format("96,64,48,32", " by")),
        ("Successfully opened dynamic library libcudart.so.10.1", WARNED, REFUSED_TENSOR.format("96,64,48,32", "")),
        (REFUSED_TENSOR.format("96,64,48,32", ""), WARNED, "Created TensorFlow device (/device:GPU:0 with 9 MB)"),
        ("W tensorflow/core/framework/op_kernel.cc:7] too slow", REFUSED_TENSOR.format("96,64,48,32", "")),
    ],
)
def test_where_a_gpu_is_in_sight_or_nobody_warned_it_stays_the_gpus(lines: Sequence[str]) -> None:
    assert not lies_on_the_host(*lines)


@pytest.mark.parametrize(
    "line",
    [
        "Cannot dlopen some GPU libraries. Skipping registering GPU devices...",
        "E tensorflow/stream_executor/cuda/cuda_driver.cc:3] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no device",
    ],
)
def test_without_a_gpu_that_it_can_use_tensorflow_computes_on_the_host(line: str) -> None:
    assert lies_on_the_host(line, REFUSED_TENSOR.format("96,64,48,32", ""))


# one array that is more than a machine has, and nobody says how much that is


@pytest.mark.parametrize(
    ("shape", "end", "far"),
    [
        ("9000,120,100,128", "", True),  # 51.5 GiB
        ("9000,120,100,128", " and type float", True),
        ("8300,120,100,128", "", False),  # 47.5 GiB
        ("9000,120,100,128", " and type half", False),
        ("900,120,100,128", "", False),
    ],
)
def test_half_of_an_array_beyond_a_machine_is_too_much(shape: str, end: str, *, far: bool) -> None:
    chosen = found(REFUSED_TENSOR.format(shape, end))
    batch = chosen[BATCH]
    assert batch.suggested == (128 if far else int(shape.partition(",")[0]) // 2)
    assert (CHECKPOINTS in chosen) is not far
    assert any("4 bytes" in one for one in batch.assumes) is (far and not end)
    if far:
        assert batch.derivation == "128 x 120 x 100 x 128 x 4 bytes = 750 MiB"
        assert "all 9000 take 51.50 GiB in this one array, 128 take 750 MiB" in batch.action
        assert "128 is a number to begin with" in batch.assumes


@pytest.mark.parametrize(
    ("shape", "then"),
    [
        ("60000,120,100,64", 256),  # 349 would fit into 1 GiB
        ("60,4000,3000,128", 1),  # 5.7 GiB each
        ("2,8000,8000,128", 1),  # no more than a half
    ],
)
def test_a_number_to_begin_with_is_what_a_machine_has_room_for(shape: str, then: int) -> None:
    assert found(REFUSED_TENSOR.format(shape, " and type float"))[BATCH].suggested == then


def test_where_the_memory_that_there_is_is_known_a_half_is_told() -> None:
    known = f"{WARNED}\n{REFUSED_TENSOR.format('9000,120,100,128', '')}"
    assert found(known)[BATCH].suggested == 128
    assert found(f"MemTotal: 527000000 kB\n{known}")[BATCH].suggested == 4500


# an array that is put on a core as it is

CORE = "; (1x0x0_HBM0)"
COPIED = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: {what}: Attempting to allocate {size}. That was not "
    "possible. There are 9.31G free.{where}\n"
)
OF_A_CORE = ("free-the-gpu", "shard-states")


@pytest.mark.parametrize(
    ("what", "where", "is_split"),
    [
        ("Error allocating device buffer", CORE, True),
        ("Error allocating device buffer", "", False),  # of a GPU
        ("Error loading program", CORE, False),  # which is more than an array
    ],
)
def test_an_array_that_one_core_was_to_hold_is_split(what: str, where: str, *, is_split: bool) -> None:
    chosen, _ = advise(COPIED.format(what=what, size="14.20G", where=where), *OF_A_CORE, cause="gpu-memory-exhausted")
    assert (
        "NamedSharding" in (chosen["shard-states"].snippet or "") if "shard-states" in chosen else False
    ) is is_split


@pytest.mark.parametrize(("where", "is_its_own"), [(CORE, True), ("", False)])
def test_what_is_on_a_tpu_is_of_the_process_itself(where: str, *, is_its_own: bool) -> None:
    log = COPIED.format(what="Error allocating device buffer", size="14.20G", where=where)
    freed = advise(log, *OF_A_CORE, cause="gpu-memory-exhausted")[0]["free-the-gpu"]
    assert ("Restart this process" in freed.action) is is_its_own
    assert ("lsof" in (freed.snippet or "")) is False


def test_an_engine_on_a_tpu_has_no_earlier_run() -> None:
    log = "INFO vLLM API server version 0.9.2\n" + COPIED.format(
        what="Error allocating device buffer", size="14.20G", where=CORE
    )
    assert "free-the-gpu" not in advise(log, *OF_A_CORE, cause="gpu-memory-exhausted")[0]


# the batch by the array, where an option for it is known

OF_KERAS = (
    "tensorflow==2.8.0\nTraceback (most recent call last):\n"
    '  File "/env/keras/engine/training.py", line 1384, in fit\n'
    "    tmp_logs = self.train_function(iterator)\n"
    "ResourceExhaustedError: OOM when allocating tensor with shape[{shape}] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
)


@pytest.mark.parametrize(
    ("shape", "now", "line"),
    [
        ("12,64,300,300", 12, "batch_size=6"),
        ("3,32,300,300", 3, "batch_size=1"),
        ("64,64,3,3", None, "batch_size=1"),  # a filter's
        ("12,64000", None, "batch_size=1"),  # no picture's
    ],
)
def test_half_of_a_batch_that_the_array_shows(shape: str, now: int | None, line: str) -> None:
    chosen, _ = advise(OF_KERAS.format(shape=shape), "smaller-microbatch", cause="activations")
    assert (chosen["smaller-microbatch"].current, chosen["smaller-microbatch"].snippet) == (now, line)


def test_a_batch_that_the_log_states_goes_before_what_the_array_shows() -> None:
    log = OF_KERAS.format(shape="12,64,300,300") + "model.fit(x, y, batch_size=24)\n"
    chosen, _ = advise(log, "smaller-microbatch", cause="activations")
    assert chosen["smaller-microbatch"].suggested == 12
