"""Labelled logs of our own: each cause's messages in their versions' wordings, dressed as logs come.

The same seed gives the same logs. Nothing in them was copied from anybody's log.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from oomdoctor.training.generator import on_the_card, on_the_host
from oomdoctor.training.generator.draw import Draw
from oomdoctor.training.generator.other_words import in_other_words
from oomdoctor.training.generator.scene import Recipe, Scene
from oomdoctor.training.generator.surroundings import dressed, healthy, hidden, pasted

NOT_OOM: Final = "not-oom"
HEALTHY: Final = 0.04  # of all logs hold no failure, or one of another kind
HIDDEN: Final = 0.08  # are cut before the error's own words
PASTED: Final = 0.08  # lack their first lines
REWORDED: Final = 0.15  # are in words that no version prints
# A traceback that ends before its words is one of memory more often than not, in what people bring; nobody counted.
HIDDEN_IS_MEMORY: Final = 0.7
# So is a process that is gone without a word.
KILL_IS_MEMORY: Final = 0.75


@dataclass(frozen=True, slots=True)
class Labelled:
    name: str
    text: str
    cause: str
    also: tuple[str, ...] = ()  # causes that a fair judge would accept as well


def recipes() -> tuple[tuple[str, Recipe], ...]:
    """Every recipe with its cause, in a fixed order."""
    found = [*on_the_card.RECIPES.items(), *on_the_host.RECIPES.items()]
    return tuple((cause, recipe) for cause, several in sorted(found, key=_cause) for recipe in several)


def _cause(entry: tuple[str, tuple[Recipe, ...]]) -> str:
    return entry[0]


def logs(count: int, seed: int) -> Iterator[Labelled]:
    """So many labelled logs: all recipes in turn, the rest by lot."""
    known = recipes()
    for number in range(count):
        draw = Draw(random.Random(f"{seed} {number}"))  # noqa: S311  (figures of invented logs, no secret)
        name = f"generated-{seed}-{number:05d}"
        cause, recipe = known[number % len(known)]
        lot = draw.dice.random()
        if lot < HEALTHY:
            yield Labelled(name, healthy(draw), NOT_OOM)
        else:
            yield _failed(draw, name, cause, recipe(draw), hide=lot < HEALTHY + HIDDEN)


def _failed(draw: Draw, name: str, cause: str, scene: Scene, *, hide: bool) -> Labelled:
    if hide and any(line.startswith("Traceback") for line in scene.crash):
        text = hidden(draw, scene)
        return (
            Labelled(name, text, cause, scene.also) if draw.often(HIDDEN_IS_MEMORY) else Labelled(name, text, NOT_OOM)
        )
    if cause == "killed-without-evidence" and not draw.often(KILL_IS_MEMORY):
        return Labelled(name, dressed(draw, scene), NOT_OOM)
    if draw.often(PASTED):
        scene = pasted(draw, scene)
    if draw.often(REWORDED):
        scene = replace(scene, crash=in_other_words(draw, scene.crash))
    return Labelled(name, dressed(draw, scene), cause, scene.also)


__all__ = ["NOT_OOM", "Labelled", "logs", "recipes"]
