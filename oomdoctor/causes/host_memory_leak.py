"""The same processes grow step after step until something is killed."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.causes.growth import no_growth
from oomdoctor.causes.host import node_memory, per, total_bytes, used_bytes
from oomdoctor.incident.model import Crash
from oomdoctor.job import names
from oomdoctor.job.model import Trajectory
from oomdoctor.language import mark, say
from oomdoctor.units import MIB, percent, show

# Growth that explains the kill: this share of what was in use came during the log.
MUCH = 0.2
LEAST_POINTS = 3
ENOUGH_POINTS = 5
LEAST_GROWN = 128 * MIB  # where nobody says of how much: a small process beside the one that filled it
HOST_POOLS = ("host_ram", "cgroup", "shm")  # the object store is filled on purpose


def judge(crash: Crash) -> Judgement | None:
    trajectory = crash.trajectory
    if trajectory is None or trajectory.pool not in HOST_POOLS or len(trajectory.points) < LEAST_POINTS:
        return _mentioned(crash)
    if not trajectory.growth_bytes:
        return no_growth(trajectory) or _mentioned(crash)
    grown = trajectory.grown
    known = used_bytes(crash) or total_bytes(crash)
    if known is None and grown < LEAST_GROWN:
        return _mentioned(crash)
    base = known or trajectory.points[-1].bytes
    share = grown / base
    return Finding(
        weight=_weight(trajectory, share),
        shows_memory=True,
        why=_grew(crash, trajectory, base),
        evidence=(crash.root,),
        against=_against(crash, trajectory, share),
        knobs=_engine_knobs(crash) + CAUSE.knobs,
    )


def _engine_knobs(crash: Crash) -> tuple[str, ...]:
    """What an engine allocates in host memory again and again: verl's first generation, with vLLM up to 0.6.3, makes
    its cache anew at each rollout, the page-locked swap space with it."""
    found = []
    cache = crash.setting("free_cache_engine")
    if cache is not None and cache.value is True:
        found.append("keep-engine-cache")
    swap = crash.setting("swap_space", "vllm_swap_space")
    if swap is not None and isinstance(swap.value, (int, float)) and swap.value > 0:
        found.append("less-swap-space")
    return tuple(found)


def _weight(trajectory: Trajectory, share: float) -> float:
    if trajectory.what.startswith("PID "):  # from the tables of a few kills: a task's own work looks the same
        return 0.8 if share >= 2 * MUCH and len(trajectory.points) >= 2 * LEAST_POINTS else 0.55
    if share < MUCH:
        return 0.6
    return 0.92 if _is_steady(trajectory) else 0.7


def _is_steady(trajectory: Trajectory) -> bool:
    """Whether it grew from one whole step to the next, or so often that it is no start that has not settled."""
    return trajectory.per == "step" or len(trajectory.points) >= ENOUGH_POINTS


def _grew(crash: Crash, trajectory: Trajectory, base: int) -> str:
    start, end = trajectory.points[0], trajectory.points[-1]
    figure, first, last = names.figure(trajectory.what), show(start.bytes), show(end.bytes)
    share = percent(trajectory.grown / base)
    whole = _of(crash, base, end.bytes)
    return say(
        "{figure} grew from {first} (line {first_line}) to {last} (line {last_line}), about "
        "{rate} per {step}: {share} of {whole} came while the job ran.",
        figure=figure,
        first=first,
        first_line=start.line,
        last=last,
        last_line=end.line,
        rate=show(trajectory.growth_bytes or 0),
        step=per(trajectory),
        share=share,
        whole=whole,
    )


def _of(crash: Crash, base: int, last: int) -> str:
    if used_bytes(crash):
        return say("the {used} in use at the kill", used=show(base))
    return say("the machine's {total}", total=show(base)) if base != last else say("the last {last}", last=show(base))


def _against(crash: Crash, trajectory: Trajectory, share: float) -> tuple[str, ...]:
    found = []
    if not _is_steady(trajectory):
        count = len(trajectory.points)
        found.append(say("only {count} prints show it: a job that fills its caches at the start looks so", count=count))
    if share < MUCH:
        found.append(say("most of the memory was in use before it grew"))
    memory = node_memory(crash)
    if memory is not None and memory.heaviest is not None and memory.heaviest.role == "reward":
        found.append(
            say(
                "{who} holds {largest}: where it grows matters more",
                who=memory.heaviest.who,
                largest=show(memory.heaviest.largest),
            )
        )
    return tuple(found)


def _mentioned(crash: Crash) -> Judgement | None:
    """The log's own words for a leak, without figures."""
    words = crash.mentions(r"(?i)memory leak(?:ed|ing|s)?\b.{0,60}(?:detected|suspected|step|worker)")
    if words is None:
        return None
    return Finding(
        weight=0.35,
        why=say("The log itself speaks of a memory leak; no figure in it shows the growth."),
        evidence=(crash.root,),
        against=(say("it may be no more than a suspicion"),),
    )


CAUSE = Cause(
    id="host-memory-leak",
    title=mark("Host memory grows step after step until something is killed"),
    pools=("host_ram", "cgroup"),
    knobs=(
        "restart-periodically",
        "clear-references",
        "smaller-buffers",
        "pin-version",
        "smaller-microbatch",
        "shorter-sequences",
        "more-host-memory",
    ),
    rule=judge,
)
