"""What else than memory may have ended a process: the lines around a kill say so, or they say nothing."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.lines import PROGRESS
from oomdoctor.families.loudness import is_marked_loud
from oomdoctor.language import mark
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Page

BEFORE: Final = 60
AFTER: Final = 12
CHARACTERS: Final = 600

LAST_WORDS: Final = 200  # lines
AT_MOST: Final = 400  # characters of a line that says so

STEPS: Final = 3  # of a loop, printed while a signal takes effect

TIME_LIMIT: Final = mark("the scheduler's time limit ended it")
PREEMPTION: Final = mark("a preemption ended it")
NODE_FAILED: Final = mark("its node failed or was shut down")
CANCELLED: Final = mark("a user cancelled the job")
SUPERVISOR: Final = mark("its supervisor's time limit ended it")
BY_RAY: Final = mark("Ray was told to end it")
CONTAINER: Final = mark("the container was stopped")
SHUT_DOWN: Final = mark("its machine was shut down or restarted")
INTERRUPTED: Final = mark("a user interrupted it")
SIGNALLED: Final = mark("a command or the program itself sent the signal")
EVICTED: Final = mark("Kubernetes evicted its pod for disk, inodes or process IDs")
# pkg/kubelet/eviction/helpers.go: up to 1.9 by the file system's name
OF_A_DISK: Final = r"\blow on resource: (?:ephemeral-storage|inodes|pids|(?:node|image|container)fs(?:Inodes)?)\b"
# Scripts clean up with the same commands before they start a job.
_ALSO_BEFORE_A_JOB: Final = (BY_RAY, CONTAINER, INTERRUPTED, SIGNALLED)

_ENDINGS = tuple(
    (late("|".join(patterns)), why)
    for why, *patterns in (
        (
            mark("the `timeout` command ended it"),
            r"\btimeout\b[^\n|;&]{0,60}(?:-s ?|--signal[= ])(?:SIG)?(?:KILL|9)\b",
            r"\btimeout\b[^\n|;&]{0,60}-k ?\d",
            r"^timeout: sending signal ",
        ),
        (
            TIME_LIMIT,
            r"DUE TO TIME LIMIT",
            r"active (?:on the node )?longer than (?:the )?specified deadline|\bMaxRuntimeExceeded\b",
            r"exceeded the maximum execution time|\bexceeded (?:the )?wall.?(?:time|clock)",
            r"TERM_RUNLIMIT",
            r"walltime \d{1,9} exceeded limit",
        ),
        (
            PREEMPTION,
            r"DUE TO (?:PREEMPTION|JOB REQUEUE)",
            r"job is preempted",
            r"\bpreempt(?:ed|ion) (?:by (?!PreemptionMode)|signal\b|notice\b|at\b)",
            r"\b(?:instance|VM|node|pod)\b.{0,80} was preempted\b",
            r"\bPreempted in order to\b|[Rr]eason:? {1,12}Preempt",
            r"\bspot (?:instance )?(?:interruption|termination|reclaim)",
            (
                r"\b(?:instance|VM|node|machine)\b[^\n]{0,80}"
                r"\b(?:(?:will be|is being|was) (?:reclaimed|interrupted)"
                r"|(?:marked|scheduled) for (?:termination|interruption))\b"
            ),
            r"TERM_PREEMPT",
        ),
        (NODE_FAILED, r"DUE TO NODE FAILURE", r"imminent node shutdown|\bNodeShutdown\b"),
        (
            CANCELLED,
            r"\bscancel\b",
            r"CANCELLED by \d",
            r"TERM_OWNER",
            r"\b(?:bkill|qdel)\b",
        ),
        (BY_RAY, r"\bray\.kill\b", r"\bray stop\b"),
        (
            EVICTED,
            OF_A_DISK,
            # eviction_manager.go: a pod's and a container's own limit, what the node still has to get back
            r"\bephemeral local storage usage exceeds\b|\bexceeded its local ephemeral storage limit\b",
            r"\bmust evict pod\(s\) to reclaim(?: |\\?\" resourceName=\\?\")(?:ephemeral-storage|inodes|pids)\b",
            r"\bnode had condition: \[(?:Disk|PID)Pressure\]",
        ),
        (
            CONTAINER,
            r"\b(?:docker|podman) (?:stop|kill)\b",
            r"^pod \"[\w.-]{1,253}\" (?:force )?deleted\b",  # kubectl delete
            r"[Ll]iveness probe failed|failed liveness probe|Stopping container",
        ),
        (
            INTERRUPTED,
            r"^\^C|\bKeyboardInterrupt\b|[Rr]eceived (?:a )?SIGINT|got signal: 2\b|<Signals\.SIGINT",
        ),
        (
            SIGNALLED,
            r"(?:^|[$#;&] ?|sudo )p?kill(?:all)? (?:-s ?)?-?(?:SIG)?(?:9|KILL)\b",
            r"\bos\.kill\(|send_signal\(",
        ),
        (
            mark("it was told to stop first (SIGHUP: its terminal or ssh session was closed)"),
            r"Received 1 death signal\b|closing signal SIGHUP\b|got signal: 1\b",
        ),
        (
            mark("it was told to stop first (SIGTERM or SIGHUP)"),
            r"death signal, shutting down|got signal: 15\b",
            r"forcefully exiting via Signals\.SIGKILL",
            r"[Cc]aught signal (?:SIGUSR|SIGTERM|15\b)|[Rr]eceived (?:a |signal )?SIGTERM",
            r"DUE to SIGNAL (?:Terminated|User)|State 'stop-sig\w{1,12}' timed out",
            r"\bkilling '[^'\n]{1,80}' \(\d{1,9}\) with SIGKILL",  # supervisord, after stopwaitsecs
        ),
        (
            SUPERVISOR,
            r"\bWORKER TIMEOUT\b|\bWatchdog timeout \(limit",
            r"\*\*\* HARAKIRI ON WORKER \d",  # uWSGI's core/master_checks.c
            r"\b[Hh]ard time limit \(\d{1,6}(?:\.\d)?s?\) exceeded",  # Celery's worker/request.py
            r"\bno progress (?:for|in) (?:the last )?\d{1,6} ?(?:s|sec|min|h)",
            (
                r"\b(?:did not|didn't|failed to|refused to) (?:exit|stop|terminate|quit|respond|shut ?down)"
                r" (?:within|in|after) (?:\d|(?:the|its) (?:grace|timeout|stop))"
            ),
            r"\bHeartbeat .{0,40}timed? ?out\b",
        ),
        (
            mark("its parent ended it after another child had failed"),
            r"Received sigquit from a child process",
        ),
        (
            mark("another process of the same server had crashed (SIGILL, SIGABRT, SIGFPE or SIGSEGV)"),
            r"\bwas terminated by signal (?:4|6|8|11)\b",  # PostgreSQL: src/backend/postmaster/postmaster.c
        ),
        (
            mark("macOS ended it: the signature of its code is not valid"),
            r"\bCODE SIGNING: |\bCode Signature Invalid\b|\bASP: Security policy would not allow process\b",
        ),
        (mark("the test's own time limit ended it"), r"\bTimeout >\s?\d|Failed: Timeout"),
    )
)
# Slurm ends a step that was cancelled or whose other tasks failed, and a machine its services before it goes down.
# Printed behind a kill it is that kill's consequence.
_ENDED_BEFORE = tuple(
    (late(pattern), why)
    for pattern, why in (
        (
            r"\*\*\* (?:STEP|JOB) \S{1,60} ON \S{1,200} CANCELLED AT|srun: forcing job termination",
            mark("the scheduler had cancelled the step before"),
        ),
        (
            (
                r"\bSystem is (?:rebooting|powering down|halting)\b"
                r"|\bsystem is going down for (?:reboot|system halt|power)"
                r"|\bReached target [^\n]{0,40}(?:Reboot|Shutdown|Power.?Off)\b"
            ),
            SHUT_DOWN,
        ),
    )
)
_KILLED = late(r"\b(?:Killed|OOM|oom.?kill|Out Of Memory)\b|exitcode: -9")
_DONE = late(
    r"(?i)(?<!\.\.\.)\b(?:finished|completed|done|succe(?:ss|eded)|successfully)\b(?!.{0,80}\b(?:fail|error))"
    r"|exit(?:ed)?(?: with)?(?: code)? 0\b"
    r"|^(?-i:\[ {2,8}OK \] |\[ {1,4}PASSED {1,4}\] )"  # GoogleTest's
)
# What was being loaded came up: Ollama's runner (llm/server.go), a server that answers
_CAME_UP = late(
    r"(?i)\b(?:runner|server|engine|model) (?:is |was )?(?:now )?(?:started|loaded|ready|up|running)\b"
    r"|\b(?:started|loaded) in \d|\bmsg=\"?offload\b"  # with another layout
)
# Ray prints all its guesses ("ray stop --force is called") with every death of a worker.
_GUESSES = late(r"potential root causes|^\W{0,4}\(\d\) (?:The process is killed|ray stop|The worker is crashed)")


@remembered
def told(text: str) -> str | None:
    """What ended the process, by this line."""
    return None if guesses(text) else _ending(text[:CHARACTERS])


def guesses(text: str) -> bool:
    """Whether Ray lists in this line what may have ended a process."""
    return _GUESSES.search(text) is not None


@remembered
def _ending(shown: str) -> str | None:
    return next((why for pattern, why in _ENDINGS if pattern.search(shown)), None)


@remembered
def _is_progress(shown: str) -> bool:
    return PROGRESS.search(shown) is not None


def explained(page: Page, index: int) -> str | None:
    """What ended the process, by the lines around the report of its death; None where nothing tells."""
    first = max(0, index - BEFORE)
    for position in reversed(range(first, min(index + AFTER, len(page.lines)))):
        why = told(page.lines[position].text)
        if why and not (why in _ALSO_BEFORE_A_JOB and _ran_on(page, position, index)):
            return why
    return _ended_before(page, index)


def ends_well(page: Page, index: int) -> bool:
    """Whether something behind the line says that the job was done all the same."""
    behind = page.lines[index + 1 : index + 1 + LAST_WORDS]
    return any(_DONE.search(line.text[:AT_MOST]) for line in behind)


def came_up(page: Page, index: int) -> bool:
    """Whether something behind the line says that what was loaded came up, and no error stands in between."""
    for at in range(index + 1, min(index + 1 + LAST_WORDS, len(page.lines))):
        text = page.lines[at].text[:AT_MOST]
        if is_marked_loud(page, at, text):
            return False
        if _CAME_UP.search(text):
            return True
    return False


def _ran_on(page: Page, position: int, index: int) -> bool:
    """Whether the job got on between these lines: what a script stopped before is not what ends here."""
    between = (line.text[:CHARACTERS] for line in page.lines[position + 1 : index])
    return sum(map(_is_progress, between)) >= STEPS


def _ended_before(page: Page, index: int) -> str | None:
    """What was ending the step or the machine when this process died, if no kill had been the reason for that."""
    before = [line.text[:CHARACTERS] for line in page.lines[max(0, index - BEFORE) : index]]
    for position, text in enumerate(before):
        for pattern, why in _ENDED_BEFORE:
            if pattern.search(text):
                return None if any(_KILLED.search(above) for above in before[:position]) else why
    return None
