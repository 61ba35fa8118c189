"""Memory words that tell of nothing: source lines echoed in tracebacks, settings, counters, test names, advice."""

from __future__ import annotations

from oomdoctor.language import mark
from oomdoctor.patterns import late

SOURCE = mark("a line of source code that a traceback or a dump shows")
COMMENT = mark("a comment in source code")
SETTING = mark("the name or value of a setting")
TEST = mark("the name of a test")
COUNTER = mark("a counter with the value zero")
ADVICE = mark("advice, not a failure")
CHANGE = mark("a note on a change of the program")

# Matched in this order against one line, capped by the caller; every pattern is bounded and linear.
_STATEMENT = (
    r"^[\s\d|>:+-]{0,20}(?:except|if|elif|raise|assert|return|def|class|import|from|with|while|throw|catch|\} ?catch)\b"
    r"[^.!]{0,200}(?:[(:\"'.=]|$)"
)
_ADVISING = (
    r"(?i)\b(?:if you|to avoid|avoids?|avoiding|to prevent|prevents?|preventing|consider|"
    r"may(?! \d| (?:use|take|hold|not))|(?:might|could)(?! not|n['’]t)|"
    r"can cause|likely(?! (?:(?:an? )?OOM|out of|ran out))|in case of|when you|you (?:can|should|will)|in order to|"
    r"helps? (?:with|against)|"
    r"tip:|hint:|note:)"
)
# "oom_kill 0", "ooms=0", Prometheus' "..._oom_events_total{pod="a"} 0"
_AT_ZERO = (
    r"(?i)(?<![a-z])(?:ooms?|out_of_memory|oom_?kills?|oom_?count)(?:_(?!score)\w{1,40})?[\"']?(?:\{[^{}\n]{0,300}\})?"
    r"[\"'}]{0,3}\s{0,4}[:= ]\s{0,4}0(?:\.0{1,3})?(?![\w.])"
)
# "retry_on_oom: True"; what counts is no setting
_SET = (
    r"(?i)(?<![\w.-])(?![\w.-]{0,60}(?:ooms|kills|counts?|total|events|errors|thrown)[\"']?\s{0,2}[:=])"
    r"[\w.-]{0,60}oom[\w.-]{0,60}[\"']?\s{0,2}[:=]\s{0,2}[\"']?"
    r"(?:true|false|none|null|-?\d(?![\d.,]{0,20} ?(?:[KMGT]i?B?|bytes)\b))"
)
# A literal of Python that names what it will show: `), f"no space, {pool.free()=}"`
_FORMATTED = r"(?:^|[\s(,])f[\"'][^\"'\n]{0,300}\{[A-Za-z_][\w.]{0,120}(?:\(\))?=?(?:[!:][^{}\"'\n]{0,20})?\}"
# What begins as a comment does: the steps of docker's builder and of GitHub, the last words of the JVM and of V8
_OF_A_STEP = r"(?:SBATCH|PBS|BSUB|COBALT) -|\d{1,4} (?:\d{1,6}\.\d|ERROR: )|#\[error\]"
_OF_A_RUNTIME = (
    r" (?:Fatal (?:JavaScript|process) out of memory: |There is insufficient memory for the Java"
    r"|Native memory allocation \(m(?:alloc|map)\) failed)"
)
# A program that prefixes all that it prints: "# QUDA: ERROR: ", "# [rank 3] FATAL: "
_OF_A_WRITER = (
    r"[ \d]{0,4}(?!TODO|FIXME|NOTE|XXX)(?:(?:\[[\w :.-]{1,24}\]|[\w.-]{1,24}:) ?){0,2}"
    r"\[?(?:ERROR|FATAL|CRITICAL|PANIC|ABORT)(?:\]|:|!)"
)
# The summary of pytest repeats the exception behind the test's name: "FAILED tests/test_sync.py::test_it - ...Error: "
_SUMMARY = r"^(?:FAILED|ERROR) .{1,300}? - (?:\w{1,60}\.){0,8}(?!Assertion)\w{1,60}(?:Error|Exception)\b"
# What a runner prints of a test by its name: Jest's, Mocha's, TAP's that passed, Go's, GoogleTest's, Rust's, unittest's
_OF_A_TEST = (
    r"^\s{0,12}(?:[✓✔√] |ok \d{1,6} - |--- (?:PASS|FAIL|SKIP): \w|=== RUN {1,4}\w|\[ {1,8}(?:RUN|OK) {1,8}\] \w"
    r"|test [\w:]{1,200} \.\.\. |test_\w{1,120} \([\w.]{1,200}\) \.\.\. )"
)
# "TODO(mem): ...", and of a docstring what a function raises: "    MemoryError: if the pool is full"
_REMARK = (
    r"^\s{0,20}(?:TODO|FIXME|XXX|HACK)(?:\([\w ,-]{1,30}\))?: "
    r"|^\s{2,20}(?:\w{1,40}\.){0,4}\w{1,60}(?:Error|Exception): (?:[Ii]f|[Ww]hen(?:ever)?|[Oo]n|[Ii]n case) "
)
# A library's number for an error: "cudaErrorMemoryAllocation = 2,"
_CONSTANT = r"^\s{0,20}(?:cuda|hip|nccl|CU_?|CUDA_|HIP_|CL_|VK_|ncclR)\w{2,60} ?= ?-?\d{1,10}[,;]?\s{0,4}(?:$|//|#|/\*)"
# "* **CUDA out of memory**: reduce `batch_size`."
_IN_A_GUIDE = (
    r"^\s{0,8}[-*] \*\*[^*\n]{1,80}(?:\*\*:|:\*\*) (?i:reduce|lower|decrease|use|set|increase|raise|try|check"
    r"|see|add|make|enable|disable|your|you|the)\b"
)
# A line of a change log, or of `git log --oneline`
_CHANGED = (
    r"^\s{0,8}(?:[-*•] |[0-9a-f]{7,12} )(?:\w{1,20}(?:\(\w{1,30}\))?: ?)?"
    r"(?i:fix(?:e[sd]|ing)?|bug ?fix(?:es)?|resolve[sd]?|handle[sd]?|catch(?:es)?|avoid(?:s|ed)?|prevent(?:s|ed)?"
    r"|do not|don't|no longer)\b"
)
_ECHOES = tuple(
    (late(pattern), why)
    for pattern, why in (
        (
            rf"^[\s\d|>:+-]{{0,20}}(?:#(?!{_OF_A_STEP}|{_OF_A_RUNTIME}|{_OF_A_WRITER}|\d{{3}}: )|//|/\*)",
            COMMENT,
        ),  # HDF5 numbers its calls
        (_REMARK, COMMENT),
        (_STATEMENT, SOURCE),
        (_CONSTANT, SOURCE),
        (_FORMATTED, SOURCE),
        (r"\bin str\(|\bisinstance\(|\bin repr\(|pytest\.raises|\bin (?:e|err|exc|msg|message)\b", SOURCE),
        (r"(?i)(?:out of memory|oom)[^#\n]{0,40}[\"'] ?(?:in|not in|==) (?:\w{1,30}(?:[(:)\]]|\.\w|$)|[\"'])", SOURCE),
        (r"^[\s\d|>:❱+-]{0,20}(?:self\.)?_?(?:log(?:ger|ging)?|warnings|print|console)(?:\.\w{1,20})?\(", SOURCE),
        (rf"(?!{_SUMMARY})^.{{0,600}}?\w\.py::\w", TEST),
        (_OF_A_TEST, TEST),
        (_CHANGED, CHANGE),
        (_AT_ZERO, COUNTER),
        (_SET, SETTING),
        (_IN_A_GUIDE, ADVICE),
        (_ADVISING, ADVICE),
    )
)
# The title of a thread or a heading of notes: the message itself, with its figures or the line that prints it.
_TITLE = late(
    r"^#{1,6} {1,4}[\"'`*\[]{0,3}(?:(?:\w{1,40}\.){0,6}\w{1,60}(?:Error|Exception|Allocator): "
    r"|(?i:cuda|hip) (?:runtime )?error\b|CUDA out of memory\b|THCudaCheck |\[enforce fail )"
    r".{0,300}(?:\d ?(?:[KMGT]i?B|bytes)\b|\.(?:cpp|cu|cc|cuh|h):\d)"
    # ... or an exception with its whole fixed sentence and nothing else
    r"|^#{1,6} {1,4}[\"'`*]{0,3}(?:\w{1,40}\.){0,6}\w{1,60}(?:Error|Exception): (?:"
    r"(?:CUDA|HIP) (?:error: )?out of memory"
    r"|DataLoader worker \(pid\D{0,4}\d{1,9}\) is killed by signal: \w{1,20}(?: error)?)\.?[\"'`*]{0,3}\s{0,4}$"
    # ... or what a compiler's driver prints of its killed child, behind a few words of one's own
    r"|^#{1,6} {1,4}(?:[\w' ]{1,40}: ){0,2}(?:[\w+.-]{1,20}: )?(?:fatal |internal compiler )?error\s{0,4}: "
    r"(?:Killed signal terminated program [\w+.-]{1,20}|Killed \(program [\w+.-]{1,20}\)"
    r"|'[\w+.-]{1,20}' died due to signal 9(?: \(Kill signal\))?)\.?[\"'`*]{0,3}\s{0,4}$"
)
CHARACTERS = 600


def echo(text: str, line: str = "") -> str | None:
    """Why the line's memory words tell of no failure, or None where nothing shows that.

    The text may end with the words; whether it is a title, the whole line shows.
    """
    shown = text[:CHARACTERS]
    why = next((why for pattern, why in _ECHOES if pattern.search(shown)), None)
    return None if why == COMMENT and _TITLE.search((line or text)[:CHARACTERS]) else why
