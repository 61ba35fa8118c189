"""JAX or TensorFlow took the card in advance, and somebody else needs some of it."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.causes.gpu import card, refusal
from oomdoctor.families.gpu_library import LibraryTrouble
from oomdoctor.families.jax_tf import AllocationProbe
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.units import percent, show

# JAX takes three quarters of a card, TensorFlow nearly all of it.
LEAST, MOST = 0.70, 0.99
_TAKERS = ("jax", "tensorflow")
_HANDLES = ("cuBLAS", "cuDNN", "cuSOLVER")


def judge(crash: Crash) -> Judgement | None:
    handle = crash.first(LibraryTrouble)
    for probe in crash.every(AllocationProbe):
        if probe.free_bytes is None or not probe.total_bytes:
            continue
        taken = 1 - probe.free_bytes / probe.total_bytes
        if LEAST <= taken <= MOST and (handle or crash.mentions(r"Failed to create|Could not create")):
            return Finding(
                weight=0.8,
                shows_memory=True,
                why=say(
                    "{free} of {total} were left when a library asked for its own memory: {taken} of the "
                    "card were taken, as JAX does in advance by default.",
                    free=show(probe.free_bytes),
                    total=show(probe.total_bytes),
                    taken=percent(taken),
                ),
                evidence=(probe, *([handle] if handle else [])),
            )
    return _beside_torch(crash) or _bare_handle(crash, handle)


def _bare_handle(crash: Crash, handle: LibraryTrouble | None) -> Finding | None:
    """JAX's pool is there before the libraries it calls ask for their own memory."""
    if handle is None or handle is not crash.root or handle.library not in _HANDLES or not _of_jax(crash):
        return None
    return Finding(
        weight=0.55,
        why=say(
            "{library} could not set itself up in a program of JAX, which reserves three quarters "
            "of the card in advance by default and leaves the rest to its libraries and to "
            "others.",
            library=handle.library,
        ),
        evidence=(handle,),
        against=(say("no figure shows how much was free"), say("a mismatch of versions gives the same words")),
    )


def _of_jax(crash: Crash) -> bool:
    return "jax" in crash.context.frameworks or crash.in_trace(r"\bjax(?:lib)?/") is not None


def _beside_torch(crash: Crash) -> Finding | None:
    """PyTorch is refused in a job that also runs JAX or TensorFlow: what is outside PyTorch is theirs."""
    event = refusal(crash)
    taker = next((name for name in _TAKERS if name in crash.context.frameworks), None)
    if event is None or taker is None:
        return None
    it = card(crash)
    outside = it.non_torch_bytes or it.others_bytes or it.beyond_bytes
    share = it.share(outside)
    if outside is None or share is None or not LEAST - 0.05 <= share <= MOST:
        return None
    return Finding(
        weight=0.9,
        why=say(
            "{outside} of the card ({share}) are not PyTorch's, and {taker} runs in the same job.",
            outside=show(outside),
            share=percent(share),
            taker=taker,
        ),
        evidence=(event,),
    )


CAUSE = Cause(
    id="framework-preallocation",
    title=mark("JAX or TensorFlow reserved the card in advance"),
    pools=("gpu",),
    knobs=("cap-preallocation", "separate-placement", "fix-environment"),
    rule=judge,
)
