"""The figures of a sentence: how much of what, asked for or there, and which is more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.grammars import Part
from oomdoctor.patterns import late
from oomdoctor.units import GIB, KIB, LARGEST_NUMBER, LARGEST_SIZE, MIB, asked, size

BYTES: Final = "bytes"
DEVICES: Final = "devices"
WORKERS: Final = "workers"
_COMPARING: Final = frozenset({"OVER", "TOO", "MORE", "MUST", "MUST_NOT_BE_LESS", "LESS"})
_ADDRESSES: Final = 1 << 45  # where a 64-bit process has its memory: 0x7f... is a place, no size
_REACH: Final = 14  # parts between a comparing word and its figures
_FIGURES: Final = frozenset({"SIZE", "HEX", "COUNT", "NUMBER", "RATIO", "ZERO"})
_GETTING: Final = frozenset({"ALLOCATE", "GET"})
_BORDERS: Final = frozenset({"COMMA", "STOP", "COLON", "EQUALS", "PAREN", "PAREN_END", "FOR"})
_ADDRESS_BEFORE: Final = 2  # parts: the address and its comma
_ADJECTIVES: Final = 3  # between a number and what it counts: "31 free or evictable slots"
_DESCRIBING: Final = frozenset({"WORD", "LINK", "FREE", "ASKED", "USED"})
_ROUNDED: Final = 0.06  # of a figure that is shown once more with two digits
_NEAR: Final = 7  # parts between a word and the figure that it speaks of
_MEANING: Final = {"NEED": "need", "ASKED": "need", "FREE": "have", "LIMIT": "limit", "USED": "used"}
_ROLES: Final = {"need": "need", "get": "need", "have": "have", "limit": "limit", "used": "used", "by": "by"}
# "5 visible GPUs", "640 more tokens": the word beside the figure stands in the count itself
_INSIDE: Final = (
    ("have", late(r"(?i)\b(?:free|available|visible|remaining|unused|vacant|empty|usable|physical|only)\b")),
    ("need", late(r"(?i)\b(?:more|needed|required|requested|additional)\b")),
)
_NUMBER = late(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_BYTES = late(r"(?i)\s?([KMGT]?)(?:i?B|i|bytes?(?:\(s\))?|(kilo|mega|giga|tera)bytes?|)$")
_INDEX = late(r"(?i)\b(?:index|ordinal)\D{0,4}(\d{1,3})$")  # there have to be more devices than that
_SIZED = late(r"(?i)size|sz|length|len|nbytes|amount|want(?:ed)?|take")
_IN_BYTES = late(r"(?i)(?:[KMG]i?B|bytes?|\sB)$")
_OF = late(r"(?i)\s?(?:/|\bout of\b|\bof\b)\s?(?:the )?")
_THINGS: Final = (
    (DEVICES, late(r"(?i)\b(?:gpu|device|accelerator|card|chip|[nxt]pu)s?$")),
    ("nodes", late(r"(?i)\bnodes?$")),
    ("cpus", late(r"(?i)\b(?:cpu|core)s?$")),
    ("tokens", late(r"(?i)tokens?$")),
    ("blocks", late(r"(?i)(?:blocks?|buffers?)$")),
    ("pages", late(r"(?i)pages?$")),
    ("cells", late(r"(?i)cells?$")),
    ("slots", late(r"(?i)slots?$")),
    (WORKERS, late(r"(?i)workers?$")),
)
_KEYS: Final = {"token": "tokens", "block": "blocks", "page": "pages", "cell": "cells", "slot": "slots", "byte": BYTES}
_SCALES: Final = {"kb": KIB, "kib": KIB, "mb": MIB, "mib": MIB, "gb": GIB, "gib": GIB}
OF_A_WHOLE: Final = late(r"(?i)total|capacity|working set|max(?:imum)? global mem(?:ory)?")


class Figure(Struct, frozen=True):
    """An amount, and what the word beside it makes of it."""

    value: float
    unit: str  # "bytes", "tokens", "devices", ...; "" where none is printed
    role: str  # "need", "have", "limit", "total", "used", "by", "" where no word says it
    at: int  # its place among the parts


def figures(parts: Sequence[Part]) -> tuple[Figure, ...]:
    """All of them, in their order."""
    found: list[Figure] = []
    for at, part in enumerate(parts):
        if part.terminal in _FIGURES:
            new = _figures(parts, at)
            if found and len(new) == 1 and _is_aside(parts, found[-1], new[0]):
                found[-1] = replace(found[-1], unit=BYTES)
            else:
                found += new
        elif part.terminal == "PLACE" and (index := _INDEX.search(part.text)):
            found.append(Figure(int(index[1]), DEVICES, "need", at))
    return tuple(found)


def _is_aside(parts: Sequence[Part], exact: Figure, shown: Figure) -> bool:
    """Whether the brackets hold the number before them once more, for people: "2147483648 [2gb]"."""
    between = parts[exact.at + 1 : shown.at]
    return len(between) == 1 and between[0].terminal == "PAREN" and _is_the_same(exact, shown)


def _is_the_same(exact: Figure, shown: Figure) -> bool:
    if shown.unit != BYTES or exact.unit not in ("", BYTES) or exact.value < MIB:
        return False
    return abs(exact.value - shown.value) <= _ROUNDED * exact.value


def _figures(parts: Sequence[Part], at: int) -> list[Figure]:
    part = parts[at]
    if part.terminal == "ZERO":
        return [Figure(0, "", "have", at)] if _beside(parts, at, "FREE", "FREE_IS") else []
    role = _role(parts, at)
    if part.terminal == "RATIO":
        first, whole = _OF.split(part.text, maxsplit=1)
        unit = _NUMBER.sub("", whole, count=1)
        one, other = _amount(first if _has_unit(first) else first + unit), _amount(whole)
        exact = Figure(*_amount(first), role, at)
        if _is_the_same(exact, Figure(*other, "", at)):  # "2147483648/2gb"
            return [replace(exact, unit=BYTES)]
        if _INSIDE[1][1].search(whole):
            return [Figure(*one, "have", at), Figure(*other, "need", at)]
        return [Figure(*one, "have" if role == "have" else "used", at), Figure(*other, "total", at)]
    value, unit = _amount(part.text)
    if part.terminal == "HEX" and _IN_BYTES.search(part.text) is None:
        if value >= _ADDRESSES or not _is_a_size(parts, at):
            return []
        unit = BYTES
    if value >= LARGEST_SIZE and role not in ("need", ""):  # "no limit", "not known"
        return [Figure(0, "", role, at)]
    if not unit and (scale := _scale_of_key(parts, at)):
        return [Figure(value * scale, BYTES, role, at)]
    unit = unit or _of_key(parts, at) or (_counted(parts, at) if role in {"need", "have"} else "")
    if not unit and value >= MIB and _is_a_size(parts, at):
        unit = BYTES
    return [Figure(value, unit, role, at)]


def _has_unit(text: str) -> bool:
    return text.strip()[-1:].isalpha()


def _amount(text: str) -> tuple[float, str]:
    """The value and its unit; a number that no machine has is zero of nothing."""
    if text[1:2] in {"x", "X"}:
        return _hexadecimal(text)
    match = _NUMBER.match(text)
    if match is None:
        return 0, ""
    value = float(match[0].replace(",", ""))
    rest = text[match.end() :].strip().replace("(s)", "s")
    thing = next((name for name, pattern in _THINGS if pattern.search(rest)), "")
    if thing or not rest:
        if value > LARGEST_NUMBER and not thing:
            return asked(match[0]) or 0, ""
        return (value if abs(value) < LARGEST_NUMBER else 0), thing
    return _sized(match[0], value, rest, glued=not text[match.end() : match.end() + 1].isspace())


def _sized(number: str, value: float, rest: str, *, glued: bool) -> tuple[float, str]:
    match = _BYTES.match(rest)
    if match is None:
        return value, rest.lower()
    if rest in {"B", "b"} and glued and abs(value) < MIB:
        return 0, ""  # "7B" is a model
    prefix = match[1] or (match[2] or "")[:1]
    found = asked(number, prefix + "b")
    return (found, BYTES) if found is not None else (0, "")


def _hexadecimal(text: str) -> tuple[float, str]:
    digits, _, unit = text.partition(" ")
    match = re.match(r"0[xX]([0-9a-fA-F]+?)(?:([KMG]i?B)|bytes?)?$", digits)
    if match is None:
        return 0, ""
    found = size(int(match[1], 16), (unit or match[2] or "").removesuffix("s").replace("byte", ""))
    return (found, BYTES) if found is not None else (0, "")


def _role(parts: Sequence[Part], at: int) -> str:
    part = parts[at]
    role = _followed(parts, at) or _ROLES.get(part.clause, "")
    if role == "by" and any(one.terminal in _GETTING for one in parts[max(0, at - 3) : at]):
        role = "need"
    if part.terminal == "COUNT":
        role = role or next((name for name, word in _INSIDE if word.search(part.text)), "")
    if role == "limit" and any(OF_A_WHOLE.fullmatch(one.text) for one in parts[max(0, at - 4) : at + 4]):
        return "total"
    if role == "have" and _is_whole(parts, at):
        return "need" if any(one.terminal == "NO" for one in parts[max(0, at - 6) : at]) else "total"
    return role or ("have" if _beside(parts, at, "ONLY") else _nearby(parts, at))


def _followed(parts: Sequence[Part], at: int) -> str:
    """What the word right behind the figure of a verb makes of it: "does not fit on the card (6.1 GiB unused)"."""
    bound = parts[at].clause in {"get", "used"}
    behind = parts[at + 1].terminal if at + 1 < len(parts) and bound else ""
    return {"FREE": "have", "LIMIT": "limit", "USED": "used", "ASKED": "need"}.get(behind, "")


def _nearby(parts: Sequence[Part], at: int) -> str:
    """What a word makes of the figure that stands a few words before it: "the largest free run is 5120 tokens"."""
    for one in reversed(parts[max(0, at - _NEAR) : at]):
        if one.terminal in _BORDERS or one.terminal in _FIGURES:
            return ""
        if one.terminal in _MEANING:
            return _MEANING[one.terminal]
    return ""


def _beside(parts: Sequence[Part], at: int, *terminals: str) -> bool:
    return any(one.terminal in terminals for one in parts[max(0, at - 2) : at + 3])


def _is_whole(parts: Sequence[Part], at: int) -> bool:
    """Whether something has it, as a machine has 125 GiB, and not: has it left."""
    before = next((place for place in range(at - 1, max(-1, at - 5), -1) if parts[place].terminal == "HAVE"), None)
    if before is None or parts[before].text.lower() in {"gives", "offers", "got", "headroom", "hole"}:
        return False
    if any(one.terminal in {"FREE", "FREE_IS", "ONLY"} for one in parts[before + 1 : at + 3]):
        return False
    owner = parts[max(0, before - 3) : before]
    return any(one.terminal in {"DEVICE", "HOST", "SHM", "PLACE", "VRAM", "RAM"} for one in owner)


def _is_a_size(parts: Sequence[Part], at: int) -> bool:
    """Whether a bare number is what is said to be a size: "alloc(4294967296)", "size=1073741824", "mmap(0x7f, 64)"."""
    if at > _ADDRESS_BEFORE and parts[at - 1].terminal == "COMMA" and parts[at - 2].terminal == "HEX":
        at -= _ADDRESS_BEFORE
    if at < 2:
        return False
    if parts[at - 1].text.lower() == "size":  # "a buffer of size 8388608", and no context size
        return parts[at - 2].text.lower() in {"of", "for"}
    if parts[at - 1].terminal not in {"COLON", "EQUALS", "PAREN"}:
        return False
    named = parts[at - 2]
    return named.terminal in _GETTING or _SIZED.fullmatch(named.text) is not None


def _of_key(parts: Sequence[Part], at: int) -> str:
    """The unit that the key before a bare number names: "needed blocks = 901"."""
    for one in reversed(parts[max(0, at - 4) : at]):
        if one.terminal in {"COMMA", "STOP", "PAREN_END"} or one.text.lower() == "size":
            return ""
        if one.terminal == "UNIT":
            return _KEYS[one.text.lower().removesuffix("s")]
        if one.terminal == "DEVICES" and one.text.lower() not in {"nodes", "cpus"}:
            return DEVICES
    after = parts[at + 1 : at + 2]
    return _KEYS[after[0].text.lower().removesuffix("s")] if after and after[0].terminal == "UNIT" else ""


def _scale_of_key(parts: Sequence[Part], at: int) -> int:
    """Of what the key before a bare number counts: "required_mib=1820", "free_gb": 11.9."""
    key, *signs = parts[max(0, at - 2) : at] or (None,)
    if key is None or key.terminal != "KEY_UNIT" or any(one.terminal not in {"COLON", "EQUALS"} for one in signs):
        return 0
    return _SCALES[key.text.lower()]


def _counted(parts: Sequence[Part], at: int) -> str:
    """The unit behind a number and what it is said to be: "31 free or evictable slots"."""
    behind = (one for one in parts[at + 1 : at + 2 + _ADJECTIVES] if one.terminal not in _DESCRIBING)
    after = next(behind, None)
    if after is None or after.terminal != "UNIT":
        return ""
    unit = _KEYS[after.text.lower().removesuffix("s")]
    return unit if unit != BYTES else ""


class Comparison(Struct, frozen=True):
    """What was needed beside what there was."""

    needed: Figure
    there: Figure
    taken: float = 0  # of what was there

    @property
    def unit(self) -> str:
        return self.needed.unit or self.there.unit

    @property
    def short(self) -> bool:
        return self.needed.value + self.taken > self.there.value


def comparison(parts: Sequence[Part], amounts: Sequence[Figure]) -> Comparison | None:
    """What the sentence holds against each other: by a word that compares, or by what is needed and what is there."""
    compared = next((found for at, part in enumerate(parts) if (found := _around(part, at, parts, amounts))), None)
    if compared is not None:
        return compared
    needs = [one for one in amounts if one.role == "need"]
    bounds = [one for role in _THERE for one in amounts if one.role == role]
    needs.sort(key=lambda one: not one.unit)
    if needs:
        exceeded = any(part.terminal == "OVER" for part in parts)
        bounds += [one for one in amounts if not one.role and (one.unit == DEVICES or (exceeded and one.unit))]
    else:
        needs = [one for one in amounts if not one.role and bounds and one.at < bounds[0].at and one.value]
        needs = [one for one in needs if one.unit or bounds[0].unit or (one.value >= MIB) == (bounds[0].value >= MIB)]
    for need in needs:
        for bound in sorted(bounds, key=lambda one: one.unit != need.unit):
            if bound is not need and _comparable(need, bound):
                return Comparison(need, bound, _taken(bound, amounts))
    return _overrun(parts, amounts)


def _overrun(parts: Sequence[Part], amounts: Sequence[Figure]) -> Comparison | None:
    """What is in use beside a limit below it, where something could not be done for it."""
    if not any(part.terminal == "CANNOT" for part in parts):
        return None
    used = next((one for one in amounts if one.role == "used"), None)
    limit = next((one for one in amounts if one.role == "limit"), None)
    if used is None or limit is None or not _comparable(used, limit) or used.value <= limit.value:
        return None
    return Comparison(used, limit)


def _taken(bound: Figure, amounts: Sequence[Figure]) -> float:
    if bound.role == "have":
        return 0
    return next((one.value for one in amounts if one.role == "used" and one.unit == bound.unit), 0)


def _around(part: Part, at: int, parts: Sequence[Part], amounts: Sequence[Figure]) -> Comparison | None:
    """The figures on both sides of a word that compares."""
    if part.terminal not in _COMPARING:
        return None
    near = [one for one in amounts if at - _REACH <= one.at < at and _in_one(parts, one.at, at)]
    before = next((one for one in near if one.at == near[-1].at), None)  # the first of "18.4/62.7 GiB"
    behind = [one for one in amounts if at < one.at <= at + _REACH and _in_one(parts, at, one.at)]
    after = _beside_its_share(behind, parts) if behind else None
    if after is None or after.role == "by":
        return None
    if before is None:
        return _behind(part, after, amounts)
    if part.terminal == "LESS" and not (before.role in _THERE or after.role == "need" or before.unit == DEVICES):
        return None
    if part.terminal in {"MUST_NOT_BE_LESS", "LESS"} or (part.terminal == "OVER" and _is_free(before, parts)):
        before, after = after, before
    return Comparison(before, after) if _comparable(before, after) else None


def _beside_its_share(figures: Sequence[Figure], parts: Sequence[Part]) -> Figure:
    """The first of them, or the size of which it is the share: "(0.92, 115.55 GiB)"."""
    first, *others = figures
    is_share = not first.unit and 0 < first.value < 1 and parts[first.at + 1 : first.at + 2]
    if is_share and parts[first.at + 1].terminal == "COMMA" and others and others[0].at == first.at + 2:
        return others[0]
    return first


def _is_free(figure: Figure, parts: Sequence[Part]) -> bool:
    """Whether it is what is said to be free, of which more is better."""
    near = parts[max(0, figure.at - _NEAR) : figure.at]
    return figure.role == "have" and any(one.text.lower() in {"available", "free"} for one in near)


def _behind(part: Part, bound: Figure, amounts: Sequence[Figure]) -> Comparison | None:
    """The figures of "expected at least 4 devices, got 2": the bound, and what there was."""
    there = next((one for one in amounts if one.at > bound.at and one.role == "have"), None)
    if there is None or not _comparable(bound, there):
        return None
    if part.terminal == "MUST_NOT_BE_LESS":
        return Comparison(bound, there)
    return Comparison(there, bound) if part.terminal == "MUST" else None


def _in_one(parts: Sequence[Part], first: int, last: int) -> bool:
    return all(part.terminal != "STOP" for part in parts[first:last])


def _comparable(one: Figure, other: Figure) -> bool:
    if other.role in ("limit", "total") and other.value <= 0:  # "mems_allowed=0"
        return False
    if one.unit == other.unit or {one.unit, other.unit} == {WORKERS, DEVICES}:
        return True
    if BYTES in (one.unit, other.unit):
        if other.role == "have" and not other.value and not other.unit:
            return True
        return all(figure.unit == BYTES or (not figure.unit and figure.value >= MIB) for figure in (one, other))
    return not one.unit or not other.unit


def stated(amounts: Sequence[Figure], compared: Comparison | None, *, asks: bool) -> dict[str, Any]:
    """The figures by the names that an event has for them; a size that no word names is that which was asked for,
    where the sentence speaks of one."""
    found: dict[str, Any] = {}
    if compared is not None:
        found |= _compared(compared)
    for one in amounts:
        if compared is None or one.at not in (compared.needed.at, compared.there.at):
            _put(found, one, one.role)
    sizes = [one for one in amounts if one.unit == BYTES]
    nameless = next((one for one in sizes if not one.role), None)
    if asks and "tried_bytes" not in found and nameless is not None:
        _put(found, nameless, "need")
    others = dict.fromkeys(round(one.value) for one in sizes)
    found["other_bytes"] = tuple(value for value in others if value not in found.values())
    return found


def _compared(them: Comparison) -> dict[str, Any]:
    needed, there = round(them.needed.value), round(them.there.value)
    if them.unit == BYTES or (not them.unit and needed >= MIB):
        role = them.there.role if them.there.role in _THERE else "limit"
        return {"tried_bytes": needed, _NAMES[role]: there}
    counted = {"needed": needed, "available": there}
    return {**counted, "unit": them.unit} if them.unit else counted


_THERE: Final = ("have", "limit", "total")
_NAMES: Final = {
    "need": "tried_bytes", "have": "free_bytes", "used": "used_bytes", "by": "missing_bytes", "total": "total_bytes",
    "limit": "limit_bytes",
}  # fmt: skip


def _put(found: dict[str, Any], one: Figure, role: str) -> None:
    if role not in _NAMES:
        return
    if one.unit == BYTES or (not one.unit and one.value >= MIB):
        found.setdefault(_NAMES[role], round(one.value))
    elif one.unit and role in ("need", *_THERE) and one.value == int(one.value):
        found.setdefault("needed" if role == "need" else "available", int(one.value))
        found.setdefault("unit", one.unit)


__all__ = ["BYTES", "DEVICES", "OF_A_WHOLE", "Comparison", "Figure", "comparison", "figures", "stated"]
