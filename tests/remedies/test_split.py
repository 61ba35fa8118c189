"""Over how many devices the model is split: over those that it should be, and over more of those that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.remedies import Remedy

SERVE = (
    "{environment}vllm serve /models/acme-{size}B-chat -tp {ranks} --dtype {dtype} --gpu-memory-utilization {share}\n"
)
NPU = (
    "RuntimeError: NPU out of memory. Tried to allocate 1.20 GiB (NPU 1; 32.00 GiB total capacity; {held} GiB already "
    "allocated; {held} GiB current active; 300.00 MiB free; {held} GiB reserved in total by PyTorch)"
)
CUDA = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 1 has a total capacity of 32.00 GiB "
    "of which 300.00 MiB is free. Of the allocated memory {held} GiB is allocated by PyTorch, and 20.00 MiB is "
    "reserved by PyTorch but unallocated."
)
COPIES = "export VLLM_DP_SIZE=2\nexport VLLM_DP_RANK=1\n"


def remedies(
    folder: Path, error: str = NPU, held: float = 29.1, environment: str = "", size: int = 16, ranks: int = 2,
    dtype: str = "bfloat16", share: float = 0.7,
) -> dict[str, Remedy]:  # fmt: skip
    log = folder / "serve.log"
    launch = SERVE.format(environment=environment, size=size, ranks=ranks, dtype=dtype, share=share)
    log.write_text(launch + "\n" + error.format(held=held) + "\n", encoding="utf-8")
    return {each.knob: each for each in diagnose(log).incidents[0].diagnoses[0].remedies}


@pytest.mark.parametrize("error", [NPU, CUDA])
def test_a_rank_that_holds_the_whole_model_is_not_split(tmp_path: Path, error: str) -> None:
    """16 billion parameters are 29.80 GiB in 16 bits, which two ranks share."""
    found = remedies(tmp_path, error)
    first = next(iter(found.values()))
    assert (first.knob, first.current, first.suggested, first.snippet) == ("tensor-parallel", 2, None, None)
    assert "29.10 GiB, about the whole model" in first.action
    assert (first.derivation or "").endswith("= 29.80 GiB; / 2 = 14.90 GiB per " + ("NPU" if error is NPU else "GPU"))


def test_what_starts_copies_is_named_where_it_is_set(tmp_path: Path) -> None:
    first = next(iter(remedies(tmp_path, environment=COPIES).values()))
    assert first.snippet == "unset VLLM_DP_SIZE VLLM_DP_RANK"
    assert "VLLM_DP_SIZE and VLLM_DP_RANK start copies" in first.action


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"held": 16.0}, "half of it is the rank's own part and what comes beside it"),
        ({"ranks": 1}, "it is not to be split"),
        ({"share": 0.95}, "the KV cache may be in it"),
        ({"dtype": "float32", "held": 29.1}, "half of the weights in full precision"),
        ({"size": 34}, "a large part is not the whole"),
    ],
)
def test_a_rank_that_may_hold_its_part_is_not_said_to_hold_all(
    tmp_path: Path, told: dict[str, object], why: str
) -> None:
    for each in remedies(tmp_path, **told).values():  # type: ignore[arg-type]
        assert "whole model" not in each.action, why


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        ("export CUDA_VISIBLE_DEVICES=4,5\n", ", if the machine has them: CUDA_VISIBLE_DEVICES shows 2"),
        ("export CUDA_VISIBLE_DEVICES=0,1,2,3\n", ""),
        ("export CUDA_VISIBLE_DEVICES=GPU-11aa,GPU-22bb\n", ""),  # whatever these are
        ("", ""),
    ],
)
def test_more_devices_than_are_visible_have_to_be_there(tmp_path: Path, mask: str, says: str) -> None:
    found = remedies(tmp_path, CUDA, held=24.0, environment=mask, size=24)
    assert found["tensor-parallel"].action == f"Split the model over 4 GPUs instead of 2{says}"


def test_a_port_spells_what_its_devices_take(tmp_path: Path) -> None:
    assert remedies(tmp_path, NPU)["quantize-weights"].snippet == "--quantization ascend"
    assert remedies(tmp_path, CUDA)["quantize-weights"].snippet == "--quantization fp8"


def test_the_weights_of_a_rank_are_a_part_of_all(tmp_path: Path) -> None:
    derivation = remedies(tmp_path, CUDA, held=29.1, size=24)["quantize-weights"].derivation or ""
    assert derivation.startswith("24.00 B parameters x 2 bytes / 2 = 22.35 GiB of the GPU's 32.00 GiB")
    derivation = remedies(tmp_path, CUDA, held=29.9, size=12, ranks=1)["quantize-weights"].derivation or ""
    assert derivation.startswith("12.00 B parameters x 2 bytes = 22.35 GiB of the GPU's 32.00 GiB")


def test_a_server_trains_on_no_number_of_gpus(tmp_path: Path) -> None:
    actions = [each.action for each in remedies(tmp_path, CUDA, held=29.9, size=16, ranks=1).values()]
    assert not [action for action in actions if action.startswith("Train on")]


ALONE = "vllm serve /models/acme-7B-chat --max-num-seqs 64\n"


@pytest.mark.parametrize(
    ("writer", "number"),
    [
        ("(RayWorkerWrapper pid=8, ip=10.0.0.7) ", False),
        ("(VllmWorkerProcess pid=8) ", False),
        ("(Worker_TP1 pid=8) ", False),
        ("(APIServer pid=8) ", True),
        ("", True),
    ],
)
def test_an_engine_of_several_workers_is_split_already(tmp_path: Path, writer: str, number: bool) -> None:
    log = tmp_path / "serve.log"
    refused = CUDA.format(held=31.0).replace("GPU 1", "GPU 0")
    log.write_text(f"{ALONE}{writer}{refused}\n", encoding="utf-8")
    shown = {each.knob: each for each in diagnose(log).incidents[0].diagnoses[0].remedies}
    assert (shown["tensor-parallel"].suggested is not None) is number
