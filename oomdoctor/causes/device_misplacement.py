"""Several ranks or models share one card by mistake."""

from __future__ import annotations

from collections import Counter

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.causes.gpu import card, innermost, refusal
from oomdoctor.families.cuda import DeviceOutOfMemory, OtherProcess
from oomdoctor.families.nvidia_smi import GpuTable
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.units import GIB, show

MUCH = 0.25  # of the card in other hands: the other ranks' tensors are there already
ALIKE = 0.15  # how far sizes of one job's ranks may differ

# torch.load without map_location puts every rank's tensors where they were saved: on card 0.
_RESTORING = r"restore_location|\b_cuda\b.{0,40}|_rebuild_\w+|load_tensor|persistent_load"
_RANKS = r"(?i)\b(?:local_)?rank\b|torchrun|torch[./]distributed|deepspeed|accelerate launch|world_size|nproc"
_LOADING = r"torch\.load\(|serialization\.py"


def judge(crash: Crash) -> Judgement | None:
    event = refusal(crash)
    if event is not None and (own := _own_ranks(crash, event)):
        pids = ", ".join(str(process.pid) for process in own)
        return Finding(
            weight=0.94,
            why=say("Processes of this very job (pid {pids}) are on the card of the rank that was refused.", pids=pids),
            evidence=(event, *[e for e in crash.every(DeviceOutOfMemory) if e is not event][:3]),
        )
    if innermost(crash, _RESTORING, 6) and crash.in_trace(_LOADING):
        others = card(crash).share(card(crash).others_bytes or card(crash).beyond_bytes) or 0
        return Finding(
            weight=0.95 if others >= MUCH else 0.8 if event is not None or _ranks(crash) else 0.5,
            why=say(
                "It failed in torch.load, which puts tensors on the card that they were saved from: "
                "every rank loads onto the same one."
            ),
            evidence=(event or crash.root,),
            stage="checkpoint_load",
        )
    if event is not None and (alike := _alike(crash)):
        sizes = ", ".join(show(process.bytes or 0) for process in alike[:4])
        return Finding(
            weight=0.6,
            why=say(
                "{count} other processes of nearly the same size ({sizes}) are on this card, like ranks.",
                count=len(alike),
                sizes=sizes,
            ),
            evidence=(event,),
            against=(say("their pids appear nowhere else in the log"),),
        )
    return _table(crash)


def _ranks(crash: Crash) -> bool:
    """Whether the job has several ranks at all: a refusal without figures does not show who holds the card."""
    return crash.root.process.rank is not None or crash.mentions(_RANKS) is not None


def _own_ranks(crash: Crash, event: DeviceOutOfMemory) -> list[OtherProcess]:
    """Listed processes that the log names as other ranks of the job."""
    pids = {e.process.pid for e in crash.events if e.process.pid is not None} - {event.process.pid}
    return [process for process in card(crash).others if process.pid in pids and (process.bytes or 0) >= GIB // 4]


def _alike(crash: Crash) -> list[OtherProcess]:
    it = card(crash)
    sizes = [process.bytes or 0 for process in it.others]
    if len(sizes) < 2 or min(sizes) < GIB // 4:
        return []
    mine = it.own_bytes or it.reserved_bytes
    reference = [*sizes, mine] if mine else sizes
    return list(it.others) if max(reference) - min(reference) <= ALIKE * max(reference) else []


def _table(crash: Crash) -> Finding | None:
    """One pid on several cards, beside others on one of them: a rank has opened its neighbour's card."""
    for table in crash.every(GpuTable):
        held = [p for p in table.processes if (p.used_bytes or 0) > 0]
        cards_of = Counter(p.pid for p in held)
        on_card = Counter(p.gpu for p in held)
        twice = [p for p in held if cards_of[p.pid] > 1 and on_card[p.gpu] > 1]
        if twice:
            return Finding(
                weight=0.7,
                why=say(
                    "Process {pid} has memory on {cards} cards, beside others on one.",
                    pid=twice[0].pid,
                    cards=cards_of[twice[0].pid],
                ),
                evidence=(table, crash.root),
            )
    return None


CAUSE = Cause(
    id="device-misplacement",
    title=mark("Several ranks or models ended up on one card"),
    pools=("gpu",),
    knobs=("fix-placement", "low-memory-loading", "free-the-gpu"),
    rule=judge,
)
