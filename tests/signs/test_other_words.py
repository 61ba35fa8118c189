"""What the words and figures of a message that no family knows say of its cause; each beside a near miss."""

from __future__ import annotations

import pytest
from engine_logs import crash_of

from oomdoctor.signs import Sign, other_words, passes

BLOCKS = "RuntimeError: sequence 7 needs 12 cache blocks, 3 are free\n"
CONTEXT = "ValueError: could not create the KV cache: max_seq_len 65536 is more than its 40960 tokens\n"
REQUEST = "RuntimeError: prompt requires 9000 tokens, only 8000 KV cache tokens remain\n"
GROUP = "ERROR job step: memory cgroup limit of 512Mi is smaller than the 768Mi that it needs\n"
PINNED = "RuntimeError: could not pin 24 GiB of memory\n"
SHARED = "RuntimeError: no room for 3 GiB in shared memory\n"
MEASURED = (
    'Traceback (most recent call last):\n  File "/srv/vllm/v1/worker/gpu_worker.py", line 9, in {}\n'
    "    raise ValueError(\nValueError: 62 GiB of device memory are in use, more than the limit of 55 GiB\n"
)
ONE = "ValueError: the KV pool budget 2147483648 cannot fit {} request\n"
FITS = "Error: this model does not fit on the devices\n"
PICTURE = "RuntimeError: could not reserve 3 GiB of device memory, use a lower resolution\n"
DEVICES = "RuntimeError: world size 16 needs 16 GPUs, only 8 devices are visible\n"
CARD = "RuntimeError: could not reserve 3 GiB of device memory\n"
LIMIT = "RuntimeError: query needs 210 GB, its memory limit is 64 GB\n"
WEIGHTS = "RuntimeError: could not reserve 3 GiB of device memory for weights\n"
BATCH = "RuntimeError: could not reserve 3 GiB of device memory for a batch of 64\n"
ADAM = "RuntimeError: could not reserve 3 GiB of device memory for the optimizer\n"
ROWS = "PoolError: could not reserve 3 GiB of RAM for a partition\n"
STATE = "PoolError: could not reserve 3 GiB of RAM for the checkpoint\n"


@pytest.mark.parametrize(
    ("sign", "not_yet", "from_here"),
    [
        (other_words.cache_is_short_in_other_words, PINNED, BLOCKS),
        (other_words.cache_is_short_in_other_words, CONTEXT, REQUEST),
        (other_words.cache_gets_no_room_in_other_words, REQUEST, CONTEXT),
        (
            other_words.cache_gets_no_room_in_other_words,
            MEASURED.format("wake_up"),
            MEASURED.format("determine_available_memory"),
        ),
        (other_words.cache_gets_no_room_in_other_words, ONE.format("this"), ONE.format("one")),
        (other_words.weights_by_the_message, PICTURE, FITS),
        (other_words.pass_by_the_message, FITS, PICTURE),
        (other_words.longest_context_does_not_fit_in_other_words, BLOCKS, CONTEXT),
        (other_words.one_request_does_not_fit_in_other_words, BLOCKS, REQUEST),
        (other_words.limit_of_a_group_in_other_words, LIMIT, GROUP),
        (other_words.pinned_memory_short_in_other_words, SHARED, PINNED),
        (other_words.shared_memory_short_in_other_words, PINNED, SHARED),
        (other_words.devices_missing_in_other_words, CARD, DEVICES),
        (other_words.resources_missing_in_other_words, CARD, DEVICES),
        (other_words.own_limit_in_other_words, GROUP, LIMIT),
        (other_words.weights_by_the_message, CARD, WEIGHTS),
        (other_words.pass_by_the_message, WEIGHTS, BATCH),
        (other_words.optimizer_by_the_message, BATCH, ADAM),
        (other_words.data_by_the_message, STATE, ROWS),
        (other_words.state_by_the_message, ROWS, STATE),
    ],
)
def test_the_message_says_so(sign: Sign, not_yet: str, from_here: str) -> None:
    assert sign(crash_of(not_yet)) is None
    assert sign(crash_of(from_here)) is not None


def test_a_library_of_a_program_without_a_framework_is_the_program() -> None:
    alone = "ERROR TextureHeap::grow: device allocation of 268435456 bytes refused (free: 91226112 bytes)\n"
    trace = 'Traceback (most recent call last):\n  File "/srv/env/torch/nn/modules/module.py", line 9, in forward\n'
    beside = f"{trace}RuntimeError: TextureHeap::grow: device allocation of 268435456 bytes refused\n"
    assert other_words.library_was_refused_in_other_words(crash_of(alone)) is None
    assert other_words.library_was_refused_in_other_words(crash_of(beside)) is not None


@pytest.mark.parametrize(("raised", "of_a_pass"), [(CARD, True), (BATCH, True), (WEIGHTS, False), (FITS, False)])
def test_a_message_on_weights_says_more_than_the_pass_that_raised_it(raised: str, of_a_pass: bool) -> None:
    trace = 'Traceback (most recent call last):\n  File "/srv/env/torch/nn/modules/module.py", line 9, in forward\n'
    assert (passes.in_a_forward_pass(crash_of(trace + raised)) is not None) == of_a_pass


SORT = "EXITING: not enough memory for sorting tiles\n{}\n"


@pytest.mark.parametrize(
    ("advice", "asks"),
    [
        ("SOLUTION: re-run with at least --limitTileRAM 41143265264", True),
        ("increase max_memory (now 2048 MB)", True),
        ("set tile.heap_size = 4096", True),
        ("use fewer threads (now 16)", False),
        ("limitTileRAM was 41143265264", False),
        ("set TILES_RAM=64 to hold more of them", True),
        ("set TILES_SKIP_RAM_CHECK=1 to sort them anyway", False),
        ("set TILES_IGNORE_RAM=1 to sort them anyway", False),
        ("increase the number of files (ulimit -n) to 4096", False),
    ],
)
def test_a_program_that_asks_for_a_larger_limit_hit_its_own(advice: str, asks: bool) -> None:
    assert (other_words.own_limit_in_other_words(crash_of(SORT.format(advice))) is not None) == asks


@pytest.mark.parametrize(
    ("words", "suspects"),
    [
        ("this may come of sharing the GPU with somebody", True),
        ("is the GPU in use by another program?", True),
        ("perhaps another process holds the device", True),
        ("another batch would need a larger GPU", False),
        ("try another GPU", False),
    ],
)
def test_a_message_may_itself_suspect_others_on_the_card(words: str, suspects: bool) -> None:
    log = crash_of(f"RuntimeError: could not reserve 3 GiB of device memory: {words}\n")
    assert (other_words.others_by_the_message(log) is not None) == suspects


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("Cannot enlarge memory arrays to size 33562624 bytes (OOM), compile with -sINITIAL_MEMORY=X", True),
        ("Can't grow the query: this will exceed its memory pool capacity 4.00GB, current capacity 3.88GB", True),
        ("sort: out of memory, 512.00MB requested (MEM_CAP_EXCEEDED)", True),
        ("sort: out of memory, 512.00MB requested (MEM_REQUEST_FAILED)", False),
    ],
)
def test_a_capacity_is_a_limit_of_its_own(line: str, own: bool) -> None:
    assert (other_words.own_limit_in_other_words(crash_of(f"{line}\n")) is not None) == own


@pytest.mark.parametrize(
    ("prefix", "pool"),
    [
        (":1:command.cpp              :698 : 84512345678 us: [pid:21877 tid:0x7f2a1c0ff700] ", "gpu"),
        ("command.cpp:698: ", "host_ram"),
    ],
)
def test_who_speaks_says_whose_memory(prefix: str, pool: str) -> None:
    assert crash_of(f"{prefix}Can't allocate memory size - 0x80000000 bytes!\n").pool == pool
