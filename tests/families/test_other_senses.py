"""Words of a shortage that say something else, each beside the words that do say it."""

from __future__ import annotations

import pytest

from oomdoctor.families.shortage import shortfall


@pytest.mark.parametrize(
    "text",
    [
        # full, as whole
        "ValueError: the ring store requires full KV blocks",
        "AssertionError: every layer of this KV cache group must be FullAttentionSpec",
        "ValueError: keep_full_fp4 requires keep_full_kv",
        # of a release, of a process
        "ValueError: The pinned archive of the voices is too large",
        "RuntimeError: the pinned speech weights are unavailable in the cache of models",
        "RuntimeError: the child could not be pinned",
        # a manner
        "RuntimeError: this pool does not store V",
        "RuntimeError: the method declares a workspace but did not create its buffers",
        "ValueError: the unified pool does not allocate FP4 block scales",
        "ValueError: Do not reserve system RAM must be true or false.",
        # none of the kind
        "NotImplementedError: the second launch reads no KV cache",
        "ValueError: prefill with no KV cache and no mask",
        "ValueError: no block table found for request 7",
        "ValueError: No GPU memory values found.",
        "ValueError: No GPU memory entries found in the answer",
        "ValueError: the index pool has no locally owned buffers",
        "ValueError: no storage component of that name in the cache",
        "ValueError: extra strategy needs --state-cache no_buffer",
        # what a cache is described by
        "ValueError: Number of KV heads is less than the parallel size, but 8 is not divisible by 3",
        "AssertionError: the kernel cannot store kv_cache_dtype fp8 on this device",
        "RuntimeError: KV-aware routing is unavailable because a package is not installed",
        "ValueError: the backends share no supported KV cache block size",
        "RuntimeError: Failed to get kv cache info for layer 3",
        "vllm.protocol.StateCacheUnavailableError: another cache daemon owns card 2",
        # a bound, a shape, a geometry
        "ValueError: page_size must be >= 1, got 0",
        "ValueError: the quantised cache's block size must be > 0",
        "ValueError: kv offsets: batch must be in [0, 16], got 24",
        "ValueError: cache per-slot shape must be (2, 3) (got (3, 4))",
        "RuntimeError: cannot launch: n = 4096 exceeds the maximum CUDA blocksize = 1024.",
        "RuntimeError: Number of LoRAs wanted (12) is greater than the number of GPU LoRA slots (8).",
        "ValueError: num_kv_heads (4) must be >= tensor_parallel_size (8)",
        # nobody's memory
        "RuntimeError: Not enough disk space for any variant. Only 3.2 GB free in /data",
        "ValueError: This clip is too large for a video reference; the limit is 24 MB.",
        "ValueError: block_list cannot be empty in a remote allocate message",
        "RuntimeError: cannot get memory breakdown without psutil",
        "RuntimeError: torch.cuda.mem_get_info() failed as well: unknown device",
        "RuntimeError: file allocation failed",
        "RuntimeError: allocation failed on the disk of the cache",
        # on the chip
        "RuntimeError: the wanted SM120 configuration exceeds the shared-memory capacity",
        "RuntimeError: the epilogue exceeds shared memory",
    ],
)
def test_another_sense(text: str) -> None:
    assert shortfall(text, raised=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: the KV cache is full",
        "RuntimeError: KV cache full: 12 requests wait",
        "RuntimeError: the KV pool is full for request 7",
        "RuntimeError: pinned memory is exhausted",
        "RuntimeError: 24 GiB of buffers could not be pinned",
        "RuntimeError: the pinned buffers are too large: cannot pin 24 GiB",
        "RuntimeError: the model does not fit into GPU memory",
        "RuntimeError: did not get 3 GiB of device memory",
        "RuntimeError: no KV blocks left",
        "RuntimeError: no KV cache left for request 7",
        "RuntimeError: no KV cache blocks available",
        "RuntimeError: the pool has no buffers left for the KV cache",
        "RuntimeError: no free slots in the KV cache",
        "RuntimeError: no GPU memory left",
        "ValueError: No available memory for the cache blocks.",
        "ValueError: needs 12 blocks of KV cache, got 8",
        "RuntimeError: GPU memory exhausted, 3.2 GB free",
        "RuntimeError: 3 GiB of GPU memory cannot be allocated",
        "RuntimeError: failed to allocate shared memory of 2147483648 bytes",
        "ValueError: SWA pool (2048 tokens) cannot hold even one request",
        "RuntimeError: not enough GPU memory for 8 LoRA slots",
        "RuntimeError: GPU memory is unavailable: all of it is taken",
        "AssertionError: Memory allocation failed during the load from disk.",
    ],
)
def test_the_sense_of_a_shortage(text: str) -> None:
    assert shortfall(text, raised=True) is not None
