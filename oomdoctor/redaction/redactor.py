"""One output's redaction: the same name has the same pseudonym all over it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct, structs

from oomdoctor.redaction.kinds import is_secret_setting
from oomdoctor.redaction.names import Known
from oomdoctor.redaction.search import Found, look
from oomdoctor.streams import LONGEST_QUOTE

if TYPE_CHECKING:
    from oomdoctor.report.contract import Report

T = TypeVar("T")
SHORTEST_CUT = 100  # characters; nothing shorter is cut
_HALF = re.compile(r"[!-~]{1,400}…?\Z")
_PLACEHOLDER = re.compile(r"<(USER|HOST|IP|EMAIL|BUCKET)-(\d{1,6})>")


class Redactor:
    """Takes secrets and personal names out of one output."""

    def __init__(self) -> None:
        self.replaced: Counter[str] = Counter()  # how many of each kind
        self._known = Known()
        self._pseudonyms: dict[tuple[str, str], str] = {}
        self._last: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """The text without them. It has as many lines as before."""
        known = len(self._known.secrets)
        found = self.learn(text)
        if len(self._known.secrets) > known:  # what a line tells stands on others without its name
            found = look(text, self._known)
        done = 0
        parts: list[str] = []
        for one in found:
            parts += [text[done : one.start], self._put(one)]
            done = one.end
        return "".join([*parts, text[done:]]) if parts else text

    def learn(self, text: str) -> list[Found]:
        """What the text holds, to be known in all texts to come: its names, and the halves of what a wrap splits."""
        self._step_over(text)
        found = look(text, self._known)
        self._known.secrets |= {
            piece for one in found if one.secret and _is_distinct(piece := text[one.start : one.end].strip())
        }
        return found

    def learn_file(self, name: str) -> None:
        """What a log is called, which may be after its user or its host."""
        self._known.files |= {name, name.replace("\\", "/").rpartition("/")[2]} - {""}

    def report(self, report: Report) -> Report:
        """The report with every string of it redacted."""
        for string in _strings(report):  # a name told in one string is known in all
            self.learn(string)
        return self._value(report)

    def _step_over(self, text: str) -> None:
        """Pseudonyms that stand in the text already are somebody's."""
        if "-" in text and "<" in text:
            for word, number in _PLACEHOLDER.findall(text):
                self._last[word] = max(self._last[word], int(number))

    def _put(self, found: Found) -> str:
        if found.put:
            self.replaced[found.kind] += 1
        if found.secret or not found.put:
            return found.put
        key = (found.put, found.value.lower())
        if key not in self._pseudonyms:
            self._last[found.put] += 1
            self._pseudonyms[key] = f"<{found.put}-{self._last[found.put]}>"
        return self._pseudonyms[key]

    def _value(self, value: T) -> T:
        made: Any = value
        if isinstance(value, str):
            made = self.text(_without_half(value))
        elif isinstance(value, Struct):
            made = structs.replace(value, **{name: self._value(item) for name, item in structs.asdict(value).items()})
        elif isinstance(value, Mapping):
            made = {self._value(key): self._named(key, item) for key, item in value.items()}
        elif isinstance(value, (list, tuple)):
            items = [self._value(item) for item in value]
            made = tuple(items) if isinstance(value, tuple) else items
        return cast(T, made)

    def _named(self, key: object, item: Any) -> Any:
        """A setting's value, which its name may give away: of a list every value, of a mapping those named so in it."""
        if not isinstance(key, str):
            return self._value(item)
        if isinstance(item, (list, tuple)):
            items = [self._named(key, one) for one in item]
            return tuple(items) if isinstance(item, tuple) else items
        if isinstance(item, Mapping):
            return {self._value(name): self._named(f"{key}.{name}", one) for name, one in item.items()}
        if is_secret_setting(key, item):
            self.replaced["named"] += 1
            return "<SECRET>"
        if isinstance(item, str):
            before, sign, value = self._value(f"{key}={item}").partition("=")
            if sign and before == key:
                return value
        elif isinstance(item, (int, float)) and not self._value(f"{key}={item}").endswith(f"={item}"):
            return "<SECRET>"
        return self._value(item)


def _without_half(text: str) -> str:
    """Without the beginning of a word at whose end a quote was cut: it may be half of a secret, or of a name."""
    if len(text) < SHORTEST_CUT:
        return text
    lines = [_HALF.sub("…", line) if len(line) == LONGEST_QUOTE else line for line in text.split("\n")]
    whole = "\n".join(lines)
    return _HALF.sub("…", whole) if len(text) == LONGEST_QUOTE or text.endswith("…") else whole


def _is_distinct(piece: str) -> bool:
    """Whether the secret, or the part of one, means nothing else elsewhere."""
    return len(piece) >= 8 and re.search(r"\d", piece) is not None and re.search("[A-Za-z]", piece) is not None


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Struct):
        return [s for item in structs.asdict(value).values() for s in _strings(item)]
    if isinstance(value, Mapping):
        return [s for pair in value.items() for part in pair for s in _strings(part)]
    if isinstance(value, (list, tuple)):
        return [s for item in value for s in _strings(item)]
    return []
