"""The frames of Python's tracebacks, in whatever shape they reach a log.

A head may have lost its source or its indent, source its head; a traceback may lack its title, or stand upside down:
its innermost frame first, or its last line.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from oomdoctor.families.event import Frame
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

TITLE: Final = "(most recent call last)"
TITLE_REVERSED: Final = "(most recent call first)"
_TRACEBACK: Final = "Traceback (most recent call last)"
_CALL_ORDER: Final = "(most recent call "
# Lines of source that rich and IPython show of a frame
EXCERPT: Final = 12
# Lines that an exception's own text may take before the words that made the event
MESSAGE: Final = 12
# Lines between a message that is quoted first and the frames of its traceback, where no title stands between
QUOTED: Final = 6
# Lines of a traceback that a log ends in
LONGEST: Final = 1000
NAMED: Final = 300  # characters of a message in which its exception is named
# A frame in a file that lays out shared memory
OF_SHARED_MEMORY: Final = late(r"/(?:shm|shared_mem(?:ory)?)_?\w{0,40}\.py\"")

_SIGNS: Final = ('File "', "❱", "--> ")
_INDENT = "    "  # of source
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
# The comma is missing where faulthandler prints; loguru points at the frame that caught the exception.
FRAME = late(
    r'(?:\s{0,200}(?:> |ERROR: {1,4})?File "|(?=[\w./-]{1,200}\.py", line ))'
    r'([^"]{1,400})", line (\d{1,7}),? in (\S{1,200})'
)
_FILE = late(r'\s{0,200}File "([^"]{1,400}\.pyx?)"(?:, line (\d{1,7}))?[,.]?\s{0,4}$')
# pytest has a second colon, and paths from where it was started
_RICH_FRAME = late(r"((?:/|~|\.|[A-Za-z]:\\)[^:\n]{0,400}|[\w./-]{1,300}\.py(?=:\d{1,7}: )):(\d{1,7}):? in (\S{1,200})")
# "File ~/train.py:20, in Trainer.step(self, batch)", before IPython 8 "~/train.py in step(self, batch)". Jupyter and
# Colab make a link of the file: "File [~/train.py:20](http://...#line=19), in step", "[/lib/nn/linear.py](...) in step"
_NOTEBOOK_FRAME = late(
    r"(?:File \[?(?P<new>[^\s:\[][^:\n]{0,400}):(?P<line>\d{1,7})(?:\]\([^)\s]{1,400}\))?, in "
    r"|\[?(?P<old>(?:~|/|<ipython)[^\s\]]{0,300})(?:\]\([^)\s]{1,120}\))? in )"
    r"(?P<function>[\w.<>]{1,200}|<cell line: \d{1,7}>)(?:\(|(?<=<module>)\s{0,4}$)"
)
# "fit_epoch at train.py:20", "fit_epoch (train.py:20)": what people and py-spy make of a frame; the whole line
_PLACED_FRAME = late(
    r"\s{0,8}(?:in |at )?(?=[\w.]{0,200}(?:_|\.|\(\)))(?P<function>[A-Za-z_][\w.]{0,200})(?:\(\))? (?:at |\()"
    r"(?P<file>[\w./~-]{1,300}\.py):(?P<line>\d{1,7})\)?\s{0,4}$"
)
_CELL = late(
    r"(?:Cell In ?|Input In ?|In ?)\[\d{1,6}\](?:, (?:line \d{1,7}|in <[^>\n]{1,80}>(?:\(\))?))?\s{0,4}:?\s{0,4}$"
)
# the arrow at the line, of rich and of IPython
_ARROW = late(r"\s{0,8}(?:❱|-{1,10}>|>(?= {1,8}\d{1,7} (?: |│))) {0,8}\d{1,7} ?│?(.{0,400})")
# "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Policy.fit() (pid=7, ip=10.0.0.7, ...)"
_REMOTE = late(r"\bray::([\w.:<>-]{1,200}?)\(\) \(pid=")
EXCEPTION = late(r"Error\b|[Ee]xception\b|Fatal\b|out of memory")
# Where its name does not say so, its module does: "triton.runtime.errors.OutOfResources: ..."
_RAISED = late(
    r"\W{0,4}(?:\w{1,60}\.){0,6}(?:\w{1,60}(?:Error|Exception|Interrupt)\b|(?:errors?|exc|exceptions?)\.[A-Z]\w{1,60})"
    r"(?:: |\s{0,4}$)"
)
_NAMED = late(r"(?<![\w.])(?:\w{1,60}\.){0,6}\w{1,60}(?:Error|Exception): ")
_OF_MEMORY = late(r"(?i)out of memory|OutOfMemory|MemoryError|RESOURCE_EXHAUSTED|alloc")
_CARETS = late(r"[\s~^]{1,400}$")
# Source that has lost its indent: a call, which no prose looks like, and whatever stands under a head.
_NAME = r"[\w.\[\]\"'*]{1,80}"
_CALL = late(
    rf"(?:{_NAME}(?:, ?{_NAME}){{0,6}} ?[-+*/@|&]?= ?(?:await |not )?[A-Za-z_]"
    r"|(?:return|yield|await|raise|with|for|if) (?:await |not )?[A-Za-z_]|[a-z_]|[A-Z]\w{0,60}\.)"
    r"[\w.]{0,120}(?:\[[^\]]{0,60}\])?\("
)
_SOURCE = late(r"[\w.*(\[{'\"@)\]}].{0,400}[()\[\]=]|(?:return|raise|yield|import|from|assert|with|pass)\b")
_CLOSE = tuple("()[]{},:\\")  # what a line of a call ends with
_OPEN = tuple("([{,\\=+-*/|&.:")  # what a line ends with that goes on below
_SETTING = late(r"\w{1,60} ?[:=] ?[^(]{0,200}$")
# Who waits for others gets their exception, and its frames say nothing of what they did.
_WAITS = late(
    r"^ray$|(?:^|/)(?:ray/(?:_private/|worker\.py|actor\.py|util/|train/|tune/)|concurrent/futures/)"
    r"|(?:^|/)(?:joblib|dask|asyncio|multiprocessing)/"
)


def of_traceback(text: str) -> bool:
    return is_frame(text) or TITLE in text or _is_remote(text)


def is_frame(text: str) -> bool:
    """Whether the line is the head of a frame."""
    if " in " in text and any(pattern.match(text) for pattern in (FRAME, _RICH_FRAME, _NOTEBOOK_FRAME)):
        return True
    if ".py:" in text and _PLACED_FRAME.match(text):
        return True
    return _CELL.match(text) is not None or ('File "' in text and _FILE.match(text) is not None)


def _is_remote(text: str) -> bool:
    return "ray::" in text and _REMOTE.search(text) is not None


def is_exception(text: str) -> bool:
    """Whether the line is an exception's."""
    return _RAISED.match(text) is not None


def frames(before: Sequence[Line], message: str = "") -> tuple[Frame, ...]:
    """The frames of the traceback that these lines end with, innermost last; those of chained ones before them.

    A remote call of Ray is a frame of the file "ray", which has no line.
    """
    lines = _of_one_writer(before)
    trace, last = _read(lines)
    if len(lines) - last > MESSAGE or (_NAMED.search(message[:NAMED]) and _ends_otherwise(lines[last + 1 :])):
        return ()
    return _innermost_last(trace, next((line.text for line in reversed(lines) if _CALL_ORDER in line.text), ""))


def waits(trace: Sequence[Frame]) -> bool:
    """Whether it is the traceback of a program that only waited for the one that failed."""
    return not trace or _WAITS.search(trace[-1].file) is not None


def frames_behind(message: str, after: Sequence[Line]) -> tuple[Frame, ...]:
    """The frames where the message comes first: loggers that print the exception before its traceback, faulthandler,
    and people who quote the error before they paste the rest, often without its title."""
    if EXCEPTION.search(message) is None:
        return ()
    title = next((n for n, line in enumerate(after[:3]) if TITLE in line.text or TITLE_REVERSED in line.text), None)
    titled = message if TITLE in message or TITLE_REVERSED in message else ""
    if title is not None and not titled:
        titled, first = after[title].text, title + 1
    else:
        first = 0 if titled else _first_quoted(after)
    lines = after[first : first + _length(after[first:])]
    if not lines or _of_another(message, after[first + len(lines) :]):
        return ()
    upside_down = not titled and _upside_down(lines)
    return _innermost_last(_read(lines[::-1] if upside_down else lines)[0], titled)


def _read(lines: Sequence[Line]) -> tuple[list[Frame], int]:
    """The frames, and the index of the line with the last of them."""
    trace = _beheaded(lines)
    last = len(lines) - 1 if trace else -1
    chained = False
    for position, line in enumerate(lines):
        text = line.text
        if TITLE in text:
            if not chained:
                trace.clear()
            chained = False
        elif text.startswith(_CHAINED):
            chained = True
        elif (frame := _frame(lines, position)) is not None:
            trace.append(frame)
            last = position
        elif trace and text.startswith(_INDENT) and _is_alone(lines, position):
            trace.append(Frame("", 0, "", text.strip()))
    return trace, last


def _ends_otherwise(behind: Sequence[Line]) -> bool:
    """Whether the traceback ends in an exception of its own, which is none of memory and announces nothing."""
    texts = (line.text for line in behind if is_exception(line.text))
    exception = next(texts, "")
    return bool(exception) and not exception.endswith(":") and not _OF_MEMORY.search(exception)


def _innermost_last(trace: Sequence[Frame], title: str) -> tuple[Frame, ...]:
    """The frames turned about where their title says so; without one, where each is called by the one behind it."""
    turned = TITLE_REVERSED in title or (TITLE not in title and _calls(trace[::-1]) > _calls(trace))
    return tuple(trace[::-1] if turned else trace)


def _calls(trace: Sequence[Frame]) -> int:
    """How many frames call the next one by its name."""
    return sum(f"{callee.function}(" in caller.code for caller, callee in pairwise(trace) if callee.function)


def _of_one_writer(lines: Sequence[Line]) -> Sequence[Line]:
    """Only the lines of the writer whose traceback is nearest, where those of several stand in one another."""
    if len({line.writer for line in lines}) < 2:
        return lines
    nearest = next((line.writer for line in reversed(lines) if is_frame(line.text)), None)
    if nearest is None:
        return lines
    return [line for line in lines if line.writer in (nearest, "") or TITLE in line.text]


# --- One frame --------------------------------------------------------------------------------------------------------


def _frame(lines: Sequence[Line], position: int) -> Frame | None:
    text = lines[position].text
    if ".py:" in text and (match := _PLACED_FRAME.match(text)):
        return Frame(match["file"], int(match["line"]), match["function"].rpartition(".")[2], "")
    if " in " not in text and "ray::" not in text:
        match = _FILE.match(text) if 'File "' in text else None
        return Frame(match[1], int(match[2] or 0), "", _code(lines, position)) if match else None
    if match := FRAME.match(text):
        return Frame(match[1], int(match[2]), match[3], _code(lines, position))
    if match := _RICH_FRAME.match(text):
        code = _code_at_arrow(lines, position + 1) or _code(lines, position)
        return Frame(match[1], int(match[2]), match[3], code)
    if match := _NOTEBOOK_FRAME.match(text):
        file, line = match["new"] or match["old"], int(match["line"] or 0)
        return Frame(file, line, match["function"].rpartition(".")[2], _code_at_arrow(lines, position + 1))
    if match := _REMOTE.search(text):
        return Frame("ray", 0, match[1], f"ray::{match[1]}()")
    return None


def _code(lines: Sequence[Line], head: int) -> str:
    """The source line under a frame's head; where the head has lost its indent, so has the source."""
    bare = lines[head].text[:1] not in (" ", "\t")
    below = [line.text for line in lines[head + 1 : head + 3]]
    text = next((text for text in below if text or not bare), "")
    indented = text[:1] in (" ", "\t")
    if not (indented or (bare and _is_source(text))) or is_frame(text) or _CARETS.match(text):
        return ""
    return text.strip(" \t~^")  # carets, where the break before them was lost


def _is_call(text: str) -> bool:
    """Whether a line without its indent is a call, and no prose that names one."""
    return _CALL.match(text) is not None and text.partition(" #")[0].rstrip().endswith(_CLOSE)


def _is_source(text: str) -> bool:
    """Whether a line under a head may be its source."""
    return _SOURCE.match(text) is not None and not is_exception(text) and TITLE not in text


def _code_at_arrow(lines: Sequence[Line], position: int) -> str:
    """The line with the arrow among those that rich and IPython show of the source."""
    for line in lines[position : position + EXCERPT]:
        if match := _ARROW.match(line.text):
            return match[1].strip(" │")
        if is_frame(line.text):
            break
    return ""


def _is_alone(lines: Sequence[Line], position: int) -> bool:
    """Whether the line is source that has lost its head, and does not go on from the line above."""
    text = lines[position].text
    if not _is_call(text.strip()):
        return False
    above = next((line.text for line in reversed(lines[max(0, position - 3) : position]) if not _blank(line.text)), "")
    return bool(above) and not is_frame(above) and not above.endswith(_OPEN)


def _beheaded(lines: Sequence[Line]) -> list[Frame]:
    """What a paste that begins below a frame's head still shows of it: the source."""
    first = next((n for n, line in enumerate(lines) if is_frame(line.text) or TITLE in line.text), len(lines))
    if pointed := _code_at_arrow(lines[:first], max(0, first - EXCERPT)):
        return [Frame("", 0, "", pointed)]
    above = [line.text for line in lines[max(0, first - 3) : first] if line.text and not _CARETS.match(line.text)]
    code = above[-1] if above else ""
    if code.startswith(_INDENT) or (code[:1] in (" ", "\t") and _underlined(lines, code)):
        return [Frame("", 0, "", code.strip())]
    return _calls_alone(lines) if first == len(lines) else []


def _calls_alone(lines: Sequence[Line]) -> list[Frame]:
    """The calls that a paste without heads ends with; under settings, a call is one of these."""
    trace: list[Frame] = []
    for line in reversed(lines[-EXCERPT:]):
        if _CARETS.match(line.text):
            continue
        if not _is_call(line.text):
            return [] if _SETTING.match(line.text) else trace[::-1]
        trace.append(Frame("", 0, "", line.text))
    return trace[::-1]


def _underlined(lines: Sequence[Line], code: str) -> bool:
    """Whether Python's carets stand below this line: then it is source, however little of its indent was kept."""
    below = next((line.text for before, line in pairwise(lines) if before.text == code), "")
    return "^" in below and _CARETS.match(below) is not None


# --- Behind the message -----------------------------------------------------------------------------------------------


def _first_quoted(after: Sequence[Line]) -> int:
    """Where a traceback without its title begins; one that has it is that of whatever failed next."""
    for position, line in enumerate(after[:QUOTED]):
        if TITLE in line.text:
            break
        if is_frame(line.text) or _ARROW.match(line.text) or _of_next_head(after, position):
            return position
    return len(after)


def _of_next_head(lines: Sequence[Line], position: int) -> bool:
    """Whether the line is source with a head right below it."""
    text = lines[position].text
    below = next((line.text for line in lines[position + 1 : position + 4] if not _blank(line.text)), "")
    return not _blank(text) and (text[:1] in (" ", "\t") or _is_call(text)) and is_frame(below)


def _blank(text: str) -> bool:
    return not text or _CARETS.match(text) is not None


def _length(lines: Sequence[Line]) -> int:
    """How many lines belong to the traceback that begins here."""
    return next((position for position in range(len(lines)) if not _inside(lines, position)), len(lines))


def _inside(lines: Sequence[Line], position: int) -> bool:
    text = lines[position].text
    if _blank(text) or text[:1] in (" ", "\t") or is_frame(text) or _is_remote(text):
        return True
    if "│" in text or _ARROW.match(text):
        return True
    if TITLE in text or is_exception(text):
        return False
    above = next((line.text for line in reversed(lines[max(0, position - 2) : position]) if not _blank(line.text)), "")
    return (is_frame(above) and _is_source(text)) or _is_call(text)


def _of_another(message: str, behind: Sequence[Line]) -> bool:
    """Whether the traceback ends in an exception that is not the one that the message names."""
    text = behind[0].text if behind else ""
    if not _NAMED.search(message[:NAMED]) or not is_exception(text) or _OF_MEMORY.search(text):
        return False
    words = text.partition(": ")[2][:40]
    return not words or words not in message


def _upside_down(lines: Sequence[Line]) -> bool:
    """Whether source stands above its head, carets above their source."""
    kinds = [is_frame(line.text) for line in lines if not _blank(line.text)]
    above, below = list(pairwise(kinds)).count((False, True)), list(pairwise(kinds)).count((True, False))
    if not kinds or kinds[0] or above != below:
        return bool(kinds) and not kinds[0] and above > below
    return "^" in lines[0].text or _calls(_read(lines[::-1])[0]) > _calls(_read(lines)[0])


# --- At the end of a log ----------------------------------------------------------------------------------------------


class Unfinished(Struct, frozen=True):
    """A traceback that a log ends in, by the indexes of its lines."""

    first: int
    index: int  # of the last line that shows where it was; of the title, where none does
    last: int


def unfinished(page: Page) -> Unfinished | None:
    """The traceback that a log ends in, without its exception; without its title where the log begins in it."""
    lines = page.lines
    last = next((n for n in reversed(range(len(lines))) if lines[n].text.strip()), -1)
    first = last
    while first > max(-1, last - LONGEST) and _inside(lines, first):
        first -= 1
    begins = first < 0 and lines[:1] and lines[0].number == 1
    if not page.ends or not (begins or _TRACEBACK in lines[first].text):
        return None
    first = max(first, 0)
    title = None if begins else first
    index = next((n for n in reversed(range(first, last + 1)) if _shows(lines[n].text)), title)
    return None if index is None else Unfinished(first, index, last)


def _shows(text: str) -> bool:
    return any(sign in text for sign in _SIGNS) and (is_frame(text) or _ARROW.match(text) is not None)
