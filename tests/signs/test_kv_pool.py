from __future__ import annotations

import pytest
from engine_logs import crash_of

from oomdoctor.signs import Sign, kv_pool

TOKENS = "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 7168 tokens.\n"
ENOUGH = TOKENS + "Available full tokens: 7168 (full_available_size=9 + full_evictable_size_=7159)\n"
PLACES = (
    "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. "
    "req_to_token_pool.available_size()=3, num_reqs=3, \n"
)


def window(tokens: int) -> str:
    return f"{ENOUGH}Available swa: {tokens} (available_size={tokens} + component_evictable_size_=0)\n"


def states(count: int) -> str:
    return f"{ENOUGH}Available mamba: {count} (available_size={count} + component_evictable_size_=0)\n"


@pytest.mark.parametrize(
    ("sign", "not_yet", "from_here"),
    [
        (kv_pool.fewer_tokens_than_needed, ENOUGH, ENOUGH.replace("tokens: 7168", "tokens: 7167")),
        (kv_pool.fewer_tokens_than_needed, PLACES, TOKENS),
        (kv_pool.fewer_tokens_of_the_window, window(7168), window(7167)),
        (kv_pool.no_state_beside_the_tokens, states(1), states(0)),
        (kv_pool.enough_tokens_by_the_count, PLACES, ENOUGH),
        (kv_pool.no_places_for_requests, ENOUGH, PLACES),
        (kv_pool.no_states_for_requests, states(0), "RuntimeError: Not enough space for mamba cache\n"),
    ],
)
def test_which_part_of_the_pool_is_empty(sign: Sign, not_yet: str, from_here: str) -> None:
    assert sign(crash_of(not_yet)) is None
    assert sign(crash_of(from_here)) is not None


def test_an_error_without_its_figures_says_no_more_than_that() -> None:
    seen = kv_pool.fewer_tokens_than_needed(
        crash_of("RuntimeError: Prefill out of memory. Try to lower your batch size.\n")
    )
    assert seen is not None
    assert "too few free tokens" in seen.words
    assert seen.against
    assert seen.next_evidence[0].startswith("grep -n -A 3 'Try to allocate'")
    seen = kv_pool.fewer_tokens_than_needed(crash_of(ENOUGH.replace("tokens: 7168", "tokens: 7167")))
    assert seen is not None
    assert not seen.against
    assert not seen.next_evidence


DECODE = (
    "RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 40 tokens.\n"
    "Available tokens: 1280 (available_size=1280 + evictable_size=0)\n"
)


def paged(size: int) -> str:
    return f"python -m sglang.launch_server --model-path m --page-size {size}\n{DECODE}"


@pytest.mark.parametrize("log", [DECODE, paged(33), paged(64)])
def test_a_decode_batch_may_need_a_page_for_each_request(log: str) -> None:
    assert kv_pool.pages_for_all_requests_of_a_decode_batch(crash_of(log)) is not None


@pytest.mark.parametrize(
    "log",
    [
        ENOUGH,
        PLACES,
        TOKENS,
        paged(1),
        paged(32),
        DECODE.replace("Decode out", "Prefill out"),
        DECODE.splitlines()[0] + "\n",
    ],
)
def test_pages_for_all_or_no_requests_to_have_them(log: str) -> None:
    assert kv_pool.pages_for_all_requests_of_a_decode_batch(crash_of(log)) is None


def test_pages_are_counted_where_their_size_is_stated() -> None:
    seen = kv_pool.pages_for_all_requests_of_a_decode_batch(crash_of(paged(64)))
    assert seen is not None
    assert "1,280 / 64 = 20 pages" in seen.words
    unknown = kv_pool.pages_for_all_requests_of_a_decode_batch(crash_of(DECODE))
    assert unknown is not None
    assert "not in the log" in unknown.words


STAYED = TOKENS + "Available full tokens: {both} (full_available_size={free} + full_evictable_size_={more})\n"


@pytest.mark.parametrize(
    ("free", "more", "stayed"),
    [(7167, 1, True), (0, 90_000, True), (7167, 0, False), (7168, 5, False), (9, 7158, False), (90_000, 90_000, False)],
)
def test_what_counts_as_evictable_and_was_not_evicted(free: int, more: int, stayed: bool) -> None:
    crash = crash_of(STAYED.format(both=free + more, free=free, more=more))
    assert (kv_pool.evictable_tokens_stayed(crash) is not None) is stayed


def test_nothing_stayed_where_nobody_says_what_is_evictable() -> None:
    assert kv_pool.evictable_tokens_stayed(crash_of(TOKENS)) is None
    assert kv_pool.evictable_tokens_stayed(crash_of(PLACES)) is None


USAGE = "[2026-01-14 10:00:00 TP0] Decode batch. #running-req: 9, #token: 812, token usage: {}, cuda graph: True\n"


@pytest.mark.parametrize(
    ("log", "free"),
    [
        (USAGE.format("0.02") + PLACES.replace("=3, num", "=1, num"), True),
        (USAGE.format("0.49") + PLACES.replace("=3, num", "=1, num"), True),
        (USAGE.format("0.50") + PLACES.replace("=3, num", "=1, num"), False),
        (USAGE.format("0.02") + PLACES, False),  # slots were left: on a hybrid model states are short
        (PLACES.replace("=3, num", "=1, num"), False),
        (USAGE.format("0.02") + ENOUGH, False),
    ],
)
def test_slots_run_out_although_tokens_are_free(log: str, free: bool) -> None:
    assert (kv_pool.no_places_although_tokens_are_free(crash_of(log)) is not None) is free
