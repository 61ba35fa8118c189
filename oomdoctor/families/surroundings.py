"""What stands around an event: the lines before and after it, and the traceback that it ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from oomdoctor.families.event import Frame, Surroundings
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

BEFORE = 60
AFTER = 40
# A traceback of thirty frames, each with its code and its carets, chained once
TRACEBACK = 240
REACH = 4 * TRACEBACK  # where other writers' lines stand in between
# Lines of source that rich and IPython show of a frame
EXCERPT = 12
# Lines that an exception's own text may take before the words that made the event
MESSAGE = 12
# Lines between a message that is quoted first and the frames of its traceback, where no head stands between
QUOTED = 6
# The first lines of a log, where its title stands
TITLE = 3
# Stamps of one form that have to go back in time, and lines that are searched for them
STAMPS = 3
STAMPED_LINES = 400

# The comma is missing where faulthandler prints.
_FRAME = late(r'(?:\s{0,200}File "|(?=[\w./-]{1,200}\.py", line ))([^"]{1,400})", line (\d{1,7}),? in (\S{1,200})')
_RICH_FRAME = late(r"((?:/|~|\.|[A-Za-z]:\\)[^:\n]{0,400}):(\d{1,7}) in (\S{1,200})")
# "File ~/train.py:20, in Trainer.step(self, batch)", before IPython 8 "~/train.py in step(self, batch)"
_NOTEBOOK_FRAME = late(
    r"(?:File (?P<new>[^\s:][^:\n]{0,400}):(?P<line>\d{1,7}), in |(?P<old>(?:~|/|<ipython)\S{0,300}) in )"
    r"(?P<function>[\w.<>]{1,200})\("
)
# the arrow at the line, of rich and of IPython
_ARROW = late(r"\s{0,8}(?:❱|-{1,10}>) {0,8}\d{1,7} ?│?(.{0,400})")
# "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Policy.fit() (pid=7, ip=10.0.0.7, ...)"
_REMOTE = late(r"\bray::([\w.:<>-]{1,200}?)\(\) \(pid=")
_EXCEPTION = late(r"Error\b|[Ee]xception\b|Fatal\b|out of memory")
_MESSAGE = late(r"\W{0,4}(?:\w{1,60}\.){0,6}\w{1,60}(?:Error|Exception|Interrupt)\b(?:: |\s{0,4}$)")
_CARETS = late(r"[\s~^]{1,400}$")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_HEAD = "(most recent call last)"
_HEAD_REVERSED = "(most recent call first)"


class Neighbourhood:
    """The surroundings of the events of one page; what all of them ask for is looked up once."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._of_tracebacks: list[int] | None = None  # indexes of the lines that show one
        self._newest_first: bool | None = None

    def around(self, index: int) -> Surroundings:
        page = self._page
        shown = self._shows_traceback(index)
        before = page.before(index, TRACEBACK if shown else BEFORE, REACH)
        after = page.after(index, AFTER)[1:]
        trace = frames(before if shown else before[-EXCERPT:]) or _printed_behind(page.lines[index].text, after)
        earlier = tuple([line.text for line in before[-BEFORE:]])
        later = tuple([line.text for line in after])
        below = tuple([line.text for line in page.lines[index + 1 : index + 1 + AFTER]])
        if self._is_newest_first():
            earlier, later, below = later[::-1], earlier[::-1], earlier[::-1]
        cut = () if trace else self._cut_below(index)
        return Surroundings(before=earlier, after=later, below=below, trace=trace or cut, cut=bool(cut))

    def _is_newest_first(self) -> bool:
        """Whether the times on this page go back: some web viewers export a log so."""
        if self._newest_first is None:
            times: dict[int, list[str]] = {}  # by the stamp's form
            for line in self._page.lines[:STAMPED_LINES]:
                if line.mark.time:
                    times.setdefault(len(line.mark.time), []).append(line.mark.time)
            back = all(a >= b for stamps in times.values() for a, b in pairwise(stamps))
            self._newest_first = back and any(len(set(stamps)) >= STAMPS for stamps in times.values())
        return self._newest_first

    def _cut_below(self, index: int) -> tuple[Frame, ...]:
        """The traceback at the end of a log whose title is its message: it is cut before the message itself."""
        page = self._page
        is_title = page.ends and page.lines[0].number == 1 and index < TITLE
        if not is_title or not _EXCEPTION.search(page.lines[index].text):
            return ()
        below = page.lines[index + 1 : index + 1 + TRACEBACK + BEFORE]
        head = next((n for n, line in enumerate(below) if _HEAD in line.text), None)
        if head is None or index + 1 + len(below) < len(page.lines):
            return ()
        if any(_MESSAGE.match(line.text) for line in below):
            return ()
        return frames(below)

    def _shows_traceback(self, index: int) -> bool:
        """Whether any of the lines that can be looked at before the index does."""
        if self._of_tracebacks is None:
            self._of_tracebacks = [i for i, line in enumerate(self._page.lines) if _of_traceback(line.text)]
        position = bisect_left(self._of_tracebacks, index)
        return position > 0 and self._of_tracebacks[position - 1] >= index - REACH


def frames(before: Sequence[Line]) -> tuple[Frame, ...]:
    """The frames of the traceback that these lines end with, innermost last; those of chained ones before them.

    A remote call of Ray is a frame of the file "ray", which has no line.
    """
    lines = _of_one_writer(before)
    found = _beheaded(lines)
    last = len(lines) - 1 if found else -1
    chained = False
    for position, line in enumerate(lines):
        text = line.text
        if _HEAD in text:
            if not chained:
                found.clear()
            chained = False
        elif text.startswith(_CHAINED):
            chained = True
        elif (frame := _frame(lines, position)) is not None:
            found.append(frame)
            last = position
    return tuple(found) if len(lines) - last <= MESSAGE else ()


def _beheaded(lines: Sequence[Line]) -> list[Frame]:
    """What a paste that begins below a frame's head still shows of it: the source."""
    first = next(
        (position for position, line in enumerate(lines) if _is_frame(line.text) or _HEAD in line.text), len(lines)
    )
    if pointed := _code_at_arrow(lines[:first], max(0, first - EXCERPT)):
        return [Frame("", 0, "", pointed)]
    above = [line.text for line in lines[max(0, first - 3) : first] if line.text and not _CARETS.match(line.text)]
    code = above[-1] if above else ""
    shown = code.startswith("    ") or (code[:1] in (" ", "\t") and _underlined(lines, code))
    return [Frame("", 0, "", code.strip())] if shown else []


def _underlined(lines: Sequence[Line], code: str) -> bool:
    """Whether Python's carets stand below this line: then it is source, however little of its indent was kept."""
    below = next((line.text for before, line in pairwise(lines) if before.text == code), "")
    return "^" in below and _CARETS.match(below) is not None


def _of_one_writer(lines: Sequence[Line]) -> Sequence[Line]:
    """Only the lines of the writer whose traceback is nearest, where those of several stand in one another."""
    if len({line.writer for line in lines}) < 2:
        return lines
    nearest = next((line.writer for line in reversed(lines) if _is_frame(line.text)), None)
    if nearest is None:
        return lines
    return [line for line in lines if line.writer in (nearest, "") or _HEAD in line.text]


def _of_traceback(text: str) -> bool:
    return _is_frame(text) or _HEAD in text or ("ray::" in text and _REMOTE.search(text) is not None)


def _is_frame(text: str) -> bool:
    return " in " in text and any(pattern.match(text) for pattern in (_FRAME, _RICH_FRAME, _NOTEBOOK_FRAME))


def _frame(lines: Sequence[Line], position: int) -> Frame | None:
    text = lines[position].text
    if " in " not in text and "ray::" not in text:
        return None
    if match := _FRAME.match(text):
        return Frame(match[1], int(match[2]), match[3], _code(lines, position + 1))
    if match := _RICH_FRAME.match(text):
        return Frame(match[1], int(match[2]), match[3], _code_at_arrow(lines, position + 1))
    if match := _NOTEBOOK_FRAME.match(text):
        file, line = match["new"] or match["old"], int(match["line"] or 0)
        return Frame(file, line, match["function"].rpartition(".")[2], _code_at_arrow(lines, position + 1))
    if match := _REMOTE.search(text):
        return Frame("ray", 0, match[1], f"ray::{match[1]}()")
    return None


def _code(lines: Sequence[Line], position: int) -> str:
    """The source line under a frame's head."""
    text = lines[position].text if position < len(lines) else ""
    indented = text[:1] in (" ", "\t")
    return text.strip() if indented and not _is_frame(text) and not _CARETS.match(text) else ""


def _code_at_arrow(lines: Sequence[Line], position: int) -> str:
    """The line with the arrow among those that rich and IPython show of the source."""
    for line in lines[position : position + EXCERPT]:
        if match := _ARROW.match(line.text):
            return match[1].strip(" │")
        if _is_frame(line.text):
            break
    return ""


def _printed_behind(text: str, after: Sequence[Line]) -> tuple[Frame, ...]:
    """The frames where the message comes first: loggers that print the exception before its traceback, faulthandler,
    and people who quote the error before they paste the rest, often without its head."""
    if _EXCEPTION.search(text) is None:
        return ()
    heads = (text, *(line.text for line in after[:3]))
    head = next((line for line in heads if _HEAD in line or _HEAD_REVERSED in line), None)
    if head is None and not _begins_with_frame(after):
        return ()
    found = [] if head is not None else _beheaded(after)
    found += [frame for position in range(len(after)) if (frame := _frame(after, position)) is not None]
    return tuple(found[::-1] if head is not None and _HEAD_REVERSED in head else found)


def _begins_with_frame(after: Sequence[Line]) -> bool:
    """Whether a traceback without its head follows; with one it is that of whatever failed next."""
    for line in after[:QUOTED]:
        if _HEAD in line.text:
            return False
        if _is_frame(line.text) or _ARROW.match(line.text):
            return True
    return False
