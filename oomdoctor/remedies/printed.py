"""Advice that the log prints and that does not apply here, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families.cuda import AllocatorAdvice, DeviceOutOfMemory
from oomdoctor.families.event import Event
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident.card import card_of
from oomdoctor.incident.model import Crash
from oomdoctor.language import say, semicolons, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import together
from oomdoctor.remedies.advise import ONLY_A_DELAY, remedies
from oomdoctor.remedies.advised import Advised, advised
from oomdoctor.remedies.allocator import no_fragmentation, set_by_a_framework
from oomdoctor.units import show

_THRESHOLD: Final = late(r"adjust the kill threshold")


def rejected_advice(crash: Crash) -> list[tuple[Event, str]]:
    """Each piece of printed advice that the figures speak against."""
    return [*_of_the_allocator(crash), *_of_the_message(crash), *_of_ray(crash)]


def _of_the_allocator(crash: Crash) -> Iterator[tuple[Event, str]]:
    """ "If reserved but unallocated memory is large try ..." is printed always."""
    first = crash.first(DeviceOutOfMemory)
    refusals: dict[tuple[str, int], DeviceOutOfMemory] = {}  # by each of their lines
    for each in crash.every(DeviceOutOfMemory):
        for line in range(each.at.line, each.at.end_line + 1):
            refusals.setdefault((each.at.file, line), each)
    for advice in crash.every(AllocatorAdvice):
        if "WATERMARK" in advice.advises:
            continue
        why = _not_fragmented(crash, advice, refusals.get((advice.at.file, advice.at.line), first))
        if why is not None:
            yield advice, why


def _not_fragmented(crash: Crash, advice: AllocatorAdvice, refusal: DeviceOutOfMemory | None) -> str | None:
    stated = crash.setting("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    if stated is not None and advice.advises.split(":")[0] in str(stated.value):
        return say("already set: {name} at {place}", name=stated.name, place=stated.place)
    if "expandable" in advice.advises:
        why = together.refused("allocator-config", crash) or set_by_a_framework(crash)
        if why is not None:
            return semicolons((why, _would_suffice(crash, refusal))) if refusal is not None else why
    return no_fragmentation(refusal) if refusal is not None else None


def _would_suffice(crash: Crash, refusal: DeviceOutOfMemory) -> str:
    """Where only an engine that the log does not name speaks against the hint."""
    card = card_of(refusal)
    if card.missing_bytes is None or not together.assumed("allocator-config", crash):
        return ""
    unused, free = card.unallocated_bytes or 0, card.free_bytes or 0
    return say(
        "with another engine it may help: {unused} reserved but unused + {free} free = {room}; {tried} requested",
        unused=show(unused),
        free=show(free),
        room=show(unused + free),
        tried=show(card.tried_bytes or 0),
    )


def _of_the_message(crash: Crash) -> Iterator[tuple[Event, str]]:
    """ "Try increasing `gpu_memory_utilization`" where the card has no more to give."""
    for one in advised(crash):
        refused = next((each for each in remedies("", (one.knob,), crash)[1] if each.knob == one.knob), None)
        if refused is not None:
            yield one.event, _against(one, refused.why)


def _against(one: Advised, why: str) -> str:
    what = one.what.lstrip("-")
    if one.turn == "raise":
        return say("do not raise {what}: {why}", what=what, why=why)
    return say("do not lower {what}: {why}", what=what, why=why) if one.turn == "lower" else f"{what}: {why}"


def _of_ray(crash: Crash) -> Iterator[tuple[Event, str]]:
    """ "To adjust the kill threshold, set `RAY_memory_usage_threshold`" stands under every kill."""
    for event in crash.every(NodeOutOfMemory):
        if event.generation is not None and any(_THRESHOLD.search(text) for text in event.around.after):
            yield event, translated(ONLY_A_DELAY)
            return
