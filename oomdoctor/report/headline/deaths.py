"""Slots about processes that were killed or died where the log does not say what for."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.data_loader import WorkerDeath as LoaderDeath
from oomdoctor.families.kill import POSTGRESQL, SIGBUS, SIGKILL, Kill
from oomdoctor.families.lines import SIGKILL_CODES
from oomdoctor.families.ray_death import FatalSignal, NodeDeath, WorkerDeath
from oomdoctor.families.sglang import SchedulerFailed
from oomdoctor.families.vllm_cascade import EngineFailed
from oomdoctor.families.vllm_cut import CutTraceback
from oomdoctor.incident.model import Crash
from oomdoctor.job.roles import short_name
from oomdoctor.language import counted, listed, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.report.headline.names import with_pid
from oomdoctor.report.headline.slot import about, first, root
from oomdoctor.signs.above_a_kill import last_done
from oomdoctor.signs.cut import is_cut
from oomdoctor.signs.kills import as_reported, program_of, started_them

_MINUS_NINE: Final = late(r"(?i)(?:exit ?code|return ?code|exit status)\W{1,6}-9\b")
# docker compose, supervisors, npm, Dask and loggers name the process in the line itself
_NAMED: Final = late(
    r"^\[?(?P<name>[\w.-]{1,60})\]? (?:exited|terminated) with (?:exit )?code|\bCommand \"(?P<command>[^\"]{1,60})\""
    r"|\b[Ww]orker process (?P<pid>\d{1,9})\b|\brank (?P<rank>\d{1,5})\b|'(?P<script>[\w./-]{1,80}\.py)'"
)

_LISTS_WORDS: Final = "deepspeed"
_SCRIPT: Final = late(r"'(?:[^'\s]{0,200}/)?([\w.-]{1,60}\.py)'")
_LOCAL_RANK: Final = late(r"'--local[_-]rank=(\d{1,5})'")
_SEVERAL: Final = 2
_LAUNCHERS: Final = {"deepspeed": "DeepSpeed", "mpirun": "mpirun", "slurm": "Slurm", "tgi": "TGI"}
_POOLS: Final = {
    "pool": mark("A worker of a process pool"),
    "joblib": mark("A joblib worker"),
    "datasets": mark("A worker of datasets.map"),
}


def loaded(crash: Crash) -> str | None:
    """How many pieces of the weights were in, where the last bar before the kill was not at its end."""
    bar = next((each.loaded for each in crash.every(Kill) if each.loaded), None)
    done, _, whole = (bar or "").partition("/")
    return say("{done} of {whole} pieces loaded", done=done, whole=whole) if bar and int(done) < int(whole) else None


def killed_process(crash: Crash) -> str | None:
    """Who was killed with SIGKILL as far as the log says; None where it may have ended in another way."""
    event = crash.root
    if isinstance(event, Kill):
        return _by_its_launcher(event) if event.signal == SIGKILL else None
    if isinstance(event, LoaderDeath):
        return _loader_worker(event) if event.signal else None
    if isinstance(event, EngineFailed) and event.killed:
        name = event.worker or next((each.name for each in event.failed if each.exit_code in SIGKILL_CODES), None)
        return say("Engine process {name}", name=name) if name else say("An engine process")
    if isinstance(event, SchedulerFailed) and event.exit_code in SIGKILL_CODES:
        return say("A scheduler process of SGLang")
    return None


def killed_starter(crash: Crash) -> str | None:
    """The same, where it started workers and is none."""
    return killed_process(crash) if started_them(crash) else None


def after(crash: Crash) -> str | None:
    """What it had done last, where nothing tells what it was doing."""
    done = last_done(crash)
    return done.words if done is not None else None


def kill_code(crash: Crash) -> str | None:
    """The exit code or the signal, as the log has it."""
    event = crash.root
    if isinstance(event, EngineFailed):
        codes = [event.exit_code, *(each.exit_code for each in event.failed)]
        code = next((each for each in codes if each is not None), None)
    else:
        code = getattr(event, "exit_code", None) if isinstance(event, Kill | SchedulerFailed) else None
    if _MINUS_NINE.search(event.at.text) or _launcher_says_minus_nine(crash):
        code = -9
    if code is not None:
        return say("exit code {code}", code=code)
    signal = event.signal if isinstance(event, Kill | LoaderDeath | FatalSignal) else None
    return SIGKILL if signal == "Killed" else signal


def cut_line(crash: Crash) -> str | None:
    """Where the log ends inside a traceback, without the error's own words."""
    event = crash.root
    begun = isinstance(event, CutTraceback) and event.begun
    return str(event.at.end_line) if is_cut(event) and not begun and not crash.proven else None


def lost(crash: Crash) -> str | None:
    """A node that Ray hears no more of, or an actor that it cannot reach: it may be alive."""
    event = crash.root
    if isinstance(event, NodeDeath) and event.cause == "heartbeats":
        return _rays_node(event)
    if isinstance(event, WorkerDeath) and event.cause == "unavailable":
        return _rays_worker(event)
    return None


@about(root(WorkerDeath))
def suspected(death: WorkerDeath) -> str | None:
    """Ray's own suspicion of the pod's memory limit."""
    return say("the pod's memory limit") if death.cause == "pod-limit" else None


def dead_process(crash: Crash) -> str | None:
    """Who died where the log does not say how: a worker or a node of Ray, one of a pool, of a data loader."""
    event = crash.root
    if isinstance(event, WorkerDeath):
        return _rays_workers(crash, event) or _rays_worker(_with_its_pid(crash, event))
    if isinstance(event, NodeDeath):
        return _rays_node(event)
    if isinstance(event, LoaderDeath):
        return _loader_worker(event)
    if isinstance(event, FatalSignal):
        return bus_victim(crash)
    if isinstance(event, Kill) and event.signal != SIGKILL:
        return _of_pool(event.reporter) or _by_its_launcher(event)
    return None


@about(first(WorkerDeath))
def ray_dead(death: WorkerDeath) -> str | None:
    """The first worker of Ray's that died, where its PID is printed."""
    return _rays_worker(death) if death.process.pid is not None else None


def bus_victim(crash: Crash) -> str | None:
    """Who died of a bus error."""
    kill = next((each for each in crash.every(Kill) if each.signal == SIGBUS), None)
    if kill is not None:
        return _by_its_launcher(kill)
    signal = crash.first(FatalSignal)
    if signal is None or not signal.process.name:
        return None
    return with_pid(signal.process.name, signal.process.pid)


def _of_pool(reporter: str) -> str | None:
    return translated(_POOLS.get(reporter, "")) or None


def _launcher_says_minus_nine(crash: Crash) -> bool:
    """DeepSpeed prints the code in another line than the death."""
    event = crash.root
    return isinstance(event, Kill) and event.reporter == "deepspeed" and -9 in crash.context.exit_codes


def _by_its_launcher(kill: Kill) -> str:
    """Its command, its rank or its name, as the line that reports it has them."""
    pid, rank = kill.process.pid, kill.process.rank
    if program_of(kill) is not None:
        return as_reported(kill)
    missed = kill.process.name if kill.reporter == "silence" or _is_postgresqls(kill) else None
    listed_words = _by_its_words(kill) if kill.reporter == _LISTS_WORDS else None
    who = _rank(rank, kill.local_rank) or missed or listed_words or _named(kill)
    if who:
        return with_pid(who, pid)
    if pid is not None:
        return say("Process {pid}", pid=pid)
    if kill.reporter in _LAUNCHERS:
        return say("A process that {launcher} started", launcher=_LAUNCHERS[kill.reporter])
    return _of_pool(kill.reporter) or say("A process")


def _by_its_words(kill: Kill) -> str | None:
    """DeepSpeed prints the words of the command that ended, which a terminal may have broken: launcher/launch.py."""
    words = "".join((*kill.around.before[-1:], kill.at.text))
    script, rank = _SCRIPT.search(words), _LOCAL_RANK.search(words)
    if script is None:
        return None
    if rank is None:
        return script[1]
    return say("Local rank {rank} of {script}", rank=rank[1], script=script[1])


def _is_postgresqls(kill: Kill) -> bool:
    return (kill.process.name or "").startswith(POSTGRESQL)


def _rank(rank: int | None, local_rank: int | None) -> str:
    if rank is not None:
        return say("Rank {rank}", rank=rank)
    return say("Local rank {rank}", rank=local_rank) if local_rank is not None else ""


def _named(kill: Kill) -> str:
    told = _NAMED.search(kill.at.text[:400])
    if told is None:
        return ""
    if told["pid"] or told["rank"]:
        return say("Worker {pid}", pid=told["pid"]) if told["pid"] else say("Rank {rank}", rank=told["rank"])
    return told["name"] or (f"`{told['command']}`" if told["command"] else told["script"].rsplit("/", 1)[-1])


def _loader_worker(death: LoaderDeath) -> str:
    if death.process.pid is not None:
        return say("DataLoader worker {pid}", pid=death.process.pid)
    pids = ", ".join(str(pid) for pid in death.pids[:3])
    return say("DataLoader workers {pids}", pids=pids) if pids else say("A DataLoader worker")


def _rays_node(death: NodeDeath) -> str:
    return say("Ray node {node}", node=death.process.node) if death.process.node else say("A Ray node")


def _rays_workers(crash: Crash, first: WorkerDeath) -> str | None:
    """Several that died alike, without names: it was no single stray kill."""
    if first.exit_type is None or first.class_name:
        return None
    alike = (one for one in crash.every(WorkerDeath) if one.exit_type == first.exit_type and not one.class_name)
    pids = list(dict.fromkeys(one.process.pid for one in alike if one.process.pid is not None))
    if first.process.pid not in pids or len(pids) < _SEVERAL:
        return None
    shown, more = listed(map(str, pids[:_SEVERAL])), len(pids) - _SEVERAL
    names = counted(more, mark("{names} and {count} other"), mark("{names} and {count} others"), names=shown)
    return say("Ray workers {pids}", pids=names if more else shown)


def _with_its_pid(crash: Crash, death: WorkerDeath) -> WorkerDeath:
    """The same death as another line reports it, where that one has the number: of one node, and of no other worker; or
    where that one has the name, of the same number."""
    if death.actor_name or death.class_name:
        return death
    if death.process.pid is not None:
        same = (one for one in crash.every(WorkerDeath) if one.process.pid == death.process.pid)
        return next((one for one in same if one.actor_name or one.class_name), death)
    others = [one for one in crash.every(WorkerDeath) if one.process.pid is not None]
    alike = [one for one in others if (one.process.node, one.cause) == (death.process.node, death.cause)]
    return alike[0] if len(others) == 1 and alike else death


def _rays_worker(death: WorkerDeath) -> str:
    name = death.actor_name or death.class_name
    pid = death.process.pid
    who = short_name(name.rsplit(".", 1)[-1]) if name else ""
    if pid is not None and who:
        return say("Ray actor {name} (PID {pid})", name=who, pid=pid)
    if pid is not None:
        return say("Ray worker {pid}", pid=pid)
    return say("Ray actor {name}", name=who) if who else say("A Ray worker")
