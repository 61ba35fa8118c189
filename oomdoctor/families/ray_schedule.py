"""What was asked of a Ray cluster, what it has, and what it cannot place.

A request that waits once and is served later is healthy: it becomes a lookalike when workers or steps follow it. In a
table of `ray status` the totals stand beside the demands: what exceeds them can never be placed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from oomdoctor import grammars, units
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Process, Read, Role
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page


class Unschedulable(Event, frozen=True, kw_only=True):
    """A request for resources that Ray does not place, now or ever."""

    family = "ray_schedule"
    kind = "unschedulable"

    pool: str = "scheduling"
    strength: int = 3

    # "infeasible": no node (type) can ever serve it; "waiting": the resources are there but taken, or not yet;
    # "pending": a placement group or actor in a table; "timeout": given up; "supervisor": the submitted job's own
    # supervisor actor could not be placed; "scattered": enough is free, on no node alone; "reserved": its placement
    # group holds all that it asks for, and its worker does not start; "engine-group" and "engine-cluster": vLLM needs
    # more GPUs than its placement group or the cluster has, and has asked for none yet
    state: str = "waiting"
    # Amounts by resource, as asked: GPUs and CPUs in units, memory in bytes. Fixed-point figures (x 10000) divided.
    requested: Mapping[str, float] | None = None
    available: Mapping[str, float] | None = None
    # What `available` counts, where it is not all that the cluster has: what is free in the "cluster", or on the "node"
    free: str | None = None
    count: int | None = None  # how many of these, where it is said
    pending: int | None = None  # how many such requests wait; "2+" in a table
    placement_group: bool | None = None
    bundles: int | None = None  # of the placement group
    seconds: float | None = None  # how long was waited until then
    idle: bool | None = None  # nothing of the cluster was in use meanwhile

    @property
    def within(self) -> str | None:
        """The placement group in whose bundles all of it has to lie."""
        groups = {match[1] if (match := _RESERVED.search(name)) else None for name in self.requested or {}}
        return groups.pop() if len(groups) == 1 else None

    @property
    def of_bundles(self) -> dict[str, float]:
        """What it asks of its group's bundles, by the plain names; Ray counts the bundles themselves beside them."""
        plain = {name.partition("_group_")[0]: amount for name, amount in (self.requested or {}).items()}
        return {name: amount for name, amount in plain.items() if name != "bundle"}

    @property
    def on_one_node(self) -> Mapping[str, float]:
        """What one node has to have by itself: a bundle, or all of them where the strategy keeps them together."""
        return _together(self.at.text, self.requested or {}, self.count)

    def identity(self) -> str:
        """Repeated every half minute; what counts is how often."""
        return f"{self.family} {self.state} {sorted((self.requested or {}).items())} {self.count}"


class ClusterStatus(Event, frozen=True, kw_only=True):
    """A table of `ray status`, or the same in monitor.log: used and total amounts by resource."""

    family = "ray_schedule"
    kind = "cluster-status"

    role: Role = "context"

    used: Mapping[str, float] | None = None
    total: Mapping[str, float] | None = None


class ClusterStarted(Event, frozen=True, kw_only=True):
    """`ray start` or `ray.init` with the resources it was told to have."""

    family = "ray_schedule"
    kind = "cluster-started"

    role: Role = "context"

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_bytes: int | None = None
    object_store_bytes: int | None = None
    head: bool | None = None


# How many lines of workers after a request show that it was served: the request before them is repeated every half
# minute as long as it waits.
LINES_OF_PROGRESS: Final = 5
LINES_BEHIND: Final = 5000
STATUS_LINES: Final = 60
# No task asks for a thousand GPUs or CPUs: such figures are Ray's fixed point, times 10000.
LARGEST_AMOUNT: Final = 1000
LARGEST_MEMORY: Final = 10**14
FIXED_POINT: Final = 10_000

_TABLE = late(r"^[`'\"]{0,3}={4,} Autoscaler status")  # as it is quoted
_ROW = late(
    r"^(?:[\d.]+[KMGT]?i?B?/[\d.]+|\{|\(no |-{4,}|Active:|Pending:|Recent failures:|Resources|Node status|\d+ node_)"
)
_NODES = late(r"^(\d{1,5}) [A-Za-z]\S{0,200}$")
_SECTION = late(r"^(?:Total )?(?:Usage|Demands|Constraints|From request_resources|Pending Demands):")
_START = late(r"\bray start\b|\bray\.init\(")
_FLAG = late(r"--?(num[-_]cpus|num[-_]gpus|memory|object[-_]store[-_]memory)[= ]{1,3}(\d{1,18}(?:\.\d{1,4})?)")
_ARGUMENT = late(r"\b(num_cpus|num_gpus|object_store_memory)\s?=\s?(\d{1,18}(?:\.\d{1,4})?)")
_OURSELVES: Final = ("raylet", "autoscaler", "scheduler")
_PROGRESS = late(r"\d{1,3}%\||\bit/s\b|\bs/it\b|\b(?:[Ss]tep|[Ee]poch|[Ii]teration)\b[ :=\[]{1,3}\d")
# ray/tune/progress_reporter.py and experimental/output.py: "2/8 (6 PENDING, 2 RUNNING)", "2 RUNNING | 6 PENDING"
_TRIALS = late(r"\b[1-9]\d{0,5} (?:RUNNING|TERMINATED)\b")
# progress_reporter.py 0.8 to 2.6, where no trial has begun: "Number of trials: 4/10 (4 PENDING)"
_ALL_WAIT = late(r"\W{0,4}Number of trials: \d{1,6}(?:/\d{1,6})? \((\d{1,6}) PENDING\)\s{0,4}$")
_RUNS = late(r"\(running for (\d{1,4}):(\d\d):(\d\d)")
_LONG: Final = 120  # seconds: Tune itself warns after 60
_TUNES_LINE = late(
    r"\s{0,8}(?:$|[|+=]|Memory usage on this node|Using |Resources requested|Logical resource usage|Result logdir"
    r"|Current time|Number of trials|\.\.\. \d)"
)
_TUNES_TOTALS: Final = "Resources requested: "
# ray/tune/progress_reporter.py 1.1 to 2.6 lists what placement groups hold behind the totals: once for each group, once
# for each of its bundles ("0.0/1.0 CPU_group_1_4c35...")
_HELD_BY_GROUPS = late(r"([\d.]{1,12})/([\d.]{1,12}) ([A-Za-z]\w{0,40}?)_group_(?:(\d{1,6})_)?([0-9a-f]{16,64})\b")
_NAMES_OF_TUNE: Final = {"CPUs": "CPU", "GPUs": "GPU", "heap": "memory", "objects": "object_store_memory"}
LINES_OF_ROWS: Final = 6
PRINTS: Final = 2  # of the table, one every 5 seconds or more: by then what is free has been given to a trial
_PAIR = late(r"['\"]?([A-Za-z_][\w.:\-]{0,100})['\"]?\s*:\s*([\d.eE+]{1,24})(?: ([KMGT]iB)\b)?")
_PAIR_BACKWARDS = late(r"([\d.]{1,24})(?:/([\d.]{1,24}))? ([A-Za-z]\w{0,40})")
# Up to 1.13 the unit stands apart: "0.00/6.294 GiB memory".
_SHARE = late(r"([\d.]+)([KMGT]?i?B)?/([\d.]+) ?([KMGT]?i?B)? (\S+)")
_GROUP = late(
    r"placement groups? (?:requests|requiring|of|with|creation|to be (?:ready|scheduled))|pending placement group"
    r"|(?:creating a|schedule|requested by the) placement group",
    re.IGNORECASE,
)
# What a placement group has reserved, as its own tasks ask for it; the table's totals do not list it.
_RESERVED = late(r"(?:^bundle|_)_?group_(?:\d{1,6}_)?([0-9a-f]{16,64})$")
_PENDING = late(r"\b(\d{1,9})\+? pending (?:tasks|placement groups)")
_GROUP_ID = late(r"placement group .{0,200}\bid: ([0-9a-f]{16,64})")
_BUNDLES = late(r"bundles size = (\d{1,6})")
LINES_OF_GROUP: Final = 20
# "Requesting bundles: [{'GPU': 4, 'CPU': 40}]": open_instruct/grpo_fast.py, or the list alone
_LISTED = late(r"\[\{['\"][CG]PU['\"]: [^\[\]]{1,2000}\}\]\s{0,4}$")
_TAKEN = late(r"\btaken more than (\d{1,6})s to be scheduled\b")
# What programs on top of Ray count by themselves: "Requested 16 GPUs, but only 8 are available in the cluster".
_COUNTED = (
    late(
        r"(?i)\b(?:request(?:ed|s|ing)?|requir(?:ed?|es|ing)|needs?|needed|asked for|wants?|desired|expect(?:ed|s))"
        r"[ :=]{1,3}(?:at least )?(?P<asked>\d{1,6})(?:\.0)? (?P<unit>[CG]PU)s?\b[^\d]{0,80}"
        r"\b(?:only|available|has|have|found|got|there are)\b[ :=(]{1,3}(?P<has>\d{1,6})(?![\d%])"
    ),
    late(
        r"(?i)\b(?:only|available|has|have|found|there are)\b[ :=(]{1,3}(?P<has>\d{1,6})(?:\.0)? (?:available )?"
        r"(?P<unit>[CG]PU)s?\b[^\d]{0,80}\b(?:request(?:ed|s)?|requir(?:ed|es)|needs?|needed|asked for|wants?|desired)"
        r"\b[ :=(]{1,3}(?P<asked>\d{1,6})(?![\d%])"
    ),
    late(
        r"(?i)\b(?:available (?P<unit>[CG]PU)s?|[CG]PUs? available)\b[^\d]{0,30}(?P<has>\d{1,6})\b[^\d]{0,60}"
        r"\b(?:request(?:ed|s)?|requir(?:ed|es)|needs?|needed|desired)\b[^\d]{0,30}(?P<asked>\d{1,6})(?![\d%])"
    ),
)
# src/ray/raylet/node_manager.cc up to 1.7, and the driver's warning since: what is left on the node that says so
_ON_THE_NODE = late(r"this node only has remaining|Available resources on this node")
# ray.available_resources() and the sum of available_resources_per_node(), not what the cluster has: ray/serve/_private/
# deployment_state.py `resource_requirements`, ray/train/_internal/backend_executor.py, verl/trainer/ppo/ray_trainer.py
# `_check_resource_available`
_IN_THE_CLUSTER = late(r"(?:[Cc]urrent|total) resources available:|Total available GPUs")
_NOTHING = late(r"resources available: \{\}")
# vllm/executor/ray_utils.py, vllm/v1/executor/ray_utils.py
_ENGINE_CHECK = late(
    r"number of required \wPUs exceeds the total number of available \wPUs in the (placement group|cluster)"
)
_FAILS = late(r"Error\b|(?i:\bnot enough\b|\binsufficient\b)")
_OF_RAY = late(r"\b[Rr]ay(?:let)?\b|ray/|\bcluster\b|placement group")
LINES_OF_RAY: Final = 40

# ray/util/placement_group.py: "The group is not allowed to span multiple nodes."
TOGETHER: Final = "STRICT_PACK"
_KIND: Final = "{"  # of bundles, in the row of a group: what follows the first is not read

_Amounts = Mapping[str, float]
_Clauses = Sequence[grammars.Clause]


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if _TABLE.match(line.text.strip()):
        yield from _status(page, index)
    elif _START.search(line.text):
        yield from _started(page, index)
    elif _TUNES_TOTALS in line.text:
        yield from _tunes_status(page, index)
    elif trials := _ALL_WAIT.match(line.text):
        yield from _trials_wait(page, index, int(trials[1]))
    else:
        yield from _request(page, index)


# --- requests

_STATES: Final[Mapping[str, str]] = {
    "infeasible": "infeasible",
    "waiting": "waiting",
    "gave_up": "timeout",
    "supervisor": "supervisor",
    "unplaceable": "infeasible",
    "too_few": "infeasible",
    "refused_trial": "infeasible",
    "bundles_there": "infeasible",
    "no_trial": "waiting",
    "trial_beyond": "waiting",
    "replicas": "waiting",
    "group_wait": "pending",
    "raylet_waiting": "waiting",
    "add_types": "infeasible",
}
_ENDED: Final = late(r"\*\*\* SIG(?:TERM|INT|QUIT|HUP) received")  # abseil's failure_signal_handler.cc
# States that end by themselves once the resources come: whether they came, the lines behind them show.
_BELOW: Final = late(r"\s{0,8}(?:defaultdict\(|\{)")  # the request, where a terminal broke the sentence before it
_MAY_END: Final = frozenset({"infeasible", "waiting", "pending"})
_OF_TRIALS: Final = frozenset({"no_trial", "trial_beyond"})
_REFUSED: Final = frozenset({"unplaceable", "too_few", "refused_trial", "bundles_there"})


def _request(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    below = page.after(index, 2)[-1]
    wrapped = "{" not in line.text and _BELOW.match(below.text) is not None
    found = _clauses(f"{line.text} {below.text}" if wrapped else line.text)
    names = {name for name, _ in found}
    key = next((name for name in _STATES if name in names), None)
    if key is None:
        yield from _counted(page, index)
        return
    at = place_of(page, line, below if wrapped else line)
    state = _of_an_engine(line.text) or _STATES[key]
    if (
        state in _MAY_END
        and key not in _REFUSED
        and (_served(page, index) or (key in _OF_TRIALS and _trials_run(page, index)))
    ):
        yield Lookalike(at, mark("a request that waited and was then placed: the job continues"))
        return
    told = _requests(found) or (_listed_above(page, index) if key == "group_wait" else [])
    for requested, count in told or [(None, None)]:
        yield Unschedulable(
            at=at,
            time=line.mark.time,
            process=Process(pid=line.mark.pid, name=line.mark.name, node=line.mark.ip),
            # The raylet writes down every request that is not placed at once; the driver hears of those that wait.
            role="confirmation" if key == "raylet_waiting" and not _heard(page, index) else "root",
            state=state,
            requested=requested,
            available=_available(found, line.text),
            free=_what_is_free(line.text),
            count=count,
            placement_group=True if _GROUP.search(line.text) else None,
            bundles=_bundles(page, index) or _named_bundles(found),
            pending=_pending(line.text),
            seconds=_seconds(found) or _waited(line.text),
        )


def _what_is_free(text: str) -> str | None:
    if _ON_THE_NODE.search(text[:4000]):
        return "node"
    return "cluster" if _IN_THE_CLUSTER.search(text[:4000]) else None


def _of_an_engine(text: str) -> str | None:
    """vLLM's own check of tensor_parallel_size x pipeline_parallel_size (initialize_ray_cluster)."""
    check = _ENGINE_CHECK.search(text)
    return None if check is None else "engine-group" if check[1] == "placement group" else "engine-cluster"


def _heard(page: Page, index: int) -> bool:
    """Whether the driver tells of it: its log shows the raylet's line behind the raylet's name."""
    line = page.lines[index]
    return line.mark.name != "raylet" or line.raw.startswith("(raylet")


def _counted(page: Page, index: int) -> Iterator[Read]:
    """A check of a program's own before it asks Ray: it raises, so nothing is served later."""
    line = page.lines[index]
    text = line.text[:1000]
    counted = next((match for pattern in _COUNTED if (match := pattern.search(text))), None)
    near = page.lines[max(0, index - LINES_OF_RAY) : index + LINES_OF_RAY]
    if counted is None or not _FAILS.search(text) or not any(_OF_RAY.search(one.text[:400]) for one in near):
        return
    asked, there = float(counted["asked"]), float(counted["has"])
    if asked <= there:
        return
    unit = (counted["unit"] or "GPU").upper()
    yield Unschedulable(
        at=place_of(page, line),
        time=line.mark.time,
        process=Process(pid=line.mark.pid, name=line.mark.name, node=line.mark.ip),
        state="infeasible",
        requested={unit: asked},
        available={unit: there},
    )


def _pending(text: str) -> int | None:
    waiting = _PENDING.search(text[:4000])
    return int(waiting[1]) if waiting else None


def _bundles(page: Page, index: int) -> int | None:
    """How many bundles the group has: the GCS says it where it begins to place them."""
    group = _GROUP_ID.search(page.lines[index].text[:600])
    if group is None:
        return None
    for line in reversed(page.lines[max(0, index - LINES_OF_GROUP) : index]):
        if group[1] in line.text and (size := _BUNDLES.search(line.text[:800])):
            return int(size[1])
    return None


def _named_bundles(found: _Clauses) -> int | None:
    """How many stand beside the sum of what they ask for: "requiring 4.0 GPUs (placement_group_specs=[{...}])"."""
    listed = sum(count or 1 for _, count in _asked(found)) if _in_words(found, "asked") is not None else 0
    return listed or None


def _listed_above(page: Page, index: int) -> list[tuple[_Amounts | None, int | None]]:
    """The bundles of the group, which the program printed before it began to wait."""
    above = reversed(page.lines[max(0, index - LINES_OF_GROUP) : index])
    listed = next((match[0] for line in above if (match := _LISTED.search(line.text[:4000]))), None)
    return _requests(_clauses(listed)) if listed is not None else []


def _served(page: Page, index: int) -> bool:
    """Is there progress behind the last print of this request?"""
    text = page.lines[index].text
    later = page.lines[index + 1 : index + LINES_BEHIND]
    last = max((n for n, line in enumerate(later) if line.text == text), default=-1)
    # Whoever ended the job was tired of waiting
    later = list(takewhile(lambda line: _ENDED.search(line.text) is None, later[last + 1 :]))
    group = _GROUP_ID.search(text[:600])
    if group is not None and any("uccessfully created placement group" in o.text and group[1] in o.text for o in later):
        return True
    if any(_PROGRESS.search(line.text) for line in later):
        return True
    own = page.lines[index].mark.pid  # who tells that it waits is not who comes
    workers = [line for line in later if line.mark.pid not in (None, own) and line.mark.name not in _OURSELVES]
    return len(workers) >= LINES_OF_PROGRESS and not any("Traceback" in line.text for line in later)


def _trials_run(page: Page, index: int) -> bool:
    """Tune's own table behind the warning: a cluster that grows has made room for a trial."""
    return any(_TRIALS.search(line.text) for line in page.lines[index + 1 : index + LINES_BEHIND])


def _trials_wait(page: Page, index: int, pending: int) -> Iterator[Read]:
    """Tune's own table, which shows time and again that no trial has begun, and is all that the log ends with."""
    behind = page.lines[index + 1 : index + 1 + STATUS_LINES]
    if len(behind) == STATUS_LINES or not page.ends:
        return
    if any(_TUNES_LINE.match(line.text) is None or "Number of trials" in line.text for line in behind):
        return
    prints = 0
    for line in reversed(page.lines[max(0, index + 1 - LINES_BEHIND) : index + 1]):
        if _TRIALS.search(line.text) or prints == PRINTS:
            break
        prints += _ALL_WAIT.match(line.text) is not None
    if prints < PRINTS and _seconds_of_tune(page, index) < _LONG:
        return
    line = page.lines[index]
    used, total = _tunes_shares(page, index)
    if not total.get("CPU", 1):
        return  # no node is there yet
    reserved = _reserved_in_vain(page, index)
    yield Unschedulable(
        at=place_of(page, line),
        time=line.mark.time,
        state="reserved" if reserved else "waiting",
        requested=reserved or None,
        available=total or None,
        pending=pending,
        placement_group=True if reserved else None,
        idle=True if total and not any(used.values()) else None,
    )


def _reserved_in_vain(page: Page, index: int) -> _Amounts:
    """What placement groups hold, where nothing of it is in use: the group, and not its bundles beside it."""
    told = _tunes_line(page, index)
    groups = [match.groups() for match in _HELD_BY_GROUPS.finditer(told[:4000])]
    if any(_float(used) for used, *_ in groups):
        return {}
    held: dict[str, float] = {}
    for _, there, name, bundle, _ in groups:
        if bundle is None:
            held[name] = held.get(name, 0.0) + (_float(there) or 0.0)
    return held


def _seconds_of_tune(page: Page, index: int) -> int:
    """How long it has run by its own clock: "(running for 00:03:40.19)"."""
    above = (_RUNS.search(line.text) for line in reversed(page.lines[max(0, index - LINES_OF_ROWS) : index]))
    clock = next((match for match in above if match is not None), None)
    return sum(int(part) * unit for part, unit in zip(clock.groups(), (3600, 60, 1), strict=True)) if clock else 0


def _tunes_shares(page: Page, index: int) -> tuple[_Amounts, _Amounts]:
    """What is in use and what the cluster has, by Tune's table: "Resources requested: 0/8 CPUs, 0.0/9.5 GiB heap"."""
    return _shares_of_tune(_tunes_line(page, index))


def _tunes_line(page: Page, index: int) -> str:
    above = reversed(page.lines[max(0, index - LINES_OF_ROWS) : index])
    return next((line.text for line in above if _TUNES_TOTALS in line.text), "")


def _tunes_status(page: Page, index: int) -> Iterator[ClusterStatus]:
    line = page.lines[index]
    used, total = _shares_of_tune(line.text)
    if total.get("CPU"):
        yield ClusterStatus(at=place_of(page, line), time=line.mark.time, used=used, total=total)


def _shares_of_tune(told: str) -> tuple[_Amounts, _Amounts]:
    told = told.partition(_TUNES_TOTALS)[2].partition(" (")[0]
    parts = (_share(part.strip()) for part in told.split(","))
    shares = [(_NAMES_OF_TUNE.get(one[0], one[0]), *one[1:]) for one in parts if one is not None]
    return {name: used for name, used, _ in shares}, {name: total for name, _, total in shares}


def _share(text: str) -> tuple[str, float, float] | None:
    """What is in use and what there is of a resource: "2.0/8.0 CPU", "0.0/9.5 GiB heap"."""
    share = _SHARE.match(text)
    return (share[5], _amount(share[1], share[2] or share[4]), _amount(share[3], share[4])) if share else None


def _clauses(text: str) -> _Clauses:
    return grammars.said("ray_schedule", text[:4000])


def _requests(found: _Clauses) -> list[tuple[_Amounts | None, int | None]]:
    """Every request of a line, with how many of it are asked for where that is said."""
    replicas = next((int(_float(values[0]) or 0) for name, values in found if name == "replicas"), None)
    in_words = _in_words(found, "asked")
    if in_words is not None:
        return [(in_words, replicas)]
    asked = _asked(found)
    if any(name == "asked" for name, _ in found):  # one request, before 1.8 in braces of its own for each resource
        merged: dict[str, float] = {}
        for amounts, _ in asked:
            merged.update(amounts)
        return [(merged or None, replicas)]
    return [*asked]


def _asked(found: _Clauses) -> list[tuple[_Amounts, int | None]]:
    """The resources in braces that are asked for, equal ones of a list counted."""
    requests: list[tuple[_Amounts, int | None]] = []
    now = "asked"
    for name, values in found:
        if name in _SECTIONS:
            now = _SECTIONS[name]
        elif now != "asked":
            continue
        elif name == "bundle" and (amounts := _amounts(values[0])):
            if requests and requests[-1][0] == amounts:
                requests[-1] = (amounts, (requests[-1][1] or 1) + 1)
            else:
                requests.append((amounts, None))
        elif name == "demand" and requests:
            requests[-1] = (requests[-1][0], int(_float(values[0]) or 0))
    return requests


# Whose amounts follow these words.
_SECTIONS: Final[Mapping[str, str]] = {
    "asked": "asked",
    "asked_bundles": "asked",
    "has": "has",
    "bundles_there": "group",
}


def _in_words(found: _Clauses, part: str) -> _Amounts | None:
    """ "requiring 4.0 GPUs", "less than total desired GPUs 8", "asked for 9.0 cpu and 1.0 gpu ... only has 4.0 cpu"."""
    amounts: dict[str, float] = {}
    now = ""
    for name, values in found:
        if name in ("gpus_required", "desired") and values and part == "asked":
            return {"GPU": _float(values[0]) or 0.0}
        if name == "too_few" and values and part == "has":
            return {"GPU": _float(values[0]) or 0.0}
        if name in _SECTIONS:
            now = _SECTIONS[name]
        elif name in ("cpus", "gpus") and now == part and (amount := _float(values[0])) is not None:
            amounts.setdefault(name[:-1].upper(), amount)
    return amounts or None


def _available(found: _Clauses, text: str) -> _Amounts | None:
    in_words = _in_words(found, "has")
    if in_words is not None:
        return in_words
    now = "asked"
    has: dict[str, float] = {}
    for name, values in found:
        now = _SECTIONS.get(name, now)
        if now == "has" and name == "bundle":  # before 1.8 in braces of its own for each resource
            has |= _amounts(values[0]) or {}
    return has if has or _NOTHING.search(text[:4000]) else None


def _amounts(text: str) -> _Amounts | None:
    """The amounts of a dict in any of Ray's spellings."""
    amounts = {name: _amount(figure, unit) for name, figure, unit in _PAIR.findall(text) if _float(figure) is not None}
    for left, _, name in _PAIR_BACKWARDS.findall(text) if not amounts else ():
        if (value := _float(left)) is not None:  # "4.000000/4.000000 CPU": what is left of what there is
            amounts[name] = value
    if not amounts:
        return None
    compute = [amounts[name] for name in ("CPU", "GPU") if name in amounts]
    fixed = any(a >= LARGEST_AMOUNT for a in compute) or amounts.get("memory", 0) >= LARGEST_MEMORY
    return {name: value / FIXED_POINT for name, value in amounts.items()} if fixed else amounts


def _waited(text: str) -> float | None:
    """How long Ray Serve waits for its replicas, in the sentence that tells of it."""
    waited = _TAKEN.search(text[:4000])
    return _float(waited[1]) if waited is not None else None


def _float(text: str) -> float | None:
    try:
        amount = float(text.replace(",", ""))
    except ValueError:
        return None
    return amount if abs(amount) <= units.LARGEST_NUMBER else None


def _seconds(found: _Clauses) -> float | None:
    within = next((values for name, values in found if name == "within" and values), None)
    return _float(within[0]) if within is not None else None


# --- the tables


def _status(page: Page, index: int) -> Iterator[Read]:
    lines = _table(page, index)
    used: dict[str, float] = {}
    total: dict[str, float] = {}
    demands: list[tuple[Line, _Amounts, int | None]] = []
    for line in lines:
        text = line.text.strip()
        if text.startswith("Node: "):  # 2.50 and later go on node by node
            break
        if (share := _share(text)) is not None:
            name, in_use, there = share
            used[name], total[name] = in_use, there
        elif text.startswith("{") and "pending" in text:
            found = _clauses(text)
            for amounts, count in _requests(found)[:1]:
                if amounts is not None:
                    demands.append((line, amounts, count))
    first = lines[0]
    if not total:
        return
    yield ClusterStatus(at=place_of(page, first, lines[-1]), time=first.mark.time, used=used, total=total)
    for line, amounts, count in demands:
        own = {name: amount for name, amount in amounts.items() if not _RESERVED.search(name)}
        never = any(amount * (count or 1) > total.get(name, 0.0) for name, amount in own.items())
        scattered = not never and _scattered(lines, _together(line.text, amounts, count), used, total)
        yield Unschedulable(
            at=place_of(page, line),
            time=first.mark.time,
            role="root" if never or scattered else "context",
            strength=3 if never else 2 if scattered else 0,
            state="infeasible" if never else "scattered" if scattered else "pending",
            requested=amounts,
            available=total,
            count=count,
            placement_group=True if _GROUP.search(line.text) else None,
            pending=_pending(line.text),
        )


def _together(text: str, bundle: _Amounts, count: int | None) -> _Amounts:
    """What has to lie on one node: the bundle of that row, or all of them."""
    kept = TOGETHER in text and text.count(_KIND) == 1
    return {name: amount * (count or 1) for name, amount in bundle.items()} if kept else bundle


def _scattered(lines: list[Line], asked: _Amounts, used: _Amounts, total: _Amounts) -> bool:
    """Enough is free, no node is on its way, and one request is more than a node's share: no node has it alone."""
    text = [line.text.strip() for line in lines]
    nodes = sum(int(node[1]) for line in text if (node := _NODES.match(line)))
    if nodes < 2 or "(no pending nodes)" not in text:
        return False
    free = all(amount <= total.get(name, 0.0) - used.get(name, 0.0) for name, amount in asked.items())
    return free and any(amount > total.get(name, 0.0) / nodes for name, amount in asked.items())


def _table(page: Page, index: int) -> list[Line]:
    lines = page.after(index, STATUS_LINES)
    kept = 1
    for position, line in enumerate(lines[1:], start=1):
        text = line.text.strip()
        if _TABLE.match(text):
            break
        if _ROW.match(text) or _SECTION.match(text):
            kept = position + 1
    return lines[:kept]


def _amount(figure: str, unit: str | None) -> float:
    if not unit:
        return _float(figure) or 0.0
    return float(units.size(figure, unit, units.BINARY) or 0)


# --- what the cluster was started with


def _started(page: Page, index: int) -> Iterator[Read]:
    lines = _command(page, index)
    text = " ".join(line.text for line in lines)
    told: dict[str, Any] = {}
    for name, figure in [*_FLAG.findall(text), *_ARGUMENT.findall(text)]:
        field = _FIELDS[name.replace("-", "_")]
        value = _float(figure)
        told.setdefault(field, int(value or 0) if field.endswith("_bytes") else value)
    if not told:
        return
    first = lines[0]
    yield ClusterStarted(
        at=place_of(page, first, lines[-1]),
        time=first.mark.time,
        head=True if "--head" in text else None,
        **told,
    )


_FIELDS: Final[Mapping[str, str]] = {
    "num_cpus": "num_cpus",
    "num_gpus": "num_gpus",
    "memory": "memory_bytes",
    "object_store_memory": "object_store_bytes",
}


def _command(page: Page, index: int) -> list[Line]:
    """The command with the lines that a backslash continues."""
    lines = [page.lines[index]]
    for line in page.lines[index + 1 : index + 30]:
        if not lines[-1].text.rstrip().endswith("\\"):
            break
        lines.append(line)
    return lines


# Beside which programs count the GPUs and CPUs of a cluster
_COUNTING: Final = (
    "enough GPU",
    "enough CPU",
    "enough gpu",
    "enough resources",
    "nsufficient GPU",
    "nsufficient CPU",
    "nsufficient resources",
    "available GPU",
    "vailable gpus",
    "GPUs available",
    "GPUs are available",
    " GPUs, but ",
    " GPUs but ",
    " GPUs, only ",
    " GPUs required",
    " CPUs, but ",
    " CPUs but ",
)

FAMILY = Family(
    name="ray_schedule",
    anchors=(
        "No available node types can fulfill",
        "Add suitable node types",
        "cannot be scheduled right now",
        "could not be scheduled",
        "lacement group creation timed out",
        "No trial is running and no new",
        "the cluster only has",
        "cannot currently be ",
        "to be scheduled",
        "chedule placement group",
        "+ pending ",
        "scheduling_state: ",
    ),
    triggers=(
        "No available node types can fulfill",
        "Add suitable node types",
        "cannot be scheduled right now",
        "Cannot provide a placement group",
        "lacement group creation timed out",
        "supervisor actor could not be scheduled",
        " is not schedulable",
        "Current node has no GPU available",
        "Ray does not allocate any GPUs",
        "Waiting for creating a placement group",
        "Waiting for placement group to be scheduled",
        "scheduling_state: INFEASIBLE",
        "scheduling_state: NO_RESOURCES",
        "Autoscaler status",
        "No trial is running and no new trial",
        "per trial, but the cluster only has",
        "Training has not started in the last",
        " PENDING)",
        _TUNES_TOTALS,
        "Insufficient cluster resources to launch",
        "cannot currently be scheduled",
        "cannot currently be executed",
        "could not find a node type",
        "resources are not enough to run any",
        "Failed to schedule placement group",
        "Failed to create placement group with",
        "placement group timeout",
        "reserve TPU head for slice",
        "placement group could not be created",
        "placement group cannot be created",
        "imed out waiting for placement group",
        "worker group startup timed out",
        "supervisor actor failed to start within",
        "cannot fit into any bundles",
        "cannot be satisfied in this ray cluster",
        "s to be scheduled",
        *_COUNTING,
        "ray start ",
        "ray.init(",
    ),
    read=read,
)
