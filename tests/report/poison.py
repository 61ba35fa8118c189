"""A report in which all that a log may have said is something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from oomdoctor.job.particulars import NAMES

# What comes from closed lists of ours, and ids.
OURS = frozenset({
    "verdict", "cause", "pool", "stage", "basis", "role", "family", "kind", "knob", "knobs", "event", "events",
    "id", "tool", "schema_version", "relieves", "spends", "alone", "together", "fingerprint", "reference",
})  # fmt: skip


def poisoned(value: Any, poison: Callable[[str], str]) -> Any:
    """A copy with every string poisoned that is not from a list of ours; of mappings the names, too."""
    if isinstance(value, msgspec.Struct):
        changed = {
            field: poisoned(getattr(value, field), poison)
            for field in value.__struct_fields__
            if field not in OURS or field == "events"
        }
        return msgspec.structs.replace(value, **changed)
    return _poisoned(value, poison)


def _poisoned(value: Any, poison: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return poison(value)
    if isinstance(value, Mapping):
        return {_name(name, poison): item if name in OURS else poisoned(item, poison) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(poisoned(item, poison) for item in value)
    return value


# The names that the report itself gives
_GIVEN = frozenset({
    "frameworks", "settings", "models", "hardware", "exit_codes", "progress", "processes", "memory", "outside",
    "pid", "name", "role", "rank", "node", "gpu", "what", "pool", "growth_bytes", "per", "points", "step", "bytes",
    "line", "text", "layer", "particulars", *NAMES,
})  # fmt: skip


def _name(name: str, poison: Callable[[str], str]) -> str:
    return name if name in _GIVEN or name.endswith("_bytes") else poison(name)
