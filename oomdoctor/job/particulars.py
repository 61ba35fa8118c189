"""Numbers and names that stand beside a failure, in the words of any program: how far the job was, which process, rank,
container or trial it was, with which code it ended. They tell a reader where to look; no cause is decided by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import ahocorasick_rs

from oomdoctor.job.model import Value
from oomdoctor.patterns import late
from oomdoctor.streams import Line
from oomdoctor.text import sanitize

LINES: Final = 4000  # of a page, its last: what is printed again and again is printed there, too
LATEST: Final = 8  # of one name: what was printed last stands nearest to the failure
CHARACTERS: Final = 2000
NAME_CHARACTERS: Final = 120

# The name, literals without which the pattern is not tried, and the pattern, whose groups are values.
_TABLE: Final = (
    # which process: Python's and Ray's words, PyInstaller's, the JVM's, DeepSpeed's and Dask's, and V8's lines of its
    # garbage collector, "[9278:0x7394fe0] 18891560 ms: "
    (
        "pid",
        ("pid", "PID", "Pid", "PYI-", "ubprocess ", "orker process ", "rocess ", " ms: "),
        (
            r"\b(?:(?:hs_err_)?[Pp]id|PID|PYI-|[Ss]ubprocess|[Ww]orker process|[Pp]rocess(?= \d{2,9} (?:has|was)))"
            r"[\s:=#'\"]{0,3}(\d{2,9})\b|^\s{0,4}\[(\d{2,9}):(?:0x)?[0-9A-Fa-f]{6,16}\]\s{1,9}\d{1,12} ms: "
        ),
    ),
    # at the head of a line: NCCL's "host:3663:4044 [0]", PostgreSQL's, Redis' and MindSpore's; and systemd-oomd's
    (
        "pid",
        ("] NCCL ", " [0", " ["),
        r"^[^\s:]{1,100}:(\d{2,9}):\d{2,9} \[\d{1,2}\] |:(\d{2,9}):\d{2,9} \[\d{1,2}\] \S",
    ),
    ("pid", ("] ERROR: ", "] FATAL: ", "] LOG: ", "] PANIC: "), r"\[(\d{2,9})\] (?:ERROR|FATAL|LOG|PANIC): "),
    ("pid", (":M ", ":S ", ":C "), r"^(\d{1,9}):[MSC] \d{1,2} [A-Z][a-z]{2}\b"),
    ("pid", ("python):", "main):"), r"\b[A-Z_]{2,12}\((\d{2,9}),[0-9a-f]{6,16},\w{1,40}\):"),
    ("pid", ("ttempting to kill ",), r"\battempting to kill (\d{1,9}) with\b"),
    (
        "rank",
        ("ank ", "ank:", "ank=", "RANK"),
        r"\b(?:[Ll]ocal_|[Gg]lobal_|LOCAL_)?(?:[Rr]ank|RANK)[ :=]{1,3}(\d{1,5})\b",
    ),
    ("gpu", ("GPU ", "GPU=", "device "), r"\b(?:GPU[ =]|CUDA device )(\d{1,6})\b(?! ?[GM]i?B)"),
    ("gpu", ("-gpu ",), r"(?:^|\s)--?gpu (\d{1,3})(?=\s|$)"),
    ("worker", ("<Worker ",), r"<Worker [^>]{1,160}\bname: (\w{1,40}),"),
    ("processing", (", processing:",), r", processing: (\d{1,9})\b"),
    # Spark's and Slurm's
    ("executor", ("xecutor ",), r"\b[Ee]xecutor (\d{1,6})\b"),
    ("task_attempt", ("TID ",), r"\bTID (\d{1,12})\b"),
    ("task", ("task ",), r"\btask (\d{1,9}(?:\.\d{1,6})?)(?= in stage\b|: \w|,)"),
    ("job_step", ("job step ", " STEP "), r"\b(?:job step|STEP) (\d{1,12}\.\d{1,6})\b"),
    ("budget_percent", ("% memory budget",), r"\bexceeded (\d{1,3}(?:\.\d{1,3})?)% memory budget"),
    # of Ray and its tuner, of Kubernetes and of Docker
    ("trial", ("Trial ", "trial "), r"\b[Tt]rial (\w{1,60}_\d{1,6})\b"),
    ("job", ("Job '", "job '", "raysubmit_"), r"\b(?:[Jj]ob '|(?=raysubmit_))([\w.-]{3,60})\b"),
    (
        "pod",
        ("BackOff", "OOMKilled", "Evicted", "ContainerError", "ContainerConfigError", "Terminating", "Pending"),
        r"^\s{0,8}([a-z0-9][a-z0-9.-]{2,200})\s{1,60}\d{1,3}/\d{1,3}\s{1,40}[A-Z]\w{2,40}\s",
    ),
    ("container", (" exited with code ",), r"(?:^|\s)([\w.-]{2,120}) exited with code \d"),
    ("restarts", ("estart Count:",), r"\b[Rr]estart Count:\s{1,20}(\d{1,6})\b"),
    ("actor", ("class_name: ",), r"^\s{0,8}class_name: (\w{2,100})"),
    ("repeated", ("[repeated ",), r"\[repeated (\d{1,9})x\b"),
    # the program: what a shell was asked to run, what cargo says of its compiler
    (
        "command",
        ("$ ", "# "),
        r"^\s{0,4}(?:\$|\S[^$#\n]{0,80}[@~][^$#\n]{0,80}[$#]) {1,3}(?!\d)([\w./+-]{2,80})(?= |$)",
    ),
    ("command", ("exit successfully: `",), r"exit successfully: `(?:\S{1,200}/)?([\w.+-]{2,60})(?= |`)"),
    # how it ended
    (
        "exit_code",
        ("zero code: ", "exit code: ", "xit_status=", "exitCode"),
        r"\b(?:non-zero code: |exit code: |[Ee]xit_status=|exitCode\"?[:=] ?)(-?\d{1,6})\b",
    ),
    (
        "signal",
        ("ignal", "Signals.", "SIG"),
        (
            r"(?:\b[Ss]ignal[ :=(]{1,3}|<Signals\.SIG[A-Z]{3,6}: "
            r"|\bSIG(?:KILL|TERM|SEGV|ABRT|BUS|INT|ILL|FPE|XCPU)\(-?)(\d{1,2})\b"
        ),
    ),
    (
        "errno",
        ("rrno", "rror code", "rror_code", "rrorCode", "rror Code"),
        r"\b(?:[Ee]rrno|[Ee]rror[ _]?[Cc]ode)[\"'\])]{0,2}(?: is)?[ :=]{0,3}(-?\d{1,10})\b",
    ),
    # what a library's call gave back: "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED", "ret = -3", "ret[2]"
    ("errno", ("failure ",), r"\b(?:CUDA|CUBLAS|CUDNN|CUFFT|NCCL|HIP) failure (\d{1,4})\b"),
    ("status", ("ret",), r"\bret(?: ?= ?|\[)(-?\d{1,10})\b"),
    (
        "error",
        ("cudaError", "hipError", "_ERROR_", "_STATUS_", "bad_alloc: ", "what():"),
        (
            r"\b(cudaError[A-Z]\w{1,60}|hipError[A-Z]\w{1,60}|(?:CUDA|HIP|PI|UR_RESULT|VK|ZE_RESULT)_ERROR_[A-Z_]{3,60}"
            r"|(?:CUDNN|CUBLAS|CUFFT|CUSPARSE|CUSOLVER|HIPBLAS|MIOPEN|ROCBLAS)_STATUS_[A-Z_]{3,60})\b"
            r"|(std::bad_alloc: out_of_memory)\b|\bwhat\(\): {1,4}(\S[^\n]{2,100}?)\s{0,4}$"
        ),
    ),
    (
        "status",
        ("tatus", "eturns", '"code'),
        r"\b(?:status(?:[ _]?[Cc]ode)?|returns|code\\?\")[ :=]{1,3}(-?\d{1,10})\b(?!\.\d)",
    ),
    (
        "exception",
        ("Error", "Exception"),
        r"^\s{0,8}(?:[A-Za-z_]\w{0,60}\.){0,6}(\w{0,60}(?:Error|Exception))(?=:|\s{0,4}$)",
    ),
    ("exception", ("an instance of '",), r"\ban instance of '([\w:]{2,100})'"),
    # where: the frames that stand last, and the node or the port of a worker
    ("line", ('", line ',), r"\bFile \"[^\"\n]{1,400}\", line (\d{1,7})\b"),
    ("node", ("node id ", "Node ID: "), r"\b[Nn]ode (?:id|ID):? ([0-9a-f]{40,56})\b"),
    ("worker_port", ("orker port: ",), r"\b[Ww]orker port: (\d{1,5})\b"),
    ("errors", (" root error(s)",), r"\b(\d{1,4}) root error\(s\)"),
    # how far it was; the whole beside the part stays as it is printed
    (
        "progress",
        ("%|", *(f" [{digit}" for digit in range(10)), "tep", "poch", "iter", "Iter", "batch", "Batch"),
        (
            r"\b(\d{1,12}/\d{1,12})(?= \[\d{1,3}:\d\d)"
            r"|\b(?:[Ss]tep|[Ee]poch|[Ii]ter(?:ation)?|[Bb]atch)[ :=#\[]{1,3}(\d{1,12}/\d{1,12})\b"
        ),
    ),
    (
        "counts",
        (*(f" [{digit}" for digit in range(10)), "max_steps", "] c++", "] g++", "] nvcc", "] clang", "] /", "ing C"),
        (
            r"^\[(\d{1,7})/(\d{1,7})\] |\b(\d{1,12})/(\d{1,12})(?= \[\d{1,3}:\d\d)"
            r"|\bmax_steps[\"']?[:=] ?[\"']?(\d{1,9})/(\d{1,9})\b"
        ),
    ),
    ("iteration", ("ter ",), r"(?:^|\s)[Ii]ter (\d{1,9})(?=:)"),
    ("epoch", ("poch",), r"(?<!per )\b[Ee]poch[\"']?[ :=#\[]{1,3}(\d{1,9})\b"),
    ("loss", ("oss",), r"(?i)\bloss[\"']?[ :=]{1,3}(-?\d{1,9}\.\d{1,12}(?:e-?\d{1,3})?)\b"),
    ("seconds", ("poch", "tep"), r"(?i)\b(?:epoch|step)\b[^\n]{0,24}?\b(\d{1,9}\.\d{1,9}) ?s(?:ec|econds)?\b"),
    (
        "capture_size",
        ("apture size", "apture_size"),
        r"\b[Cc]apture[ _]size(?: to| of| is|[ =:]{1,3}) ?(\d{1,6})\b(?!\.\d)",
    ),
    ("kv_usage_percent", ("KV cache usage: ",), r"\bKV cache usage: (\d{1,3}\.\d{1,3})%"),
    ("kv_cells", (" cells, ",), r"\b(\d{1,12}) cells, "),
    ("context_tokens", (" tokens, context ",), r" tokens, context (\d{1,9})\b"),
    ("shape", ("torch.Size([",), r"torch\.Size\(\[([\d, ]{1,120})\]\)"),
    ("shape", (" shape[", " shape ["), r"\bshape ?\[([\d, ]{1,120})\]"),
    # how much there was of what was worked on
    ("length", ("of length ",), r"\bof length (\d{1,9})\b"),
    (
        "items",
        ("Loaded ", "Training on ", "Testing on ", "umber of "),
        (
            r"\bLoaded (\d{1,12}) [a-z]{3,20}s\b|\b(?:Training|Testing) on (\d{1,12}) [a-z]{3,20}s\b"
            r"|\b[Nn]umber of (?:\w{1,20} ){0,8}?\w{1,20}: (\d{1,12})\b"
        ),
    ),
    # how large a batch and a model were, and how much of a share they were given
    (
        "batch_size",
        ("atch size", "atch_size"),
        r"\b[Bb]atch[ _]size(?: per \w{1,12})?[\"']?[ :=]{1,3}(\d{1,7})\b(?!\.\d)",
    ),
    ("parameters", ("arameters",), r"\b[Pp]arameters(?: ?[:=] ?)(\d[\d,]{2,18})\b(?!\.\d)"),
    ("parameters", (" parameters",), r"(?<![\w.,])(\d[\d,]{3,18}) (?:total |model )?parameters\b"),
    (
        "image_size",
        (" of size ", "image_size "),
        r"\b(?:of size|image_size) (\d{2,6})(?:x(\d{2,6}))?(?=[\s,;]|\.?$|\. )(?! ?[KMGT]?i?B\b)",
    ),
    ("fraction", ("fraction",), r"\bfraction\w{0,40}(?: is|[:=]){0,1} ?(\d\.\d{1,6})\b"),
    ("blocks", (" blocks",), r"\b(\d{1,9}) (?:free |total )?blocks\b"),
    ("micro_batch_tokens", ("n_ubatch",), r"\bn_ubatch {0,20}= (\d{1,9})\b"),
    ("tokens", (" tokens ", " tokens,", " tokens)"), r"\b(\d{2,12}) (?:total |free )?tokens\b(?!/)"),
    ("context_tokens", ("KvSize:",), r"\bKvSize:(\d{1,9})\b"),
    ("batch_tokens", ("BatchSize:",), r"\bBatchSize:(\d{1,9})\b"),
    ("peak_memory_gb", ("Peak mem ",), r"\bPeak mem (\d{1,6}\.\d{1,6}) GB\b"),
    ("large_allocation_bytes", ("large alloc ",), r"\blarge alloc (\d{1,18}) bytes\b"),
    # limits that a guard names, and what it found
    ("timeout_ms", ("timed out after ",), r"\btimed out after (\d{1,12}) ?ms\b"),
    ("pressure_percent", ("% > ",), r"\bis (\d{1,3}\.\d{1,3})% > \d{1,3}\.\d{1,3}%"),
    ("threshold", ("hreshold",), r"\b[Tt]hreshold[A-Za-z]{0,12} ?[=:] ?(\d{1,3}\.\d{1,9})\b"),
    # of the kernel that killed
    ("kernel", ("ainted",), r"\b(?:Not tainted|Tainted: [A-Z ]{1,40}?) ?(\d{1,2}\.\d{1,3}\.\S{1,60}) #"),
    (
        "badness",
        ("badness ", " score "),
        r"\bKill process \d{1,9} \([^)\n]{1,40}\) score (\d{1,6})\b|\bbadness (\d{1,6})\b",
    ),
    ("oom_score_adj", ("oom_score_adj=",), r"\boom_score_adj=(-?\d{1,4})\b"),
)
NAMES: Final = tuple(dict.fromkeys(name for name, _, _ in _TABLE))
_PATTERNS: Final = tuple((name, late(pattern)) for name, _, pattern in _TABLE)
_NUMBER: Final = late(r"-?\d{1,18}(?:\.\d{1,18})?(?:e-?\d{1,3})?")
_THOUSANDS: Final = late(r"\d{1,3}(?:,\d{3}){1,6}")
_TEXTS: Final = frozenset({"progress", "job_step"})  # as they are printed, though they may look like numbers


def beside(line: Line) -> Iterator[tuple[str, Value]]:
    """What the line says, each with its name."""
    text = line.text[:CHARACTERS]
    automaton, owners = _words()
    hits = automaton.find_matches_as_indexes(text, overlapping=True)
    for row in sorted({owners[hit[0]] for hit in hits}):
        name, pattern = _PATTERNS[row]
        for match in pattern.finditer(text):
            yield from ((name, value) for group in match.groups() if group for value in _values(name, group))


def _values(name: str, group: str) -> Iterator[Value]:
    if name in _TEXTS:
        yield group
    elif name == "shape":
        yield from (int(part) for part in group.split(",") if part.strip())
    else:
        yield _typed(group)


def _typed(text: str) -> Value:
    """A number, where it is one."""
    if _THOUSANDS.fullmatch(text):
        return int(text.replace(",", ""))
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text or "e" in text else int(text)
    return sanitize(text, NAME_CHARACTERS)


class Particulars:
    """Takes pages as they come, and keeps the latest few values of each name."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Value, None]] = {}

    def add(self, lines: Sequence[Line]) -> None:
        """Take what stands on these lines of a page."""
        for line in lines[-LINES:]:
            for name, value in beside(line):
                self._take(name, value)
            if line.mark.rank is not None:
                self._take("rank", line.mark.rank)

    def join(self, later: Particulars) -> None:
        """Take those of another file of the job."""
        for name, values in later._values.items():
            for value in values:
                self._take(name, value)

    def latest(self) -> dict[str, tuple[Value, ...]]:
        """What is kept, in the order of the log."""
        return {name: tuple(values) for name, values in self._values.items()}

    def _take(self, name: str, value: Value) -> None:
        values = self._values.setdefault(name, {})
        values.pop(value, None)
        values[value] = None
        if len(values) > LATEST:
            del values[next(iter(values))]


@cache
def _words() -> tuple[ahocorasick_rs.AhoCorasick, tuple[int, ...]]:
    pairs = [(word, row) for row, (_, words, _) in enumerate(_TABLE) for word in words]
    automaton = ahocorasick_rs.AhoCorasick([word for word, _ in pairs], matchkind=ahocorasick_rs.MatchKind.Standard)
    return automaton, tuple(row for _, row in pairs)
