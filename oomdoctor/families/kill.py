"""Kills and exits as shells, launchers and process pools report them: they prove a death, never what for.

A kill that the lines around explain otherwise (a preemption, `timeout`, Ctrl-C) becomes a lookalike, not an event.
A bus error counts as a kill of pool "shm": it is what a full /dev/shm looks like from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.echoes import ADVICE, COMMENT, SOURCE, echo
from oomdoctor.families.ended import ends_well, explained, guesses, told
from oomdoctor.families.event import Event, Lookalike, Process, Read, Role
from oomdoctor.families.frames import frames
from oomdoctor.families.gone import gone
from oomdoctor.families.lines import PROGRESS, goes_on, place_of, process_of
from oomdoctor.families.loudness import is_error, is_quiet, says_failed
from oomdoctor.families.peer import is_an_own_error, own_error
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import AnyOf, late
from oomdoctor.streams import Line, Page

SIGBUS: Final = "SIGBUS"
SIGKILL: Final = "SIGKILL"
TABLE_LINES: Final = 400
ABOVE_THE_END: Final = 200  # lines
CHARACTERS: Final = 1500


class RankEnd(Struct, frozen=True, kw_only=True):
    """How another rank ended, by the launcher's table: mostly told to stop (SIGTERM) because of the first."""

    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    host: str | None = None
    error_file: str | None = None


class Kill(Event, frozen=True, kw_only=True):
    """A process was killed with SIGKILL (or vanished as if it were), and nothing printed says why."""

    family = "kill"
    kind = "kill"

    pool: str = "host_ram"
    strength: int = 1

    reporter: str  # "shell", "torchrun", "subprocess", "deepspeed", "mpirun", "pool", "joblib", "datasets", ...
    signal: str | None = None  # "SIGKILL", "SIGBUS"; None where nothing tells which
    exit_code: int | None = None  # as shells count: 137. Python's -9 is the signal's number, so it is a signal here
    local_rank: int | None = None
    job: str | None = None  # the scheduler's id of the job, where the report holds one
    host: str | None = None
    error_file: str | None = None  # where torchrun lets the rank leave its last error
    exit_codes: tuple[str, ...] = ()  # of a pool's workers, as joblib prints them: "SIGKILL(-9)"
    others: tuple[RankEnd, ...] = ()
    subprocesses: tuple[int, ...] = ()  # what the launcher ended afterwards
    loaded: str | None = None  # how far the last bar of loading weights had come: "2/9"

    def identity(self) -> str:
        """A launcher reports one death in a line and again in a table."""
        if self.process.pid is None:
            return Event.identity(self)
        return f"{self.family} {self.kind} {self.process.pid} {self.signal}"


class RankFailure(Event, frozen=True, kw_only=True):
    """A launcher names the rank that failed first; why, that rank's own lines say (or are not here)."""

    family = "kill"
    kind = "rank-failure"

    role: Role = "cascade"

    reporter: str
    exit_code: int | None = None
    local_rank: int | None = None
    host: str | None = None
    error_file: str | None = None
    others: tuple[RankEnd, ...] = ()
    subprocesses: tuple[int, ...] = ()
    own_error: str | None = None  # the class of an error that some process of the job printed itself
    loaded: str | None = None  # as with a kill

    def identity(self) -> str:
        """As with a kill, the line and the table tell of one death."""
        if self.process.pid is None:
            return Event.identity(self)
        return f"{self.family} {self.kind} {self.process.pid}"


# Of SIGKILL, SIGBUS, SIGSEGV, SIGABRT and SIGTERM, as Python and as shells count them.
_CODES: Final = r"(?:-9|137|247|-7|135|-11|139|-6|134|-15|143)\b(?!\.\d)"

# Somebody was killed, and the sentence says neither by whom nor why, but for the system. Of nobody, and of what may be,
# it is no report.
_WAS_KILLED: Final = (
    r"(?i:^(?![^\n]{0,200}\b(?:if|when(?:ever)?|whether|unless|until|once|before|may|might|could|would|should|will|to|not"
    r"|none|nobody|nothing|never|no|0|zero|any)\b[^.\n]{0,80}\bkilled\b)[^\n]{0,200}?"
    r"\b(?:was|were|got|has been|have been) (?:suddenly |unexpectedly |silently )?killed"
    r"(?: by (?:the )?(?:os|system|operating system|kernel|host|node)\b|(?=[\s.!,;:)]{0,6}$)"
    r"|(?= (?:here|there|now|again|unexpectedly|abruptly|silently|suddenly|at \d|after \d))))"
)

# The same of what happens each time, as people say it: with when, and under no condition.
_IS_KILLED: Final = (
    r"(?i:^(?![^\n]{0,200}\b(?:if|when(?:ever)?|whether|unless|until|once|may|might|could|can|would|should|not|nobody"
    r"|nothing|never|no|any)\b[^.\n]{0,80}\bkilled\b)[^\n]{0,200}?\b(?:is|are|gets?|will be) killed"
    r" by (?:the )?(?:os|system|operating system|kernel) after (?:\d|an? |some|several|many|about|around)"
    r"(?![^\n]{0,100}\b(?:if|when(?:ever)?|unless|once|in case)\b))"
)
_EACH_TIME: Final = late(_IS_KILLED)

# As Markdown has it around a quoted line
_EMPHASIS: Final = r"[\s*_`~>]{0,8}"
# Of a log whose process may have ended by itself
_ENDED: Final = late(
    r"(?i)\b(?:finish|complet|success|done|saved|exit|shut|stop|clos(?:e|ing)|interrupt|cancel|terminat|quit|abort)"
    r"|\b100%|\^C|SIG(?:INT|TERM)|\bTraceback\b"
)

# Compilers have a family of their own
_NO_COMPILER: Final = r"^(?![^\n]{0,600}(?:\brustc\b|\[Killed\]|\(Kill signal\)))[^\n]{0,600}?"
_ENDED_HOW: Final = r"\b(?:exited|died|failed|terminated|killed|ended|crashed|stopped|exit successfully)\b"
_BY_SIGNAL: Final = r"\bsignal[ :=]{1,3}[\"'(]{0,2}(?:9\b(?!\.\d)|SIGKILL\b)"  # Rust's and Node.js'

# A line of progress: of a step, of a loss, of the time that is left
_UNDER_WAY: Final = r"(?:=>|\bETA\b|\b(?i:step|epoch|iter(?:ation)?)\b\W{0,4}\d|\b\w{0,20}(?i:loss)\b\W{0,4}\d)"
# "run.sh: riga 24:  8612 Killed", in a shell of any language
LINE_OF_A_SCRIPT: Final = (
    r"[:：]\s{0,2}(?:[^\W\d_]{1,14}\.?\s{0,2}\d{1,6}|\d{1,6}\s?[^\W\d_]{1,4}|第\s?\d{1,6}\s?行)\s?[:：]\s{1,9}\d{1,9} "
)
# In zh, zh-TW, de, fr, es, pt, ru, ja, ko, it, pl, sv, da, fi, hu, nl, uk, ca
_KILLED_ABROAD: Final = (
    "已杀死",
    "已砍掉",
    "Getötet",
    "Tué",
    "Processus arrêté",
    "Matado",
    "Morto",
    "Убито",
    "強制終了",
    "죽었음",
    "Ucciso",
    "Unicestwiony",
    "Dödad",
    "Dræbt",
    "Tapettu",
    "Kilőve",
    "Geëlimineerd",
    "Вбито",
    "Matat",
)
# Hydra prints the raw status, and newer ones the signal's name below: src/pm/hydra of MPICH
_HYDRAS: Final = late(r"\bEXIT CODE: 9\s{0,4}$")
ABROAD: Final = "|".join(map(re.escape, (*_KILLED_ABROAD, "Terminado (killed)")))

# Who reports a death, by the words it uses. The first that fits reads the line.
_REPORTERS: Final = tuple(
    (reporter, AnyOf(*patterns))
    for reporter, *patterns in (
        ("torchrun", r"\bfailed \(exitcode: -?\d"),
        ("subprocess", r"died with <Signals\.SIG[A-Z]{3,5}: \d", r"returned non-zero exit status (?:-9|137|247)\b"),
        ("deepspeed", r"exits with return code = -?\d", r"\bKilling subprocess \d"),
        ("mpirun", r"noticed that process rank \d", r"KILLED BY SIGNAL: \d", r"\bEXIT CODE: (?:9|137)\b"),
        (
            "slurm",
            r"srun: error: \S{1,200}: tasks? [\d,\-\[\]]{1,80}: (?:Killed|Bus error|Segmentation fault|Aborted)",
            r"srun: error: \S{1,200}: tasks? [\d,\-\[\]]{1,80}: (?:Terminated|Exited with exit code (?:137|135))",
            r"^\s{0,20}\d{1,12}[\w.]{0,20}[\s|][^\n]{0,200}\bFAILED[\s|]{1,12}0:9\b",  # sacct: of signal 9
            r"\bJobId=\d{1,12}\S{0,20} WTERMSIG 9\b",  # slurmctld: src/slurmctld/job_mgr.c
        ),
        ("spawn", r"terminated with signal SIG[A-Z]{3,5}"),
        ("celery", r"Worker exited prematurely: signal \d", r"\bexited with 'signal \d"),
        ("gunicorn", r"Worker \(pid:\d{1,9}\) was sent SIG[A-Z]{3,5}!"),
        ("airflow", r"return code Negsignal\.SIG[A-Z]{3,5}"),
        (
            "notebook",
            r"[Kk]ernel (?:appears to have |has )?died\b",
            r"The Kernel crashed while executing code|[Kk]ernel .{0,60} has died unexpectedly",
            r"\b\w{0,20}KernelRestarter: restarting kernel \(\d",  # Jupyter's, where nobody asked for it
            r"\b[Ss]ession crashed for an unknown reason\b",  # Colab's
        ),
        ("silence", _WAS_KILLED, _IS_KILLED),
        # Python's helper outlives a process that left its shared memory behind, as one that was killed does
        ("tracker", r"resource_tracker: There appear to be \d{1,9} leaked shared_memory objects"),
        ("systemd", r"code=killed, status=\d"),
        ("tgi", r"Shard process was signaled to shutdown with signal \d"),
        ("ollama", r"llama runner process has terminated: signal: killed"),
        ("go", r": signal: killed\b"),  # what a child of a program in Go ended with
        (
            "shell",
            rf"^{_EMPHASIS}Killed[.!]?{_EMPHASIS}$",
            r"(?:^|: )line \d{1,6}:\s{1,9}\d{1,9} Killed\b",
            r"^\s{0,4}\[\d{1,4}\][+-]?\s{1,6}(?:\d{1,9}\s{1,4})?Killed\b",
            rf"^{_EMPHASIS}zsh: killed\b",
            rf"^{_EMPHASIS}Killed: 9\b",
            r"^\[\d{1,4}\]\s{1,8}(?:[+-]\s{1,4})?\d{1,9} killed\s",  # zsh
            r"^fish: Job \d{1,4}, .{1,400} terminated by signal SIG[A-Z]{3,5}",
            r"^make(?:\[\d{1,3}\])?: \*\*\* \[[^\]\n]{1,200}\] (?:Killed|Error 137)",
            rf"(?:it/s|s/it|\bit|\d%|[\])|])\s{{0,4}}(?:Killed|{ABROAD})\s{{0,4}}$",  # glued to a progress bar
            rf"[\d.…>](?:Killed|{ABROAD})\s{{0,4}}$",  # glued to a line that its program had not ended
            rf"{_UNDER_WAY}[^\n]{{0,600}}(?:[\d%)\]]|\d[smh])\s{{1,4}}Killed\s{{0,4}}$",
            # a script's line in bash's own words for "line": riga, Zeile, ligne, línea, 行
            rf"{LINE_OF_A_SCRIPT}(?:Killed|{ABROAD})(?:\s{{2,60}}\S|\s{{0,60}}$|\s{{1,4}}\()",
            # the words of the C library's message catalogues
            rf"(?:^|[:：]\s{{0,9}}\d{{1,9}} |\]\s{{0,4}}[+-]?\s{{1,4}})(?:{ABROAD})(?:\s|$)",
            # BSD's and Solaris' make
            r"^(?:[b-]?make(?:\[\d{1,3}\])?: )?\*{3} (?:\[[^\]\n]{1,200}\] )?Signal 9\s{0,4}$",
            r"(?:^|: )line \d{1,6}:\s{1,9}\d{1,9} (?:Bus error|Segmentation fault|Aborted|Terminated)\b",
            r"^\s{0,4}(?:Bus error|Segmentation fault|Aborted|Terminated)(?: \(core dumped\))?\s{0,4}$",
        ),
        (
            "exit",
            rf"(?:\b[Ee]xit ?[Cc]ode|\bexit_code|\bexit status)\"?\s{{0,8}}(?:[:=]|is)?\s{{0,8}}\(?{_CODES}",
            rf"(?:\breturn ?code|\brc|\bstatus code|\bnon-zero (?:code|status)):?\s{{0,4}}=?\s{{0,4}}{_CODES}",
            rf"[Ee]xited with (?:exit )?(?:code|status):? {_CODES}",
            r"\b[Ee]xited \((?:137|135|139|143)\)",  # docker ps, compose
            r"\bSignal \d{1,2} \(SIG[A-Z]{3,5}\) received by PID \d",
            rf"^exit_status\s{{1,12}}{_CODES}",  # Grid Engine's qacct
            r"\b(?:killed|terminated) by (?:signal )?(?:SIGKILL|9)\b",
            rf"{_NO_COMPILER}{_ENDED_HOW}[^\n]{{0,300}}?{_BY_SIGNAL}",
            r"^npm (?:ERR!|error) signal SIGKILL\b",
            r"\b(?:exited|died|ended) (?:with|by|from|on|of) (?:signal (?:9|SIGKILL)|SIGKILL)\b",
            r"^[^\n]{0,80}\b(?:[Gg]ot|[Rr]eceived|hit by) (?:a |the )?(?:SIGKILL|signal 9)\b\s{0,4}[.!]?$",
        ),
    )
)


_SIGNALS: Final = {
    1: "SIGHUP", 2: "SIGINT", 6: "SIGABRT", 7: SIGBUS, 9: SIGKILL, 11: "SIGSEGV", 15: "SIGTERM",
}  # fmt: skip
_SIGNAL_OF_CODE: Final = {code: name for number, name in _SIGNALS.items() for code in (-number, 128 + number)} | {
    247: SIGKILL  # -9 in eight bits
}
_SIGNAL_OF_WORD: Final = {
    "Bus error": SIGBUS, "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Terminated": "SIGTERM",
    **{name: name for name in _SIGNALS.values()},
}  # fmt: skip
_WORDS = late("|".join(sorted(_SIGNAL_OF_WORD, key=len, reverse=True)))

_NOT_MEMORY: Final = {
    "SIGHUP": mark("told to stop (SIGHUP: the terminal or session was closed), not OOM-killed"),
    "SIGINT": mark("interrupted (SIGINT), not OOM-killed"),
    "SIGABRT": mark("the process aborted (SIGABRT); its own lines before say why"),
    "SIGSEGV": mark("a crash at a bad address (SIGSEGV), not a lack of memory"),
    "SIGTERM": mark("told to stop (SIGTERM), not OOM-killed"),
}
# What ends a process and is no memory, in words of no exception
_CRASHED = late(
    r"\b(?:SIGSEGV|SIGABRT|SIGILL|SIGFPE)\b|(?i:segmentation fault|segfault|core dumped|illegal instruction)"
    r"|^Fatal Python error: |\bterminate called|\bpanicked at\b|^panic: |\b[Aa]ssert(?:ion)?\b[^\n]{0,200}\bfail"
    r"|\bCheck failed: |\bXid\b|illegal memory access|[Cc]onnection (?:refused|reset|closed)|[Aa]ddress already in use"
    r"|[Pp]ermission denied|[Nn]o such file|(?<![Hh]eartbeat )\btimed out\b"
)
CRASH_LINES: Final = 60
_REFUSED = late(r"bad_alloc|memory allocation of \d|[Oo]ut of memory|Cannot allocate memory|MemoryError")

_KERNELS = late(r"\bKill(?:ed)? process (\d{1,9}) \(")
# deepspeed/runtime/utils.py 0.3 to 0.19, see_memory_usage
_HOST_USE: Final = late(r"\bCPU Virtual Memory:\s{1,4}used = [\d.]{1,10} GB, percent = (\d{1,3}(?:\.\d{1,3})?)%")
NEARLY_FULL: Final = 80  # per cent
# deepspeed/launcher/launch.py, sigkill_handler: the list in front of "exits with return code"
_COMMAND_OF_A_CHILD: Final = late(r"\['[^'\n]{0,200}\bpython[\d.]{0,6}', ")
TEAR_DOWN: Final = mark("DeepSpeed's launcher ends its other processes after every failure")
TORN_DOWN: Final = mark("its launcher ended it after another process had failed with an error of its own")
LINES_OF_AN_ERROR: Final = 8  # of its words, above the shell's
# sglang/srt/utils: `kill_process_tree`, once its scheduler has failed
BY_ITSELF: Final = mark("SGLang kills all of its own processes after an error")
_OF_SGLANG = late(r"(?:^|/)sglang/srt/")
_TEARS_DOWN = late(
    r"(?i)\b(?:terminat|kill|stopp|abort|shutting down)\w{0,4} (?:all )?(?:of )?(?:the )?(?:remaining|other|surviving) "
    r"(?:\w{1,20} )?(?:ranks?|workers?|process(?:es)?|tasks?|children|peers)\b"
)
FILE_LOST: Final = mark("a file that it had mapped could not be read any more (disk or network), not memory")
_FILE_LOST = late(
    r"(?i)\bstale (?:nfs )?file handle\b|\binput/output error\b|\b(?:blk_update_request|buffer) ?:? i/o error\b"
)
AFTER_A_BUS_ERROR: Final = 12  # lines
_ENTRY = late(r"^\s{0,8}\[(\d{1,6})\]:\s{0,4}$")
_FIELD = late(r"^\s{0,8}(rank|host|exitcode|error_file|time)\s{0,8}:\s{0,4}(\S.{0,200})$")
_RULE = late(r"^\s{0,8}(?:={6,}|\*{6,})\s{0,4}$")
_RECEIVED = late(r"\bSignal \d{1,2} \(SIG[A-Z]{3,5}\) received by PID \d")
_RANK = late(r"(\d{1,7})(?: \(local_rank: (\d{1,5})\))?")
# Of what a container engine keeps; a shell and compose report in other words.
_IN_A_RECORD = late(r"\b[Ee]xit ?[Cc]ode\"?:|OOMKill|\bReason:")
_NODE_NAMED = late(r"\bon node ([\w.-]{1,253}) exited\b|\bsrun: error: ([\w.-]{1,253}): tasks?\b")
_SPAWNED = late(r"\bprocess (\d{1,5}) terminated with signal\b")
_CODES_OF_WORKERS: Final = "The exit codes of the workers are"
_JOBLIB_CODE = late(r"\b[A-Z]{3,12}\(-?\d{1,5}\)")
_EXIT = late(r"(-?\d{1,5}) \(pid: (\d{1,9})\)")


POSTGRESQL: Final = "PostgreSQL"
# src/backend/postmaster/postmaster.c, LogChildExit: since 8.0
_OF_POSTGRESQL: Final = late(
    r"\bLOG: {1,4}((?:[a-z]{3,20} ){0,3}(?:process|launcher|worker)) \(PID (\d{1,10})\) was terminated by signal \d"
)
_OF_THE_DEAD: Final = late(
    r"(?i:(?<![.\w])(?:proc(?:ess)?|workers?|server|executor|daemon|child)) "
    r"(?:(?P<pid>\d{1,9})\b(?![.:]\d)|(?P<name>[A-Za-z]\w{0,40}[_\d]\w{0,40}))"
)

# The bar of loading a model's weights, of transformers, diffusers and vLLM
_LOADING = late(
    r"\b[Ll]oading (?:\w{1,20} ){0,3}(?:shards|weights|components|layers)[^|\n]{0,40}: {1,4}\d{1,3}%"
    r"(?: Completed \||\|[^|\n]{0,400}\|)\s{0,4}(\d{1,6}/\d{1,6})(?!\d)"
)
# What launchers and Python's end print between a bar and the report of a death
_AFTER_A_DEATH = late(
    r"Sending process \d|closing signal|Killing subprocess \d|failed \(exitcode|^\W{0,20}$|resource_tracker"
    r"|warnings\.warn|leaked (?:semaphore|shared_memory)"
)
# The last: xdist/dsession.py, which does not know how its worker ended
_OF_A_POOL = late(
    r"terminated abruptly|abruptly died|BrokenProcessPool(?::|$)|\Aworker '\w{1,20}' crashed while running '"
)
LINES_OF_A_BAR: Final = 12


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS].removeprefix("##[error]")  # of CI systems; not a comment
    if "ChildFailedError" in text:
        yield from _table(page, index)
    elif "BrokenProcessPool" in text or "abruptly died" in text or "' crashed while running '" in text:
        yield from _pool(page, index, text)
    elif "TerminatedWorkerError" in text:
        yield from _joblib(page, index)
    elif "SignalException" in text or "death signal, shutting down" in text or "CANCELLED AT" in text:
        yield from _stopped(page, index, text)
    else:
        yield from _report(page, index, text)


def _report(page: Page, index: int, text: str) -> Iterator[Read]:
    reporter = _reporter(text)
    if reporter is None or (_HYDRAS.search(text) and _says_its_signal(page, index)):
        return
    if reporter == "deepspeed":
        yield from _deepspeed(page, index)
        return
    wrapped = reporter == "mpirun" and "signal" not in text.lower()
    lines = page.after(index, 2)[: 2 if wrapped else 1]
    figures = _figures(" ".join(line.text for line in lines)[:CHARACTERS])
    if host := _NODE_NAMED.search(text):
        figures["host"] = host[1] or host[2]
    if reporter == "spawn" and (spawned := _SPAWNED.search(text)):
        figures["local_rank"] = int(spawned[1])
    if _HYDRAS.search(text):
        figures = {"signal": SIGKILL}
    if reporter in {"shell", "slurm", "ollama", "go"}:
        figures.setdefault("signal", _signal_named(text) or SIGKILL)
    if reporter == "notebook" or (reporter == "silence" and _is_silent(page, index, text)):
        yield from _vanished(page, index, reporter)
    if reporter == "tracker" and _is_all_that_is_said(page, index):
        yield from _vanished(page, index, reporter)
    if reporter in {"notebook", "silence", "tracker"}:
        return
    yield from _death(page, index, reporter, figures, lines)


def _says_its_signal(page: Page, index: int) -> bool:
    return any("KILLED BY SIGNAL" in line.text for line in page.after(index, 3)[1:])


def _reporter(text: str) -> str | None:
    """Who reports a death in this line. Whoever waits for a process that is gone without a word is asked last."""
    if guesses(text):
        return None
    known = next(((name, said) for name, pattern in _REPORTERS if (said := pattern.search(text))), None)
    if known is None:
        return "silence" if gone(text) is not None else None
    reporter, said = known
    end = text.find(". ", said.end())  # what is supposed behind that is no part of the report
    return None if echo(text if end < 0 else text[:end]) in {ADVICE, COMMENT, SOURCE} else reporter


def _is_silent(page: Page, index: int, text: str) -> bool:
    """Whether nothing tells what the process ended of, and nobody went on without it."""
    if _EACH_TIME.search(text) is None:  # what is said of that begins a log as well as it ends one
        quiet = is_quiet(page, index, text) and not says_failed(text)
        if quiet or ends_well(page, index) or goes_on(page, index):
            return False
    return own_error(page, index) is None and not _crashed(page, index)


def _is_all_that_is_said(page: Page, index: int) -> bool:
    """Whether a log ends here, and nothing above tells of an end, good or bad, or of work that was done."""
    if any(line.text.strip() and "resource_tracker" not in line.text for line in page.lines[index + 1 :]):
        return False
    above = [line.text[:CHARACTERS] for line in page.lines[max(0, index - ABOVE_THE_END) : index]]
    if not any(map(str.strip, above)) or any(_ENDED.search(text) or is_error(text) for text in above):
        return False
    return own_error(page, index) is None and not _crashed(page, index)


def _crashed(page: Page, index: int) -> bool:
    """Whether a line around it tells of another end: a crash in native code, a check that failed."""
    near = page.lines[max(0, index - CRASH_LINES) : index + CRASH_LINES]
    return any(_CRASHED.search(line.text[:CHARACTERS]) for line in near)


def _figures(text: str) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, values in grammars.said("kill", text):
        if name in _READERS and values:
            for key, value in _READERS[name](values).items():
                figures.setdefault(key, value)
    return figures


def _by_code(values: tuple[str, ...]) -> dict[str, Any]:
    code = int(values[0])
    stated: dict[str, Any] = {"exit_code": code} if code >= 0 else {}
    if signal := _SIGNAL_OF_CODE.get(code):
        stated["signal"] = signal
    return stated


def _by_number(values: tuple[str, ...]) -> dict[str, Any]:
    return {"signal": _SIGNALS.get(int(values[0]))}


_READERS: Final[dict[str, Any]] = {
    "rank_died": _by_code,
    "exit_code": _by_code,
    "minus_code": _by_code,
    "signal": _by_number,
    "died_with": _by_number,
    "signal_name": lambda v: {"signal": _SIGNAL_OF_WORD[v[0]]},
    "pid": lambda v: {"pid": int(v[0])},
    "mpi_pid": lambda v: {"pid": int(v[0]) or None},  # 0 where the process is another node's
    "mpi_rank": lambda v: {"rank": int(v[0])},
    "shell_pid": lambda v: {"pid": int(v[0])},
    "local_rank": lambda v: {"local_rank": int(v[0])},
    "task": lambda v: {"rank": int(v[0])},
    "step": lambda v: {"job": v[0]},
}


def _signal_named(text: str) -> str | None:
    word = _WORDS.search(text)
    return _SIGNAL_OF_WORD[word[0]] if word else None


def _death(page: Page, index: int, reporter: str, figures: dict[str, Any], lines: Sequence[Line]) -> Iterator[Read]:
    """What a death by this signal or with this code is: a kill, a lookalike, a rank that failed, or nothing."""
    first = lines[0]
    at = place_of(page, first, lines[-1])
    signal = figures.get("signal")
    why = _NOT_MEMORY.get(signal or "")
    if why is not None:
        if signal != "SIGABRT" or not _refused_before(page, index):
            yield Lookalike(at, why)
        return
    if signal in {SIGKILL, SIGBUS}:
        if _container_says(page, index):
            return
        if reason := explained(page, index) or _otherwise(page, index, signal):
            yield Lookalike(at, say("killed, but {reason}", reason=translated(reason)))
            return
        yield Kill(
            at=at,
            time=first.mark.time,
            process=_process(first, figures),
            pool="shm" if signal == SIGBUS else "host_ram",
            reporter=reporter,
            loaded=_loaded(page, index),
            **figures,
        )
    elif reporter in {"torchrun", "deepspeed"}:
        figures.pop("job", None)
        figures.pop("signal", None)
        process = _process(first, figures)
        error = own_error(page, index)
        yield RankFailure(
            at=at,
            time=first.mark.time,
            process=process,
            reporter=reporter,
            own_error=error,
            loaded=_loaded(page, index),
            **figures,
        )


def _otherwise(page: Page, index: int, signal: str) -> str | None:
    """Why the process died of this signal, where that is no matter of memory: its launcher, or the program itself, ends
    what is left after an error of its own, and a mapped file that cannot be read any more gives a bus error."""
    near = page.lines[max(0, index - CRASH_LINES) : index + AFTER_A_BUS_ERROR]
    if signal == SIGBUS:
        return FILE_LOST if any(_FILE_LOST.search(line.text[:CHARACTERS]) for line in near) else None
    torn = any(_TEARS_DOWN.search(line.text[:CHARACTERS]) for line in page.lines[max(0, index - CRASH_LINES) : index])
    if torn and own_error(page, index) is not None:
        return TORN_DOWN
    return BY_ITSELF if _ends_itself(page, index) else None


def _ends_itself(page: Page, index: int) -> bool:
    """Whether SGLang's server was killed right below the error in which a traceback of its own ends."""
    if "sglang" not in page.lines[index].text[:CHARACTERS]:
        return False
    above = page.lines[max(0, index - LINES_OF_AN_ERROR) : index]
    ends = [place for place, line in enumerate(above) if is_an_own_error(line.text[:CHARACTERS])]
    if not ends or any(line.mark.level or line.mark.time for line in above[ends[-1] + 1 :]):
        return False
    trace = frames(page.lines[max(0, index - CRASH_LINES) : index - len(above) + ends[-1]])
    return any(_OF_SGLANG.search(frame.path) for frame in trace)


def _loaded(page: Page, index: int) -> str | None:
    """How far loading had come, where a bar of it is the last thing that the job printed."""
    for line in reversed(page.lines[max(0, index - LINES_OF_A_BAR) : index + 1]):
        if bars := _LOADING.findall(line.text[:CHARACTERS]):
            return str(bars[-1])
        own = line is page.lines[index]
        if PROGRESS.search(line.text[:CHARACTERS]) or not (own or _AFTER_A_DEATH.search(line.text[:CHARACTERS])):
            return None
    return None


def _process(line: Line, figures: dict[str, Any]) -> Process:
    """Takes the process out of the figures; who wrote the line is the launcher, not the one that died."""
    if server := _OF_POSTGRESQL.search(line.text[:CHARACTERS]):
        return Process(pid=int(server[2]), name=f"{POSTGRESQL}'s {server[1]}")
    return Process(pid=figures.pop("pid", None), rank=figures.pop("rank", None), node=line.mark.ip)


def _refused_before(page: Page, index: int) -> bool:
    return any(_REFUSED.search(line.text) for line in page.lines[max(0, index - 20) : index])


def _container_says(page: Page, index: int) -> bool:
    """The container's own record stands beside its exit code, and says more."""
    return _IN_A_RECORD.search(page.lines[index].text[:CHARACTERS]) is not None and any(
        "OOMKill" in line.text and "false" not in line.text for line in page.lines[max(0, index - 8) : index + 9]
    )


def _deepspeed(page: Page, index: int) -> Iterator[Read]:
    """DeepSpeed ends all subprocesses after every failure of any rank; the exit code may be a survivor's, and the
    command line beside it is always the last rank's. What shows the death is the line with the code: the others are
    its own clean-up."""
    lines: list[Line] = []
    subprocesses: list[int] = []
    for line in page.after(index, 600):
        child = re.search(r"Killing subprocess (\d{1,9})", line.text)
        if child:
            subprocesses.append(int(child[1]))
        elif "exits with return code" not in line.text:
            continue
        lines.append(line)
        if not child:
            break
    code = re.search(r"exits with return code = (-?\d{1,5})", lines[-1].text)
    figures = _by_code((code[1],)) if code else {}
    figures["subprocesses"] = tuple(subprocesses)
    figures["host"] = lines[-1].mark.host
    if code is not None:
        yield from _death(page, index, "deepspeed", figures, lines[-1:])
    elif _is_a_death(page, index, subprocesses, lines[-1]):
        yield from _vanished(page, index, "deepspeed", lines, subprocesses=tuple(subprocesses), host=figures["host"])
    else:
        yield Lookalike(place_of(page, lines[0], lines[-1]), TEAR_DOWN)


def _is_a_death(page: Page, index: int, pids: Sequence[int], last: Line) -> bool:
    """Whether something tells that a process died, though its code is not in the log."""
    return (
        _loaded(page, index) is not None
        or _killed_by_the_kernel(page, pids)
        or _little_ram_was_left(page, index)
        or _is_cut_before_its_code(page, index, last)
    )


def _is_cut_before_its_code(page: Page, index: int, last: Line) -> bool:
    """Whether the log ends within the command that died, before its code, and no line tells of an error: the launcher
    prints it for a child that failed, and for nobody who told it to stop."""
    below = [line.text.strip() for line in page.lines if line.number > last.number and line.text.strip()]
    return (
        page.ends
        and len(below) == 1
        and _COMMAND_OF_A_CHILD.match(below[0]) is not None
        and own_error(page, index) is None
        and not _crashed(page, index)
    )


def _little_ram_was_left(page: Page, index: int) -> bool:
    """What `see_memory_usage` of DeepSpeed last printed of the host."""
    above = (_HOST_USE.search(line.text[:CHARACTERS]) for line in reversed(page.before(index, CRASH_LINES)))
    last = next((found for found in above if found is not None), None)
    return last is not None and float(last[1]) >= NEARLY_FULL


def _killed_by_the_kernel(page: Page, pids: Sequence[int]) -> bool:
    named = (_KERNELS.search(line.text[:CHARACTERS]) for line in page.lines)
    return any(int(killed[1]) in pids for killed in named if killed is not None)


def _table(page: Page, index: int) -> Iterator[Read]:
    """torchrun's table: [0] is the root and stands last; entries with -15 were told to stop because of it."""
    lines = page.after(index, TABLE_LINES)
    entries: dict[int, dict[str, Any]] = {}
    telling: dict[int, Line] = {}  # of each entry the line that names its process and how it ended
    current: dict[str, Any] | None = None
    number = last = 0
    for position, line in enumerate(lines[1:], 1):
        if entry := _ENTRY.match(line.text):
            number = int(entry[1])
            current = entries.setdefault(number, {})
            last = position
        elif (stated := _FIELD.match(line.text)) and current is not None:
            current.update(_stated(stated[1], stated[2]))
            last = position
            if stated[1] == "exitcode":
                telling[number] = line
        elif current is not None and _RECEIVED.search(line.text):
            telling[number] = line
            last = position
        elif 0 in entries and _RULE.match(line.text):
            last = position
            if not any("Failures:" in below.text for below in lines[position + 1 : position + 3]):
                break
    killed = [number for number, entry in sorted(entries.items()) if entry.get("signal") == SIGKILL]
    if entries.get(0):
        chosen = killed[0] if killed else 0
        first = telling.get(chosen, lines[0]) if entries[chosen].get("signal") else lines[0]
        others = tuple(RankEnd(**entry) for number, entry in sorted(entries.items()) if number != chosen)
        yield from _death(page, index, "torchrun", {**entries[chosen], "others": others}, (first, lines[last]))


def _stated(name: str, value: str) -> dict[str, Any]:
    if name == "rank" and (ranks := _RANK.match(value)):
        return {"rank": int(ranks[1]), **({"local_rank": int(ranks[2])} if ranks[2] else {})}
    if name == "exitcode" and (code := _EXIT.match(value)):
        return {**_by_code((code[1],)), "pid": int(code[2])}
    if name == "host" and re.fullmatch(r"[\w.-]{1,253}", value.strip()):
        return {"host": value.strip()}
    if name == "error_file" and value.startswith("/"):
        return {"error_file": value.strip()}
    return {}


def _pool(page: Page, index: int, text: str) -> Iterator[Read]:
    if echo(text) in {COMMENT, SOURCE} or _OF_A_POOL.search(text) is None:
        return
    yield from _vanished(page, index, "datasets" if "abruptly died" in text else "pool")


def _vanished(page: Page, index: int, reporter: str, lines: Sequence[Line] = (), **figures: Any) -> Iterator[Read]:
    """A process is gone, and the report does not even know of which signal."""
    first = page.lines[index]
    at = place_of(page, first, lines[-1] if lines else None)
    if reason := explained(page, index):
        yield Lookalike(at, say("a process ended, but {reason}", reason=translated(reason)))
        return
    process = _missed(first) if reporter == "silence" else process_of(first)
    loaded = _loaded(page, index)
    yield Kill(at=at, time=first.mark.time, process=process, reporter=reporter, loaded=loaded, **figures)


def _missed(line: Line) -> Process:
    """The process that somebody waits for, by the name or number in the words: the writer is another one."""
    found = _OF_THE_DEAD.search(line.text[:CHARACTERS])
    node = process_of(line).node
    if found is None:
        return Process(node=node)
    return Process(pid=int(found["pid"]) if found["pid"] else None, name=found["name"], node=node)


def _joblib(page: Page, index: int) -> Iterator[Read]:
    """Its text speaks of memory in every crash; only the exit codes tell of a kill."""
    lines = page.after(index, 5)[:5]
    if not re.search(r"TerminatedWorkerError: ", lines[0].text):
        return
    position = next((n for n, line in enumerate(lines) if _CODES_OF_WORKERS in line.text), None)
    if position is None:
        at = place_of(page, lines[0])
        yield Kill(at=at, time=lines[0].mark.time, process=process_of(lines[0]), reporter="joblib")
        return
    codes = lines[position].text[:CHARACTERS].partition(_CODES_OF_WORKERS)[2]  # its class is named "Terminated..."
    signal = SIGKILL if "SIGKILL" in codes else _signal_named(codes)
    if signal is None:
        why = mark("joblib mentions memory whenever a worker dies; the exit codes show no kill")
        yield Lookalike(place_of(page, lines[0], lines[position]), why)
        return
    stated = {"signal": signal, "exit_codes": tuple(_JOBLIB_CODE.findall(codes))}
    yield from _death(page, index, "joblib", stated, lines[: position + 1])


def _stopped(page: Page, index: int, text: str) -> Iterator[Read]:
    """A launcher that was told to stop, and Slurm's cancellations that name their reason."""
    reason = told(text)
    if reason is not None:
        yield Lookalike(place_of(page, page.lines[index]), reason)


FAMILY = Family(
    name="kill",
    anchors=(
        "Killed",
        "zsh: killed",
        "SIGKILL",
        "ode 137",
        "ode: 137",
        "ode (137",
        "atus 137",
        "atus 247",
        "exitcode: -9",
        "exitcode  : -",
        "code = -9",
        "code -9",
        "Bus error",
        "exited on signal",
        "terminated abruptly",
    ),
    triggers=(
        "Killed",
        "killed",
        *_KILLED_ABROAD,
        "Signal 9",
        "SIG",
        "signal",
        "Error 137",
        "EXIT CODE: 9",
        "EXIT CODE: 137",
        "exitcode",
        "xit code",
        "xitCode",
        "xit Code",
        "status code",
        "non-zero",
        "with status",
        "xited with",
        "exit_status ",
        "0:9",
        "WTERMSIG 9",
        "xited (",
        " died",
        "crashed while",
        " 6 feet under",
        "return code",
        "returncode",
        "exit status",
        "rc=-",
        "Killing subprocess",
        "noticed that process rank",
        "status=",
        "Bus error",
        "Segmentation fault",
        "Aborted",
        "Terminated",
        "ChildFailedError",
        "BrokenProcessPool",
        " no longer ",
        " not alive any",
        "KernelRestarter: ",
        "leaked shared_memory objects",
        " abruptly",
        " unexpectedly",
        " silently",
        " prematurely",
        " abnormally",
        "without ",
        "executor",
        "ServerClosed",
        " crashed",
        "Unavailable desc",
        "UNAVAILABLE",
        "Remote server ",
        " down",
        "not deliver",
        '": EOF',
        "CANCELLED AT",
    ),
    read=read,
)
