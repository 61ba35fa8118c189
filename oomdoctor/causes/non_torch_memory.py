"""NCCL, cuBLAS, cuDNN or the driver need memory outside the framework's allocator, which left none."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import card, in_engine, refusal
from oomdoctor.families.gpu_library import LibraryOutOfMemory, LibraryTrouble
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.units import GIB, percent, show

# Libraries that allocate for themselves; RMM, CuPy and bitsandbytes are the program's own allocators.
BESIDE = frozenset({"cuBLAS", "cuDNN", "cuSOLVER", "cuSPARSE", "cuFFT", "cuRAND", "NCCL", "RCCL"})
ORDINARY = 3 * GIB // 2  # context, NCCL and cuBLAS of an ordinary job
SUSPICIOUS = 3 * GIB
SHARE = 0.10


def judge(crash: Crash) -> Judgement | None:
    root = crash.root
    if isinstance(root, LibraryOutOfMemory) and root.library in BESIDE:
        return Finding(
            weight=0.85,
            why=say(
                "{library} asked the driver for {tried} and got none: it allocates beside the "
                "framework, whose cache had taken what was left.",
                library=root.library,
                tried=show(root.tried_bytes),
            )
            if root.tried_bytes
            else say(
                "{library} asked the driver for memory and got none: it allocates beside the "
                "framework, whose cache had taken what was left.",
                library=root.library,
            ),
            evidence=(root,),
        )
    if isinstance(root, LibraryTrouble):
        return Finding(
            weight=0.5,
            shows_memory=True,
            why=say(
                "{library} failed ({status}), as it does when the card is full, and for other reasons too.",
                library=root.library,
                status=root.status,
            ),
            evidence=(root,),
            against=(say("the message does not speak of memory"),),
        )
    it = card(crash)
    event = refusal(crash)
    if event is None or it.non_torch_bytes is None:
        return None
    outside, share = it.non_torch_bytes, it.share(it.non_torch_bytes)
    if outside <= ORDINARY:
        return RuledOut(
            say(
                "{outside} of this process are outside PyTorch ({share} of the card): the CUDA "
                "context and the libraries usually take as much",
                outside=show(outside),
                share=percent(share),
            )
        )
    if outside < SUSPICIOUS or share is None or share < SHARE:
        return None
    return Finding(
        weight=0.4 if in_engine(crash) else 0.75 if share >= 2 * SHARE else 0.55,
        why=say(
            "{outside} of this process are outside PyTorch ({share} of the card): more than a "
            "CUDA context and communicators take.",
            outside=show(outside),
            share=percent(share),
        ),
        evidence=(event,),
    )


CAUSE = Cause(
    id="non-torch-memory",
    title=mark("A library beside the framework found no memory left"),
    pools=("gpu",),
    knobs=("lower-engine-reservation", "smaller-microbatch", "free-the-gpu", "fix-environment", "shard-states"),
    rule=judge,
)
