"""mlx_lm.lora is driven by flags; attention is fused there anyway."""

from __future__ import annotations

from remedy_logs import advise

REFUSED = (
    "libc++abi: terminating due to uncaught exception of type std::runtime_error: [malloc_or_wait] "
    "Unable to allocate 32 bytes."
)
KNOBS = ("smaller-microbatch", "gradient-checkpointing", "shorter-sequences", "memory-efficient-attention")


def test_not_for_who_calls_mlx_from_a_script_of_their_own() -> None:
    chosen, _ = advise(f"python net.py\nTraining\n{REFUSED}", *KNOBS)
    assert all(one.setting is None for one in chosen.values())


def test_flags_of_the_trainer() -> None:
    chosen, _ = advise(
        f"Loading pretrained model\nLoading datasets\nStarting training..., iters: 40\n{REFUSED}", *KNOBS
    )
    assert [one.setting for one in chosen.values()] == ["--batch-size", "--grad-checkpoint", "--max-seq-length"]
    assert chosen["smaller-microbatch"].snippet == "--batch-size 2"


TRAINED = (
    "mlx_lm.lora --model ./net --train {} --batch-size 1\nIter 10: Train loss 2.586, Peak mem 31.753 GB\n"
    "libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution "
    "failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
)


def test_what_fails_on_metal_in_mlx_gets_no_advice_for_llama_cpp() -> None:
    chosen, _ = advise(TRAINED.format(""), *KNOBS)
    assert {"--max-seq-length", "--grad-checkpoint"} <= {one.setting for one in chosen.values()}
    assert all(one.setting not in ("-ub", "-np", "-c") for one in chosen.values())
