"""The error that a log ends with, whatever it is about: what is said of a job that did not die of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oomdoctor.families.event import Place
from oomdoctor.families.host_lookalike import HEAP
from oomdoctor.families.loudness import CHARACTERS, is_head_of_one, is_marked_loud
from oomdoctor.families.peer import passes_on
from oomdoctor.families.sim_buffer import overflow_in
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

LAST_LINES: Final = 60  # what is printed further up was survived
_ENDS_ITS_PROGRAM: Final = "FATAL"  # a level: glog's, klog's, log4j's
# Of a process that a signal ended, as a shell, Python or TVM (apache/tvm-ffi, src/ffi/backtrace.cc) says it
_CRASH: Final = (
    r".{0,120}\b(?:Segmentation fault|Segfault encountered|encountered a Segfault|Floating point exception|Bus error"
    r"|Illegal instruction)\b"
)
_ERROR: Final = late(
    r"(?!raise )(?:"
    r"(?:\w{1,60}\.){0,8}(?!Warning)[A-Z]\w{0,60}(?:Error|Exception)\b(?::|$)"  # the last line of a traceback
    r"|[a-z]{2,8}[A-Z]\w{2,40}Error: \S"  # "ncclUnhandledCudaError: ..."
    r"|(?:Uncaught )?Error: (?!(?:nan|inf|none|null)\b)[A-Za-z'\"]"  # JavaScript's, click's; figures are a metric's
    r"|(?:Exception in thread \"[^\"\n]{1,80}\" |Caused by: )(?:\w{1,60}\.){1,8}[A-Z]\w{1,60}\b"  # the JVM's
    r"|thread '[^'\n]{0,60}' (?:\(\d{1,9}\) )?panicked at \S"  # Rust's
    r"|forrtl: (?:severe|error) |Fortran runtime error: \S"
    r"|(?:\S{1,200}:\d{1,6}[:\]] ?)?Check failed: \S"  # glog's and Abseil's, without what stands before it
    rf"|{_CRASH}"
    r"|.{0,400}\bAssertion .{1,200} failed\b"
    r"|Fatal Python error: \S"  # Python/pylifecycle.c, and faulthandler's of a signal
    r"|(?i:fatal(?: error)?|panic|failed): \S|Error (?:executing|in|while|running|loading)\b"
    r"|.{0,120}\b(?:CUDA|HIP|NCCL) error[: ]|.{0,120}\bCL ERROR:(?!CL_OUT_OF)|.{0,200}\bNCCL operations have failed\b"
    r"|THCudaCheck FAIL file=\S{1,300} line=\d{1,6} error=\d{1,4} : \S"  # PyTorch up to 1.7
    r"|.{0,200}\bwas signaled to shutdown with signal (?:4|6|7|8|11)\b"  # TGI's launcher/src/main.rs: no kill
    r"|\S{0,200}\b(?:ggml|llama)[\w/\\.-]{0,80}\.(?:c|cpp|cu|cuh|h|m|mm):\d{1,6}: \S"  # ggml_abort's: ggml/src/ggml.c
    r"|.{0,160}\bggml_vulkan: device lost\b|.{0,200}\b(?:ErrorDeviceLost|VK_ERROR_DEVICE_LOST)\b"
    r"|\*{3} An error occurred in MPI_\w{2,60}"  # ompi/errhandler/errhandler_predefined.c
    r"|Exception Type: {1,4}(?!\w{0,60}(?:Memory|OOM|Warning))\w"  # as Django prints one, and what it says below
    rf"|.{{0,120}}(?:{HEAP})"
    r")"
)
_CRASHED: Final = late(_CRASH)
# What called abort() has said why, where that is not cut off
ABORTED: Final = r"Fatal Python error: Aborted\b"
_ENDED_BY_A_SIGNAL: Final = late(rf"{_CRASH}|{ABORTED}")
# What NCCL says of the call before it returns "invalid usage": src/init.cc, 2.4 to 2.27
_INVALID_USE: Final = late(r"\binvalid usage\b|\bncclInvalidUsage\b|\bNCCL error\b")
# The end of a program in its own log, behind whatever it begins its lines with: figures, months, zones
_FATAL: Final = late(
    r"(?:(?:[^\sA-Za-z]\S{0,40}|[A-Z]{2,5}|[A-Z][a-z]{2}) {1,2}){0,8}"
    r"(?:(?:(?:Fatal|FATAL|PANIC)(?: error)?[:,]|Fatal error|FATAL) {1,4}(?!errors?\b)[^\s\d:=]"
    r"|\[(?:fatal|emerg)\] {1,4}\S"
    r"|F\d{4} \d\d:\d\d:[\d.]{2,20} {1,6}\d{1,8} \S{1,120}:\d{1,6}\] \S)"  # Abseil's before its clock is set
    # Redis, Valkey (src/server.c): its worst level is a warning
    r"|\d{1,8}:[XCSM] [^#\n]{10,30} # [^\n]{1,300}\b(?:[Aa]borting|[Ee]xiting)\b"
)
# What C++ prints of an exception that nobody caught; one that came from Python was printed there
_UNCAUGHT: Final = late(
    r"\s{0,8}what\(\):\s{1,4}\S"
    r"|.{0,120}\bUnhandled exception: \S{1,400} what\(\): \S"  # Ray's src/ray/util/logging.cc
)
_WHO_RAISED: Final = late(r"\s{0,8}(?:what\(\):\s{1,4}|(?:\w{1,60}(?:\.|::)){0,8}\w{1,60}(?:Error|Exception): )")
_OF_ONE_GPU: Final = late(
    r".{0,200}\bDuplicate GPU detected : rank \d{1,6} and rank \d{1,6} both on CUDA device [0-9a-f]{1,16}\b"
)
# What NCCL returns where a call to CUDA or the system failed, and its own line on that call: src/include/checks.h
_UNHANDLED: Final = late(r"(?i)\bunhandled (?:cuda|system) error\b|\bnccl(?:UnhandledCuda|System)Error\b")
_CALL_THAT_FAILED: Final = late(r".{0,300}\bNCCL WARN (?:Cuda failure\b|Call to \w{1,60} failed\b)")
# What a build tool says of a command that failed, and what compilers, linkers and shells say: GCC, Clang, nvcc, ld
FAILED_BUILD: Final = late(
    r"\bCommand '\[?'?(?:[\w./-]{0,200}/)?(?:ninja|c?make|nvcc|hipcc|gcc|g\+\+|clang(?:\+\+)?|cc|c\+\+)\b.{0,2000}"
    r"\breturned non-zero exit status\b|\bError (?:compiling objects for|building) extension\b"
    r"|\bcommand '\S{1,300}' failed with exit (?:code|status) \d"
)
_COMPILERS_OWN: Final = late(
    r"\A\s{0,8}(?:[A-Za-z]:)?[^\s:(]{1,300}(?::\d{1,7}(?::\d{1,5})?:|\(\d{1,7}\)\s?:) "
    r"(?:fatal |catastrophic )?error(?: [#A-Z][\w-]{1,20})?: \S"
    r"|\A.{0,400}\bundefined reference to [`'\"]|\A.{0,200}\bcannot find -l\w|nvcc fatal {1,6}: \S"
    r"|(?:/bin/)?(?:ba)?sh: (?:line )?\d{1,4}: [^\s:]{1,200}: (?:command )?not found"
)
_REASONS: Final = (
    (_INVALID_USE, _OF_ONE_GPU),
    (_UNHANDLED, _CALL_THAT_FAILED),
    (FAILED_BUILD, _COMPILERS_OWN),
)
# What a launcher, a caller or a later call says of an error that stands elsewhere
_ANNOUNCES: Final = late(
    r"Error (?:executing|in|while|running|loading)\b|.{0,200}\bNCCL operations have failed\b"
    r"|.{0,200}\bwatchdog thread terminated with exception\b|.{0,120}\bdevice-side assert triggered\b"
    rf"|{ABORTED}"
    r"|.{0,200}\bEngineDeadError\b"  # vllm/v1/engine/exceptions.py: the root cause stands above
    r"|.{0,200}\bCU[A-Z]{2,8}_STATUS_[A-Z_]{4,40}\b"
    r"|.{0,300}(?i:\bsee (?:the )?(?:root cause|logs?|error\w{0,1}|stack ?trace|traceback)\b.{0,60}\babove\b)"  # vLLM's
)
# The class that a remote call of Ray raised (as_instanceof_cause of ray/exceptions.py); what it said stands at the end
# of a traceback that may be cut. Of a memory failure come those that are left out, too.
_OF_A_CALL: Final = late(
    r"(?:\w{1,60}\.){0,8}RayTaskError\((?!\w{0,60}(?:Memory|OOM)|(?:Runtime|Accelerator|DistBackend|EngineDead|Ray\w{1,20})Error\b"
    r"|Exception\b)\w{1,60}\): "
)
# A child's status is no error of its own; some launchers name the file that holds the child's output, or its error
_STATUS_OF_A_CHILD: Final = late(
    r".{0,300}\b(?:exited with|returned|failed with) (?:a )?(?:non-zero )?(?:exit )?(?:status|code)\b"
    r"|.{0,300}\bChildFailedError\b"
)
_NAMES_ITS_OUTPUT: Final = late(
    r"(?:(?i:log(?:s| file| output)?|output|stderr)|error_file) ?: ?"
    r"(?:[\w.~-]{0,80}/){1,30}[\w.-]{1,120}\.(?:log|txt|out|err|json)$"
)
_VALUE: Final = late(r"Exception Value: {1,4}\S")
# Figures, stamps and the places in a program's source
_PLACES: Final = late(r"[^\s\d/\\]{0,120}[\d/\\]\S*|\s")
_ITS_STATUS: Final = late(r"\b(?:code|status)\b[ =:]{1,3}-?\d")
_COMMAND: Final = late(r"\W{0,4}(?:/[\w./-]{1,200}/)?(?:python[\d.]{0,6}|bash|sh|torchrun|deepspeed|srun)'?(?:,| -)")
# A metric, and a record for a machine, which tells of another's error
_OF_NO_PROGRAM: Final = late(r"\{|(?i:error): {1,4}(?:[-+]?[\d.]{1,20}(?:e[-+]?\d{1,3})?|nan|inf|none|null)\s{0,4}$")
_PRINTED_BY_ANOTHER: Final = late(r".{0,120}\b(?:INFO|WARNING|DEBUG)\b")
# That it ends, or that its stack follows
_ONLY_ENDS: Final = late(
    r"[^\n]{0,120}?(?:^|[\]:>-] ?)(?:(?:Abort|Exit|Shutt|Stopp|Terminat)ing(?: down)?|Stack ?trace:)[\s.!]{0,6}$"
)
_OF_A_TRACEBACK: Final = late(r"\s|$|, FILE |Aborted\b|File \"|Traceback \(most recent call last\)|[│❱╭╰]")


def ending(page: Page) -> Place | None:
    """The last error among the last lines of the last page of a log that is not merely passed on; of one that is
    repeated, the first: the others follow from it."""
    last = page.lines[-LAST_LINES:]
    errors = [line for line in last if _is_an_error(line)]
    own = [line for line in errors if not _is_passed_on(line.text.strip())]
    uncaught = [line for line in own if _UNCAUGHT.match(line.text)]
    told = _up_to_a_crash([line for line in own if line not in uncaught] or uncaught)
    line = _first_alike(told) if told else _of_a_call(last) or (errors[0] if errors else _logged(page))
    line = _reason(line, last) if line is not None else None
    return Place(page.file, line.number, line.end, _with_what_follows(line, last)) if line is not None else None


def _is_an_error(line: Line) -> bool:
    text = line.text.strip()
    if line.mark.level == _ENDS_ITS_PROGRAM or _UNCAUGHT.match(text) or _FATAL.match(text):
        return True
    return _ERROR.match(text) is not None


def _first_alike(errors: Sequence[Line]) -> Line:
    """Where the last of the errors was printed first: in the same words, but for figures, places and who raised it."""
    said = [_PLACES.sub("", _WHO_RAISED.sub("", line.text, count=1)) for line in errors]
    return errors[said.index(said[-1])]


def _up_to_a_crash(errors: Sequence[Line]) -> Sequence[Line]:
    """Without those behind a process's end by a signal: they are of others, and follow from it."""
    crashed = next((n for n, line in enumerate(errors, start=1) if _CRASHED.match(line.text)), None)
    return errors[:crashed]


def _with_what_follows(line: Line, last: Sequence[Line]) -> str:
    """The line, and what a line below says: the words of an error whose head it is, or where a child's output is."""
    if is_head_of_one(line.text):
        words = next((one.text.strip() for one in last if one.number > line.number), "")
        return f"{line.text} {words}".strip()
    if line.mark.level == _ENDS_ITS_PROGRAM and line.mark.source is not None:
        return f"{line.mark.source}: {line.text}"
    if _ENDED_BY_A_SIGNAL.match(line.text):
        return f"{_who(line)}{line.text}"
    below = [one.text.strip() for one in last if one.number > line.number]
    if below and _VALUE.match(below[0]):
        return f"{line.text} {below[0]}"
    if _STATUS_OF_A_CHILD.match(line.text) is None:
        return line.text
    named = next((text for text in below if _NAMES_ITS_OUTPUT.match(text)), None)
    return f"{line.text} ... {named}" if named is not None else line.text


def _who(line: Line) -> str:
    """Which of a job's processes printed the line, where its prefix says so: a crash itself names none."""
    name, pid = line.mark.name, line.mark.pid
    return f"{name} (PID {pid}): " if name is not None and pid is not None else ""


def _reason(error: Line, lines: Sequence[Line]) -> Line:
    """The line that says what was wrong with the call, where the error itself says only that something was."""
    told = (line for vague, reason in _REASONS if vague.search(error.text) for line in lines if reason.match(line.text))
    return next(told, error)


def _is_passed_on(text: str) -> bool:
    return _ANNOUNCES.match(text) is not None or passes_on(text)


def _of_a_call(lines: Sequence[Line]) -> Line | None:
    """The innermost of Ray's calls that failed: each caller's line stands above that of the call."""
    return next((line for line in reversed(lines) if _OF_A_CALL.match(line.text.strip())), None)


def _logged(page: Page) -> Line | None:
    """The line of an error's level that nothing follows but a traceback without its end, and that the program ends."""
    for index in reversed(range(max(len(page.lines) - LAST_LINES, 0), len(page.lines))):
        line = page.lines[index]
        if _OF_A_TRACEBACK.match(line.text):
            continue
        if not is_marked_loud(page, index, line.text[:CHARACTERS]) or _is_no_error_of_its_own(line.text):
            return None
        if not _ONLY_ENDS.match(line.text):
            return None if _is_a_command(line.text) else line
    return None


def _is_no_error_of_its_own(text: str) -> bool:
    """Whether it is another program's, none at all, or one that its program gets over."""
    others = any(pattern.match(text) for pattern in (_PRINTED_BY_ANOTHER, _OF_NO_PROGRAM))
    return others or overflow_in(text) is not None


def _is_a_command(text: str) -> bool:
    """Whether a launcher only shows the command of its child, and not how that ended."""
    return _COMMAND.match(text) is not None and _ITS_STATUS.search(text) is None


__all__ = ["ABORTED", "FAILED_BUILD", "ending"]
