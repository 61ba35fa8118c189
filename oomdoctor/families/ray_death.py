"""Deaths that Ray reports: of workers, actors and nodes, mostly the consequence of something else.

Ray lists potential causes ("killed by the OOM killer due to high memory usage") behind every broken connection,
whether the worker was killed, crashed or left by itself: that list is no evidence. A signal that the worker printed
itself is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.ended import CHARACTERS, PREEMPTION, ends_well, told
from oomdoctor.families.event import Event, Lookalike, Process, Read, Role
from oomdoctor.families.lines import block_of, place_of, process_of
from oomdoctor.language import mark, say
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Line, Page


class WorkerDeath(Event, frozen=True, kw_only=True):
    """A worker or an actor is gone; what else is known of it."""

    family = "ray_death"
    kind = "worker-death"

    pool: str = "none"

    error: str | None = None  # "ActorDiedError", "WorkerCrashedError", ... where an exception reports it
    # "killed": the connection broke without a word (SIGKILL, SIGSEGV and os._exit look alike); "pod-limit": Ray
    # suspects the pod's memory limit; "out-of-memory": the monitor did it; "node", "owner", "creation" (an exception
    # in __init__), "unavailable" (of an actor that is restarted or out of reach); None where nothing is said
    cause: str | None = None
    exit_type: str | None = None  # SYSTEM_ERROR, NODE_OUT_OF_MEMORY, ...
    exit_code: int | None = None
    class_name: str | None = None
    actor_name: str | None = None
    actor_id: str | None = None
    worker_id: str | None = None
    node_id: str | None = None

    def identity(self) -> str:
        """Told of once by the raylet, once by the exception, once by the control service."""
        who = self.process.pid or self.actor_id or self.worker_id
        return f"{self.family} death of {who} {self.cause}" if who else Event.identity(self)


class NodeDeath(Event, frozen=True, kw_only=True):
    """A node, or the raylet on it, is gone."""

    family = "ray_death"
    kind = "node-death"

    pool: str = "host_ram"
    strength: int = 1

    cause: str | None = None  # "heartbeats" (it answered no more), "raylet" (the process ended unexpectedly)
    node_id: str | None = None


class FatalSignal(Event, frozen=True, kw_only=True):
    """A process printed the SIGBUS that ended it: how a full /dev/shm ends a process, among other things."""

    family = "ray_death"
    kind = "fatal-signal"

    pool: str = "shm"
    strength: int = 1

    signal: str = "SIGBUS"
    shared_memory: bool | None = None  # the lines around speak of shared memory


# Ray lists potential causes behind each lost node, "(OOM, etc.)" first: what ended it, other lines say.
# raylet/node_manager.cc, main.cc, agent_manager.cc, runtime_env_agent_client.cc; gcs/gcs_node_manager.cc
_ALIVE: Final = mark("the raylet was alive and said so: it had missed the head's health checks")
_NODE_ENDED: Final = tuple(
    (late(pattern), why)
    for pattern, why in (
        (
            r"(?i:\bmistakenly (?:been )?(?:marked|declared|considered) (?:as )?dead\b)|\bRAYLET_MARKED_DEAD\b",
            _ALIVE,
        ),
        (
            (
                r"(?i:\braylet (?:has )?exit(?:s|ed) immediately because [^\n]{0,60}\bagent timed out\b"
                r"|\bagent timed out in \d)"
            ),
            mark("the raylet left by itself: it could not reach its agent"),
        ),
        (
            (
                r"(?i:\braylet (?:has )?(?:received|got) (?:a |the signal )?SIGTERM\b"
                r"|\breceived SIGTERM\. Existing local drain)"
            ),
            mark("the raylet was told to stop (SIGTERM)"),
        ),
        (
            (
                r"(?i:\bdrain(?:ing)? (?:the |local )?(?:node|raylet)\b(?! (?:failed|rejected))"
                r"|\b(?:node|raylet)\b[^\n]{0,120}\b(?:was|is|has been|is being) (?:drained|preempted)\b)"
                r"|\bAUTOSCALER_DRAIN_(?:PREEMPTED|IDLE)\b|\bDRAIN_NODE_REASON_(?:PREEMPTION|IDLE_TERMINATION)\b"
                r"|(?<!UN)\bEXPECTED_TERMINATION\b"
            ),
            mark("the node was drained or preempted"),
        ),
    )
)

# How many lines around a death may hold the signal that explains it: lines of workers arrive seconds late.
NEARBY_LINES: Final = 300
BLOCK_LINES: Final = 12
# A death's block ends where its writer says something else; nothing longer was ever seen.
BLOCK_CHARACTERS: Final = 3000

_TRIGGER = late(
    r"The actor (?:died|is dead)|actor [0-9a-f]{8,64} is unavailable|The worker died unexpectedly"
    r"|A worker died or was killed|exits, type=NODE_OUT_OF_MEMORY|exit_type: NODE_OUT_OF_MEMORY"
)
# What is left of such a line where its beginning is lost; next to it, it is a fact of that line's
# ... and where Ray only lists its guesses it tells of no reason, unless that is all that is left
_TAIL = late(
    r"^(?:Worker exit type: [A-Z_]{3,40} Worker exit detail: (?!Worker unexpectedly exits with a connection)"
    r"|[A-Z_]{3,40} Worker exit detail: )"
)
_NODE = late(r"has been marked dead because|Raylet is terminated")
_ADDRESS = late(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_NODE_ID = late(r"(?<![0-9a-f])[0-9a-f]{56}(?![0-9a-f])")
_CRASH = late(r"\*\*\* (SIG[A-Z]{3,5}) received at|Fatal Python error: (Segmentation fault|Bus error)")
# Up to 1.x with the traceback of the call below it
_LEFT: Final = "SystemExit was raised from the worker"
_POD_LIMIT: Final = "memory limits"  # in Kubernetes Ray takes SIGTERM for a sign of these, and says so
_CRASH_NAMES: Final = {"Segmentation fault": "SIGSEGV", "Bus error": "SIGBUS"}
# SIGABRT and SIGTERM are how other failures end a process: they explain nothing.
_OWN_FAULT: Final = frozenset({"SIGSEGV", "SIGILL", "SIGFPE"})
_SHARED_MEMORY = late(r"shared_memory|/dev/shm|\bshm\b")
_FACT = late(
    r"^(?:class_name|actor_id|pid|name|namespace|ip):|^(?:The actor|Worker|-) |^\t|^$"
    r"|^The (?:process receives|worker may have) "  # Ray's guesses behind an exit code
)

_ROW_OF_FACTS = late(r"^(?:class_name|actor_id|pid|name|namespace|ip):")

# What a clause says about the death; the first that stands wins over the later ones.
_CAUSES: Final[Mapping[str, str]] = {
    "out_of_memory": "out-of-memory",
    "creation": "creation",
    "owner_gone": "owner",
    "node_gone": "node",
    "pod_limit": "pod-limit",
    "unavailable": "unavailable",
    "broken": "killed",
}
# python/ray/_raylet.pyx, task_execution_handler: said of each SystemExit where Kubernetes sets its variables
_GUESSED: Final = mark(
    "the worker ended on SIGTERM or sys.exit; an OOM kill is SIGKILL. In Kubernetes, Ray guesses the pod's memory "
    "limit after each such end; `kubectl describe pod` shows whether the pod was evicted or OOM-killed"
)
_EXPLAINED: Final[Mapping[str, str]] = {
    "ray_kill": mark("ray.kill ended the actor, not a lack of memory"),
    "unreferenced": mark("the actor ended because nothing referred to it any more"),
    "intended": mark("the worker exited as requested"),
    "sigterm": mark("the worker ended on SIGTERM or sys.exit, not for lack of memory"),
}
# Ray ends the other workers when a driver goes, and its event file calls that a failure of each of them.
_EVENT_FILE: Final = '"label":"RAY_WORKER_FAILURE"'
_SECONDARY: Final = frozenset({"creation", "owner", "node"})

_UNHANDLED: Final = late(r"Unhandled exception: \S{1,200}\. what\(\): (?![^\n]{0,200}(?i:alloc|memory))\S")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    crash = _CRASH.search(line.text)
    if crash:
        yield from _signal(page, index, crash[1] or _CRASH_NAMES[crash[2]])
    elif _NODE.search(line.text):
        yield _node_death(page, index)
    elif _TRIGGER.search(line.text) or _is_a_tail(page, index):
        yield _death(page, index)


def _is_a_tail(page: Page, index: int) -> bool:
    """Whether a death's line lost its beginning: nothing above tells of the death."""
    if _TAIL.match(page.lines[index].text.strip()) is None:
        return False
    return not any(_TRIGGER.search(line.text) for line in page.before(index, BLOCK_LINES))


@remembered
def _names_shared_memory(text: str) -> bool:
    return _SHARED_MEMORY.search(text) is not None


def _signal(page: Page, index: int, signal: str) -> Iterator[Read]:
    line = page.lines[index]
    at = place_of(page, line)
    if signal == "SIGBUS":
        shared = any(_names_shared_memory(near.text) for near in _near(page, index))
        yield FatalSignal(
            at=at,
            time=line.mark.time,
            process=process_of(line),
            strength=2 if shared else 1,
            shared_memory=True if shared else None,
        )
    elif signal in _OWN_FAULT:
        yield Lookalike(at, say("{signal} is a crash in native code, not a lack of memory", signal=signal))


def _near(page: Page, index: int) -> Sequence[Line]:
    return page.lines[max(0, index - NEARBY_LINES) : index + NEARBY_LINES]


def _node_death(page: Page, index: int) -> Read:
    line = page.lines[index]
    found = _clauses(line.text)
    ip = _value(found, "ip") or line.mark.ip
    node_id = _value(found, "node_id")
    why = _node_ended(page, index, [name for name in (ip, node_id) if name])
    if why is not None:
        return Lookalike(place_of(page, line), why)
    # In the logs of Ray's own agents this is how every session ends.
    of_an_agent = "raylet_gone" in found and line.mark.name is None and not _by_a_driver(line)
    return NodeDeath(
        at=place_of(page, line),
        time=line.mark.time,
        process=Process(node=ip),
        role="cascade" if of_an_agent else "root",
        strength=0 if of_an_agent else 1,
        cause="raylet" if "raylet_gone" in found else "heartbeats",
        node_id=node_id,
    )


def _node_ended(page: Page, index: int, names: Sequence[str]) -> str | None:
    """What ended the node, by what is said of it around the report."""
    for near in _near(page, index):
        why = _of_a_node(near.text)
        if why is not None and _is_of(near, names, why):
            return why
    return None


@remembered
def _of_a_node(text: str) -> str | None:
    """What the line says ended a node."""
    why = next((why for pattern, why in _NODE_ENDED if pattern.search(text[:CHARACTERS])), None)
    return why or (PREEMPTION if told(text) == PREEMPTION else None)


def _is_of(line: Line, names: Sequence[str], why: str) -> bool:
    """Whether the line is of the node with one of these names, or names none.

    A head that loses live nodes gives them new ids when they come back.
    """
    named = {*_ADDRESS.findall(line.text[:CHARACTERS]), *filter(None, (line.mark.ip,))}
    if why != _ALIVE:
        named |= {*_NODE_ID.findall(line.text[:CHARACTERS])}
    return not named or not names or not named.isdisjoint(names)


def _by_a_driver(line: Line) -> bool:
    """Whether the driver prints what Ray tells it: up to 2.2 in a line of its own logger."""
    return (line.mark.source or "").startswith("worker.py")


def _death(page: Page, index: int) -> Read:
    lines = [*_facts_above(page, index), *_block(page, index)]
    found = _clauses(" \n".join(line.text for line in lines))
    first = page.lines[index]  # what is quoted: facts above it name the actor, and do not say that it died
    at = place_of(page, first, lines[-1])
    code, pid = _number(_value(found, "exit_code")), _number(_value(found, "pid"))
    why = _ended_as_meant(found, code) or _crashed(page, index, pid)
    if why is None and _says_nothing(found) and ends_well(page, index):
        why = mark("Ray lost a worker and the log does not say why; a later line says that the run ended well")
    if why is not None:
        return Lookalike(at, why)
    exit_type = _exit_type(found)
    cause = next((told for name, told in _CAUSES.items() if name in found), None)
    if exit_type == "NODE_OUT_OF_MEMORY":
        cause = "out-of-memory"
    if (cause == "unavailable" and "broken" not in found) or _EVENT_FILE in first.text:
        role, strength = _cascade()
    else:
        role, strength = _weight(cause)
    class_name = (_value(found, "class_name") or "").partition(":")[2].strip() or None
    return WorkerDeath(
        at=at,
        time=first.mark.time,
        process=Process(pid=pid, name=class_name, node=_value(found, "ip") or first.mark.ip),
        role=role,
        strength=strength,
        pool="host_ram" if strength else "none",
        error=_value(found, "error"),
        cause=cause,
        exit_type=exit_type,
        exit_code=code,
        class_name=class_name,
        actor_name=(_value(found, "actor_name") or "").partition(":")[2].strip() or None,
        actor_id=_value(found, "actor_id"),
        worker_id=_value(found, "worker_id"),
        node_id=_value(found, "node_id"),
    )


def _ended_as_meant(found: Mapping[str, Sequence[str]], code: int | None) -> str | None:
    """Why it is no failure: somebody ended it, or it ended by itself."""
    why = next((_EXPLAINED[name] for name in found if name in _EXPLAINED), None)
    if why is None and code is not None and 0 <= code < 128:
        why = say("the worker exited by itself with code {code}", code=code)
    return _GUESSED if why is not None and "pod_limit" in found else why


def _says_nothing(found: Mapping[str, Sequence[str]]) -> bool:
    """Whether it is no more than that a worker is gone, while no exception tells its owner."""
    return "error" not in found and "exit_type" not in found


def _facts_above(page: Page, index: int) -> list[Line]:
    """The actor's facts right above, where the exception's first line is lost."""
    kept: list[Line] = []
    if page.lines[index].text.startswith("The actor is dead"):
        for line in reversed(page.before(index, BLOCK_LINES)):
            if not _ROW_OF_FACTS.match(line.text.strip()):
                break
            kept.insert(0, line)
    return kept


def _block(page: Page, index: int) -> list[Line]:
    return block_of(page, index, BLOCK_LINES, lambda text: _FACT.match(text) and "A worker died" not in text)


def _crashed(page: Page, index: int, pid: int | None) -> str | None:
    """The signal that the dead worker printed itself, if it did, or that it left by sys.exit."""
    for near in _near(page, index):
        if _LEFT in near.text and _POD_LIMIT not in near.text and pid in (None, near.mark.pid):
            return mark("the worker exited by itself: SystemExit was raised")
        if _raised(near.text) and (pid is None or near.mark.pid in (None, pid)):
            return mark("an exception of its own ended the worker")
        signal = _crash_signal(near.text)
        if signal in _OWN_FAULT and (pid is None or near.mark.pid in (None, pid)):
            return say("the worker crashed by itself: {signal}", signal=signal)
    return None


@remembered
def _raised(text: str) -> bool:
    """Whether Ray's runtime tells of an exception of C++ that nobody caught, and that is no lack of memory."""
    return "Unhandled exception: " in text and _UNHANDLED.search(text) is not None


@remembered
def _crash_signal(text: str) -> str | None:
    """The signal of a crash that the line reports."""
    crash = _CRASH.search(text)
    return (crash[1] or _CRASH_NAMES[crash[2]]) if crash else None


def _cascade() -> tuple[Role, int]:
    return "cascade", 0


def _weight(cause: str | None) -> tuple[Role, int]:
    if cause in _SECONDARY:
        return _cascade()
    if cause == "out-of-memory":
        return "confirmation", 2
    return "root", 1


def _exit_type(found: Mapping[str, tuple[str, ...]]) -> str | None:
    text = _value(found, "exit_type")
    match = re.search(r"[A-Z_]{3,40}$", text) if text else None
    return match[0] if match else None


def _clauses(text: str) -> dict[str, tuple[str, ...]]:
    """Each clause once, in the order of the text: the first that has a value, else the first."""
    found: dict[str, tuple[str, ...]] = {}
    for name, values in grammars.said("ray_death", text[:BLOCK_CHARACTERS]):
        if values or name not in found:
            found[name] = found.get(name) or values
    return found


def _value(found: Mapping[str, tuple[str, ...]], name: str) -> str | None:
    values = found.get(name, ())
    return values[0] if values else None


def _number(text: str | None) -> int | None:
    digits = (text or "").rstrip(",.")
    return int(digits) if digits.lstrip("-").isdecimal() else None


FAMILY = Family(
    name="ray_death",
    anchors=(
        "died unexpectedly",
        "A worker died or was killed",
        "actor is dead because",
        "OUT_OF_ME",
        "Worker exit detail: ",
        "has been marked dead because",
        "Raylet is terminated",
        "*** SIG",
        "Fatal Python error",
    ),
    triggers=(
        "The actor died",
        "The actor is dead",
        "is unavailable: ",
        "The worker died unexpectedly",
        "A worker died or was killed",
        "Worker exit detail: ",
        "NODE_OUT_OF_MEMORY",
        "has been marked dead because",
        "Raylet is terminated",
        "*** SIG",
        "Fatal Python error",
    ),
    read=read,
)
