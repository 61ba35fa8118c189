"""The advice that a message itself gives, read as the knobs that it names.

"Try lowering `max_num_seqs` or --gpu-memory-utilization", "reduce the size of the hierarchical cache": a verb says
which way, an option or a few words say of what. Options are those of the frameworks' tables, words stand in
`advised.txt`. Whether the advice is right is for the knob's own arithmetic to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import Event
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import engine_printing
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies import Remedy, cells
from oomdoctor.remedies.knobs import BOUGHT, KNOBS
from oomdoctor.remedies.settings import rows
from oomdoctor.signs.kv_pool import no_places_although_tokens_are_free
from oomdoctor.spellings import frameworks

AHEAD: Final = 2  # remedies of the message that come before those of the cause
IN_SIGHT: Final = 3
AT_A_PRICE: Final = BOUGHT | {"tensor-parallel"}  # over GPUs that the job may not have
ANY: Final = ""  # framework
# The same option serves both directions.
_OTHER_WAY: Final[Mapping[str, tuple[str, ...]]] = {"lower-engine-reservation": ("raise-engine-reservation",)}
_MOST: Final = 20  # messages that are read
_BEHIND: Final = 4  # lines that one message goes on for
_LONGEST: Final = 4000  # characters of it
_QUOTED: Final = 120

_VERB: Final = late(
    r"(?i)\b(?:(?P<lower>lower(?:ing)?|reduc(?:e|ing)|decreas(?:e|ing)|shrink(?:ing)?|limit(?:ing)?)"
    r"|(?P<raise>rais(?:e|ing)|increas(?:e|ing)|enlarg(?:e|ing)|boost(?:ing)?|expand(?:ing)?)"
    r"|(?P<use>us(?:e|ing)|re-?run(?:ning)?|set(?:ting)?|enabl(?:e|ing)|pass(?:ing)?|specify(?:ing)?"
    r"|switch(?:ing)? to|turn(?:ing)? on|add(?:ing)?)"
    r")\b(?! by\b)"
)
# Advice is given in the imperative, or begins so: "please", "try", "you can", "to fix this".
_ASKING: Final = late(
    r"(?i)\b(?:try|tr(?:y|ying) to|please|consider|you (?:can|may|could|might|should|need to|must)|should|recommend\w*|"
    r"suggest\w*|must|need to|either|and/or|or|and|also)[\s,:]*$"
)
_BEGINS: Final = late(r"(?:^|[.!?;:,(\"'>\]]|\n| - |--)[\s\"'`*]{0,12}\Z")
# The last: the next line begins a record of its own, with a time or a number in brackets
_ENDS: Final = late(r"[.!?;](?:\s|$)|\n\s*\n|\n(?=\S{0,40}(?:Traceback|  File ))|\n(?=\[?\d[\d:.,/-]{5,30}[\]\sT])")
_LOWER_VALUE: Final = late(r"(?i)\b(?:smaller|lower|fewer|less|shorter|reduced)\b")
_HIGHER_VALUE: Final = late(r"(?i)\b(?:larger|bigger|higher|more|greater|longer|increased)\b")
_OPTION: Final = late(
    r"(?<![\w/])(--?[A-Za-z][\w-]{1,60}|[A-Za-z][A-Za-z0-9]{0,40}(?:[._][A-Za-z0-9]{1,40}){1,12}|[A-Z][A-Z0-9]{4,40})"
)
_TOO: Final = late(
    r"(?i)(?<![\w/])`?(?P<what>--?[a-z][\w-]{1,60}|[a-z][a-z0-9]{0,40}(?:[._][a-z0-9]{1,40}){1,12})`?"
    r"(?:\s{0,8}\([^)\n]{1,40}\))?\s{1,8}(?:(?:is|was|may be|might be)\s{1,8})?(?:much )?"
    r"too (?P<how>large|high|big|long|small|low)\b"
)


_ASIDE: Final = late(
    r"(?i)[\s,\"'`(]{1,8}"
    r"(?:(?:when|by (?:passing|setting)|if|before|so that|in order to|e\.g\.?|for example|this)\b|\d\)(?: |$)).*$"
)


class Advised(Struct, frozen=True):
    """A knob that a message names, with its words."""

    knob: str
    turn: str
    what: str  # the option, or the words for it
    quote: str
    event: Event


class _Row(Struct, frozen=True):
    knob: str
    turn: str
    words: tuple[str, ...]


@cache
def table() -> tuple[_Row, ...]:
    rows = cells.rows(Path(__file__).with_suffix(".txt"))
    return tuple(_Row(knob, turn, tuple(map(str.strip, words.split(",")))) for knob, turn, words in rows)


def advised(crash: Crash) -> tuple[Advised, ...]:
    """What the message of the failure advises, each knob once, in its order."""
    if isinstance(crash.root, DeviceOutOfMemory) and _had_room(crash.root):
        return ()
    if no_places_although_tokens_are_free(crash) is not None:
        return ()  # SGLang asks for fewer of what ran out
    found: dict[tuple[str, str], Advised] = {}
    for event in _tellers(crash):
        for one in _of(event, crash):
            found.setdefault((one.knob, one.turn), one)
    return tuple(found.values())


def placed(remedies: Sequence[Remedy], advice: Sequence[Advised]) -> list[Remedy]:
    """What the message advises leads where a value could be computed, and else stands among the first three; what
    costs money stays where it is."""
    order = {one.knob: place for place, one in enumerate(advice)}
    said = sorted((one for one in remedies if one.knob in order), key=lambda one: order[one.knob])
    leading = [one for one in said if one.suggested is not None and one.knob not in AT_A_PRICE][:AHEAD]
    rest = [one for one in remedies if one not in leading]
    place = IN_SIGHT - 1 - len(leading)
    late_ones = [one for one in rest[place + 1 :] if one in said]
    others = [one for one in rest if one not in late_ones]
    return [quoted(one, advice) for one in (*leading, *others[:place], *late_ones, *others[place:])]


def quoted(remedy: Remedy, advice: Sequence[Advised]) -> Remedy:
    """The remedy with the message's own words for it."""
    words = next((one.quote for one in advice if one.knob == remedy.knob and _same_option(one.what, remedy)), None)
    if words is None:
        return remedy
    return replace(remedy, action=say("{action} (log: {quote})", action=remedy.action, quote=words))


def _same_option(what: str, remedy: Remedy) -> bool:
    """The remedy is spelled with the message's option, or one of both has no spelling."""
    return not _OPTION.fullmatch(what) or remedy.setting is None or _key(remedy.setting) == _key(what)


def _tellers(crash: Crash) -> Iterator[Event]:
    """The messages of the failure, without those whose advice is always the same."""
    others = (event for event in crash.events if event.proves and event is not crash.root)
    tellers = (event for event in (crash.root, *others) if not isinstance(event, NodeOutOfMemory))
    return islice(tellers, _MOST)


def _had_room(root: DeviceOutOfMemory) -> bool:
    """As much was free as was asked for: to ask for less is no answer."""
    return bool(root.tried_bytes and root.free_bytes and root.tried_bytes <= root.free_bytes)


def _of(event: Event, crash: Crash) -> Iterator[Advised]:
    text = "\n".join((event.at.text, *event.around.after[:_BEHIND]))[:_LONGEST]
    for sentence in _sentences(text):
        if any(word in sentence for word in _never()):
            continue
        verbs = list(_verbs(sentence))
        ends = [*(verb.start() for verb in verbs[1:]), len(sentence)]
        for verb, end in zip(verbs, ends if verbs else (), strict=True):
            part = sentence[verb.end() : end]
            turn = _turn(verb.lastgroup or "use", part)
            for knob, what in _knobs(turn, part, crash):
                yield Advised(knob, turn, what, _quote(verb[0] + part, what), event)
        for match in _TOO.finditer(sentence):
            turn = "raise" if match["how"] in ("small", "low") else "lower"
            for knob in _of_option(match["what"], turn, crash):
                yield Advised(knob, turn, match["what"], _quote(match[0], match["what"]), event)


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for match in _ENDS.finditer(text):
        yield text[start : match.start()]
        start = match.end()
    yield text[start:]


def _verbs(sentence: str) -> Iterator[re.Match[str]]:
    """Those that ask for something: they open a part of the sentence, or stand behind "please" or another verb that
    does. "Using" at the beginning tells what is so; in a list it goes on with what was asked for."""
    asking = False
    for match in _VERB.finditer(sentence):
        before = sentence[: match.start()]
        opens = bool(_BEGINS.search(before[-12:]) or not before.strip())
        if _ASKING.search(before[-40:]) or (opens and (asking or not match[0].lower().endswith("ing"))):
            asking = True
            yield match


def _turn(turn: str, part: str) -> str:
    if turn != "use":
        return turn
    if _LOWER_VALUE.search(part):
        return "lower"
    return "raise" if _HIGHER_VALUE.search(part) else turn


def _quote(text: str, what: str) -> str:
    """The words to the end of the line that names what is meant, without an aside or what a cut has left there."""
    named = max(text.lower().rfind(what.lower()), 0)
    text = text[:end] if (end := text.find("\n", named)) > 0 else text
    words = _ASIDE.sub("", " ".join(text.split())).rstrip(" ,:;'\"`().-")
    words = words.removesuffix(" or").removesuffix(" and").removesuffix(", and/or").rstrip(" ,`")
    return f'"{words.replace(chr(34), "").replace("`", "")[:_QUOTED]}"'


def _knobs(turn: str, part: str, crash: Crash) -> Iterator[tuple[str, str]]:
    """What is named in the words behind the verb: options first, words where there are none."""
    options = [match[1] for match in _OPTION.finditer(part)]
    named = [(knob, option) for option in options for knob in _of_option(option, turn, crash)]
    yield from named or _of_words(turn, part, crash)


def _of_option(option: str, turn: str, crash: Crash) -> Iterator[str]:
    """The knobs of an option, turned this way: by the job's own frameworks, else by any."""
    key = _key(option)
    printing = engine_printing(crash.root.family)
    own = [name for name in (printing, *crash.context.frameworks) if name and key in _keys().get(name, {})]
    asked = own or ([ANY] if printing else _keys())
    candidates = [knob for name in asked for knob in _keys()[name].get(key, ())]
    for knob in dict.fromkeys(candidates):
        if _turns(knob, turn) and _of_pool(knob, crash):
            yield knob


def _of_words(turn: str, part: str, crash: Crash) -> Iterator[tuple[str, str]]:
    text = f" {' '.join(part.lower().replace('-', ' ').replace('`', ' ').split())} "
    found = [
        (text.index(f" {word}"), -len(word), row.knob, word)
        for row in table()
        if row.turn == turn and _of_pool(row.knob, crash)
        for word in row.words
        if f" {word}" in text
    ]
    if found:
        *_, knob, word = min(found)
        yield knob, word


def _of_pool(knob: str, crash: Crash) -> bool:
    relieves = KNOBS[knob].relieves if knob in KNOBS else ()
    return not relieves or crash.pool in relieves or crash.pool == "none"


def _turns(knob: str, turn: str) -> bool:
    """Whether a knob is turned this way; where a message only says to set an option, the pool decides."""
    own = next((row.turn for row in table() if row.knob == knob), "use")
    return own == turn or "use" in (own, turn)


def _key(option: str) -> str:
    return option.lstrip("-").replace("-", "_").rsplit(".", 1)[-1].lower()


@cache
def _keys() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """By framework: the knobs of each option, by the last part of its name; at the end those that any may have."""
    own = {name: _by_option((row.key, row.knob) for row in rows(name)) for name in frameworks()}
    return own | {ANY: _by_option((option, knob.id) for knob in KNOBS.values() for option in knob.settings)}


def _by_option(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    keys: dict[str, tuple[str, ...]] = {}
    for option, knob in pairs:
        if knob in KNOBS:
            key = _key(option)
            keys[key] = tuple(dict.fromkeys((*keys.get(key, ()), knob, *_OTHER_WAY.get(knob, ()))))
    return keys


@cache
def _never() -> frozenset[str]:
    return frozenset(word for row in table() if row.knob == "never" for word in row.words)
