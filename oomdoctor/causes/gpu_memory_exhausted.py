"""The card is full, and the log does not say with what."""

from __future__ import annotations

from oomdoctor.causes import WHOLE_LOG, Cause, Finding, Judgement, NotEnough
from oomdoctor.causes.gpu import asked, card, refusal
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.families.training_cut import CutTraining
from oomdoctor.families.vllm_error import ProfilingDisturbed
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import percent, show

COMMANDS = (
    "nvidia-smi --query-compute-apps=pid,process_name,used_gpu_memory --format=csv",
    "nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv",
)

WORKERS = "grep -l -i 'out of memory' /tmp/ray/session_latest/logs/*"


def judge(crash: Crash) -> Judgement | None:
    """Always the last resort, so its weight is the lowest there is where a stage or a frame tells more."""
    if isinstance(crash.root, CutTraining):
        where = (WHOLE_LOG, WORKERS) if crash.root.step == "wait" else (WHOLE_LOG,)
        return NotEnough(say("the error's own words: the log is cut before them"), where)
    if isinstance(crash.root, MemorySummary):
        return _counted(crash.root)
    if not crash.proven or isinstance(crash.root, ProfilingDisturbed):  # there nothing was short
        return None
    it = card(crash)
    share = it.share(it.own_bytes or it.reserved_bytes)
    tells = crash.stage != "unknown" or bool(crash.root.around.trace)
    mine = say("This process held {share} of the card.", share=percent(share)) if share is not None else ""
    return Finding(
        weight=0.1 if tells else 0.25,
        why=joined(
            (say("The card is full: {asked}.", asked=_asked(crash)), mine, say("The log does not say what for."))
        ),
        evidence=(crash.root,),
    )


def _asked(crash: Crash) -> str:
    """What was refused: a library prints its own figures, and no more of the card."""
    root = crash.root
    if isinstance(root, LibraryOutOfMemory) and refusal(crash) is None:
        return asked(Card(tried_bytes=root.tried_bytes, free_bytes=root.free_bytes))
    return asked(card(crash))


def _counted(table: MemorySummary) -> Finding:
    counted = (
        say(
            "The log ends with the allocator's table, which counts {count} refused request(s), with {held} in tensors.",
            count=table.ooms,
            held=show(table.allocated_bytes),
        )
        if table.allocated_bytes
        else say("The log ends with the allocator's table, which counts {count} refused request(s).", count=table.ooms)
    )
    return Finding(
        weight=0.3,
        why=joined((counted, say("Which request it was, the log does not say."))),
        evidence=(table,),
        against=(say("the table also counts refusals that the program caught"),),
        next_evidence=(WHOLE_LOG,),
    )


CAUSE = Cause(
    id="gpu-memory-exhausted",
    title=mark("The card is full, and the log does not say with what"),
    pools=("gpu",),
    knobs=("collect-evidence", "smaller-microbatch", "shorter-sequences", "free-the-gpu"),
    rule=judge,
)
