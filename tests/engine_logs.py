"""Crashes from written logs: what the street makes of these lines, and messages that several tests need."""

from __future__ import annotations

from textwrap import dedent
from typing import Final

from oomdoctor import families
from oomdoctor.causes import causes
from oomdoctor.decision.judgement import Finding, Judgement, judgement_of
from oomdoctor.incident.assemble import Gathered, crashes
from oomdoctor.incident.model import Crash
from oomdoctor.job.context import ContextBuilder
from oomdoctor.streams import page

RUNNER: Final = "vllm/v1/worker/gpu_model_runner.py"

NO_BLOCKS: Final = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine.\n"
)
WARMUP: Final = (
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering "
    "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n"
)
ABORTED: Final = (
    "RuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space to avoid this error.\n"
)
SWAP_TOO_LARGE: Final = (
    "ValueError: Too large swap space. 32.00 GiB out of the 31.35 GiB total CPU memory is allocated for the swap "
    "space.\n"
)
PREEMPTED: Final = (
    "WARNING 10-02 12:09:40 scheduler.py:1057] Sequence group 402 is preempted by PreemptionMode.SWAP mode because "
    "there is not enough KV cache space. total_num_cumulative_preemption=51\n"
)
ENCODER_ANNOUNCED: Final = (
    "INFO 06-14 19:44:10 [gpu_model_runner.py:2101] Encoder cache will be initialized with a budget of 16384 tokens, "
    "and profiled with 1 video items of the maximum feature size.\n"
)


def crash_of(log: str) -> Crash:
    """The first crash of the log."""
    lines = page("engine.log", 1, dedent(log).lstrip("\n").encode())
    gathered = Gathered()
    for found in families.read(lines):
        gathered.add(found)
    job = ContextBuilder()
    job.add(lines)
    return crashes(gathered, job.build())[0]


def judged(cause: str, log: str) -> Judgement | None:
    crash = crash_of(log)
    found = next(known for known in causes() if known.id == cause)
    return judgement_of(found, crash) if crash.pool in found.pools else None


def grade(cause: str, log: str) -> int:
    """How sure the cause's table is; 0 where it finds nothing."""
    judgement = judged(cause, log)
    return judgement.grade or 0 if isinstance(judgement, Finding) else 0


def traceback(*frames: tuple[str, str], end: str) -> str:
    """A traceback through these functions of these files, innermost last."""
    lines = ["Traceback (most recent call last):"]
    for number, (file, function) in enumerate(frames):
        path = f"/opt/env/lib/python3.12/site-packages/{file}"
        lines += [f'  File "{path}", line {100 + number}, in {function}', "    ..."]
    return "\n".join([*lines, end]) + "\n"


def refusal(tried: str, total: float, free: float, own: float, allocated: float) -> str:
    """The allocator's sentence, sizes in GiB."""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of "
        f"{total:.2f} GiB of which {free:.2f} GiB is free. Including non-PyTorch memory, this process has {own:.2f} "
        f"GiB memory in use. Of the allocated memory {allocated:.2f} GiB is allocated by PyTorch, and 120.00 MiB is "
        "reserved by PyTorch but unallocated."
    )


def not_enough_free(free: float, total: float, share: float) -> str:
    """vLLM's check at start."""
    return (
        f"(EngineCore_DP0 pid=9) ValueError: Free memory on device ({free}/{total} GiB) on startup is less than "
        f"desired GPU memory utilization ({share}, {round(share * total, 2)} GiB). Decrease GPU memory utilization or "
        "reduce GPU memory used by other processes.\n"
    )


def context_too_long(length: int, needed: float, room: float, estimate: int | None = None) -> str:
    """V1's refusal of a context."""
    estimated = f"Based on the available memory, the estimated maximum model length is {estimate}. " if estimate else ""
    return (
        f"ValueError: To serve at least one request with the models's max seq len ({length}), ({needed} GiB KV cache "
        f"is needed, which is larger than the available KV cache memory ({room} GiB). {estimated}Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
    )


def v0_account(total: float, share: float, weights: float, activations: float) -> str:
    """V0's account of its budget."""
    budget = total * share
    rest = budget - weights - 0.04 - activations
    return (
        f"INFO 03-02 17:40:55 [worker.py:287] the current vLLM instance can use total_gpu_memory ({total:.2f}GiB) x "
        f"gpu_memory_utilization ({share:.2f}) = {budget:.2f}GiB\n"
        f"INFO 03-02 17:40:55 [worker.py:287] model weights take {weights:.2f}GiB; non_torch_memory takes 0.04GiB; "
        f"PyTorch activation peak memory takes {activations:.2f}GiB; the rest of the memory reserved for KV Cache is "
        f"{rest:.2f}GiB.\n"
    )


def started(version: str) -> str:
    """The engine's first line."""
    return (
        f"INFO 02-11 09:31:12 [core.py:58] Initializing a V1 LLM engine (v{version}) with config: "
        "model='/models/demo', max_seq_len=8192\n"
    )
