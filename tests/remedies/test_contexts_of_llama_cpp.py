"""How long a context llama.cpp has room for, where its KV cache was refused in one piece."""

from __future__ import annotations

import pytest
from remedy_logs import advise

from oomdoctor.remedies import Remedy

CACHE = """\
{launch}
llama_context: n_ctx         = {tokens}
ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size {size}
llama_kv_cache_init: failed to allocate buffer for kv cache
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache
"""
LIMIT = """\
llama-run -m Qwen2.5-7B-Instruct-Q8_0.gguf -c {tokens} -ngl 99 --no-warmup
llama_context: constructing llama_context
[GPU] Exceeded max size of memory object allocation: requested {size} bytes, but max alloc size supported by device is \
{limit} bytes.
"""
GIB = 1 << 30
PER_TOKEN = 2 * 28 * 4 * 128 * 2  # Qwen2.5-7B


def context(log: str, cause: str) -> Remedy | None:
    return advise(log, "shorter-context", cause=cause)[0].get("shorter-context")


def of_a_cache(tokens: int, size: int, launch: str = "") -> Remedy:
    remedy = context(CACHE.format(tokens=tokens, size=size, launch=launch), "kv-cache-no-room")
    assert remedy is not None
    return remedy


def test_a_cache_whose_half_is_out_of_reach_gets_a_usual_context() -> None:
    remedy = of_a_cache(524288, 48 * GIB)
    assert remedy.action == "Lower the context from 524288 to 8192 tokens"
    assert (remedy.snippet, remedy.current, remedy.suggested) == ("-c 8192", 524288, 8192)
    assert remedy.derivation == "48.00 GiB / 524288 x 8192 = 768 MiB, 8192 is a usual start value"


@pytest.mark.parametrize(("tokens", "size"), [(65536, 8 * GIB), (524288, 32 * GIB - 1)])
def test_one_within_reach_is_halved_and_spelled_as_an_option(tokens: int, size: int) -> None:
    remedy = of_a_cache(tokens, size)
    assert remedy.suggested == tokens // 2
    assert remedy.snippet == f"-c {tokens // 2}"  # n_ctx is what it prints, and no option


def test_no_context_is_made_longer() -> None:
    assert of_a_cache(8192, 64 * GIB).suggested == 4096


def test_slots_share_the_cache() -> None:
    log = CACHE.format(tokens=65536, size=8 * GIB, launch="llama-server -m m.gguf -c 65536 -np 4")
    assert "fewer-sequences" not in advise(log, "fewer-sequences", cause="kv-cache-no-room")[0]


@pytest.mark.parametrize(
    ("tokens", "limit", "then"),
    [
        (131072, 4 * GIB, 65536),
        (131072, 4294959104, 65536),
        (131072, 65536 * PER_TOKEN - 1, 32768),
        (65536, GIB, 16384),
    ],
)
def test_the_longest_whose_cache_the_device_gives_at_once(tokens: int, limit: int, then: int) -> None:
    remedy = context(LIMIT.format(tokens=tokens, size=tokens * PER_TOKEN, limit=limit), "allocator-cap")
    assert remedy is not None
    assert (remedy.suggested, remedy.snippet) == (then, f"-c {then}")
    assert remedy.assumes[0].startswith(f"the request is the KV cache: {tokens} tokens x {PER_TOKEN} bytes (Qwen2.5-7B")


@pytest.mark.parametrize("size", [131072 * PER_TOKEN + 4096, 9 * GIB])
def test_a_request_that_is_not_the_cache_of_the_context_gives_no_length(size: int) -> None:
    remedy = context(LIMIT.format(tokens=131072, size=size, limit=4 * GIB), "allocator-cap")
    assert remedy is not None
    assert (remedy.suggested, remedy.derivation) == (65536, "131072 / 2 = 65536")


FULL = """\
$ python chat.py --ctx-size 4096{options}
llama_context: n_ctx         = 4096
init_batch: failed to prepare attention ubatches
decode: failed to find a memory slot for batch of size 512
llama_decode: failed to decode, ret = 1
"""


def test_a_full_context_is_for_fewer_sequences_or_longer() -> None:
    named, _ = advise(FULL.format(options=" --parallel 16"), "fewer-sequences", cause="kv-pool-exhausted")
    assert named["fewer-sequences"].snippet == "--parallel 8"
    alone, _ = advise(FULL.format(options=""), "fewer-sequences", cause="kv-pool-exhausted")
    assert "fewer-sequences" not in alone
