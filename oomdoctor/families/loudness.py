"""Whether a line is an error's: by its level, wherever its program prints it, by its exception, or by its words."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.patterns import late
from oomdoctor.streams import Page

CHARACTERS: Final = 1000

_BELOW: Final = 3  # lines
LOUD: Final = ("ERROR", "CRITICAL", "FATAL")
_HEAD: Final = 120  # characters in which a level stands
_LEVELS: Final = {
    "t": "quiet", "d": "quiet", "i": "quiet", "n": "quiet", "w": "warning", "e": "loud", "c": "loud", "f": "loud",
    "p": "loud",
}  # fmt: skip
# "level=error", {"severity": "ERROR"}
_FIELD = late(
    r"(?i)(?:^|[\s{,\"'])(?:level|lvl|severity|levelname|log_?level)[\"']?\s?[:=]\s?[\"']?([a-z])[a-z]{2,8}\b"
)
# "[error]", "ERROR ", "| ERROR |", "[E] ", "E [pool]", "W tensorflow/", "CRITICAL:root:"
_WORD = late(
    r"[\[(<|]\s?(?i:(t)race|(d)ebug|(i)nfo?|(n)otice|(w)arn(?:ing)?|(e)rr(?:or)?|(c)rit(?:ical)?|(f)atal)\s?[\])>|:]"
    r"|(?:^|(?<!NCCL)\s)(?:(T)RACE|(D)EBUG|(I)NFO?|(N)OTICE|(W)ARN(?:ING)?|(E)RR(?:OR)?|(C)RIT(?:ICAL)?|(F)ATAL|(P)ANIC)(?![\w-])"
    r"|^(?:[\w./+-]{1,60}(?: std(?:err|out))?: ){0,3}"
    r"(?i:(d)ebug|(i)nfo|(n)otice|(w)arn(?:ing)?|(e)rror|(f)atal)(?:\(\w{1,40}\))?:"
    r"|^PHP (W)arning:"
    r"|(?:^|[\]|]\s?|\(\d{1,9}\): )(?:(W)arning(?!\s{1,4}[A-Z]\w{3,40}\s{1,12}[\d<])|(E)rror)\s"
    r"|\b(?:User|Runtime|Future|Resource|Performance)(W)arning: "
    r"|^\[?([EFWIDC])(?:\]|(?:\d{4}){1,2}\b|(?= \[| \S{1,200}[.:/]))"
    r"|^\[([efwi])(?= \d{4} \d\d:)"  # Jittor's: "[f 0313 17:20:09.551236 88 cuda_device_allocator.cc:31]"
    r"|\] \[([EWFIDC])\] \["  # TensorRT's trtexec: "[05/20/2023-12:00:01] [W] [TRT] "
)
_NAMED: Final = {"TRACE": "quiet", "DEBUG": "quiet", "INFO": "quiet", "NOTICE": "quiet",
                 "WARNING": "warning", "WARN": "warning"}  # fmt: skip

_RAISED = late(
    r"(?:\[[^\]\n]{1,60}\]|std(?:out|err)|[Rr]ank ?\d{1,6}(?=: )|[EWF](?= )|\||>>|-|:|\s){0,8}"
    r"(?:Exception in thread \"[^\"\n]{0,80}\" |Caused by: |Uncaught |Unhandled exception\.? )?"
    r"(?:(?:\w{1,60}(?:\.|::)){0,8}\w{0,60}(?:Error|Exception|Failure|Fault|Panic|Exit)\w{0,20}(?:: |\b)"
    r"|(?:[a-z_]\w{0,40}(?:\.|::)){1,8}(?:[A-Z]\w{2,60}|bad_\w{2,40}): \S|panic: |terminate called|\s{0,4}what\(\):"
    r"|fatal(?: error)?: |FATAL: |thread '[^'\n]{0,60}' (?:\(\d{1,9}\) )?panicked at)"
)
# What an exception's next line says, where its own ends with a colon: "Exception from src/plugin.cpp:54:"
_HEADLINE = late(r"(?:[^\n]{0,200}\b\w{0,40}(?:Exception|Error)\b|Check ')[^\n]{0,400}:\s?$")
_HEADLINES: Final = 4
# An exception of what could not be had or begun: what it lists below may say why
_OF_A_DEVICE = late(
    r"(?i)\b(?:gpus?|devices?|memory|cuda|model|engine|alloc\w{0,8}|initiali[sz]\w{1,6}|load(?:ing)?)\b"
)
_ANOTHER = late(r"\W{0,4}[\w./-]{1,60}(?:\(\))?: ")  # "mimalloc: ": another one speaks
_MESSAGE: Final = 3  # lines of an exception below its first
# What an exception's second line supposes of its reason
_SEEMS = late(r"(?i)(?:this |it )?(?:seems|looks|appears) (?:to be |like )(?:an? )?(?:OOM|out of memory)\b")
# The head of an exception whose words stand on the line below: Rust's, MATLAB's, R's, the JVM's
_HEAD_OF_ONE = late(
    r"thread '[^'\n]{0,60}' (?:\(\d{1,9}\) )?panicked at [^\n]{1,200}:\d{1,7}:\d{1,5}:$"
    r"|Error using [\w./]{1,80}(?: \(line \d{1,6}\))?$|Error in [^\n]{1,200} :\s?$"
    r"|Error occurred during initialization of VM$"
)
_ERROR = late(
    r"(?i)\bnon-zero status\b"
    # what a call failed with
    r"|: (?:out of memory|cannot allocate memory|memory exhausted|not enough (?:memory|space))\.?$"
    r"|\b(?:error|err|fatal|fail(?:ed|ure)?|abort(?:ed|ing)?|panic(?:ked)?|crash(?:ed)?|exception|killed"
    r"|terminat\w{2,3}|encountered|severe|ha(?:s|ve|d) r[au]n out)\b"
    r"|(?<!that )(?<!which )(?<!who )(?<!ever )\bran out of (?:\w{1,12} )?memory"
    r"(?: (?:with|while|during|at|in|on|for|after)\b|[!;]|\.?$)"
    r"|^\W{0,8}(?!(?:no|none|fixed|earlier|previous|if|when|\d{1,9})\b)(?:[\w-]{1,20} ){1,3}(?<!that )(?<!which )"
    r"(?<!ever )ran out of v?ram(?: (?:with|while|during|at|in|on|for|after)\b|[!;]|\.?$)"
    r"|(?<!no )\bOOM\)? (?:was |event )?(?:detected|encountered|observed)\b"
    # the prompt, or the request, is given up: execution.py of ComfyUI, which prints how long it took all the same
    r"|\b(?:got|hit) an? (?:\w{1,8} )?OOM(?: error| exception)?[,.;:]? unload(?:ing|ed) (?:\w{1,8} ){0,2}models?\b"
    r"|^[EF]\d{4} |^[EF] |fork: |错误"
    r"|\breturn(?:s|ed)? null\b|\breturn(?:s|ed) (?-i:OOM|E?NOMEM)\b"
    # "Reason=OutOfMemory", 'ExitReason="Memory limit reached"'
    r"|(?:\b|(?-i:(?<=[a-z])(?=[SR])))(?:state|status|reason)\s?[=:]\s{0,4}[\"']?"
    r"(?:OOM|Out ?Of ?Memory|Memory (?:usage )?limit (?:reached|exceeded|hit))"
)
# What went wrong with one of many items, at whatever level that is written down
_FAILED = late(
    r"(?i)^(?![^\n]{0,600}\b(?:0|no|none|never|as expected|simulat\w{2,3}|retr(?:y|ies|ied|ying))\b)[^\n]{0,600}?"
    r"\b(?:fail(?:s|ed|ure)?|error (?:on|in|at|for|while|during|with)"
    r"|r[au]n out of (?:\w{1,12} )?memory (?:while )?trying to"
    # CPUAllocator.cpp of PyTorch, which tells of it at the level of information
    r"|out of (?:\w{1,12} )?memory[.,;:]? (?:while )?(?:try|attempt)\w{0,3} to (?:re)?allocate \d{4,20}"
    r"|(?:died|killed) (?:due to|because of) (?:an )?OOM)\b"
    # as a warning this is what a server does without
    r"|^(?![^\n]{0,600}warn)[^\n]{0,600}?\b(?:could not|couldn't|cannot|unable to)\b"
)
# The end of something, behind whatever a warning says
_ENDS = late(
    r"(?i)\b(?:exit(?:ing|ed|s)?|abort(?:ing|ed|s)?|giv(?:ing|es) up|gave up|terminat(?:ing(?! any)|ed|es)|fatal|died"
    r"|kill(?:ing|ed)|sending SIG(?:KILL|TERM)|shut(?:ting)? down|stopp(?:ing|ed)|restarting"
    r"|cannot (?:continue|proceed)|crash\w{0,3})\b"
    r"|(?-i:\bError: )|\bOOM\) observed\b"  # PyTorch calls its observers before it raises
)
# A shell, of a program that called abort()
_ABORTED = late(
    r"(?:\S{1,80}: line \d{1,6}: {1,4}\d{1,9} )?Aborted(?: {1,20}\(core dumped\)|\s{0,4}$)|zsh: abort\b|Abort trap: 6"
)
_OPENS = late(
    r"^\W{0,4}(?:(?:cuda|gpu|hip|[nx]pu|device)[: ]?\d{1,3}\] )?"
    r"(?:[\w./-]{1,200}(?::\d{1,6})?>?(?:\[\d{1,9}\])?: ){0,2}"
    r"(?:Out [Oo]f (?:\w{1,12} )?[Mm]emory|OUT OF (?:\w{1,12} )?MEMORY|OOM"
    r"|Memory (?:usage )?limit (?:reached|exceeded))\b"
    r"(?!\s?(?:score|kill|handler|protect))"
    r"|^[\w./-]{1,160} ?\(\d{1,6}\) ?: out of memory\b"  # a file and its line
    r"|^\W{0,4}\w{0,60}(?i:allocator|arena|heap|memory ?pool):? (?:is |has |ran )?(?:run )?[Oo]ut of memory\b"
)
# R collects its warnings and prints them below a headline, each below the call that it is of
_WARNINGS = late(r"(?:In addition: )?(?:There were \d{1,4} warnings|Warning messages?:)")
_OF_WARNINGS = late(r"(?:\d{1,3}: )?In .{1,400} :$|\d{1,3}: |\s{2,8}\S")
_COLLECTED: Final = 100  # lines: R prints ten of them, and fifty on demand
_HIGHEST = late(r"libfabric:[^\n]{0,120}<warn>|[^\n]{0,120}\bNCCL WARN ")  # these have no level above a warning
_FRAME = late(r"\s{0,12}(?:File \"|at )|\s{0,4}(?:❱|-{2,6}> ?\d)")
_LITERAL = late(r"\s{0,80}(?:(?:[\w*&<>.\[\]]|:(?! )){1,60}(?: [\w*&<>.:\[\]]{1,60}){0,2} ?= ?)?[a-z]?[\"']")
# "'Calloc' could not ...": a routine's name in R
_SUBJECT = late(
    r"(?!.*['\"][,)]{0,2}$)\s{0,80}'[\w.]{1,40}'"
    r" (?:can|could|cannot|can't|couldn't|failed|fails|was|is|has|did|does|ran)\b"
)
_NAME = late(r"\s{0,80}[\w.]{1,120}(?:, ?[\w.]{1,120}){0,8}[,)\]]{1,3}:?$")  # of an exception, in a list of some
_SHELL = late(r"\s{0,80}(?:echo|printf)(?: -\w{1,3})? [\"']")
_FIELDS = late(r"\s{0,8}[\[({]?[\w.-]{1,40}=(?:\"[^\"\n]{0,400}\"[,;]?|[^\s\"]{0,200})\s{1,4}[\w.-]{1,40}=")
_RECORD = late(r"[\d/]{8,10} [\d:.]{8,16};[\da-f]{4};(?:[^;\n]{0,80};){3}")  # of PBS' daemons
# Who prints it, by machine, process and thread: "[node-12:40211:0] ", "gpu-c04:51120:51377 [2] "
_WRITER = late(
    r"(?:\[\d{1,12}\.\d{1,9}\] )?(?:\[(?!(?i:cuda|gpu|hip|[nxt]pu|device|dev|card):|[\w.-]{1,80}\.[a-z]{1,4}:)"
    r"[a-zA-Z][\w.-]{0,80}:\d{2,9}(?::\d{1,6})?\]\s{1,10}"
    r"|[a-zA-Z][\w.-]{0,80}:\d{1,9}:\d{1,9} \[\d{1,3}\] (?=NCCL ))"
)
# core/src/main/scala/org/apache/spark/scheduler/TaskSetManager.scala 3.5: what a task was lost to is an exception
_TASK: Final = "Lost task "
_LOST_TASK = late(
    r"[^\n]{0,80}\bLost task [\d.]{1,12} in stage [\d.]{1,12} (?:\(TID \d{1,12}\) )?"
    r"(?:\([^()\n]{1,120}\)|on [^\n:]{1,120}?, executor \w{1,12})?:\s"
)
_BAR = late(r"[^\n]{0,600}(?:\d|\?) ?(?:it/s|s/it)[^\]\n]{0,120}\]\s{0,4}(?=\S)")
_JULIAS_BAR = late(
    r"[^\n]{0,400}\d%[^\n]{0,300}\| {1,4}(?:ETA|Time): \d[\d:]{1,11}(?: days[^A-Za-z\n]{0,20})?\s{0,4}(?=\S)"
)


def message(text: str) -> str:
    """The line without who printed it, and without the progress bar that it was written behind."""
    if ";" in text and (record := _RECORD.match(text)):
        return text[record.end() :]
    if ":" in text and (writer := _WRITER.match(text)):
        return text[writer.end() :]
    if _TASK in text and (task := _LOST_TASK.match(text)):
        return text[task.end() :]
    if "it/s" in text or "s/it" in text:
        bar = _BAR.match(text)
        return text[bar.end() :] if bar else text
    if "ETA: " in text or "Time: " in text:
        bar = _JULIAS_BAR.match(text)
        return text[bar.end() :] if bar else text
    return text


def is_error(text: str) -> bool:
    """Whether a word of the line is an error's."""
    return _ERROR.search(text) is not None


def says_failed(text: str) -> bool:
    """Whether the line says that something failed, whatever its level."""
    return _FAILED.search(text[:CHARACTERS]) is not None


def is_exception(text: str) -> bool:
    return _RAISED.match(text) is not None


def tells_at_once(text: str) -> bool:
    """Whether the line begins with what happened."""
    return is_exception(text) or _OPENS.match(text) is not None


def is_head_of_one(text: str) -> bool:
    """Whether it is the head of an exception whose words stand on the line below."""
    return _HEAD_OF_ONE.match(text) is not None


def raised(page: Page, index: int, text: str) -> bool:
    """Whether the line is an exception's own."""
    if is_exception(text):
        return True
    if index == 0:
        return False
    above = page.lines[index - 1].text
    if is_head_of_one(above) or (supposes(text) and is_exception(above)):
        return True
    return _under_a_headline(page, index) or _ends_a_message(page, index)


def _ends_a_message(page: Page, index: int) -> bool:
    """Whether the line goes on what an exception right above says: a message may have several lines."""
    if _ANOTHER.match(page.lines[index].text):
        return False
    for at in range(index, max(0, index - _MESSAGE) - 1, -1):
        text = page.lines[at].text
        if is_exception(text):
            return _OF_A_DEVICE.search(text) is not None
        if not text.strip() or _level(page, at, text):
            return False
    return False


def supposes(text: str) -> bool:
    """Whether the line says what may have been short: "Seems to be OOM"."""
    return _SEEMS.match(text) is not None


def _under_a_headline(page: Page, index: int) -> bool:
    for line in reversed(page.lines[max(0, index - _HEADLINES) : index]):
        if _HEADLINE.match(line.text) is None:
            return False
        if is_exception(line.text):
            return True
    return False


def is_source(page: Page, index: int, text: str) -> bool:
    """Whether the line is a program's own text: a literal, a frame, or what stands under one."""
    literal = _LITERAL.match(text) and not _FIELDS.match(text) and not _SUBJECT.match(text)
    if literal and page.lines[index].mark.level is None:
        return True
    if _NAME.match(text) or _SHELL.match(text) or text.lstrip().startswith('File "'):
        return True
    under = index > 0 and _FRAME.match(page.lines[index - 1].text) is not None
    return under and (text[:1] in (" ", "\t") or _RAISED.match(text) is None)


def is_quiet(page: Page, index: int, text: str) -> bool:
    """Whether the line is marked as less than a warning."""
    return _level(page, index, text) == "quiet"


def is_warning(page: Page, index: int, text: str) -> bool:
    """Whether the line is marked as a warning."""
    return _level(page, index, text) == "warning"


def is_marked_loud(page: Page, index: int, text: str) -> bool:
    """Whether the line is marked as an error's."""
    return _level(page, index, text) == "loud"


def is_loud(page: Page, index: int, text: str, *, sure: bool, compared: bool) -> bool:
    """Whether the line is an error's; what figures show is one in any words, unless it is marked as less."""
    level = _level(page, index, text)
    if level == "quiet":
        return False
    if level == "warning":
        return _ENDS.search(text) is not None or _failed_below(page, index)
    if level == "loud" or sure or (compared and _failed_below(page, index)) or _aborts_below(page, index):
        return True
    spaced = text.replace("_", " ")
    return any(words.search(spaced) for words in (_ERROR, _ENDS)) or _OPENS.search(text) is not None


def _failed_below(page: Page, index: int) -> bool:
    """Whether an error stands right below: what was warned of has come."""
    below = page.lines[index + 1 : index + 1 + _BELOW]
    return any(
        line.mark.level in LOUD or is_exception(line.text) or _ENDS.search(line.text[:CHARACTERS]) for line in below
    )


def _aborts_below(page: Page, index: int) -> bool:
    """Whether the program ends itself right below: what it says before is why."""
    below = page.lines[index + 1 : index + 1 + _BELOW]
    return any(_ABORTED.match(line.text[:CHARACTERS]) for line in below)


def _level(page: Page, index: int, text: str) -> str:
    mark = page.lines[index].mark.level
    if mark is not None:
        # who passes on what another program prints to its error stream calls all of it an error
        own = _named(_WORD.search(text[:_HEAD])) if mark in LOUD else ""
        return own or _NAMED.get(mark, "loud")
    if is_collected(page, index):
        return "warning"
    head = text[:_HEAD]
    if _HIGHEST.match(head):
        return "loud"
    return _named(_FIELD.search(text) or _WORD.search(head))


def is_collected(page: Page, index: int) -> bool:
    """Whether it stands among the warnings that R has collected."""
    if not page.once(_has_warnings):
        return False
    *above, line = (line.text[:CHARACTERS] for line in page.lines[max(0, index - _COLLECTED) : index + 1])
    if above and _WARNINGS.match(above[-1]) and not line.startswith("Error"):
        return True  # those of no call stand right below
    for text in (line, *reversed(above)):
        if _WARNINGS.match(text) or _OF_WARNINGS.match(text) is None:
            return _WARNINGS.match(text) is not None
    return False


def _has_warnings(page: Page) -> bool:
    return any(_WARNINGS.match(line.text[:_HEAD]) for line in page.lines)


def _named(found: re.Match[str] | None) -> str:
    """What the letter of a level makes of its line."""
    letter = next((group for group in found.groups() if group), "") if found is not None else ""
    return _LEVELS.get(letter.lower(), "")


__all__ = [
    "CHARACTERS",
    "LOUD",
    "is_collected",
    "is_error",
    "is_head_of_one",
    "is_loud",
    "is_marked_loud",
    "is_quiet",
    "is_source",
    "is_warning",
    "message",
    "raised",
    "says_failed",
    "supposes",
    "tells_at_once",
]
