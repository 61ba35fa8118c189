"""The JSON Schema of the report, derived from its structs and from the causes, pools and knobs there are."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from oomdoctor.causes import causes
from oomdoctor.job.frameworks import Task, World
from oomdoctor.job.model import SHAPES
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.report.contract import SCHEMA_VERSION, Incident, Report
from oomdoctor.report.vocabulary import BASES, POOLS, ROLES, STAGES
from oomdoctor.signs import Grade

Schema = dict[str, Any]

_SCALARS: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

_SIZE: Final[Schema] = {"type": ["integer", "null"]}
_SHARE: Final[Schema] = {"type": ["number", "null"], "minimum": 0}
_FIGURES: Final[Schema] = {
    "type": "object",
    "patternProperties": {"_bytes$": _SIZE, "(^|_)fraction$": _SHARE},
}


# What stands at the top again, of the first incident.
AGAIN: Final = (
    "diagnoses", "ruled_out", "remedies_rejected", "next_evidence", "gap", "ledger", "timeline", "trajectory",
)  # fmt: skip


def schema() -> Schema:
    """Draft 2020-12. What stands outside the named fields is open: later versions may add to it."""
    defs: dict[str, Schema] = {}
    body = _object(Report, defs)
    again = _object(Incident, defs)["properties"]
    for name in AGAIN:
        body["properties"][name] = again[name]
        body["required"].append(name)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:oomdoctor:report:v{SCHEMA_VERSION}",
        "title": "oomdoctor report",
        **body,
        "$defs": dict(sorted(defs.items())),
    }


def _words() -> Mapping[str, Schema]:
    """Fields that hold one word of a closed list, or several; the same name means the same list everywhere."""
    pools = {"enum": list(POOLS)}
    return {
        "cause": {"enum": [cause.id for cause in causes()]},
        "knob": {"enum": list(KNOBS)},
        "pool": pools,
        "relieves": {"type": "array", "items": pools},
        "spends": {"type": "array", "items": pools},
        "stage": {"enum": list(STAGES)},
        "world": {"enum": list(get_args(World))},
        "task": {"enum": list(get_args(Task))},
        "role": {"enum": list(ROLES)},
        "basis": {"enum": list(BASES)},
        "grade": {"enum": [*(grade.name.lower() for grade in Grade), None]},
    }


def _shapes() -> Mapping[str, Schema]:
    """Fields whose type says less than the contract does."""
    number = {"type": ["integer", "null"]}
    text = {"type": ["string", "null"]}
    whole = {"type": "integer"}
    outlook = {
        "limit_bytes": whole, "count": whole, "count_low": whole, "count_high": whole, "derivation": {"type": "string"},
    }  # fmt: skip
    return {
        "schema_version": {"const": SCHEMA_VERSION},
        "tool": _plain_object({"name": {"const": "oomdoctor"}, "version": {"type": "string"}}),
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "line": {"type": ["integer", "null"], "minimum": 1},
        "usage": _FIGURES,
        "threshold": _FIGURES,
        "process": _plain_object(
            {"pid": number, "name": text, "role": text, "rank": number, "node": text, "gpu": number}
        ),
        "context": _plain_object(
            {
                "frameworks": {"type": "object", "additionalProperties": text},
                "settings": {
                    "type": "object",
                    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
                },
                "models": {"type": "array"},
                "hardware": {"type": "object"},
            }
        ),
        "trajectory": {
            "anyOf": [
                {"type": "null"},
                _plain_object(
                    {
                        "what": {"type": "string"},
                        "pool": {"enum": list(POOLS)},
                        "growth_bytes": number,
                        "per": {"enum": ["step", "second", "print"]},
                        "points": {
                            "type": "array",
                            "items": _plain_object(
                                {"step": number, "bytes": {"type": "integer"}, "line": {"type": "integer"}},
                                text={"type": "string"},
                            ),
                        },
                    },
                    shape={"enum": list(SHAPES)},
                    growth_low_bytes=number,
                    growth_high_bytes=number,
                    assumed_unit={"type": "string"},
                    full={"anyOf": [{"type": "null"}, _plain_object(outlook)]},
                ),
            ]
        },
    }


def _plain_object(properties: Mapping[str, Schema], **optional: Schema) -> Schema:
    return {"type": "object", "properties": {**properties, **optional}, "required": list(properties)}


def _object(kind: type[Struct], defs: dict[str, Schema]) -> Schema:
    known = {**_words(), **_shapes()}
    hints = get_type_hints(kind)
    names = kind.__struct_fields__
    return {
        **_described(kind),
        "type": "object",
        "properties": {name: known.get(name) or _of(hints[name], defs) for name in names},
        "required": list(names),
    }


def _described(kind: type) -> Schema:
    return {"description": kind.__doc__.split("\n\n")[0]} if kind.__doc__ else {}


def _of(hint: Any, defs: dict[str, Schema]) -> Schema:
    if isinstance(hint, type) and issubclass(hint, Struct):
        if hint.__name__ not in defs:
            defs[hint.__name__] = {}  # an object may hold others of its kind
            defs[hint.__name__] = _object(hint, defs)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0], defs)}
    if origin in (Union, types.UnionType):
        return _either(arguments, defs)
    return {"type": "object"}


def _either(kinds: Sequence[Any], defs: dict[str, Schema]) -> Schema:
    if all(kind in _SCALARS for kind in kinds):
        return {"type": [_SCALARS[kind] for kind in kinds]}
    return {"anyOf": [_of(kind, defs) for kind in kinds]}
