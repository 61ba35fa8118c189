"""What stands above a kill that no line explains: the command that ran, and what had ended or was counted last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from oomdoctor.families.kill import SIGKILL, Kill
from oomdoctor.incident.model import Crash
from oomdoctor.job import rows
from oomdoctor.job.launch import command_of
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign

_NEAR: Final = 12  # lines
_BARE: Final = late(r"\s{0,8}[Kk]illed[.!]?\s{0,8}\Z")
_AT_ITS_END: Final = late(r"(?<!\d)100%[^\n]{0,400}?(?<!\d)(?P<count>\d{1,9})/(?P=count)(?!\d)")
_COUNTED: Final = late(
    r"(?i)(?:\A|(?<! per)[\s\[|,(])(?P<what>iter(?:ation)?|(?:global_)?step|epoch)"
    r"(?:: ?| ?[=#] ?| )\[?(?P<number>\d{1,9})(?![\d.])"
)
_LEARNS: Final = late(r"(?i)\b(?:\w{1,30}_)?loss\b")
# transformers/tokenization_utils_base.py since 2.9: said once, of the first text that is too long
_TOKENIZED: Final = late(r"\bToken indices sequence length is longer than the specified maximum\b")
# By the verbs of the rows of doing.txt
_ENDED: Final = {
    "convert": mark("after the weights were converted"),
    "build": mark("after the engine was built"),
    "quantize": mark("after the weights were quantized"),
}
_OF_WEIGHTS: Final = ("convert", "quantize")


class Done(Struct, frozen=True):
    """What the job had done last."""

    words: str
    verb: str = ""  # of what had ended, where the line names it
    counts_steps: bool = False


def command_above(kill: Kill) -> list[str]:
    """The words of the command that ran, where a shell says no more than "Killed" below it."""
    if kill.reporter != "shell" or not _BARE.match(kill.at.text):
        return []
    return next((words for line in reversed(kill.around.before) if (words := command_of(line))), [])


def last_done(crash: Crash) -> Done | None:
    """What the nearest line that tells has ended or counted, where nothing tells what the job was doing then."""
    root = crash.root
    if not isinstance(root, Kill) or root.signal != SIGKILL or crash.proven or crash.stage != "unknown":
        return None
    return next((done for line in _above(root) if (done := _done(line)) is not None), None)


def _above(kill: Kill) -> Iterator[str]:
    """The lines of the program's own output, nearest first."""
    told = [line for line in reversed(kill.around.before) if line.strip()]
    return (line for line in told[:_NEAR] if not command_of(line))


def _done(line: str) -> Done | None:
    ended = rows.of_line("finished", line)
    if ended is not None and ended.step in _ENDED:
        return Done(translated(_ENDED[ended.step]), verb=ended.step)
    if counted := _COUNTED.search(line[: rows.CHARACTERS]):
        words = say("after {what} {number}", what=counted["what"].lower(), number=counted["number"])
        return Done(words, counts_steps=True)
    if bar := _AT_ITS_END.search(line[: rows.CHARACTERS]):
        learns = _LEARNS.search(line) is not None
        return Done(say("after its progress bar ended at {count}/{count}", count=bar["count"]), counts_steps=learns)
    return None


@sign
def before_its_first_step(crash: Crash) -> Seen | None:
    """What the killed job had done last is no step of a loop: there was no batch yet."""
    done = last_done(crash)
    root = crash.root
    if done is None or done.counts_steps or not isinstance(root, Kill):
        return None
    return Seen(words="") if not any(_LEARNS.search(line) for line in _above(root)) else None


@sign
def the_weights_were_ready(crash: Crash) -> Seen | None:
    """What the killed job had done last is to convert or to quantize weights, which it held to write them."""
    done = last_done(crash)
    return Seen(words="") if done is not None and done.verb in _OF_WEIGHTS else None


@sign
def texts_were_tokenized(crash: Crash) -> Seen | None:
    """The last line before the kill is the tokenizer's own: texts were being turned into numbers, which stay in RAM."""
    root = crash.root
    if not isinstance(root, Kill) or root.signal != SIGKILL or crash.proven:
        return None
    return Seen(words="") if _TOKENIZED.search(next(_above(root), "")) else None
