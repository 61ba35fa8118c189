"""Compilers that are killed, or refused memory, while something is built."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import CompilerKill
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import is_after
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import ADDRESS_LIMIT, DMESG
from oomdoctor.units import show

FAR_LESS: Final = 4  # times what the compiler had: several of them would still have room
COMPILER: Final = late(
    r"^(?:cc1(?:plus)?|cicc|ptxas|nvcc|cudafe\+\+|ld(?:\.\w{2,5})?|collect2|clang\S{0,6}|rustc|g\+\+)$"
)
RUSTC: Final = "rustc"
COMMAND_ABOVE: Final = 4  # lines
_COMMAND: Final = late(
    r"^\W{0,4}(?:\[\d{1,5}/\d{1,5}\] )?(?:FAILED: \S{1,300}\.o\b"
    r"|(?:/\S{1,200}/)?(?:nvcc|g\+\+|gcc|cc|c\+\+|clang(?:\+\+)?"
    r"|hipcc)(?:-[\d.]{1,5})? [^\n]{0,1000}\s-(?:c|o)\s)"
)
_BUILDS: Final = (
    r"Building wheel|building '[\w.]{1,80}' extension|\bMAX_JOBS\b|ninja: |\bninja -|setup\.py (?:install|bdist|build)"
    r"|Building CXX object|Building CUDA object|running build_ext|\bnvcc\b|cmake --build|\bmake(?:\[\d\])?: "
    r"|error: could not compile `"
)


_OBJECT: Final = late(
    r"\bFAILED: (?:\[[^\]]{1,40}\] )?\S{1,200}\.o\b|\bnvcc\b.{0,4000} -c |\bc(?:\+\+|c1plus)\b.{0,4000} -c "
)
LINES_ABOVE: Final = 2


# The last crate of a release build: rustc's book, codegen-options, `lto`; "thin" and "off" take less
_WITH_LTO: Final = late(r"\brustc --crate-name (?P<crate>\w{1,80}) .{0,1200}? -C (?P<option>lto(?:=fat)?)(?=\s|$)")
# Docker's own words, of its builder and of BuildKit
_IN_A_DOCKERFILE: Final = (
    r"The command '/bin/\w{1,8} -c .{1,400}' returned a non-zero code"
    r"|^ ?(?:>|#\d{1,4}) \[[^\]\n]{1,60}\d/\d{1,2}\] RUN\b"
    r"|^Step \d{1,3}/\d{1,3} : |\bfailed to solve: .{0,200}process \"/bin/"
)


def whole_program_crate(crash: Crash) -> tuple[str, str] | None:
    """The crate that rustc was killed in while it optimized all crates at once, and the option that says so."""
    killed = crash.first(CompilerKill)
    line = crash.mentions(_WITH_LTO.pattern) if killed is not None and killed.program == RUSTC else None
    found = _WITH_LTO.search(line) if line is not None else None
    return (found["crate"], f"-C {found['option']}") if found is not None else None


def in_a_dockerfile(crash: Crash) -> bool:
    """Whether a step of a Dockerfile ran it, which has no variable of the shell that started the build."""
    return crash.mentions(_IN_A_DOCKERFILE) is not None


@sign
def whole_program_was_optimized(crash: Crash) -> Seen | None:
    """rustc was killed in link-time optimization, which is one process, however many jobs run."""
    found = whole_program_crate(crash)
    if found is None:
        return None
    words = say(
        "rustc was killed while it compiled the crate {crate} with {option}: then a single process optimizes all "
        "crates together, and fewer jobs do not help.",
        crate=found[0],
        option=found[1],
    )
    return Seen(words=words, evidence=tuple(crash.every(CompilerKill)[:1]), stage="launch")


@sign
def compiler_reports_it(crash: Crash) -> Seen | None:
    """The build's own output says that a compiler was killed or ran out of memory."""
    killed = crash.every(CompilerKill)
    if not killed:
        return None
    program = killed[0].program or say("A compiler")
    ended = (
        say("{program} ran out of memory during the build.", program=program)
        if killed[0].ended_itself
        else say("{program} was killed during the build.", program=program)
    )
    how = (
        say("A large crate takes gigabytes, and the build compiles as many at once as it is allowed.")
        if program == RUSTC
        else say(
            "Each compiler of CUDA or C++ templates takes gigabytes, and the build runs as many at once as it is "
            "allowed."
        )
    )
    return Seen(words=joined((ended, how)), evidence=tuple(killed[:3]), stage="launch")


@sign
def a_compiler_stopped_beside_free_memory(crash: Crash) -> Seen | None:
    """A compiler was refused a piece, with a quarter of the machine's RAM at most, and right after it swap was not in
    use. By itself the kernel refuses obvious overcommits alone: Documentation/mm/overcommit-accounting.rst, mode 0."""
    refused = next((one for one in crash.every(CompilerKill) if one.used_bytes), None)
    if refused is None:
        return None
    machine = next((one for one in crash.every(MachineMemory) if is_after(one, refused)), None)
    if machine is None or (refused.used_bytes or 0) * FAR_LESS > (machine.total_bytes or 0):
        return None
    if not machine.swap_total_bytes or machine.swap_used_bytes != 0:
        return None
    words = say(
        "{program} had {used} in all when it was refused more. The machine has {total} of RAM, and its swap was not in "
        "use: a limit on the process stopped it.",
        program=refused.program or say("A compiler"),
        used=show(refused.used_bytes or 0),
        total=show(machine.total_bytes or 0),
    )
    knobs = ("more-address-space", "fewer-build-jobs")
    return Seen(words=words, evidence=(refused, machine), knobs=knobs, next_evidence=(ADDRESS_LIMIT,))


@sign
def a_compiler_ended_itself(crash: Crash) -> Seen | None:
    """It was refused memory, and nobody killed it: a limit answers like that, too."""
    ended = any(one.ended_itself for one in crash.every(CompilerKill))
    return Seen(words="") if ended else None


@sign
def kernel_killed_a_compiler(crash: Crash) -> Seen | None:
    """The kernel's log names a compiler as the killed process."""
    kill = next((kill for kill in crash.every(KernelKill) if COMPILER.match(kill.process.name or "")), None)
    if kill is None:
        return None
    name, pid = kill.process.name, kill.process.pid
    count = sum(1 for task in kill.tasks if COMPILER.match(task.name))
    words = (
        say(
            "The kernel killed the compiler {name} (PID {pid}); {count} compilers ran in parallel.",
            name=name,
            pid=pid,
            count=count,
        )
        if count > 1
        else say("The kernel killed the compiler {name} (PID {pid}).", name=name, pid=pid)
    )
    return Seen(words=words, evidence=(kill,), stage="launch")


@sign
def killed_under_a_compile_command(crash: Crash) -> Seen | None:
    """A kill follows right below a compiler's command, or below the object file that it did not finish."""
    kill = crash.root
    if not isinstance(kill, Kill) or not any(_COMMAND.search(text) for text in kill.around.before[-COMMAND_ABOVE:]):
        return None
    return Seen(
        words=say(
            "A compiler was killed: its command is right above in the log. Each compiler of CUDA or C++ "
            "templates takes gigabytes, and the build runs as many at once as it is allowed."
        ),
        evidence=(kill,),
        stage="launch",
        shows_memory=True,
    )


@sign
def killed_while_building(crash: Crash) -> Seen | None:
    """A process was killed, and the lines around it belong to a build; it was a compiler if an object file is made in
    the line right above or, where the log begins with the kill, right below."""
    if not isinstance(crash.root, Kill) or crash.mentions(_BUILDS) is None:
        return None
    around = crash.root.around
    compiles = any(_OBJECT.search(line) for line in around.before[-LINES_ABOVE:] or around.below[:1])
    doubt = say("no line says that the killed process was a compiler")
    return Seen(
        shows_memory=compiles,
        words=say("A process was killed during a build. Parallel compilers are the usual reason."),
        evidence=(crash.root,),
        against=() if compiles else (doubt,),
        stage="launch",
        next_evidence=(DMESG,),
    )
