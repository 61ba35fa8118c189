"""A program without a share of the GPU makes its KV cache for the context, beside weights that are there."""

from __future__ import annotations

from gpu_logs import crash, ranking, refused, trace

from oomdoctor.signs import kv_cache

CACHE = trace(
    ("talk.py", "<module>", "cache = ExLlamaV2Cache(model)"),
    ("/w/exllamav2/cache.py", "__init__", "self.create_state_tensors(copy_from, lazy)"),
    ("/w/exllamav2/cache.py", "create_state_tensors", "p = torch.zeros(self.shape, dtype = self.dtype, device = d)"),
)
MODEL = trace(
    ("talk.py", "<module>", "model.load()"),
    ("/w/exllamav2/linear.py", "load", "self.q_tensors = w.to(device)"),
)
OWN = trace(("talk.py", "<module>", "main()"), ("/w/app/cache.py", "__init__", "self.rows = torch.zeros(n)"))
FULL = refused(tried="64.00 MiB", total="15.00 GiB", free="30.00 MiB", own="14.90 GiB", allocated="14.60 GiB")
BARE = "RuntimeError: CUDA error: out of memory"


def test_not_weights_nor_a_cache_of_ones_own() -> None:
    assert kv_cache.cache_beside_all_weights_was_refused(crash(*MODEL, FULL)) is None
    assert kv_cache.cache_beside_all_weights_was_refused(crash(*OWN, FULL)) is None


def test_not_a_refusal_without_a_message_of_the_allocator() -> None:
    assert kv_cache.cache_beside_all_weights_was_refused(crash(*CACHE, BARE)) is None


def test_the_cache_finds_no_room_beside_the_weights() -> None:
    assert crash(*CACHE, FULL).stage == "kv_cache_init"
    assert kv_cache.cache_beside_all_weights_was_refused(crash(*CACHE, FULL)) is not None
    assert ranking(*CACHE, FULL)[0] == "kv-cache-no-room"
