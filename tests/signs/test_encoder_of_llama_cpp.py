"""llama.cpp warms its vision encoder up with one image, and says with which."""

from __future__ import annotations

import pytest
from gpu_logs import crash, ranking

from oomdoctor.signs import ggml

REFUSED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 410.50 MiB on device 0: cudaMalloc failed: out of memory",
    "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 430440448",
)
WARMS_UP = "warmup: warmup with image size = 1024 x 1024"


@pytest.mark.parametrize(
    "lines",
    [
        REFUSED,
        (WARMS_UP, "alloc_compute_meta:      CUDA0 compute buffer size =   248.10 MiB", *REFUSED),
        (WARMS_UP, "srv    load_model: loaded multimodal model, 'm.gguf'", *REFUSED),
        ("warming up the model with an empty run", *REFUSED),
        (WARMS_UP, "CUDA error: out of memory"),
    ],
    ids=["no image", "it has its buffer", "it was loaded", "the model's", "no buffer of ggml"],
)
def test_not_another_buffer(lines: tuple[str, ...]) -> None:
    assert ggml.vision_encoder_warming_up(crash(*lines)) is None


def test_the_encoder_finds_no_room_for_its_warm_up() -> None:
    lines = ("clip_ctx: CLIP using CUDA0 backend", WARMS_UP, *REFUSED)
    found = ggml.vision_encoder_warming_up(crash(*lines))
    assert found is not None
    assert found.stage == "memory_profiling"
    assert "with an image of 1024 x 1024" in found.words
    assert ranking(*lines)[:2] == ["multimodal-profiling", "activations"]
