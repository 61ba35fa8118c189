"""How large an axis of the refused array is, by the name that the failing line has for it: `np.zeros((steps, n_envs))`.

The message prints a shape and the line prints names; where one of them is what a knob is called by, it states the knob.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Setting
from oomdoctor.language import say
from oomdoctor.remedies import shapes
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.proposal import Case, Proposal
from oomdoctor.units import show

_OPTION: Final = re.compile(r"\b(\w{1,60})=\{\}")
_LENGTH: Final = re.compile(r"\d{1,20}")


def lengths_of(shape: str) -> list[int]:
    return [int(length) for length in _LENGTH.findall(shape)]


def names(lengths: list[int], crash: Crash) -> Mapping[int, str]:
    """The axes that the innermost source line names, in the first tuple that it hands to a call."""
    frame = next(iter(crash.frames()), None)
    source = shapes.source(frame.code) if frame is not None else None
    if source is None:
        return {}
    calls = (node for node in ast.walk(source.statement) if isinstance(node, ast.Call) and node.args)
    tuples = [_begin(call.args[0]) for call in calls]
    return next((found for parts in tuples if (found := _named(lengths, parts))), {})


def _begin(argument: ast.expr) -> list[ast.expr]:
    """The parts of a tuple, of which `(a, b) + rest` only shows the first."""
    if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Add) and isinstance(argument.left, ast.Tuple):
        return [*argument.left.elts, ast.Starred(argument.right)]
    return argument.elts if isinstance(argument, ast.Tuple | ast.List) else []


def _named(lengths: list[int], parts: list[ast.expr]) -> Mapping[int, str]:
    """None where the tuple has other axes; a `*rest` hides which one stands behind it."""
    rest = next((place for place, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
    if rest is None and len(parts) != len(lengths):
        return {}
    known = list(enumerate(parts[:rest]))[: len(lengths)]
    return {place: ast.unparse(part) for place, part in known if isinstance(part, ast.Name | ast.Attribute)}


def now(knob: str, crash: Crash) -> Setting | None:
    """What the knob is set to, where it is an axis of the array that found no room."""
    refused = crash.root
    if not isinstance(refused, HostAllocation) or not refused.shape:
        return None
    lengths = lengths_of(refused.shape)
    called = ((name.rpartition(".")[2], lengths[place]) for place, name in names(lengths, crash).items())
    known = ((name, length) for name, length in called if name in KNOBS[knob].settings and length > 1)
    return next((Setting(name, length, refused.at.file, refused.at.line) for name, length in known), None)


def fewer(case: Case) -> Proposal | None:
    """Half of the axis, and what the array takes then."""
    refused, stated = case.crash.root, now(case.knob, case.crash)
    if stated is None or case.now != stated or not isinstance(refused, HostAllocation) or stated.whole is None:
        return None
    whole, then = stated.whole, stated.whole // 2
    option = _OPTION.search(case.row.write) if case.row is not None else None
    return Proposal(
        action=say(
            "Halve {name}: {now} -> {then} (an axis of the array of {shape})",
            name=option[1] if option else stated.name, now=whole, then=then, shape=refused.shape or "",
        ),
        current=whole,
        suggested=then,
        derivation=_left(whole, then, refused.tried_bytes),
        subject=stated.name,
    )  # fmt: skip


def _left(whole: int, then: int, size: int | None) -> str:
    if size is None:
        return f"{whole} / 2 = {then}"
    return f"{show(size)} x {then} / {whole} = {show(size * then / whole)}"


__all__ = ["fewer", "lengths_of", "names", "now"]
