"""Parallel compile jobs are killed: each compiler of a CUDA extension takes gigabytes."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.event import Event
from oomdoctor.families.host_alloc import CompilerKill
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.patterns import late

COMPILER = late(r"^(?:cc1(?:plus)?|cicc|ptxas|nvcc|cudafe\+\+|ld(?:\.\w{2,5})?|collect2|clang\S{0,6}|rustc|g\+\+)$")
_BUILDS = (
    r"Building wheel|building '[\w.]{1,80}' extension|\bMAX_JOBS\b|ninja: |\bninja -|setup\.py (?:install|bdist|build)"
    r"|Building CXX object|Building CUDA object|running build_ext|\bnvcc\b|cmake --build|\bmake(?:\[\d\])?: "
)


def judge(crash: Crash) -> Judgement | None:
    killed = crash.every(CompilerKill)
    if killed:
        program = killed[0].program or say("A compiler")
        refused = killed[0].tried_bytes is not None
        ended = (
            say("{program} found no memory while building.", program=program)
            if refused
            else say("{program} was killed while building.", program=program)
        )
        return Finding(
            weight=0.85,
            why=joined(
                (
                    ended,
                    say(
                        "Compilers of CUDA and C++ templates take gigabytes each, and as many run at once as "
                        "the build was allowed."
                    ),
                )
            ),
            evidence=tuple(killed[:3]),
            stage="launch",
        )
    return _by_name(crash) or _while_building(crash)


def _by_name(crash: Crash) -> Judgement | None:
    """The kernel names the compiler as victim, or lists many of them."""
    for kill in crash.every(KernelKill):
        compilers = [task for task in kill.tasks if COMPILER.match(task.name)]
        if COMPILER.match(kill.process.name or ""):
            name, pid, count = kill.process.name, kill.process.pid, len(compilers)
            return Finding(
                weight=0.88,
                why=say(
                    "The kernel killed the compiler {name} (PID {pid}); {count} compilers ran at once.",
                    name=name,
                    pid=pid,
                    count=count,
                )
                if count > 1
                else say("The kernel killed the compiler {name} (PID {pid}).", name=name, pid=pid),
                evidence=(kill,),
                stage="launch",
            )
    return None


def _while_building(crash: Crash) -> Judgement | None:
    root: Event = crash.root
    if not isinstance(root, Kill) or crash.mentions(_BUILDS) is None:
        return None
    return Finding(
        weight=0.45,
        why=say("A process was killed while something was being compiled; parallel compilers are the usual reason."),
        evidence=(root,),
        against=(say("no line names a compiler as the one that was killed"),),
        stage="launch",
        next_evidence=("dmesg -T | grep -i -E 'killed process|oom'",),
    )


CAUSE = Cause(
    id="build-parallelism",
    title=mark("Parallel compile jobs ran out of memory"),
    pools=("host_ram", "cgroup"),
    knobs=("fewer-build-jobs", "raise-container-limit", "more-host-memory"),
    rule=judge,
)
