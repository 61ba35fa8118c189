"""Other processes hold the card."""

from __future__ import annotations

from typing import Literal

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import MOVE, asked, beside_an_engine, card, in_engine, innermost, refusal, stepped
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.jax_tf import AllocationProbe, ArrayOutOfMemory
from oomdoctor.families.nvidia_smi import GpuTable
from oomdoctor.families.sglang import UnbalancedCards
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.incident.card import OUTSIDE_PYTORCH, Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.units import GIB, percent, show

MUCH = 0.25  # of the card, held by processes that the message lists
HIDDEN = 0.10  # of the card, held by processes that it cannot list
LITTLE = 0.05
FULL = 0.5  # of the card, in use behind the refusal
NO_CARD = GIB  # no card that trains has less

BESIDE_AN_ENGINE = (
    "lower-engine-reservation",
    "free-the-gpu",
    "separate-placement",
    "engine-sleep",
    "start-in-sequence",
    "fix-placement",
)

Whose = Literal["hidden", "listed", "not split"]

_FIRST_TOUCH = rf"{MOVE}|_lazy_init|set_device|cudart|torch\.(?:zeros|empty|ones|tensor|randn)\(|init_process_group"

# What a job's ranks do together before anything else
_MEETING = r"\bbarrier\b|\bnew_group\b|\b_verify_param|\bmonitored_barrier\b"


def judge(crash: Crash) -> Judgement | None:
    it = card(crash)
    event = refusal(crash)
    if event is None or not it.total_bytes:
        return _without_figures(crash)
    if (alone := _too_much_alone(it)) is not None:
        return RuledOut(alone)
    if (shown := _shown_by_a_table(crash, it, event)) is not None:
        return shown
    held = _held(it)
    if held is None:
        return None
    bytes_, whose, needed = held
    share = bytes_ / it.total_bytes
    words = _hold(it, whose, bytes_, it.total_bytes)
    if share < LITTLE:
        return RuledOut(words[:1].lower() + words[1:])
    if share < needed:
        weak = 0.4 if share >= HIDDEN else 0.2
        knobs = BESIDE_AN_ENGINE if beside_an_engine(crash) else ()
        why = say("{held}; {asked}.", held=words, asked=asked(it))
        return Finding(weight=weak, why=why, evidence=(event,), knobs=knobs) if it.others else None
    mine = it.own_bytes or it.reserved_bytes or 0
    # Where this process itself fills most of the card, the neighbours take only what would have been left.
    weight = 0.93 if bytes_ >= mine else 0.85 if share >= 2 * needed else 0.7
    return Finding(
        weight=weight,
        why=say("{held}; {asked}.", held=words, asked=asked(it)),
        evidence=(event, *crash.every(GpuTable)[:1]),
        knobs=BESIDE_AN_ENGINE if beside_an_engine(crash) else (),
    )


def _too_much_alone(it: Card) -> str | None:
    """The request does not fit beside this process's own tensors even on a card without neighbours."""
    if it.tried_bytes is None or it.total_bytes is None or it.oversubscribed:
        return None
    mine = it.allocated_bytes or 0
    if it.tried_bytes + mine <= it.total_bytes:
        return None
    tried, total = show(it.tried_bytes), show(it.total_bytes)
    if not mine:
        return say("{tried} were asked for, more than the whole card's {total}", tried=tried, total=total)
    return say(
        "{tried} were asked for beside {mine} of its own, more than the whole card's {total}",
        tried=tried,
        mine=show(mine),
        total=total,
    )


def _held(it: Card) -> tuple[int, Whose, float] | None:
    """What is not this process's: how much, whose, and how much of the card it has to be to count."""
    hidden, listed = it.unaccounted_bytes, it.others_bytes
    if hidden is not None and listed is not None and hidden > max(listed, LITTLE * (it.total_bytes or 0)):
        return hidden + listed, "hidden", HIDDEN
    if listed is not None:
        return listed, "listed", MUCH
    if it.beyond_bytes is not None:
        # Older messages do not split it; what is not PyTorch's in this process itself is taken off.
        others = max(it.beyond_bytes - OUTSIDE_PYTORCH // 4, 0)
        return others, "not split", MUCH
    return None


def _shown_by_a_table(crash: Crash, it: Card, refused: DeviceOutOfMemory) -> Finding | None:
    """A process that nvidia-smi lists and the message does not; beside this one's memory there is room for it."""
    known = {refused.process.pid, *(process.pid for process in refused.others)}
    room = (it.used_bytes or 0) - (it.own_bytes or it.reserved_bytes or 0) + NO_CARD
    for table in reversed(crash.every(GpuTable)):
        for process in table.processes:
            held = process.used_bytes or 0
            if process.gpu != refused.process.gpu or process.pid in known or it.total_bytes is None:
                continue
            if MUCH * it.total_bytes <= held <= room:
                return Finding(
                    weight=0.85,
                    why=say(
                        "nvidia-smi lists a process (pid {pid}) that holds {held} of the card, and the "
                        "message does not; {asked}.",
                        pid=process.pid,
                        held=show(held),
                        asked=asked(it),
                    ),
                    evidence=(refused, table),
                    against=(say("the table was printed at another moment"),),
                    knobs=BESIDE_AN_ENGINE if beside_an_engine(crash) else (),
                )
    return None


def _hold(it: Card, whose: Whose, held_bytes: int, total_bytes: int) -> str:
    """Who holds how much: a clause."""
    held, total, share = show(held_bytes), show(total_bytes), percent(held_bytes / total_bytes)
    pids = ", ".join(str(process.pid) for process in it.others[:3])
    if whose == "hidden":
        return say(
            "Processes that the driver does not list here hold {held} of the card's {total} ({share})",
            held=held,
            total=total,
            share=share,
        )
    if whose == "not split":
        return say(
            "Others, beside PyTorch's memory in this process and its context, hold {held} of the "
            "card's {total} ({share})",
            held=held,
            total=total,
            share=share,
        )
    if pids:
        return say(
            "Other processes (pid {pids}) hold {held} of the card's {total} ({share})",
            pids=pids,
            held=held,
            total=total,
            share=share,
        )
    return say("Other processes hold {held} of the card's {total} ({share})", held=held, total=total, share=share)


def _without_figures(crash: Crash) -> Judgement | None:
    """Refusals that print nothing: a table, the moment or the caller may show that the card was full before."""
    if isinstance(crash.root, NotEnoughFree):
        return _at_start(crash.root)
    if isinstance(crash.root, UnbalancedCards):
        return _unbalanced(crash.root)
    if isinstance(crash.root, ArrayOutOfMemory):
        return _leftover(crash.root)
    if isinstance(crash.root, AllocationProbe) and crash.root.tried_bytes:
        return Finding(
            weight=0.5,
            shows_memory=True,
            why=say(
                "TensorFlow asked for {tried}, which it had counted as free, and was refused.",
                tried=show(crash.root.tried_bytes),
            ),
            evidence=(crash.root,),
        )
    if not isinstance(crash.root, DeviceRefusal):
        return None
    table = next((table for table in crash.every(GpuTable) if _others(crash, table)), None)
    if table is not None:
        pids = ", ".join(str(pid) for pid in _others(crash, table)[:4])
        return Finding(
            weight=0.6,
            why=say(
                "The device refused without figures, and nvidia-smi lists processes on it (pid {pids}).", pids=pids
            ),
            evidence=(crash.root, table),
        )
    if (full := _full_afterwards(crash)) is not None:
        return full
    if crash.root.layer == "cumem":
        return Finding(
            weight=0.5,
            why=say(
                "The allocator with which an engine sleeps and wakes asked for memory that somebody else held by then."
            ),
            evidence=(crash.root,),
        )
    if crash.root.layer != "nvml" and innermost(crash, _FIRST_TOUCH):
        return Finding(
            weight=0.5 if in_engine(crash) else 0.6,
            why=say("The device refused when this process first touched it: it was full already."),
            evidence=(crash.root,),
        )
    return _while_meeting(crash)


def _while_meeting(crash: Crash) -> Finding | None:
    if crash.stage in ("launch", "unknown") and not stepped(crash) and innermost(crash, _MEETING, 2):
        return Finding(
            weight=0.55,
            why=say(
                "The device refused when the ranks first met, before any of them had computed: it was "
                "full already, or several of them have opened the same card."
            ),
            evidence=(crash.root,),
            knobs=("free-the-gpu", "fix-placement", "start-in-sequence"),
        )
    return None


def _full_afterwards(crash: Crash) -> Finding | None:
    """Behind the refusal a card is still full, of processes that the table cannot see: another container's."""
    for table in crash.every(GpuTable):
        behind = table.at.file == crash.root.at.file and table.at.line > crash.root.at.line
        full = [c for c in table.cards if c.used_bytes and c.total_bytes and c.used_bytes >= FULL * c.total_bytes]
        if behind and table.processes_hidden and full:
            used, total = full[0].used_bytes or 0, full[0].total_bytes or 0
            return Finding(
                weight=0.55,
                why=say(
                    "The device refused without figures. nvidia-smi shows {used} of {total} in use behind "
                    "it and cannot see whose: processes of another container, or what a dead one left.",
                    used=show(used),
                    total=show(total),
                ),
                evidence=(crash.root, table),
                against=(say("the refused process may have been alive still, and hidden as the others are"),),
            )
    return None


def _leftover(root: ArrayOutOfMemory) -> Finding | None:
    """TensorFlow's limit is what it found free at its start."""
    limit = root.limit_bytes
    if root.framework != "tensorflow" or limit is None or limit >= NO_CARD:
        return None
    return Finding(
        weight=0.6,
        why=say(
            "TensorFlow may take {limit} in all, which is what it found free at its start (or was "
            "told to take): the card was full already.",
            limit=show(limit),
        ),
        evidence=(root,),
        against=(say("the program may have set the limit itself"),),
    )


def _unbalanced(root: UnbalancedCards) -> Finding:
    """SGLang compares the cards of a group before it loads anything."""
    if root.least_bytes is not None and root.own_bytes is not None:
        why = say(
            "One card of the group has {least} free where another one has {own}, before the engine loaded anything.",
            least=show(root.least_bytes),
            own=show(root.own_bytes),
        )
    else:
        why = say("One card of the group has much less free memory than the others, before the engine loaded anything.")
    return Finding(weight=0.88, why=why, evidence=(root,))


def _others(crash: Crash, table: GpuTable) -> list[int | None]:
    """The listed processes that the log does not show to be the job's own."""
    own = {pid for pids in crash.context.processes.values() for pid in pids} | {crash.root.process.pid}
    return [process.pid for process in table.processes if process.pid not in own]


def _at_start(root: NotEnoughFree) -> Judgement | None:
    """An engine that has not begun to load finds this much of the card taken."""
    if root.free_bytes is None or not root.total_bytes:
        return None
    taken_bytes = root.total_bytes - root.free_bytes
    share = taken_bytes / root.total_bytes
    taken, total, part = show(taken_bytes), show(root.total_bytes), percent(share)
    if share < LITTLE:
        return RuledOut(
            say(
                "{taken} of {total} ({share}) were taken before the engine loaded anything",
                taken=taken,
                total=total,
                share=part,
            )
        )
    return Finding(
        weight=0.8 if share >= MUCH else 0.55 if share >= HIDDEN else 0.4,
        why=say(
            "{taken} of {total} ({share}) were taken before the engine loaded anything.",
            taken=taken,
            total=total,
            share=part,
        ),
        evidence=(root,),
        knobs=("free-the-gpu", "lower-engine-reservation", "start-in-sequence", "separate-placement"),
    )


CAUSE = Cause(
    id="gpu-shared",
    title=mark("Other processes hold the card"),
    pools=("gpu",),
    knobs=("free-the-gpu", "separate-placement", "lower-engine-reservation", "fix-placement", "start-in-sequence"),
    rule=judge,
)
