"""Batches of one, models that see, arrays of pictures, one tensor beyond the card, what lies beside PyTorch: what is
advised then, and in the near misses."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import crashes_of
from reports import body

from oomdoctor.signs.model_size import trains_adapters

CARD = "GPU 0 has a total capacity of 24.00 GiB of which {free} GiB is free. "
MINE = "Including non-PyTorch memory, this process has {own} GiB memory in use. "
TENSORS = (
    "Of the allocated memory {torch} GiB is allocated by PyTorch, and 96.00 MiB is reserved by PyTorch but unallocated."
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried} GiB. "
PASS = 'Traceback (most recent call last):\n  File "/srv/fit.py", line 7, in forward\n    x = self.conv(x)\n'
FULL = PASS + (OOM + CARD + MINE).format(tried="2.00", free="1.00", own="22.90")
BATCH = "smaller-microbatch"


def knobs(tmp_path: Path, text: str, place: int = 0) -> list[str]:
    return [remedy["knob"] for remedy in body(tmp_path, text)["diagnoses"][place]["remedies"]]


@pytest.mark.parametrize(
    "shown",
    [
        "input torch.Size([1, 3, 1536, 1536])",
        "x torch.Size([1, 3, 512, 512]), target torch.Size([1, 512, 512])",
        "image of shape (1, 3, 1536, 1536)",
        "bs=1 epochs=3",
        "{'bsz': 1, 'lr': 0.1}",
    ],
)
def test_no_half_of_a_batch_of_one(shown: str, tmp_path: Path) -> None:
    assert BATCH not in knobs(tmp_path, f"loss 0.3\n{shown}\n{FULL}")


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "input torch.Size([4, 3, 1536, 1536])",
        "x torch.Size([1, 3, 512, 512]), y torch.Size([8, 512, 512])",
        "mask torch.Size([1, 16])",
        "size mismatch for table: torch.Size([1, 197, 768])",
        "weight torch.Size([1, 64, 3])",
        "bs=16 epochs=1",
        "abs=1",
        "bs=1.5",
    ],
)
def test_half_of_a_batch_that_may_be_larger(shown: str, tmp_path: Path) -> None:
    assert BATCH in knobs(tmp_path, f"loss 0.3\n{shown}\n{FULL}")


LAUNCH = (
    "MAX_PIXELS=401408 CUDA_VISIBLE_DEVICES=0,1 swift sft \\\n  --model_id_or_path /srv/org/{model} \\\n"
    "  --sft_type lora \\\n  --num_train_epochs 2\n\n[rank0]: "
)


def test_a_model_that_sees_gets_smaller_pictures(tmp_path: Path) -> None:
    text = LAUNCH.format(model="Qwen2-VL-2B-Instruct") + (OOM + CARD).format(tried="11.00", free="9.00")
    remedies = body(tmp_path, text)["diagnoses"][0]["remedies"]
    assert remedies[0]["knob"] == "smaller-input"
    assert (remedies[0]["current"], remedies[0]["suggested"]) == (401408, 200704)


@pytest.mark.parametrize(
    ("model", "tried", "large"),
    [
        ("Qwen2-VL-2B-Instruct", "11.00", True),
        ("Qwen2-VL-2B-Instruct", "0.40", False),
        ("Qwen2-7B-Instruct", "11.00", False),
    ],
)
def test_what_fills_a_card_beside_large_pictures_is_nobody_else(
    model: str, tried: str, large: bool, tmp_path: Path
) -> None:
    launch = LAUNCH.removeprefix("MAX_PIXELS=401408 ").format(model=model)
    found = knobs(tmp_path, launch + (OOM + CARD).format(tried=tried, free="0.20"))
    assert ("free-the-gpu" in found) is not large
    assert ("smaller-input" in found) is ("VL" in model)


ARRAY = (
    "ResourceExhaustedError: OOM when allocating tensor with shape{shape} and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)


@pytest.mark.parametrize(
    ("shape", "pictures"),
    [
        ("[1,640,640,48]", True),
        ("[2,512,512,3]", True),
        ("[8,16,640,640]", False),  # scores of attention have their pair last
        ("[64,3,3,128]", False),  # a filter
        ("[2,64,64,64]", False),
        ("[1,640,480,48]", False),
        ("[64,640,640]", False),
    ],
)
def test_an_array_as_high_as_wide_is_of_pictures(shape: str, pictures: bool, tmp_path: Path) -> None:
    assert ("smaller-input" in knobs(tmp_path, f"step 3\n{ARRAY.format(shape=shape)}")) is pictures


BEYOND = (OOM + CARD).format(tried="61.00", free="{free}")


def test_one_tensor_beyond_the_card_is_attention_and_no_matter_of_a_share(tmp_path: Path) -> None:
    engine = "vllm serve org/veda-7b --gpu-memory-utilization 0.7\nvllm ==0.9.0\n" + BEYOND.format(free="9.00")
    for text in (engine, BEYOND.format(free="16.00") + MINE.format(own="7.9") + TENSORS.format(torch="7.2")):
        told = body(tmp_path, text)["diagnoses"][0]
        assert told["cause"] == "activations"
        assert "memory-efficient-attention" in [remedy["knob"] for remedy in told["remedies"][:2]]


def test_what_is_not_printed_is_not_held_to_be_nothing(tmp_path: Path) -> None:
    for text in (BEYOND.format(free="23.90"), OOM.format(tried="61.00") + "GPU 0 has a total capacity of 24.00 GiB"):
        assert not any("held 0 bytes" in one["explanation"] for one in body(tmp_path, text)["diagnoses"])


@pytest.mark.parametrize(("torch", "batch"), [("3.00", False), ("14.00", True)])
def test_a_batch_matters_where_its_tensors_are_much_of_the_card(torch: str, batch: bool, tmp_path: Path) -> None:
    text = "step 4 loss 0.2\n" + (OOM + CARD + MINE + TENSORS).format(
        tried="1.00", free="0.20", own="23.70", torch=torch
    )
    told = body(tmp_path, text)["diagnoses"]
    answer = next(one for one in told if one["cause"] == "non-torch-memory")
    assert (BATCH in [remedy["knob"] for remedy in answer["remedies"]]) is batch


def test_weights_before_any_step_leave_the_step_open(tmp_path: Path) -> None:
    launch = "accelerate launch {script} \\\n  --mixed_precision=bf16 \\\n  --train_batch_size=4\n\n"
    full = (OOM + CARD + MINE + TENSORS).format(tried="0.20", free="0.05", own="23.94", torch="23.60")
    found = knobs(tmp_path, launch.format(script="train_veda.py") + full)
    assert {BATCH, "gradient-checkpointing"} <= set(found[:3])
    assert "mixed-precision" not in found


@pytest.mark.parametrize(
    ("script", "adapters"),
    [
        ("train_veda_lora.py", True),
        ("tools/lora_fit.py", True),
        ("qlora.py", True),
        ("explorations.py", False),
        ("flora/fit.py", False),
        ("train_lora.sh", False),
    ],
)
def test_a_script_of_adapters_says_so(script: str, adapters: bool) -> None:
    (crash,) = crashes_of(f"python {script} --lr 1e-4\n{FULL}\n")
    assert trains_adapters(crash) is adapters


VULKAN = (
    "ggml_vulkan: Device memory allocation of size 5368709120 failed.\n"
    "ggml_vulkan: Requested buffer size exceeds device memory allocation limit: ErrorOutOfDeviceMemory\n"
)


def test_one_tensor_of_weights_beyond_the_drivers_limit_is_made_smaller(tmp_path: Path) -> None:
    weights = VULKAN + (
        "alloc_tensor_range: failed to allocate Vulkan0 buffer of size 5368709120\n"
        "llama_model_load: error loading model: unable to allocate Vulkan0 buffer\n"
    )
    assert knobs(tmp_path, weights)[0] == "quantize-weights"
    assert not {"shorter-context", "smaller-prefill"} & set(knobs(tmp_path, weights))
