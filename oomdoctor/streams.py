"""From the bytes of a slice to clean lines: decorations off and kept as facts, writers told apart, wraps joined.

What programs put in front of their lines stacks in any order ("vllm-1  | (Worker_TP3 pid=7) ERROR 05-21 10:04:35
[core.py:123] ..."), so the decorations are a table of small patterns, chosen by the first character and tried until
nothing more comes off. Every pattern is anchored, bounded and without nested repetition.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from oomdoctor import breaks
from oomdoctor.margins import SIGNS, margins
from oomdoctor.patterns import late
from oomdoctor.text import disarm

_Found = TypeVar("_Found")

LONGEST_LINE = 65536  # characters read of one line
LONGEST_QUOTE = 2000  # characters kept of it for quoting


class Mark(Struct, frozen=True):
    """What the decorations in front of and behind a line said."""

    time: str | None = None
    level: str | None = None
    name: str | None = None  # the process or actor: "LLMRayActor", "EngineCore_DP0", "raylet"
    pid: int | None = None
    ip: str | None = None
    rank: int | None = None
    source: str | None = None  # the file and line that logged it: "core.py:708"
    repeated: int | None = None  # Ray's "[repeated 7x across cluster]"
    host: str | None = None  # as journald, syslog and pdsh name it


NO_MARK = Mark()


class Line(Struct, frozen=True):
    """One message line as its writer meant it; `number` and `end` are those of `grep -n`."""

    number: int
    end: int
    text: str  # clean: decorations, escapes and wraps gone
    raw: str  # as it stands in the log (capped, without escapes), for quoting
    writer: str = ""  # "" where the line names nobody
    mark: Mark = NO_MARK


class Page(Struct):
    """The clean lines of one slice of one file, in file order."""

    file: str
    lines: list[Line]
    ends: bool = True  # nothing of the log stands behind it
    left_out: Counter[str] = field(default_factory=Counter)  # places with these words that nobody read
    _by_writer: dict[str, list[int]] = field(default_factory=dict)
    _known: dict[Callable[[Page], Any], Any] = field(default_factory=dict)

    def once(self, look: Callable[[Page], _Found]) -> _Found:
        """What the function finds in the whole page, looked for only once."""
        if look not in self._known:
            self._known[look] = look(self)
        found: _Found = self._known[look]
        return found

    def after(self, index: int, limit: int = 80) -> list[Line]:
        """The line at the index and those that go on from it: of the same writer, and bare ones.

        Ray prefixes only the first line of a raylet message, so lines without a writer may continue any message.
        """
        writer = self.lines[index].writer
        found = [index]
        for name in {writer, ""}:
            indexes = self._indexes(name)
            start = bisect_right(indexes, index)
            found += indexes[start : start + limit - 1]
        return [self.lines[i] for i in sorted(found)[:limit] if i <= index + 4 * limit]

    def before(self, index: int, limit: int = 60, reach: int | None = None) -> list[Line]:
        """The lines that lead up to the index, nearest last: of the same writer, and bare ones."""
        first = max(0, index - (reach or 4 * limit))
        writer = self.lines[index].writer
        if not writer:
            return self.lines[max(0, index - limit) : index]
        found: list[int] = []
        for name in (writer, ""):
            indexes = self._indexes(name)
            end = bisect_left(indexes, index)
            found += indexes[max(0, end - limit) : end]
        return [self.lines[i] for i in sorted(found)[-limit:] if i >= first]

    def _indexes(self, writer: str) -> Sequence[int]:
        """Where the lines of a writer stand."""
        if not self._by_writer:
            for index, line in enumerate(self.lines):
                self._by_writer.setdefault(line.writer, []).append(index)
        return self._by_writer.get(writer, ())


# --- The table of decorations ----------------------------------------------------------------------------------------

_DATE = r"(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d/\d\d/\d{4})"
_STAMP = _DATE + r"[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_LEVEL = "(?:TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|Info|Warning|Error|Debug)"
_SOURCE = r"[\w./\\<>-]{1,200}\.[a-z]{1,3}:\d{1,7}(?::\w{1,80})?"
_HOST = r"(?:<HOST-\d{1,6}>|[A-Za-z0-9][A-Za-z0-9.-]{0,62})"  # or its pseudonym in a redacted log
_DIGITS = "0123456789"
_NUMBER = _DIGITS + " "
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTERS = _CAPITALS + _CAPITALS.lower() + "_"

# Fields of a mark that name the writer of a line.
_WHO = ("name", "pid", "ip", "rank", "host")
_INNERMOST = frozenset(("name", "rank", "level", "source"))


class _Decoration:
    """One thing that stands in front of a line. The pattern's groups are fields of the mark.

    Most logs know a handful of them: a pattern is compiled when a line passes the two cheap looks before it.
    """

    __slots__ = ("_compiled", "_pattern", "fields", "hint", "name", "placed", "second", "stamps", "starts", "who")

    def __init__(
        self,
        starts: str,
        pattern: str,
        *,
        who: tuple[str, ...] = (),
        name: str | None = None,
        second: str = "",
        hint: str = "",
    ) -> None:
        self.starts = starts  # the characters it can begin with
        self.second = second  # those that can come next, "" for any
        self.hint = hint  # what it always holds
        self.who = who  # the groups that tell this writer from others
        self.name = name  # where the form itself names the writer
        self.fields = tuple(re.findall(r"\(\?P<(\w+)>", pattern))
        self.stamps = "time" in self.fields or "level" in self.fields
        self.placed = "source" in self.fields
        self._pattern = pattern
        self._compiled: re.Pattern[str] | None = None

    def match(self, text: str) -> re.Match[str] | None:
        if self.second and text[1:2] not in self.second:
            return None
        if self.hint and text.find(self.hint, 0, 300) < 0:
            return None
        if self._compiled is None:
            self._compiled = re.compile(self._pattern)
        return self._compiled.match(text)


# At the beginning of a line, or of what other decorations leave.
_LEADING = (
    # Ray's actors and tasks, vLLM's processes: "(LLMRayActor pid=7, ip=10.0.0.2) ", "(VllmWorker rank=7 pid=240) "
    _Decoration(
        "(",
        r"\((?:(?P<name>[^\s=()][^\r\n()]{0,200}?(?:\([^()\r\n]{0,80}\))?) )?(?:rank=(?P<rank>\d{1,6}) )?"
        r"pid=(?P<pid>\d{1,10})(?:, ip=(?P<ip>[^),\s]{1,64}))?\) ?",
        who=_WHO,
        hint="pid=",
    ),
    _Decoration(
        "(",
        r"\((?P<name>raylet|gcs_server|autoscaler|scheduler|dashboard|log_monitor)(?:\.exe)?"
        r"(?: (?P<time>\+(?:\d{1,6}[dhms]){1,4}))?(?:, ip=(?P<ip>[^),\s]{1,64}))?\) ?",
        who=("name", "ip"),
        second="rgasdl",
    ),
    # torchrun
    _Decoration("[", r"\[rank(?P<rank>\d{1,6})\]:? ?", who=_WHO, second="r"),
    _Decoration("[", r"\[default(?P<rank>\d{1,6})\]:", who=_WHO, hint="[default"),
    # mpirun --tag-output
    _Decoration("[", r"\[\d{1,6},(?P<rank>\d{1,6})\]<(?:stdout|stderr|stddiag)>:", who=_WHO, hint="]<std"),
    # the kernel: dmesg, dmesg -T (in any language)
    _Decoration(
        "[",
        r"\[ {0,8}(?P<time>\d{1,9}\.\d{6})\](?:\[ {0,8}[TC]\d{1,8}\])? ?",
        who=_WHO,
        name="kernel",
        second=_NUMBER,
    ),
    _Decoration(
        "[",
        r"\[(?P<time>\w{1,5}\.? {1,2}\w{1,6}\.? {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\] ?",
        who=_WHO,
        name="kernel",
        hint=":",
    ),
    # dmesg -x; what follows is one of the stamps above
    _Decoration("k", r"kern {1,2}:(?P<level>emerg|alert|crit|err|warn|notice|info|debug) {1,4}: (?=\[)", second="e"),
    # /dev/kmsg
    _Decoration(_DIGITS, r"\d{1,3},\d{1,12},\d{1,16},[-c+];", who=_WHO, name="kernel", hint=";"),
    # Ray's C++: "[2024-08-06 21:12:33,764 I 3460 15984] (raylet) local_object_manager.cc:490: "
    _Decoration(
        "[",
        rf"\[(?P<time>{_STAMP}) (?P<level>[DIWEFC]) (?P<pid>\d{{1,10}}) \d{{1,20}}\] "
        r"(?:\((?P<name>[\w-]{1,40})(?:\.exe)?\) )?(?:(?P<source>[\w./-]{1,120}\.(?:cc|h|cpp):\d{1,6}): )?",
        who=("name",),
        second=_DIGITS,
    ),
    # SGLang: "[2025-07-02 07:41:58 TP0] ", "[2025-07-02 07:41:58 DP1 TP3] "
    _Decoration(
        "[",
        rf"\[(?P<time>{_STAMP})(?P<name>(?: [A-Z]{{2,6}}\d{{1,4}}){{1,5}})\] ?",
        who=_WHO,
        second=_DIGITS,
        hint="P",
    ),
    _Decoration("[", r"\[(?P<name>(?:TP|DP)\d{1,4}(?: [A-Z]{2,6}\d{1,4}){0,4})\] ?", who=_WHO, second="TD"),
    # what is left of vLLM's header when its front was cut off
    _Decoration("[", r"\[(?P<source>[\w./]{1,120}\.py:\d{1,6})\] ?", hint=".py:"),
    # PyTorch's C++: "[W1120 08:34:53.204334026 CUDACachingAllocator.cpp:3934] "
    _Decoration(
        "[",
        rf"\[(?P<level>[VIWEF])(?P<time>\d{{3,4}} \d\d:\d\d:\d\d\.\d{{3,9}}) (?P<source>{_SOURCE})\] ?",
        second="VIWEF",
    ),
    # DeepSpeed, hydra, elastic, Kubernetes, GitHub; what follows is in _AFTER_TIME
    _Decoration("[", rf"\[(?P<time>{_STAMP})\][ \t]?", second=_DIGITS),
    # transformers: "[INFO|trainer.py:2134] 2024-05-01 10:00:00,123 >> ", LLaMA-Factory's turned about
    _Decoration("[", rf"\[(?P<level>{_LEVEL})\|(?P<time>{_STAMP})\] ?", second=_CAPITALS, hint="|"),
    _Decoration(
        "[", rf"\[(?P<level>{_LEVEL})\|(?P<source>[^\]\r\n]{{1,120}})\] ?", second=_CAPITALS, hint="|"
    ),
    _Decoration("[", rf"\[(?P<level>{_LEVEL}):(?P<source>[a-z][\w.]{{1,60}})\] ?", second=_CAPITALS, hint=":"),
    # kubectl logs --prefix
    _Decoration("[", r"\[pod/(?P<name>[\w./-]{1,200})\] ?", who=_WHO, hint="[pod/"),
    # a collector's tag before a stamped record: "[master-0] [2026-03-30 19:44:50,966] "
    _Decoration(
        "[", rf"\[(?!{_LEVEL}\])(?P<host>{_HOST})\] (?=\[?{_DATE}|{_LEVEL} \d\d-\d\d )", second=_LETTERS + "<", hint="-"
    ),
    _Decoration(_DIGITS, rf"(?P<time>{_STAMP}):?(?: {{1,4}}(?={_LEVEL}\b)|[ \t]|$)", second=_DIGITS, hint=":"),
    # vLLM before 0.8 "ERROR 02-12 12:59:07 engine.py:68] " and since "ERROR 05-21 10:04:35 [core.py:123] "; NIM's year
    _Decoration(
        "DIWECT",
        rf"(?P<level>{_LEVEL}) (?P<time>(?:\d{{4}}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{{1,6}})?) "
        r"\[?(?P<source>[^\]\s]{1,200}:\d{1,6})\] ?",
        hint="]",
    ),
    # Google Cloud's export
    _Decoration("DINWEC", rf"(?P<level>{_LEVEL}) (?P<time>{_STAMP}) (?:\[resource[^\]\n]{{0,120}}\] )?"),
    # glog and absl (with the year, too), torch elastic: the number is a process or a thread
    _Decoration(
        "VIWEF",
        r"(?P<level>[VIWEF])(?P<time>(?:\d{4}){1,2} \d\d:\d\d:\d\d\.\d{3,9}) +(?:(?P<pid>\d{1,7})|\d{8,20}) "
        rf"(?P<source>{_SOURCE})\] ?",
        second=_DIGITS,
    ),
    # logging.basicConfig
    _Decoration("DIWEC", rf"(?P<level>{_LEVEL}):(?P<source>[A-Za-z_][\w.]{{1,120}}):"),
    # syslog and journald
    _Decoration(
        "JFMASOND",
        rf"(?P<time>{_MONTH} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?) (?P<host>{_HOST}) "
        r"(?P<name>[\w./@-]{1,60})(?:\[(?P<pid>\d{1,10})\])?: ?",
        who=("host", "name", "pid"),
    ),
    # journalctl -o short-full
    _Decoration(
        "MTWFS",
        r"(?P<time>[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? [A-Z+-][\w:+-]{1,5}) "
        rf"(?P<host>{_HOST}) (?P<name>[\w./@-]{{1,60}})(?:\[(?P<pid>\d{{1,10}})\])?: ?",
        who=("host", "name", "pid"),
        second="uehra",
    ),
    # a quotation in an issue
    _Decoration(">", r">(?: >){0,4}(?: |$)"),
)  # fmt: skip

# Only behind a time or a level, where they cannot be a message's own words.
_AFTER_TIME = (
    _Decoration("[", rf"\[(?P<source>{_SOURCE})\]:? ?"),
    _Decoration("[", rf"\[(?P<source>[\w.]{{1,120}})\]\[(?P<level>{_LEVEL})\](?: - )? ?"),
    _Decoration("[", rf"\[(?P<level>{_LEVEL})\]:? ?"),
    _Decoration("(", r"\([A-Z]\w{1,30}\) (?=[\[(])"),
    _Decoration("s", r"std(?:out|err) [FP] "),  # Kubernetes' runtime
    # Ray's Python "INFO worker.py:1986 -- ", tracing's "INFO text_generation_launcher: "
    _Decoration("DTINWEC", rf"(?P<level>{_LEVEL})[ \t]{{1,5}}(?P<source>{_SOURCE})(?: --|\]|:| -)? "),
    _Decoration("DTINWEC", rf"(?P<level>{_LEVEL}) {{1,5}}(?P<source>[a-z][\w.]{{1,60}}(?:::\w{{1,60}}){{0,6}}): "),
    _Decoration("DTINWEC", rf"(?P<level>{_LEVEL})(?::| -| \|)? {{1,5}}"),
    _Decoration("IWEF", rf"(?P<level>[IWEF]) (?P<source>{_SOURCE})\] ?"),  # TensorFlow, XLA
    # ONNX Runtime: "[E:onnxruntime:Default, bfc_arena.cc:361 AllocateRawInternal] "
    _Decoration(
        "[", rf"\[(?P<level>[IWEF]):onnxruntime:[\w -]{{0,60}}, (?P<source>{_SOURCE}) [\w:~<>]{{1,80}}\] ?"
    ),
    _Decoration("-", rf"- (?:(?P<source>[\w.:-]{{1,80}}) - )?(?P<level>{_LEVEL}) - (?:__main__ - )?"),
    _Decoration(
        "|", rf"\| (?P<level>{_LEVEL}) {{1,5}}\| (?:(?P<source>[\w.<>]{{1,100}}:[\w<>]{{1,80}}:\d{{1,6}}) - )?"
    ),
    _Decoration(">", ">> "),
    _Decoration(_LETTERS, r"(?P<source>[A-Za-z_][\w.]{1,120}:\d{1,6}) >> "),
    _Decoration(_LETTERS, rf"(?P<source>[A-Za-z_][\w.]{{2,120}}): \[(?P<level>{_LEVEL})\] ?"),
    # coloredlogs
    _Decoration(
        _LETTERS + _DIGITS,
        rf"(?P<host>{_HOST}) (?P<source>[A-Za-z_][\w.]{{0,80}})\[(?P<pid>\d{{1,10}})\] (?P<level>{_LEVEL}) ",
        who=("host", "pid"),
    ),
    _Decoration(
        _LETTERS + _DIGITS,
        rf"(?P<host>{_HOST}) (?P<name>kernel|systemd(?:-oomd)?|earlyoom|slurmstepd|slurmd|dockerd|containerd|kubelet)"
        r"(?:\[(?P<pid>\d{1,10})\])?: ?",
        who=("host", "name", "pid"),
    ),
)  # fmt: skip


def _by_first_character(table: Iterable[_Decoration]) -> dict[str, tuple[_Decoration, ...]]:
    found: dict[str, tuple[_Decoration, ...]] = {}
    for decoration in table:
        for character in decoration.starts:
            found[character] = (*found.get(character, ()), decoration)
    return found


_LEADING_BY = _by_first_character(_LEADING)
_AFTER_TIME_BY = _by_first_character(_AFTER_TIME)
_NONE: tuple[_Decoration, ...] = ()

# docker-compose numbers the containers and pads their names; one that was given its name has just two blanks
_COMPOSE = _Decoration(
    "", r"(?P<name>[A-Za-z0-9][\w.-]{0,62}[-_]\d{1,4}(?= )|[A-Za-z0-9][\w.-]{0,62}(?=  \|)) {1,40}\| ?", who=_WHO
)
# Python 3.11 draws a margin along exception groups
_GROUP_MARGIN = late(r" {2,24}(?:\| |\|$|\+ (?=Exception Group ))")
_REPEATED = late(r" ?\[repeated (\d{1,9})x across (?:cluster|all nodes)\](?: \(Ray deduplicates .{0,300})?$")
_TENSOR_RANK = late(r"TP(\d{1,4})\b")
_SHORT_LEVELS = {"V": "DEBUG", "D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL", "C": "CRITICAL"}
_BOX_SIDES = "│┃║"
_BOX_CORNERS = "╭╰┏┗╔╚┌└"


class _Dress:
    """What came off a line so far."""

    __slots__ = ("facts", "who")

    def __init__(self, facts: dict[str, str], who: dict[str, None]) -> None:
        self.facts = facts
        self.who = who  # an ordered set

    def wear(self, decoration: _Decoration, match: re.Match[str]) -> None:
        facts, who = self.facts, decoration.who
        if decoration.name:
            facts["name"] = decoration.name
            self.who[decoration.name] = None
        inner = "pid" in who
        for key, value in zip(decoration.fields, match.groups(), strict=True):
            if value is None:
                continue
            # Of two times the outer one has the date; of two processes the inner one wrote the line.
            if key not in facts or key in _INNERMOST or (inner and key == "pid"):
                facts[key] = value.strip() if key == "name" else value
            if key in who:
                self.who[f"rank {value}" if key == "rank" else value.strip()] = None

    @property
    def writer(self) -> str:
        return " ".join(self.who)

    def mark(self) -> Mark:
        facts = self.facts
        if not facts:
            return NO_MARK
        get = facts.get
        level, name, rank, pid, repeated = get("level"), get("name"), get("rank"), get("pid"), get("repeated")
        if rank is None and name is not None and (tensor := _TENSOR_RANK.search(name)):
            rank = tensor[1]
        return Mark(
            get("time"),
            (_SHORT_LEVELS.get(level) or level.upper()) if level else None,
            name,
            int(pid) if pid else None,
            get("ip"),
            int(rank) if rank else None,
            get("source"),
            int(repeated) if repeated else None,
            get("host"),
        )


def _undress(text: str, dress: _Dress) -> str:
    """The text without what stands in front of it; that goes to the dress."""
    timed = False
    while text:
        match = None
        for decoration in _LEADING_BY.get(text[0], _NONE):
            if match := decoration.match(text):
                break
        if match is None and timed:
            for decoration in _AFTER_TIME_BY.get(text[0], _NONE):
                if match := decoration.match(text):
                    break
        if match is None:
            break
        dress.wear(decoration, match)
        # Behind the place in the source the message begins.
        timed = (timed or decoration.stamps) and not (decoration.placed and match["source"])
        text = text[match.end() :]
    return text


# --- From a physical line to clean ones ------------------------------------------------------------------------------

_BAR = late(r"\d{1,3}(?:\.\d{1,3})?%\|| \[\d{1,2}:\d\d(?::\d\d)?<|\d ?(?:it/s|s/it)\b|\bCompleted \|")
# What follows a finished or broken bar on the same line: a record's head, a traceback, an exception
_BEHIND_BAR = late(
    r"Traceback \(most recent call last\)"
    rf"|(?<=[\])%])\s{{0,4}}(?:{_LEVEL} \d\d-\d\d |\(\w{{1,60}} (?:rank=\d+ )?pid=\d|\[rank\d"
    r"|[A-Za-z_.]{1,80}Error: )"
)
_BAR_SIGNS = ("%|", "it/s", "s/it", "Completed |")


def _states(text: str) -> list[str]:
    """The messages of a line that was rewritten with carriage returns: all but the bars, and the last bar."""
    if "\r" not in text and not any(sign in text for sign in _BAR_SIGNS):
        return [text]
    pieces: list[str] = []
    for state in text.split("\r"):
        message = _BEHIND_BAR.search(state) if _BAR.search(state) else None
        pieces.extend((state[: message.start()], state[message.start() :].lstrip()) if message else (state,))
    pieces = [piece for piece in pieces if piece.strip()]
    kept = [piece for piece, following in pairwise(pieces) if not _rewrites(piece, following)]
    return [*kept, *pieces[-1:]] or [""]


def _rewrites(state: str, following: str) -> bool:
    """Whether the second is a later state of the first, not a message. Messages of one writer begin alike too."""
    if _BAR.search(state) is not None and _BAR.search(following) is not None:
        return True
    return state[:8] == following[:8] and state[0] not in "(["


def _inside_of_box(text: str) -> str:
    """What stands inside a box that rich draws."""
    if text[0] in _BOX_CORNERS:
        inside = text.strip("╭╮╰╯┏┓┗┛╔╗╚╝┌┐└┘─━═ ")
        return inside + ":" if inside.startswith("Traceback (most recent call last)") else inside
    return text[1:].removeprefix(" ").rstrip("│┃║ ")


class _Sheet:
    """The clean lines so far, with what joining needs to know of them."""

    def __init__(self, holds: tuple[str, ...], *, traced: bool = False, several: bool = False) -> None:
        self.several = several  # a line may hold what several wrote, or several rows
        self.holds = holds  # the signs of progress bars and the like that stand anywhere in this slice
        self.traced = traced  # a traceback does
        self.lines: list[Line] = []
        self.widths: list[int] = []  # of the lines on the screen they were written to
        self.boxed: set[int] = set()  # indexes of those from inside a box
        self.begun: set[int] = set()  # of those that go on from no other

    def write(self, number: int, physical: str) -> None:
        """Put the clean lines of one physical line."""
        if self.several and len(said := _of_several(physical)) > 1:
            already = len(self.lines)
            for each in said:
                self.write(number, each)
            self.widths[already:] = [len(physical)] * (len(self.lines) - already)
            return
        first = physical[:1]
        dressed = first in _SIGNS_THAT_BEGIN or (first in _LETTERS_THAT_BEGIN and _HEADED.match(physical))
        if self.traced and breaks.SIGN in physical and breaks.lost(physical):
            for record in breaks.records(physical[:LONGEST_LINE]):
                self._clean(number, record, lost=True)
        elif dressed or len(physical) > LONGEST_QUOTE or (self.holds and any(sign in physical for sign in self.holds)):
            self._clean(number, physical)
        else:
            self.lines.append(Line(number, number, physical.rstrip(), physical))
            self.widths.append(len(physical))

    def _clean(self, number: int, physical: str, *, lost: bool = False) -> None:
        raw = physical[:LONGEST_QUOTE].replace("\r", " ")
        physical = physical[:LONGEST_LINE]
        outer = _Dress({}, {})
        text = _take_off(physical, outer)
        if lost:
            self._put_parts(number, text, outer)
            return
        if not self.holds:
            self._put(Line(number, number, text, raw, outer.writer, outer.mark()), len(physical))
            return
        states = _states(text)
        for state in states:
            dress, inner = outer, state
            if len(states) > 1:
                raw = state[:LONGEST_QUOTE]
            if state is not text:
                dress = _Dress(dict(outer.facts), dict(outer.who))
                inner = _take_off(state, dress)
            if (found := _REPEATED.search(inner[-400:])) is not None:
                dress.facts["repeated"] = found[1]
                inner = inner[: len(inner) - len(found[0])]
            self._put(Line(number, number, inner, raw, dress.writer, dress.mark()), len(physical))

    def _put_parts(self, number: int, text: str, dress: _Dress) -> None:
        """The lines of a traceback that stood in one; they are quoted as they would have stood."""
        for part in breaks.parts(text.replace("\r", " ")):
            self.begun.add(len(self.lines))
            self._put(Line(number, number, part, part[:LONGEST_QUOTE], dress.writer, dress.mark()), len(part))

    def take_margins_off(self) -> None:
        """Take off what stands before every line of a traceback and is no decoration that we know."""
        for index, bare in margins([line.text for line in self.lines]).items():
            line, dress = self.lines[index], _Dress({}, {})
            # ">" points at a line here, and quotes nothing.
            text = bare.text if bare.text[:1] in ("", ">") else _take_off(bare.text, dress)
            inside = text[:1] in _BOXES and text
            self.lines[index] = replace(
                line,
                text=_inside_of_box(text) if inside else text.rstrip(),
                writer=" ".join(filter(None, (line.writer, bare.writer, dress.writer))),
                mark=_over(line.mark, dress.mark()),
            )
            self.begun.add(index)

    def _put(self, line: Line, width: int) -> None:
        text = line.text.rstrip()
        if text and text[0] in _BOXES:
            self.boxed.add(len(self.lines))
            text = _inside_of_box(text)
        if text != line.text:
            line = replace(line, text=text)
        self.lines.append(line)
        self.widths.append(width)


def _of_several(physical: str) -> list[str]:
    """What each of several writers said in one line, or each row of a terminal that was copied as one."""
    if physical.count(breaks.PID) >= breaks.SEVERAL:
        return breaks.of_writers(physical)
    return breaks.of_rows(physical)


def _over(outer: Mark, inner: Mark) -> Mark:
    """What both marks say; of what they say both, the inner one."""
    said = {name: value for name in inner.__struct_fields__ if (value := getattr(inner, name)) is not None}
    return replace(outer, **said) if said else outer


def _take_off(text: str, dress: _Dress) -> str:
    first = text[:1]
    if first == " ":
        return _undress_indented(text, dress)
    if text.find(" |", 0, 110) > 0 and (match := _COMPOSE.match(text)):
        dress.wear(_COMPOSE, match)
        text = text[match.end() :]
    if text.startswith("```"):
        return ""
    return _undress(text, dress)


_BOXES = frozenset(_BOX_SIDES + _BOX_CORNERS)


def _undress_indented(text: str, dress: _Dress) -> str:
    """Pasted logs are indented as a whole; code is indented too, and only a writer's prefix tells them apart."""
    if match := _GROUP_MARGIN.match(text):
        return _undress(text[match.end() :], dress)
    inner = text.lstrip()
    if inner[:1] in ("(", "["):
        undressed = _undress(inner, dress)
        return undressed if dress.facts else text
    if inner[:1] in _BOXES:
        return inner
    return text


# Characters a line can begin with that has something to take off.
_SIGNS_THAT_BEGIN = (frozenset(_LEADING_BY) | _BOXES | {" ", "`"}) - frozenset(_LETTERS)
_LETTERS_THAT_BEGIN = frozenset(_LEADING_BY) & frozenset(_LETTERS)
# Most lines that begin with a letter begin with a word.
_HEADED = late(rf"{_LEVEL}[ :]|[VIWEF]\d{{4,8}} |{_MONTH} [ \d]\d |kern {{1,2}}:|[MTWFS][a-z]{{2}} \d{{4}}-\d\d-\d\d ")
_MAY_HOLD = ("\r", " | ", " [repeated ", *_BAR_SIGNS)


# --- Joining hard wraps ----------------------------------------------------------------------------------------------

NARROWEST = 60  # no terminal wraps earlier
_SCREEN = 40  # lines, none of which is wider than the terminal that they were shown on
_ROW = 16  # characters
_AS_NOUGHTS = str.maketrans("123456789", "0" * 9)
COLUMN = "   "  # between the columns of a table
# The words of memory messages, to know their halves by.
_WORDS = frozenset(
    """
    about actor actors adjust allocate allocated allocating allocation allocator available avoid because been
    blocks cache cached capacity cluster connection consider considered crashed currently decrease decreasing
    deduplicates desired device disable documentation driver engine environment exceed exceeded exceeds
    expandable expandable_segments failed fragmentation from generation gpu_memory_utilization growing has have
    including increase increasing information initialization initialize initializing into kernel killed killing
    large larger length limit management max_model_len max_num_seqs maximum memory model more node object
    objects only parallelism parameter pressure process processes prompt provisioning pytorch
    pytorch_alloc_conf pytorch_cuda_alloc_conf ray_memory_monitor_refresh_ms ray_memory_usage_threshold reached
    reason recently reduce reducing refer requested requesting require required reserved reserving resource
    resources running scheduled segments setting should smaller some specified started starting static task
    tasks than that the their there these this threshold throughput total tried unallocated unexpected
    unexpectedly usage users utilization variable were when where which while will with worker workers your
    """.split()  # noqa: SIM905 - a list of one word per line would be four pages
)
# Those and the small ones between them: two of them, and no third one of both, stand apart
_WHOLE = _WORDS | frozenset(
    """
    a already and are as be before bus but by bytes can cannot capacity could data dataloader's error errors free gpu
    how if input inside is it its later less limits local may might more most much must need needs new not now of on
    one or other out output outside over own page parent per please possible raise rank restart same see set shared
    signal size so space still swap system take the then through to too try unable under until up use used using
    very via want was whose without would you
    """.split()  # noqa: SIM905
)
_ENDINGS = frozenset(word[cut:] for word in _WORDS for cut in range(1, len(word)))
_HEX = frozenset("0123456789abcdef")
_TAIL = late(r"[A-Za-z_]{1,40}$")
_HEAD = late(r"[A-Za-z_]{1,40}")
# Behind one of the words that a size stands behind
_CUT_NUMBER = late(r"(?:\b(?:memory|allocate|of|which|has|and|with|is|was|used|about) |[/(;] ?)\d{1,12}\.?\d{0,12}$")
_REST_OF_NUMBER = late(r"(?:[\d.]{1,12} ?| )(?:[KMGT]i?B|bytes)\b|[KMGT]i?B\b")
_HEX_TAIL = late(r"(?<![0-9A-Za-z])[0-9a-f]{6,63}$")
_HEX_HEAD = late(r"[0-9a-f]{1,63}(?![0-9A-Za-z])")
_RAY_ID_LENGTHS = (32, 40, 48, 56, 64)
# The first line of an exception, and the words on both sides of a break in its message
_RAISED = late(r"(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Za-z_]\w{0,60}(?:Error|Exception)(?:\(\w{1,60}\))?: \S")
_LAST_WORD = late(r"(?<![\w'’])[A-Za-z'’]{1,40}$")
_FIRST_WORD = late(r"[a-z'’]{1,40}(?![\w'’])")
_BETWEEN = ",;)"
_FRAME_CUT = late(r'File "[^"\n]{1,400}", line \d{1,7}, in$')
_BEGINS = late(
    r"\s|(?:[Ff]atal|[Ii]nternal|[Rr]untime) error: |File \"|[A-Za-z_][\w.-]{2,80}: |[\w.-]{1,80}:\d|\d+\s+\d|\d{1,3}%"
    r"|[A-Za-z.]{1,90}Error\b|\W{3}"
)
_BOX_PATH = late(r"(?:/|~|\./|[A-Za-z]:\\|in )")
_BOX_FRAME = late(r":\d{1,7} in \S")


def _joined(first: Line, second: Line, glue: str) -> Line:
    return replace(
        first,
        end=second.end,
        text=(first.text + glue + second.text)[:LONGEST_LINE],
        raw=((first.raw.rstrip() if glue else first.raw) + glue + second.raw)[:LONGEST_QUOTE],
    )


def _cuts_a_word(before: str, after: str) -> bool:
    """Whether a word, a size or an id of a memory message stands half on one line and half on the next."""
    last, first = before[-1], after[0]
    if (last.isalpha() or last == "_") and (head := _HEAD.match(after)) and head[0].lower() in _ENDINGS:
        tail = _TAIL.search(before[-40:])
        if tail is not None and (tail[0] + head[0]).lower() in _WORDS:
            return _RAISED.match(after) is None  # "fit.py" and "torch.OutOfMemoryError: ..." are no pytorch
    if (last.isdecimal() or last == ".") and first in " 0123456789.KMGT" and _CUT_NUMBER.search(before[-40:]):
        return _REST_OF_NUMBER.match(after) is not None
    if last in _HEX and first in _HEX and (head := _HEX_HEAD.match(after)):
        tail = _HEX_TAIL.search(before[-80:])
        return tail is not None and len(tail[0]) + len(head[0]) in _RAY_ID_LENGTHS
    return False


def _by_words(sheet: _Sheet, candidates: Sequence[int]) -> frozenset[int]:
    """The lines on which the message of an exception goes on that somebody wrapped between two words; twice at least,
    since one line below an exception may be anybody's."""
    found: set[int] = set()
    for index in candidates:
        before, after = sheet.lines[index - 1].text, sheet.lines[index].text
        if (index - 1 in found or _RAISED.match(before)) and _stand_apart(before, after):
            found.add(index)
    return frozenset(index for index in found if index - 1 in found or index + 1 in found)


def _stand_apart(before: str, after: str) -> bool:
    """Whether a blank was between the end of the one line and the other, which begins in small letters."""
    first = _FIRST_WORD.match(after)
    if first is None or _BEGINS.match(after):
        return False
    if before[-1] in _BETWEEN:
        return True
    last = _LAST_WORD.search(before[-80:])
    if last is None or (last[0] + first[0]).lower() in _WHOLE:
        return False
    return last[0].lower() in _WHOLE and first[0] in _WHOLE


def _may_go_on(sheet: _Sheet, index: int) -> bool:
    """Whether the line at the index can be the rest of the one before it."""
    before, after = sheet.lines[index - 1], sheet.lines[index]
    return (
        sheet.widths[index - 1] >= NARROWEST
        and after.mark is NO_MARK
        and bool(before.text)
        and bool(after.text)
        and before.end + 1 == after.number
        and index not in sheet.begun
        and not (sheet.boxed and (index in sheet.boxed or index - 1 in sheet.boxed))
    )


def _alike(before: str, after: str) -> bool:
    """Whether both are rows of one kind: they begin alike, or but for their digits."""
    return before[:6] == after[:6] or before[:_ROW].translate(_AS_NOUGHTS) == after[:_ROW].translate(_AS_NOUGHTS)


def _terminal_widths(sheet: _Sheet, candidates: Sequence[int]) -> frozenset[int]:
    """The widths of the terminals that cut these lines, where several lines show it."""
    shown: Counter[int] = Counter()
    for index in candidates:
        width, next_width = sheet.widths[index - 1], sheet.widths[index]
        before, after = sheet.lines[index - 1].text, sheet.lines[index].text
        if not before[-1].isalnum() or not (after[0].islower() or after[0].isdecimal()) or next_width > width:
            continue
        if COLUMN in before and COLUMN in after:
            continue  # rows of a table
        if (
            _alike(before, after)
            or _BEGINS.match(after)
            or max(sheet.widths[max(0, index - _SCREEN) : index + _SCREEN]) > width
        ):
            continue
        run = next_width == width or (index >= 2 and sheet.widths[index - 2] == width)
        shown[width] += 2 if run else 1
    return frozenset(width for width, times in shown.items() if times >= 2)


def _glue(sheet: _Sheet, index: int, terminals: frozenset[int]) -> str | None:
    """What to put between a line and its continuation, or None where the second does not go on from the first."""
    before, after = sheet.lines[index - 1].text, sheet.lines[index].text
    if before.endswith(" in") and _FRAME_CUT.search(before):
        return " "
    if sheet.widths[index - 1] in terminals and not _BEGINS.match(after.removeprefix(" ")):
        return ""
    return "" if _cuts_a_word(before, after) else None


def _box_glue(before: str, after: str) -> str | None:
    """The same inside a box, where only the head of a frame is wrapped: by words, or inside a long path."""
    if not _BOX_PATH.match(before) or _BOX_FRAME.search(before):
        return None
    return " " if before.endswith(" in") or after.startswith("in ") else ""


def _joinable(sheet: _Sheet) -> dict[int, str]:
    """The lines that go on from the one before them, by index, each with what to put between."""
    candidates = [index for index in range(1, len(sheet.lines)) if _may_go_on(sheet, index)]
    terminals = _terminal_widths(sheet, candidates)
    glues = {index: glue for index in candidates if (glue := _glue(sheet, index, terminals)) is not None}
    glues |= dict.fromkeys(_by_words(sheet, candidates), " ")
    opened = ""
    for index in sorted(sheet.boxed):
        glue = _box_glue(opened, sheet.lines[index].text) if index - 1 in sheet.boxed else None
        if glue is not None:
            glues[index] = glue
            opened += glue + sheet.lines[index].text
        else:
            opened = sheet.lines[index].text
    return glues


def _join(sheet: _Sheet) -> list[Line]:
    glues = _joinable(sheet)
    if not glues:
        return sheet.lines
    done: list[Line] = []
    for index, line in enumerate(sheet.lines):
        if index in glues:
            done[-1] = _joined(done[-1], line, glues[index])
        else:
            done.append(line)
    return done


# --- A slice ---------------------------------------------------------------------------------------------------------

# Escapes that were written out, and those that lost their first character. `rate(x[5m])` is none.
_WRITTEN_ESCAPE = late(
    r"(?:\^\[|#033|\\x1[bB]|\\033|\\u001[bB]|\\e)\[[0-9;]{0,20}[A-Za-z]"
    r"|\[(?:[01245];)?(?:0|[1-4]|2[2-4]|3[0-79]|4[0-7]|9[0-7]|[34]8;[25](?:;\d{1,3}){1,3})?m(?![\]\w])"
    r"|\[[01];(?:0|3[0-79]|9[0-7])m"
)
_WRITTEN_SIGNS = ("^[[", "#033[", "\\x1b[", "\\x1B[", "\\033[", "\\u001b[", "\\e[", "[0m", "[3", "[1m", ";0m", "[9")
_ENTITY = late(r"&(?:(gt|lt|amp|quot|apos|nbsp)|#(\d{2,5})|#x([0-9A-Fa-f]{2,4}));")
_PLAIN_QUOTES = str.maketrans("“”„", '"""')  # what some editors make of a frame's
_NAMED = {"gt": ">", "lt": "<", "amp": "&", "quot": '"', "apos": "'", "nbsp": " "}
_NUMBERED = _Decoration("", r" {0,4}(?P<rank>\d{1,5}):(?: |$)", who=_WHO)
_COUNTED = _Decoration("", r" {0,8}\d{1,5}:(?: |$)")
_NAMED_HOST = _Decoration("", rf"(?P<host>(?!{_DATE})(?=<?[A-Za-z]{{0,62}}[-.\d]){_HOST}): ", who=_WHO)
# What a program puts before all that its child prints: "SUBPROCESS: "; a level is no writer
_LEVELS_WORDS = "|".join((*_SHORT_LEVELS.values(), "WARN", "TRACE", "NOTE"))
_RELAYED = _Decoration("", rf"(?P<name>(?!(?:{_LEVELS_WORDS}):)[A-Z]{{4,20}}): ", who=_WHO)
_LAUNCHERS_OWN = ("srun: ", "slurmstepd", "salloc: ", "pdsh@")  # what it says itself has no prefix
_SAMPLE = 200
MANY = 5  # ranks that print one line each, in their order: more are numbers of lines


def decode(data: bytes) -> str:
    """UTF-8, broken bytes replaced; GB2312 where nothing else can be meant."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        runs = re.findall(rb"[\x80-\xff]+", data)
        # Chinese Windows and old terminals: every run is whole pairs of high bytes. Latin-1's letters stand alone.
        if all(len(run) % 2 == 0 and min(run) >= 0xA1 for run in runs):
            return data.decode("gb18030", "replace")
        return data.decode("utf-8", "replace")


def _as_shown(data: bytes) -> str:
    """The text as a terminal that obeys nothing would show it."""
    text = disarm(decode(data.replace(b"\0", b"") if b"\0" in data else data))
    return text.replace("\r\n", "\n") if "\r" in text else text


def _character(entity: re.Match[str]) -> str:
    """What the entity stands for; a line's end is a blank, or the lines behind it would have other numbers."""
    name, decimal, hexadecimal = entity.groups()
    character = _NAMED[name] if name else chr(int(decimal) if decimal else int(hexadecimal, 16))
    return " " if character in "\r\n" else character


def _as_meant(text: str) -> str:
    """The text without what a pager, a collector or a browser made of it."""
    if any(sign in text for sign in _WRITTEN_SIGNS):
        text = _WRITTEN_ESCAPE.sub("", text)
    if "&" in text:
        text = disarm(_ENTITY.sub(_character, text))
    return text.translate(_PLAIN_QUOTES) if "File “" in text else text


def _common_prefix(physicals: Sequence[str]) -> _Decoration | None:
    """The launcher's prefix, where (nearly) every line has it: "3: " of srun -l, "host: " of pdsh, "CHILD: "."""
    sample = [line for line in physicals[:_SAMPLE] if line.strip() and not line.startswith(_LAUNCHERS_OWN)]
    for prefix in (_NUMBERED, _NAMED_HOST, _RELAYED):
        if len(sample) >= 3 and sum(1 for line in sample if prefix.match(line)) >= 0.9 * len(sample):
            return _COUNTED if prefix is _NUMBERED and _count(sample) else prefix
    return None


def _count(sample: Sequence[str]) -> bool:
    """Whether the numbers in front of these lines are those of the lines."""
    numbers = [int(match["rank"]) for line in sample if (match := _NUMBERED.match(line))]
    return len(numbers) >= MANY and all(after - before == 1 for before, after in pairwise(numbers))


def _write_behind(sheet: _Sheet, prefix: _Decoration, number: int, physical: str) -> None:
    match = prefix.match(physical)
    if match is None:
        sheet.write(number, physical)
        return
    dress = _Dress({}, {})
    dress.wear(prefix, match)
    launched = dress.mark()
    first = len(sheet.lines)
    sheet.write(number, physical[match.end() :])
    for index in range(first, len(sheet.lines)):
        line = sheet.lines[index]
        rank = launched.rank if line.mark.rank is None else line.mark.rank
        sheet.lines[index] = replace(
            line,
            writer=f"{dress.writer} {line.writer}".rstrip(),
            mark=replace(line.mark, host=line.mark.host or launched.host, rank=rank),
            raw=physical[:LONGEST_QUOTE].replace("\r", " "),
        )


def page(file: str, first_line: int, data: bytes, *, ends: bool = True) -> Page:
    """The clean lines of a slice; `ends` says that the log ends with it."""
    shown = _as_shown(data)
    text = _as_meant(shown)
    physicals = text.split("\n")
    prefix = _common_prefix(physicals)
    holds = tuple(sign for sign in _MAY_HOLD if sign in text)
    sheet = _Sheet(holds, traced=breaks.SIGN in text, several=breaks.may_hold_several(text))
    for number, physical in enumerate(physicals, first_line):
        if prefix is None:
            sheet.write(number, physical)
        else:
            _write_behind(sheet, prefix, number, physical)
    if text is not shown:
        # Terminals wrap at what they show, written escapes and all.
        widths = [len(line) for line in shown.split("\n")]
        sheet.widths = [widths[line.number - first_line] for line in sheet.lines]
    if any(sign in text for sign in SIGNS):
        sheet.take_margins_off()
    return Page(file, _join(sheet), ends)
