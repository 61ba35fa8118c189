"""A half that does not fit either is not advised; beams are sequences; weights that are little are no lever."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of

from oomdoctor import diagnose
from oomdoctor.remedies.parts import parts_of_a_buffer, weights_are_little

LIMIT = "+ ulimit -v {kib}\n"
LAUNCH = "+ python sum.py --n-ctx {context} --n-ubatch {batch}\n"
LLAMA = """\
{above}llama_context: n_ctx                 = {context}
llama_context: n_batch               = 8192
llama_context: n_ubatch              = {batch}
llama_context: flash_attn            = {flash}
load_tensors:   CPU_Mapped model buffer size =    90.00 MiB
llama_kv_cache:        CPU KV buffer size =    48.00 MiB
ggml_aligned_malloc: insufficient memory (attempted to allocate {mib}.00 MB)
ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size {size}
ggml_gallocr_reserve_n_impl: failed to allocate CPU buffer of size {size}
graph_reserve: failed to allocate compute buffers
{behind}"""
PYTHON = "ValueError: Failed to create llama_context\n"
MIB = 1 << 20
PREFILL = "smaller-prefill"
KNOBS = (PREFILL, "shorter-context", "memory-efficient-attention", "smaller-model", "quantize-weights")


def llama(
    mib: int, kib: int | None = 2 << 20, *, context: int = 32768, batch: int = 2048, flash: str = "disabled",
    behind: str = PYTHON, launch: str = LAUNCH,
) -> str:  # fmt: skip
    above = (LIMIT.format(kib=kib) if kib is not None else "") + launch.format(context=context, batch=batch)
    return LLAMA.format(above=above, context=context, batch=batch, flash=flash, mib=mib, size=mib * MIB, behind=behind)


@pytest.mark.parametrize(
    ("mib", "kib", "batch", "context"),
    [
        (6000, 2 << 20, 256, 4096),  # 750 MiB within half of 2 GiB
        (3000, 2 << 20, 512, 8192),
        (2049, 2 << 20, 512, 8192),
        (2048, 2 << 20, 1024, 16384),  # its half is all that there is room for
        (900, 2 << 20, 1024, 16384),
        (6000, None, 1024, 16384),  # nobody knows the room
        (200_000, 1 << 20, 1024, 16384),  # no part of it is of any use
    ],
)
def test_a_part_that_fits_takes_the_place_of_a_half(mib: int, kib: int | None, batch: int, context: int) -> None:
    chosen, _ = advise(llama(mib, kib), *KNOBS, cause="activations")
    assert (chosen[PREFILL].suggested, chosen[PREFILL].snippet) == (batch, f"n_ubatch={batch}")
    assert chosen["shorter-context"].suggested == context


def test_what_llama_cpp_prints_of_itself_is_enough() -> None:
    chosen, _ = advise(llama(6000, launch=""), *KNOBS, cause="activations")
    assert (chosen[PREFILL].snippet, chosen["shorter-context"].snippet) == ("n_ubatch=256", "n_ctx=4096")
    half, _ = advise(llama(900, launch=""), *KNOBS, cause="activations")
    assert half[PREFILL].suggested is None


def test_the_formula_says_why_a_half_is_too_much() -> None:
    chosen, _ = advise(llama(6000), PREFILL, cause="activations")
    assert chosen[PREFILL].action == "Lower n_ubatch from 2048 to 256"
    assert chosen[PREFILL].derivation == (
        "at best 5.86 GiB / 8 = 750 MiB of compute buffer; half of it is more than 1.00 GiB (half of 2.00 GiB)"
    )
    assert "750" not in str(advise(llama(900), PREFILL, cause="activations")[0][PREFILL].derivation)


def test_a_part_is_never_less_than_serves_anybody() -> None:
    chosen, _ = advise(llama(6000, context=2048, batch=128), *KNOBS, cause="activations")
    assert (chosen[PREFILL].suggested, chosen["shorter-context"].suggested) == (64, 1024)


CARD = """\
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA L4) (0000:31:00.0) - {free} MiB free
load_tensors:        CUDA0 model buffer size =  9000.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =  2000.00 MiB
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4000.00 MiB on device 0: cudaMalloc failed: out of memory
ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 4194304000
"""


@pytest.mark.parametrize(("free", "count"), [(12_000, 4), (11_600, 8), (13_000, None), (14_000, None), (10_000, None)])
def test_of_a_card_what_weights_and_cache_leave_is_the_room(free: int, count: int | None) -> None:
    found = parts_of_a_buffer(crashes_of(CARD.format(free=free))[0])
    assert (found[0] if found is not None else None) == count


@pytest.mark.parametrize(
    ("log", "given"),
    [
        (llama(3000), True),
        (llama(3000, flash="0", behind="llama_init_from_model: failed\n"), True),
        (llama(3000, flash="enabled"), False),
        (llama(3000, flash="1", behind="llama_init_from_model: failed\n"), False),
    ],
)
def test_flash_attention_of_the_cpu_is_advised_where_it_is_off(log: str, given: bool) -> None:
    chosen, _ = advise(log, "memory-efficient-attention", cause="activations")
    assert ("memory-efficient-attention" in chosen) is given
    assert all("GPU" not in one.cost for one in chosen.values())


BUILT = "Built a decoder ({count} parameters)\n"
ALLOCATOR = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {size} bytes. Error code 12 (Cannot allocate memory)\n"
)
GENERATES = (
    "Traceback (most recent call last):\n"
    '  File "/w/{file}.py", line 40, in main\n    out = model.{verb}(\n'
    '  File "/v/site-packages/transformers/generation/utils.py", line 3008, in {verb}\n    result = decode(\n'
    '  File "/v/site-packages/transformers/models/opt/modeling_opt.py", line 90, in forward\n    hidden = self.fc1(x)\n'
)


@pytest.mark.parametrize(
    ("log", "little"),
    [
        (llama(3000), True),
        (llama(1000, None), False),  # 90 MiB of 1000
        (LIMIT.format(kib=4 << 20) + BUILT.format(count="7,654,321") + ALLOCATOR.format(size=5 * MIB), True),
        (BUILT.format(count="7,654,321") + ALLOCATOR.format(size=5 * MIB), False),  # of an unknown machine
        (LIMIT.format(kib=4 << 20) + BUILT.format(count="1,234,567,890") + ALLOCATOR.format(size=5 * MIB), False),
        (LIMIT.format(kib=4 << 20) + ALLOCATOR.format(size=5 * MIB), False),  # nobody counts
        (
            LIMIT.format(kib=4 << 20) + "python lora.py --lora_r 8\n" + BUILT.format(count="4,194,304")
            + ALLOCATOR.format(size=5 * MIB),
            False,
        ),  # of adapters
    ],
)  # fmt: skip
def test_weights_are_little_beside_what_there_is(log: str, little: bool) -> None:
    assert weights_are_little(crashes_of(log)[0]) is little


def test_nobody_loads_quantizes_or_replaces_little_weights() -> None:
    log = LIMIT.format(kib=4 << 20) + BUILT.format(count="{}") + GENERATES.format(file="say", verb="generate")
    knobs = ("low-memory-loading", "smaller-model", "quantize-weights")
    few = advise(log.format("7,654,321") + ALLOCATOR.format(size=5 * MIB), *knobs, cause="activations")[0]
    many = advise(log.format("1,234,567,890") + ALLOCATOR.format(size=5 * MIB), *knobs, cause="activations")[0]
    assert not few
    assert "quantize-weights" in many


BEAM_SEARCH = (
    "+ python say.py --batch-size 6 --num-beams {beams} --num-return-sequences {returned} --max-new-tokens 300\n"
)
BEAMS = "fewer-sequences"


@pytest.mark.parametrize(
    ("beams", "returned", "then", "formula"),
    [
        (10, 2, 5, "6 prompts x 10 beams = 60 sequences; 10 / 2 = 5"),
        (10, 7, 7, "6 prompts x 10 beams = 60 sequences; max(10 / 2, num_return_sequences) = 7"),
        (4, 4, None, ""),  # as many are returned
        (1, 1, None, ""),
    ],
)
def test_each_prompt_is_as_many_sequences_as_beams(beams: int, returned: int, then: int | None, formula: str) -> None:
    launch = BEAM_SEARCH.format(beams=beams, returned=returned)
    chosen, _ = advise(launch + GENERATES.format(file="say", verb="generate") + ALLOCATOR.format(size=9 * MIB), BEAMS)
    found = chosen.get(BEAMS)
    assert (found.suggested if found is not None else None) == then
    if found is not None:
        assert (found.snippet, found.derivation) == (f"--num-beams {then}", formula)


@pytest.mark.parametrize(("file", "verb"), [("fit", "train"), ("fit", "forward")])
def test_a_pass_that_generates_nothing_has_no_beams(file: str, verb: str) -> None:
    log = BEAM_SEARCH.format(beams=8, returned=1) + GENERATES.format(file=file, verb=verb).replace("generation/", "")
    assert BEAMS not in advise(log + ALLOCATOR.format(size=9 * MIB), BEAMS, cause="activations")[0]


def test_beams_stand_before_the_batch_that_they_multiply(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    frames = GENERATES.format(file="say", verb="generate")
    launch = LIMIT.format(kib=4 << 20) + BEAM_SEARCH.format(beams=8, returned=2)
    log.write_text(launch + BUILT.format(count="7,654,321") + frames + ALLOCATOR.format(size=9 * MIB))
    listed = [one.knob for one in diagnose(log).incidents[0].diagnoses[0].remedies]
    assert listed[:2] == [BEAMS, "smaller-microbatch"]
    assert listed[-1] == "more-address-space"


def test_where_nobody_prints_what_the_card_holds_the_room_is_not_known() -> None:
    plan, _, refused = CARD.format(free=1500).partition("load_tensors")
    log = plan + refused[refused.index("ggml_backend") :]
    assert parts_of_a_buffer(crashes_of(log)[0]) is None


def test_a_second_load_is_counted_from_its_own_plan() -> None:
    first, _, _ = (
        CARD.format(free=23_000).replace("9000.00", "7000.00").replace("2000.00", "1500.00").partition("ggml_b")
    )
    found = parts_of_a_buffer(crashes_of(first + CARD.format(free=12_000))[0])
    assert found is not None
    assert found[0] == 4
