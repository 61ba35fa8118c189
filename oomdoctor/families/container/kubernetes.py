"""Kubernetes: the state of a container, what the kubelet evicts, how a node stands."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Final

from oomdoctor.families.container import LimitKill, NodePressure
from oomdoctor.families.container.records import Record, count, figures_of, quantity
from oomdoctor.families.ended import OF_A_DISK
from oomdoctor.families.event import Event, Lookalike, Process, Read
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

STATE_LINES: Final = 8  # of one terminated state
RECORD_ABOVE: Final = 30  # a pod's spec stands above its state in YAML and JSON, below it in `kubectl describe`
RECORD_BELOW: Final = 30
FOLDED_LINES: Final = 8
FULL: Final = mark("the node ran out of disk, inodes or process IDs, not memory")
_DISK = late(OF_A_DISK)
WAITS: Final = mark("Kubernetes has not scheduled the pod; nothing ran out of memory")
_WAITS = late(
    r"nodes are available: .{0,200}Insufficient (?:memory|nvidia\.com/gpu)"
    r"|\binsufficient (?:unused )?quota (?:for|in) "  # Kueue's
)
_KILLED = late(
    r"(?<![.\w])OOMKill(?:ed)?\b(?!\"?[=:] ?true\b)|\boomKilled\"?[:=] ?\"?true|Message: \"OOM Killed\""
    r"|(?<!whether it )(?<!if it )\bwas OOM[- ]killed\b"
    # the autoscaler's, vertical-pod-autoscaler
    r"|\"OOM detected\" oomInfo="
    r"|(?:^|[\"\]] ?)(?:Quick )?OOM detected in (?:the |a )?(?:pod|container)\b(?!\"?[:=] ?(?:false|no)\b)"
)
_EVICTED = late(
    r"low on resource: memory|System OOM encountered|Evicting job because system is out of memory"
    # the kubelet's eviction_manager.go; what it reclaims before costs no pod
    r"|must evict pod\(s\) to reclaim(?: |\\?\" resourceName=\\?\")memory\b"
    # Volcano's agent (eviction.go, 1.10 on), and others that evict what may be evicted
    r"|^(?!.{0,400}\b(?:not|no|never|skip\w{0,4}|if|when|may|might|would|could|should|will)\b).{0,400}?"
    r"\b[Ee]vict(?:ed|ing|s)? (?:[\w./-]{1,80} ){0,4}?(?:pods?|jobs?|tasks?|containers?|workloads?|allocs?|instances?) "
    r"(?:[\w./-]{1,80} ){0,4}?(?:due to|because of|under|on) "
    r"(?:\w{1,12} )?(?:memory|RAM) (?:resource |usage )?pressure\b"
)
_NOBODY: Final = "no pods are active to evict"  # eviction_manager.go
_THEN: Final = 4  # lines
_ABOUT = late(r"\s(?:pod|node)/([\w.-]{1,253})\s")  # of `kubectl get events`
_CONDITION = late(r"node had condition: \[MemoryPressure\]|^\s{0,8}MemoryPressure\s{1,40}True\b")
# A volume in memory by its name; others lie on a disk
_VOLUME = late(
    r"Usage of EmptyDir volume \"[\w.-]{0,60}(?:shm|memory|ram)[\w.-]{0,60}\" exceeds the limit \"(\w{1,20})\""
)
# ContainerStateTerminated of the API, as YAML or JSON
_STATE_TIME = late(r"^\s{0,80}\"?(started|finished)At\"?:\s{1,4}\"?(\d{4}-[\dT:.Z+-]{10,40})\"?,?$")
_KEY = late(r"^\s{0,40}(?:- )?[\w./\"-]{1,60}:(?:\s|$)")
_EACH_CONTAINER = late(r"(?=\b[Cc]ontainer [\w.-]{1,120} was using )")
# Whose record it is, where it is not a pod's
_OWN_WORDS: Final = (("podman", "oomKilled"), ("nomad", "Exit Message: "))


def _is_of_disk(page: Page, index: int) -> Read:
    return Lookalike(place_of(page, page.lines[index]), FULL)


def _waits(page: Page, index: int) -> Read:
    return Lookalike(place_of(page, page.lines[index]), WAITS)


def _state(page: Page, index: int) -> Event:
    """A container's state, wherever its limit stands in the same record."""
    line = page.lines[index]
    above, below = _record(page, index)
    own = figures_of("\n".join([line.text, *(text for text in below[:8])]))
    beside = figures_of("\n".join([*above[-8:], line.text]))
    under, over = figures_of("\n".join(below)), figures_of("\n".join(above))
    exit_code, pod = count(own, "exit_code"), _pod(line.text)
    lived = _times(page, index)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time or lived.get("finished"),
        started=lived.get("started"),
        manager=next((name for name, words in _OWN_WORDS if words in line.text), "kubernetes"),
        reason="OOMKilled",
        exit_code=exit_code if exit_code is not None else count(beside, "exit_code"),
        limit_bytes=quantity(under.get("limit") or over.get("limit")),
        requested_bytes=quantity(under.get("requested") or over.get("requested")),
        used_bytes=quantity(under.get("exact") or under.get("used") or over.get("used")),
        container=pod,
        tool="kubectl get pods" if pod else None,
        host=pod,
    )


def _record(page: Page, index: int) -> tuple[list[str], list[str]]:
    """The lines of the same container's record: up to where the next container begins."""
    above = [line.text for line in page.lines[max(0, index - RECORD_ABOVE) : index]]
    below = []
    for line in page.lines[index + 1 : index + 1 + RECORD_BELOW]:
        if _KILLED.search(line.text) and "State" not in line.text:
            break
        below.append(line.text)
    return above, below


def _times(page: Page, index: int) -> dict[str, str]:
    """When the container was started and ended: keys beside the reason's, which stand as far to the right."""
    margin = _margin(page.lines[index])
    above, below = page.lines[max(0, index - STATE_LINES) : index], page.lines[index + 1 : index + 1 + STATE_LINES]
    beside = [
        *takewhile(lambda line: _margin(line) == margin, reversed(above)),
        *takewhile(lambda line: _margin(line) == margin, below),
    ]
    return {match[1]: match[2] for line in beside if (match := _STATE_TIME.match(line.text[:200]))}


def _margin(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip())


def _pod(text: str) -> str | None:
    """`kubectl get pods`: name, ready, status, restarts, age."""
    row = re.search(r"([a-z0-9][a-z0-9.\-]{0,252})\s{1,200}\d{1,4}/\d{1,4}\s{1,40}\S{0,10}OOMKilled\b", text)
    return row[1] if row else None


def _pressure(page: Page, index: int) -> Event:
    lines = _folded(page, index)
    line = lines[0]
    said = " ".join(part.text.strip() for part in lines)
    # It lists the containers of the pod: the largest counts.
    figures = max((figures_of(part) for part in _containers(said)), key=lambda one: quantity(one.get("used")) or 0)
    nobody = any(_NOBODY in below.text for below in page.after(index, _THEN))
    return NodePressure(
        at=place_of(page, line, lines[-1]),
        role="context" if nobody else "root",
        time=line.mark.time,
        process=Process(pid=count(figures, "victim_pid"), name=figures.get("victim", (None,))[0]),
        reason="SystemOOM" if "System OOM" in line.text else "Evicted",
        host=about[1] if (about := _ABOUT.search(line.text)) else None,
        container=figures.get("container", (None,))[0],
        used_bytes=quantity(figures.get("used")),
        available_bytes=quantity(figures.get("available")),
        threshold_bytes=quantity(figures.get("threshold")),
        requested_bytes=quantity(figures.get("requested")),
    )


def _containers(said: str) -> list[str]:
    """The sentence once for each container that it names, with what stands before the first."""
    head, *rest = _EACH_CONTAINER.split(said)
    return [head + one for one in rest] or [said]


def _folded(page: Page, index: int) -> list[Line]:
    """The sentence with the lines that YAML folds it into: they have no key and no time of their own."""
    first, *rest = page.after(index, FOLDED_LINES)
    lines = [first]
    for line in rest:
        ends = _KEY.match(line.text) or _EVICTED.search(line.text) or not line.text.strip()
        if ends or line.mark != first.mark:
            break
        lines.append(line)
    return lines if "was using" in " ".join(line.text for line in lines[1:]) else [first]


def _condition(page: Page, index: int) -> Event:
    """The node is short of memory: why a pod was turned away, or (in a table of conditions) only how it stands."""
    line = page.lines[index]
    turned_away = "node had condition" in line.text
    return NodePressure(
        at=place_of(page, line),
        time=line.mark.time,
        reason="MemoryPressure",
        strength=2,
        role="root" if turned_away else "context",
    )


def _volume(page: Page, index: int) -> Event:
    """Kubernetes evicts a pod whose volume in memory, mostly its /dev/shm, grows over its size."""
    line = page.lines[index]
    said = _VOLUME.search(line.text)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="volume",
        pool="shm",
        limit_bytes=quantity((said[1],)) if said else None,
        reason="Evicted",
    )


RECORDS: Final = (
    Record(_DISK, _is_of_disk),
    Record(_WAITS, _waits),
    Record(_EVICTED, _pressure),
    Record(_CONDITION, _condition, loose=True),
    Record(_VOLUME, _volume),
    Record(_KILLED, _state, loose=True),
)
