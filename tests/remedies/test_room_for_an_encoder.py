"""What makes room for llama.cpp's vision encoder: fewer tokens of an image, or the CPU."""

from __future__ import annotations

from remedy_logs import advise

REFUSED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 410.50 MiB on device 0: cudaMalloc failed: out of memory\n"
    "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 430440448\n"
)
KNOBS = ("limit-multimodal", "offload-parameters")


def test_a_model_without_pictures_has_no_such_options() -> None:
    chosen, _ = advise(REFUSED, *KNOBS)
    assert [one.setting for one in chosen.values()] == ["-ngl"]


def test_the_encoder_takes_fewer_tokens_or_goes_to_the_cpu() -> None:
    chosen, _ = advise(f"warmup: warmup with image size = 1024 x 1024\n{REFUSED}", *KNOBS)
    assert [one.setting for one in chosen.values()] == ["--image-max-tokens", "--no-mmproj-offload"]
    assert chosen["offload-parameters"].action == "Run the vision encoder on the CPU"
