from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.decision.diagnosis import decide
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.signs import arrays


def asked(size: int, *before: str) -> Crash:
    line = f"jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {size} bytes."
    return crash(*before, "    out = compiled(*args)", line)


def ranking_of(log: Crash) -> list[str]:
    return [answer.cause.id for answer in decide(log).answers if answer.finding.grade is not None]


MADE = '    params = model.init(key, sample)["params"]'


@pytest.mark.parametrize(("size", "is_small"), [(20 << 20, True), ((20 << 20) + 1, False)])
def test_a_small_array_is_what_the_allocator_asks_for_on_behalf_of_small_ones(size: int, is_small: bool) -> None:
    assert (arrays.small_array_on_a_full_card(asked(size)) is not None) is is_small


def test_the_models_own_array_is_another_matter_however_small() -> None:
    assert arrays.small_array_on_a_full_card(asked(4096, MADE)) is None
    assert arrays.array_of_the_model(asked(4096, MADE)) is not None
    assert arrays.array_of_the_model(asked(4096)) is None


def needing(arguments: str) -> Crash:
    return crash(
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 21.00G of 16.00G hbm.",
        "Total hbm usage >= 21.50G:",
        "    reserved        512.00M",
        "    program           4.00G",
        f"    arguments        {arguments}",
    )


@pytest.mark.parametrize(
    ("arguments", "most", "larger"), [("7.99G", 0, 0), ("8.00G", 1, 0), ("16.00G", 1, 0), ("16.01G", 0, 1)]
)
def test_what_a_program_is_given_is_held_against_the_device(arguments: str, most: int, larger: int) -> None:
    assert bool(arrays.arguments_most_of_the_device(needing(arguments))) is bool(most)
    assert bool(arrays.arguments_larger_than_the_device(needing(arguments))) is bool(larger)
    assert arrays.program_larger_than_the_device(needing(arguments)) is not None
    assert arrays.array_of_a_program(needing(arguments)) is not None


def test_an_array_has_a_shape_or_none() -> None:
    shaped = (
        "ResourceExhaustedError: OOM when allocating tensor with shape[64,512,128,128] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
    )
    assert arrays.array_of_a_shape(crash(shaped)) is not None
    assert arrays.array_without_a_shape(crash(shaped)) is None
    assert arrays.array_without_a_shape(asked(1 << 32)) is not None
    assert arrays.array_of_a_shape(asked(1 << 32)) is None
    assert arrays.array_of_a_program(asked(1 << 32)) is None


BUFFER = (
    "XlaRuntimeError: RESOURCE_EXHAUSTED: {}Attempting to allocate 5.25G. That was not possible. There are 2.00G free."
)


@pytest.mark.parametrize(
    ("what", "behind", "is_computed"),
    [
        ("Error allocating device buffer: ", "", False),
        ("Error allocating device buffer: ", ": while running replica 3 and partition 0 of a computation", True),
        ("Error loading program: ", "", True),
        ("", "", True),
    ],
)
def test_a_buffer_of_a_device_may_hold_anything(what: str, behind: str, *, is_computed: bool) -> None:
    refused = crash(BUFFER.format(what) + behind)
    assert (arrays.array_without_a_shape(refused) is not None) is is_computed


@pytest.mark.parametrize(
    ("size", "shape", "is_whole"),
    [("1.25GiB", "bf16[5,4096,32768]", True), ("9.00GiB", "bf16[5,4096,32768]", False), ("1.25GiB", "pred", False)],
)
def test_a_program_asks_for_all_of_its_arrays_at_once(size: str, shape: str, *, is_whole: bool) -> None:
    asked_for = "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6442450944 bytes."
    seen = arrays.array_without_a_shape(
        crash(asked_for, "Peak buffers:", "\tBuffer 1:", f"\t\tSize: {size}", f"\t\tShape: {shape}", "\t\t========")
    )
    assert seen is not None
    assert ("in one piece for all that it works with" in seen.words) is is_whole
    assert (f"takes 1.25 GiB ({shape})" in seen.words) is is_whole


def compiled(outputs: str, needed: str) -> Crash:
    return crash(
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5153960755 bytes.",
        "BufferAssignment stats:",
        "             parameter allocation:  512.00MiB",
        f"        maybe_live_out allocation:   {outputs}",
        "     preallocated temp allocation:    4.80GiB",
        f"                 total allocation:   {needed}",
    )


@pytest.mark.parametrize(
    ("outputs", "needed", "most"),
    [
        ("10.00GiB", "15.30GiB", True),
        ("5.32GiB", "10.63GiB", True),
        ("5.31GiB", "10.64GiB", False),
        ("0B", "5.31GiB", False),
    ],
)
def test_what_a_program_gives_back_is_half_of_its_need_or_less(outputs: str, needed: str, most: bool) -> None:
    seen = arrays.outputs_hold_most(compiled(outputs, needed))
    assert (seen is not None) is most
    if seen is not None:
        assert f"needs {needed[:-3]} GiB" in seen.words


def test_what_the_compiler_planned_is_a_ledger() -> None:
    (ledger,) = compiled("10.00GiB", "15.30GiB").ledgers
    assert [row.what for row in ledger.rows] == ["outputs", "temporary buffers", "arguments"]
    assert sum(row.bytes or 0 for row in ledger.rows) <= (ledger.total_bytes or 0)


STITCHED = (
    "Limit:                  3152427622\nInUse:                        {held}\nMaxInUse:                    10752\n"
    "NumAllocs:                      44\nMaxAllocSize:                 1280\n"
    "2019-04-19 20:40:11.521133: W tensorflow/core/framework/op_kernel.cc:1431] OP_REQUIRES failed at x.cc:132 : "
    "Resource exhausted: OOM when allocating tensor with shape[{shape}] and type int32 on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)


@pytest.mark.parametrize(
    ("shape", "held", "seen"),
    [
        ("1490094848", 9984, True),
        ("1490094848", 2152427622, False),  # a program that runs
        ("64,1024,1024,64", 9984, False),  # pictures of a batch
        ("490094848", 9984, False),  # fits beside nothing
    ],
)
def test_one_long_axis_beyond_the_limit_is_no_batch(shape: str, held: int, seen: bool) -> None:
    found = arrays.lengthy_array_beyond_the_limit(crash(*STITCHED.format(shape=shape, held=held).splitlines()))
    assert (found is not None) == seen


XPU = (
    "E itex/core/devices/bfc_allocator.cc:98] Allocator ran out of memory trying to allocate {size} Bytes (rounded to "
    "58982400 Bytes)"
)
ADDED = (
    "ResourceExhaustedError: {{{{function_node __wrapped__AddV2_device_/job:localhost/device:XPU:0}}}} OOM when "
    "allocating tensor with shape[{shape}] and type float on /job:localhost/replica:0/task:0/device:XPU:0 by allocator "
    "Simple allocator [Op:AddV2]"
)


@pytest.mark.parametrize(
    ("size", "shape", "seen"),
    [
        (58982400, "3,3,1280,1280", True),
        (58982400, "32,64,64,1280", False),
        (12345600, "3,3,1280,1280", False),  # of another request
    ],
)
def test_the_allocators_line_has_its_shape_from_the_next_message(size: int, shape: str, seen: bool) -> None:
    found = arrays.array_of_the_model(crash(XPU.format(size=size), ADDED.format(shape=shape)))
    assert (found is not None) == seen


PROGRAM = (
    "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 21474836480 bytes.",
    "Peak buffers:",
    "\tBuffer 12:",
    "\t\tSize: 338.00MiB",
    '\t\tOperator: op_name="jit(f)/add"',
    "\t\tXLA Label: fusion",
    "\t\tShape: {}",
    "\t\t==========================",
)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("f32[1,96,720,1280]", "Its batch is 1 already"),
        ("f32[8,96,720,1280]", "grow with the batch size and with"),
        ("f32[1,88473600]", "grow with the batch size and with"),  # whose first axis may be anything
    ],
)
def test_a_batch_of_one_is_not_blamed(shape: str, words: str) -> None:
    seen = arrays.array_without_a_shape(crash(*(line.format(shape) for line in PROGRAM)))
    assert seen is not None
    assert words in seen.words
    assert "the largest array listed" in seen.words  # those before it may have been cut off


REFUSED = (
    "E0102 03:04:05.678901 411 gpu_cudamallocasync_allocator.cc:361] gpu_async_1 cuMemAllocAsync failed to allocate {} "
    "bytes: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory"
)
ASYNC = (
    REFUSED,
    " Reported by CUDA: Free memory/Total memory: 22635544576/85899345920",
)


@pytest.mark.parametrize(("times", "is_wrong"), [(7.9, False), (8.1, True)])
def test_an_array_many_times_the_gpu_is_no_batch_to_trim(times: float, *, is_wrong: bool) -> None:
    seen = arrays.array_without_a_shape(crash(*(line.format(int(times * 85899345920)) for line in ASYNC)))
    assert seen is not None
    assert ("a wrong shape" in seen.words) is is_wrong
    assert ("grow with the batch size" in seen.words) is not is_wrong


def compiled_for_a_tpu(
    *before: str, used: str, temporary: str, arguments: str = "unknown size", buffers: tuple[str, ...] = ()
) -> Crash:
    return crash(
        *before,
        f"Compilation failure: Ran out of memory in memory space hbm. Used {used} of 16.00G hbm. Exceeded hbm capacity "
        "by 1.00G.",
        f"Total hbm usage >= {used}:",
        "    program          14.00G",
        f"    arguments        {arguments}",
        "Program hbm requirement 14.00G:",
        f"    HLO temp         {temporary} (50.0% utilization, 0.7% fragmentation (9.00M))",
        "  Largest program allocations in hbm:",
        *buffers,
    )


def buffer(size: str, own: str, tile: str = ":T(8,128)", op: str = "dot_general") -> tuple[str, ...]:
    return (
        f"  1. Size: {size}",
        f'     Operator: op_type="{op}" op_name="scan/step"',
        f"     Shape: f32[600000,3,2]{{2,1,0{tile}}}",
        f"     Unpadded size: {own}",
        "     Extra memory due to padding: 1.00G (9.0x expansion)",
        "     ==========================",
    )


@pytest.mark.parametrize(
    ("temporary", "arguments", "is_seen"),
    [("16.01G", "unknown size", 1), ("16.01G", "9.00G", 1), ("16.00G", "unknown size", 0), ("2.00G", "9.00G", 0)],
)
def test_what_a_program_works_with_is_enough_where_it_alone_is_larger(
    temporary: str, arguments: str, is_seen: int
) -> None:
    it = compiled_for_a_tpu(used="20.00G", temporary=temporary, arguments=arguments)
    assert bool(arrays.program_works_with_more_than_the_device(it)) is bool(is_seen)


@pytest.mark.parametrize(
    ("used", "size", "own", "is_seen"),
    [
        ("20.00G", "2.00G", "1.00G", 0),  # 1 of the 4 GiB that are missing
        ("20.00G", "3.00G", "1.00G", 1),  # the half
        ("20.00G", "9.00G", "4.60G", 0),  # not twice its own
        ("16.00G", "9.00G", "1.00G", 0),  # nothing is missing
        ("20.00G", "9.00G", "1.00G", 1),
    ],
)
def test_padding_counts_where_it_is_what_does_not_fit(used: str, size: str, own: str, is_seen: int) -> None:
    it = compiled_for_a_tpu(used=used, temporary="9.00G", buffers=buffer(size, own))
    assert bool(arrays.padded_beyond_the_device(it)) is bool(is_seen)


@pytest.mark.parametrize(
    ("op", "before", "framework"),
    [
        ("dot_general", "step 1", "jax"),
        ("FloorMod", "step 1", "tensorflow"),
        ("dot_general", "Closing session due to error From /job:worker/replica:0/task:0:", "tensorflow"),
    ],
)
def test_whose_program_a_tpu_was_to_run(op: str, before: str, framework: str) -> None:
    it = compiled_for_a_tpu(before, used="20.00G", temporary="9.00G", buffers=buffer("9.00G", "1.00G", op=op))
    assert isinstance(it.root, ArrayOutOfMemory)
    assert it.root.framework == framework


@pytest.mark.parametrize(
    ("log", "bare"),
    [
        (asked(3 << 30), True),
        (asked(3 << 30, "Peak buffers:", "step 3"), True),
        (crash(BUFFER.format("")), False),  # what was free is printed
        (compiled("512.00MiB", "6.00GiB"), False),
    ],
)
def test_one_figure_of_xlas_leaves_open_what_it_was(log: Crash, *, bare: bool) -> None:
    seen = arrays.array_without_a_shape(log)
    assert seen is not None
    assert seen.unsure is bare
    assert ("or all of its temporary buffers together" in seen.words) is bare
    assert bool(seen.next_evidence) is bare


@pytest.mark.parametrize(
    ("place", "shape", "models"),
    [
        ("assign_op.h:112", "[9000,300]", True),  # a variable of the graph gets its first value
        ("cast_op.cc:112", "[9000,300]", False),
        ("conv_ops.cc:112", "[3,3,3,256,512]", True),
        ("conv_ops.cc:112", "[3,3,3,3,512]", False),
        ("conv_ops.cc:112", "[8,3,3,256,512]", False),  # a batch of pictures
    ],
)
def test_an_array_of_the_graph_is_known_by_its_operation_or_its_shape(place: str, shape: str, models: bool) -> None:
    log = crash(
        f"2026-03-01 10:00:00.000001: W tensorflow/core/framework/op_kernel.cc:1318] OP_REQUIRES failed at {place} : "
        f"Resource exhausted: OOM when allocating tensor with shape{shape} and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
    )
    assert (arrays.array_of_the_model(log) is not None) == models


@pytest.mark.parametrize(("used", "unknown"), [("21.00G", True), ("16.00G", False)])
def test_a_program_of_unknown_parts_is_mostly_what_it_computes(used: str, unknown: bool) -> None:
    line = f"RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used {used} of 16.00G hbm."
    assert (arrays.program_of_unknown_parts(crash(line)) is not None) is unknown
    assert arrays.program_of_unknown_parts(needing("2.00G")) is None


def copying(arguments: str, outputs: str, needed: str, shape: str, temporary: str = "0B", before: str = "") -> Crash:
    return crash(
        before,
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.",
        "BufferAssignment stats:",
        f"             parameter allocation:   {arguments}",
        f"        maybe_live_out allocation:   {outputs}",
        f"     preallocated temp allocation:   {temporary}",
        f"                 total allocation:   {needed}",
        "Peak buffers:",
        "\tBuffer 1:",
        f"\t\tSize: {outputs}",
        f"\t\tShape: {shape}",
        "\t\t==========================",
    )


@pytest.mark.parametrize(
    ("log", "is_copied"),
    [
        (copying("512.00MiB", "512.00MiB", "1.00GiB", "bf16[65536,4096]"), True),
        (copying("512.00MiB", "1.00GiB", "1.50GiB", "f32[65536,4096]"), True),  # in another type
        (copying("256.00MiB", "256.00MiB", "512.00MiB", "bf16[32768,4096]"), True),
        (copying("255.00MiB", "255.00MiB", "510.00MiB", "bf16[32640,4096]"), False),  # small
        (copying("512.00MiB", "512.00MiB", "1.20GiB", "bf16[65536,4096]", "200.00MiB"), False),  # it works with more
        (copying("512.00MiB", "512.00MiB", "1.00GiB", "f32[256,512,1024]"), False),  # a batch
        (copying("1.00GiB", "1.00GiB", "2.00GiB", "f32[16384,16384]"), False),  # over all pairs
        (copying("512.00MiB", "1.25GiB", "1.75GiB", "f32[81920,4096]"), False),  # not of as many numbers
        (copying("512.00MiB", "512.00MiB", "1.00GiB", "bf16[65536,4096]", before="epoch: 3 loss: 0.41"), False),
    ],
)
def test_a_program_that_copies_a_matrix_is_loading(log: Crash, *, is_copied: bool) -> None:
    seen = arrays.array_of_the_model(log)
    assert (seen is not None) is is_copied
    if seen is not None:
        assert seen.stage == "model_load"
        assert "copies or converts one matrix" in seen.words
        assert ranking_of(log)[0] == "model-does-not-fit"


@pytest.mark.parametrize(
    ("arguments", "needed", "most"),
    [("8.00GiB", "12.00GiB", True), ("7.99GiB", "12.00GiB", False), ("200.00MiB", "201.00MiB", False)],
)
def test_what_a_program_is_given_is_twice_the_rest(arguments: str, needed: str, most: bool) -> None:
    log = copying(arguments, "64.00MiB", needed, "f32[64,512,512]", "1.00GiB")
    assert (arrays.arguments_hold_most(log) is not None) is most
    assert (ranking_of(log)[0] == "model-does-not-fit") is most


LOADED = (
    "Traceback (most recent call last):",
    '  File "/srv/chat.py", line 9, in <module>',
    "    lm = models.CausalLM.from_preset(name)",
    '  File "/srv/chat.py", line 9, in load_weights',
    "    variable.assign(value)",
)


@pytest.mark.parametrize(
    ("lines", "models"),
    [
        (LOADED, True),
        (("lm = models.CausalLM.from_preset(name)", ""), True),
        ((">>> params = params_lib.load_and_format_params(path)",), True),
        (("lm = models.CausalLM.from_preset(name)", "lm.fit(rows, epochs=1)"), False),  # done by then
        (("lm = models.CausalLM.from_preset(name)", "out = lm.generate(prompt)"), False),
        ((*LOADED[:3], '  File "/srv/chat.py", line 9, in generate', "    return self.step(x)"), False),
    ],
)
def test_what_was_refused_while_loading_is_of_the_model(lines: tuple[str, ...], *, models: bool) -> None:
    line = "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {} bytes."
    assert (arrays.array_of_the_model(crash(*lines, line.format(1 << 30))) is not None) is models
    assert arrays.array_of_the_model(crash(*lines, line.format(20 << 20))) is None  # whatever fills the GPU


@pytest.mark.parametrize(
    ("node", "stage"), [("{{node gradients/pool/MaxPool3DGrad}}", "backward"), ("{{node pool/MaxPool3D}}", "forward")]
)
def test_the_stage_of_an_array_is_that_of_its_node(node: str, stage: str) -> None:
    line = (
        "OOM when allocating tensor with shape[900,16,64,64,3] and type float on /device:GPU:0 by allocator GPU_0_bfc"
    )
    log = crash(f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {line}", f"\t [[{node}]]")
    seen = arrays.array_of_a_shape(log)
    assert seen is not None
    assert (seen.stage or log.stage) == stage
