"""A GPU before Ampere is told nothing that it does not compute."""

from __future__ import annotations

from itertools import pairwise

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.remedies import generations

HALF, ATTENTION, BITS, CACHE = (
    "mixed-precision",
    "memory-efficient-attention",
    "quantize-weights",
    "quantize-kv-cache",
)
TRACE = (
    'Traceback (most recent call last):\n  File "/x/train.py", line 12, in <module>\n    loss = net(batch)\n'
    '  File "/x/net.py", line 7, in forward\n    y = self.mlp(x)\n'
)
TRAINER = (
    "python train.py --per_device_train_batch_size 8 --attn_implementation eager\n"
    "Traceback (most recent call last):\n"
    '  File "/env/site-packages/transformers/trainer.py", line 30, in training_step\n'
    "    loss = self.compute_loss(model, inputs)\n"
)


@pytest.mark.parametrize(
    ("total", "name"),
    [
        # near misses: an RTX 5090, an RTX 4080, an RTX 3060, an A10, an A100, an RTX 4090, a slice
        ("31.36 GiB", None),
        ("31.84 GiB", None),
        ("15.70 GiB", None),
        ("15.99 GiB", None),
        ("11.76 GiB", None),
        ("22.06 GiB", None),
        ("39.39 GiB", None),
        ("23.64 GiB", None),
        ("14.85 GiB", None),
        ("8.00 GiB", None),
        ("31.74 GiB", "V100"),
        ("31.72 GiB", "V100"),
        ("15.78 GiB", "V100"),
        ("14.75 GiB", "T4"),
        ("14.58 GiB", "T4"),
        ("15.90 GiB", "P100"),
        ("10.92 GiB", "GTX 1080 Ti"),
        ("7.93 GiB", "GTX 1080"),
    ],
)
def test_a_size_that_only_old_ones_have(total: str, name: str | None) -> None:
    assert generations.older(crashes_of(TRACE + cuda(total=total))[0]) == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("GPU: NVIDIA A100-SXM4-40GB", None),
        ("GPU: NVIDIA GeForce RTX 3090", None),
        ("step V1000 of T4x", None),
        ("GPU: Tesla V100-SXM2-16GB", "V100"),
        ("GPU: NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti"),
        ("GPU: NVIDIA GeForce GTX 1660", "GTX 1080"),
        ("GPU: Quadro RTX 6000", "Quadro"),
    ],
)
def test_a_name_counts_before_the_size(line: str, name: str | None) -> None:
    assert generations.older(crashes_of(f"{line}\n{TRACE}{cuda(total='40.00 GiB')}")[0]) == name


def test_a_newer_name_counts_before_an_old_size() -> None:
    log = f"GPU: NVIDIA A100-SXM4-40GB\n{TRACE}{cuda(total='31.74 GiB')}"
    assert generations.older(crashes_of(log)[0]) is None


def test_other_makers_have_other_generations() -> None:
    log = TRACE + cuda(total="31.74 GiB").replace("CUDA", "HIP")
    assert generations.older(crashes_of(log)[0]) is None


@pytest.mark.parametrize(
    ("log", "total", "snippet"),
    [
        (TRACE, "31.74 GiB", 'with torch.autocast("cuda", dtype=torch.float16):'),
        (TRACE, "39.39 GiB", 'with torch.autocast("cuda", dtype=torch.bfloat16):'),
        (TRAINER, "15.78 GiB", "--fp16 True"),
        (TRAINER, "79.15 GiB", "--bf16 True"),
    ],
)
def test_half_precision_is_one_that_the_gpu_has(log: str, total: str, snippet: str) -> None:
    known = advise(log + cuda(total=total), HALF, cause="activations")[0][HALF]
    assert known.snippet == snippet
    assert any("no bf16" in each for each in known.assumes) is (total in {"31.74 GiB", "15.78 GiB"})


@pytest.mark.parametrize(("total", "offered"), [("31.74 GiB", "(fp16)"), ("39.39 GiB", "(bf16 or fp16)")])
def test_a_sentence_offers_no_kind_twice(total: str, offered: str) -> None:
    assert offered in advise(TRAINER + cuda(total=total), HALF, cause="activations")[0][HALF].action


@pytest.mark.parametrize(("total", "advised"), [("31.74 GiB", False), ("39.39 GiB", True)])
def test_weights_are_not_trained_in_fp16(total: str, advised: bool) -> None:
    log = TRACE.replace("loss = net(batch)", "optimizer.step()").replace("in forward", "in step") + cuda(total=total)
    chosen, _ = advise("epoch 1 loss 2.31\n" + log, HALF, cause="optimizer-states")
    assert (HALF in chosen) is advised


@pytest.mark.parametrize(
    ("total", "option"),
    [("14.75 GiB", "sdpa"), ("79.15 GiB", "flash_attention_2")],
)
def test_attention_takes_a_kernel_that_the_gpu_has(total: str, option: str) -> None:
    known = advise(TRAINER + cuda(total=total), ATTENTION, cause="activations")[0][ATTENTION]
    assert option in (known.snippet or "")


@pytest.mark.parametrize(("total", "advised"), [("14.75 GiB", False), ("79.15 GiB", True)])
@pytest.mark.parametrize("knob", [BITS, CACHE])
def test_an_engine_has_no_fp8_there(knob: str, total: str, advised: bool) -> None:
    log = "vllm serve acme/chat-7b\nINFO vLLM API server version 0.9.1\n" + cuda(total=total)
    known = advise(log, knob, cause="model-does-not-fit")[0]
    assert ("fp8" in str(known)) is advised


@pytest.mark.parametrize(("framework", "option"), [("torchtune", "dtype=bf16"), ("openrlhf", "--bf16")])
def test_who_trains_in_bf16_alone_is_told_of_nothing_else(framework: str, option: str) -> None:
    row = next(each for each in generations.instead() if each.framework == framework)
    assert row.option.search(option)
    assert row.instead == "drop"


def test_tables_are_whole() -> None:
    for gpu in generations.table():
        assert all(least < most for least, most in gpu.sizes), gpu.name
    spans = sorted(span for gpu in generations.table() for span in gpu.sizes)
    assert all(a[1] < b[0] for a, b in pairwise(spans))
