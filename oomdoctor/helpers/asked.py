"""What a field of a form asks for, told from its id, label, description and placeholder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from oomdoctor.helpers.forms import Field
from oomdoctor.patterns import late

# What the report can answer. A field that asks for anything else is left to the person.
TOPICS: Final = ("happened", "diagnosis", "log", "settings", "versions", "hardware", "model", "when")

_READ: Final = 2000  # characters of a field's description

# In this order: a field that asks for two things is taken for the first.
_ASKS: Final = (
    ("diagnosis", late(r"\boomdoctor\b|\bdiagnosis\b")),
    (
        "happened",
        late(
            r"what (?:has )?happened|what happens|describe the|what is the (?:bug|problem|issue)|what went wrong"
            r"|(?:bug|problem|issue|crash) description|description of the|(?:current|actual|observed) behaviou?r"
            r"|^(?:description|summary|the bug|problem|bug|issue|details)$"
        ),
    ),
    (
        "",
        late(
            r"expected|expect to|who can help|severity|\bimpact\b|affect|check ?list|conduct|before (?:submitting|you)"
            r"|search|duplicate|existing issue|contact|e-?mail|willing|contribut|pull request|proposal|propose"
            r"|solution|workaround|alternative|motivation|screenshot|regression|frequency|how often|priority|component"
        ),
    ),
    (
        "log",
        late(
            r"\blogs?\b|trace ?back|stack ?trace|error (?:message|output|report)|(?:console|terminal) output|^errors?$"
        ),
    ),
    ("reproduction", late(r"reproduc|\brepro\b|\bsteps to\b|minimal example")),
    (
        "settings",
        late(
            r"\bscripts?\b|\blaunch\b|\bcommand\b|command line|\bconfig|\bsettings\b"
            r"|parameters|arguments|hyper-?params|\bhow (?:do|did) you (?:run|start)|\brecipe\b"
        ),
    ),
    ("versions", late(r"environment|system info|\benv\b|collect.env|\bversions?\b|dependenc|software|\bpackages\b")),
    ("hardware", late(r"hardware|\bgpus?\b|accelerators?\b|\bram\b|\bmachines?\b|\bnodes?\b|\bcluster\b")),
    ("model", late(r"\bmodels?\b")),
    ("when", late(r"\bwhen\b|\bat which (?:step|stage|point)|\bstage\b|\bphase\b|\btraining step\b")),
    ("more", late(r"additional|anything else|other (?:info|context|details)|further|more (?:info|context)|^notes?$")),
)

# Where an answer goes that no field asks for by itself, the best place first; "" is a section of its own.
_OTHERWISE: Final[Mapping[str, Sequence[str]]] = {
    "happened": ("more", "diagnosis", "log", "reproduction", "settings", ""),
    "diagnosis": ("more", "happened", "log", "reproduction", "settings", ""),
    "log": ("happened", "more", "reproduction", "settings", ""),
    "settings": ("reproduction", "happened", "more"),
    "versions": ("happened", "more"),
    "hardware": ("versions", "happened", "more"),
    "model": ("versions", "happened", "more"),  # not the hardware's: "GPU model" asks for a card
    "when": (),
}
_LONG: Final = frozenset({"happened", "diagnosis", "log"})  # these do not go into another answer's code block


def topic(field: Field) -> str | None:
    """What it asks for; None where nothing tells, "" where it asks for what no log holds."""
    named = f"{(field.id or '').replace('_', ' ').replace('-', ' ')}\n{_bare(field.label)}".lower()
    for text in (named, f"{field.description[:_READ]}\n{field.placeholder[:_READ]}".lower()):
        for name, asks in _ASKS:
            if any(asks.search(line.strip()) for line in text.split("\n")):
                return name
    return None


def _bare(label: str) -> str:
    """Without the marks of a heading, an emoji before it and what stands in brackets behind it."""
    words = label.strip().lstrip("#*").rstrip("*:?").strip()
    while words and not words[0].isalnum():
        words = words[1:]
    return words.split(" (")[0]


def places(fields: Sequence[Field]) -> dict[str, int | None]:
    """Which field answers each topic, by its number; None: a section of its own. A topic with no place is missing."""
    asked: dict[str, int] = {}
    for number, field in enumerate(fields):
        wanted = topic(field) if field.kind in ("input", "textarea") else None
        # one line holds no log
        if wanted and wanted not in asked and (field.kind == "textarea" or wanted in ("model", "hardware", "when")):
            asked[wanted] = number
    found: dict[str, int | None] = {name: asked[name] for name in TOPICS if name in asked}
    free = {name for name, number in asked.items() if fields[number].kind == "textarea" and not fields[number].render}
    for name in TOPICS:
        if name not in found:
            taking = free if name in _LONG else asked.keys()
            at = next((other for other in _OTHERWISE[name] if other in taking or not other), None)
            if at is not None:
                found[name] = asked.get(at)
    return found
