"""What is advised for a batch that found SGLang's KV pool without room."""

from __future__ import annotations

import pytest
from remedy_logs import advise

LAUNCH = "python -m sglang.launch_server --model-path m --mem-fraction-static 0.7 --chunked-prefill-size 4096"
DECODE = (
    "RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 40 tokens.\n"
    "Available tokens: {free} (available_size={free} + evictable_size=0)\n"
)
KNOBS = ("fewer-sequences", "smaller-prefill", "raise-engine-reservation")


def log(options: str = "", free: int = 32, batch: str = "Decode") -> str:
    return f"{LAUNCH} {options}\n{DECODE.format(free=free).replace('Decode', batch)}"


def test_smaller_prefills_make_no_room_for_decoding() -> None:
    assert "smaller-prefill" not in advise(log(), *KNOBS)[0]
    assert advise(log(batch="Prefill"), *KNOBS)[0]["smaller-prefill"].suggested == 2048


def test_a_stated_pool_is_raised_in_place_of_the_share() -> None:
    remedy = advise(log("--max-total-tokens 9000"), *KNOBS)[0]["raise-engine-reservation"]
    assert (remedy.setting, remedy.current, remedy.suggested) == ("--max-total-tokens", 9000, None)
    assert advise(log(), *KNOBS)[0]["raise-engine-reservation"].suggested == 0.75


def test_no_pool_is_raised_for_another_failure() -> None:
    refused = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    remedies = advise(f"{LAUNCH} --max-total-tokens 9000\n{refused}", *KNOBS)[0]
    assert all(one.setting != "--max-total-tokens" for one in remedies.values())


@pytest.mark.parametrize(
    ("options", "then"),
    [
        ("--max-running-requests 41", 20),
        ("--max-running-requests 640", 20),
        ("--max-running-requests 36", 18),
        ("--max-running-requests 640 --speculative-algorithm EAGLE", 320),
    ],
)
def test_half_of_the_batch_that_failed_where_more_were_allowed(options: str, then: int) -> None:
    assert advise(log(options), *KNOBS)[0]["fewer-sequences"].suggested == then


def test_a_prefills_tokens_are_no_requests() -> None:
    options = "--max-running-requests 640"
    assert advise(log(options, batch="Prefill"), *KNOBS)[0]["fewer-sequences"].suggested == 320
