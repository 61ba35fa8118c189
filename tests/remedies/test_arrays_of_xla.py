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


def test_a_step_of_pytorch_may_have_attention_everywhere() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.\n"
    assert ATTENTION in advise(log, ATTENTION, cause="activations")[0]


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
