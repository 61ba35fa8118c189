"""PEM blocks: private keys and certificates, over lines with or without prefixes, in one line with written breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oomdoctor.redaction.stretch import Stretch
from oomdoctor.redaction.views import PREFIX, View

_BEGIN = re.compile(r"-----BEGIN (?P<what>[A-Z0-9 ]{0,60}(?:KEY|CERTIFICATE|MESSAGE)(?: BLOCK)?)-----")
_LONGEST = 20_000
_BODY = re.compile(r"(?m)^" + PREFIX + r"[ \t\"',+]{0,40}(?P<it>[A-Za-z0-9+/=-][A-Za-z0-9+/=:, -]{0,200})")
_ENDS = re.compile(r"-----END [A-Z0-9 ]{1,70}-----")
_NO_BODY = re.compile(r"[^\n]{0,300}? [^\n]{0,300}? ")  # words: what follows a block that was cut off


def stretches(view: View) -> Iterator[Stretch]:
    at = 0
    while begin := _BEGIN.search(view.text, at):
        if "PUBLIC" in begin["what"]:
            at = begin.end()
            continue
        end = _ENDS.search(view.text, begin.end(), begin.end() + _LONGEST)
        at = end.end() if end else _cut_off(view.text, begin.end())
        word = "certificate" if "CERTIFICATE" in begin["what"] else "private"
        put = f"<KEY {word}>"
        for start, stop in _lines(view.text, begin.start(), at):
            yield Stretch(view.start(start), view.end(stop), -1, "pem", put)
            put = ""


def _cut_off(text: str, at: int) -> int:
    """Where a block without an end stops: before the first line that is no line of one."""
    done = min(len(text), _end_of_line(text, at))
    while done < len(text) and done - at < _LONGEST:
        body = _BODY.match(text, done + 1)
        end = _end_of_line(text, done + 1)
        if body is None or body.end() < end - 8 or _NO_BODY.match(body["it"]):
            break
        done = end
    return done


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """What of each line between the two belongs to the block: not what a launcher put in front."""
    stop = min(_end_of_line(text, start), end)
    yield start, stop
    while stop < end:
        first, stop = stop + 1, min(_end_of_line(text, stop + 1), end)
        body = _BODY.match(text, first, stop)
        begin = body.start("it") if body else first
        if begin < stop:
            yield begin, stop
