"""Which dimension of a shape that no machine can hold is the wrong one, and what the failing line calls it."""

from __future__ import annotations

import ast
import re
from typing import Final

from oomdoctor.families.array_dumps import ProgramBuffer
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies import shapes
from oomdoctor.remedies.proposal import Answer, Case, Proposal
from oomdoctor.signs.arrays import arguments_of_many_devices, most_padded
from oomdoctor.signs.sizes import overflowed_request
from oomdoctor.units import show

FAR: Final = 1000  # times the next dimension: nobody means both
_LENGTH: Final = re.compile(r"\d{1,20}")


def fix_shape(case: Case) -> Answer:
    padded = most_padded(case.crash)
    if padded is not None:
        return _filled_tiles(padded)
    if arguments_of_many_devices(case.crash) is not None:
        return _of_arguments(case.crash)
    if (found := overflowed_request(case.crash)) is not None:
        return Proposal(
            action=say(
                "Do it in pieces below 2 GiB ({meant} overflowed), or try the program's latest release and report it",
                meant=show(found[1]),
            ),
            subject=say("a size of 32 bits"),
        )
    shape = getattr(case.crash.root, "shape", None)
    if not shape:
        return None
    lengths = [int(length) for length in _LENGTH.findall(shape)]
    axis = _outstanding(lengths)
    if axis is None:
        return Proposal(action=say("Check the requested shape {shape}: one dimension is wrong", shape=shape))
    name = _name_of(axis, lengths, case.crash)
    if name is None:
        action = say(
            "Check dimension {number} of the requested shape {shape}: it is {length}",
            number=axis + 1,
            shape=shape,
            length=lengths[axis],
        )
        return Proposal(action=action)
    return Proposal(
        action=say(
            "Lower {name}: it is {length}, dimension {number} of the requested shape {shape}",
            name=name,
            length=lengths[axis],
            number=axis + 1,
            shape=shape,
        ),
        subject=name,
    )


def _filled_tiles(padded: ProgramBuffer) -> Proposal:
    """XLA keeps an array of a TPU in tiles over its last two axes: openxla.org/xla/tiled_layout."""
    layout = f"T({padded.tile})" if padded.tile else say("of its layout")
    return Proposal(
        action=say(
            "Reshape or transpose {shape} so that its last two axes fill the tiles {layout}: the longest axis last",
            shape=padded.shape,
            layout=layout,
        ),
        derivation=f"{show(padded.bytes or 0)} -> {show(padded.unpadded_bytes or 0)}",
        subject=padded.shape,
    )


def _of_arguments(crash: Crash) -> Proposal:
    """docs.jax.dev, jax.tree.map and jax.numpy.shape."""
    in_jax = isinstance(crash.root, ArrayOutOfMemory) and crash.root.framework == "jax"
    return Proposal(
        action=say("Print the shapes of what the compiled function is given: one of them is wrong or belongs in parts"),
        snippet="print(jax.tree.map(jax.numpy.shape, ARGUMENTS))" if in_jax else None,
    )


def _outstanding(lengths: list[int]) -> int | None:
    """The one dimension that is far longer than all others."""
    longest, *others = sorted(lengths, reverse=True) or [0]
    return lengths.index(longest) if longest >= FAR * max([1, *others]) else None


def _name_of(axis: int, lengths: list[int], crash: Crash) -> str | None:
    """What stands at that place of the tuple that the innermost source line passes first: `np.zeros((rows, 3))`."""
    frame = next(iter(crash.frames()), None)
    source = shapes.source(frame.code) if frame is not None else None
    if source is None:
        return None
    calls = (node for node in ast.walk(source.statement) if isinstance(node, ast.Call) and node.args)
    tuples = (call.args[0] for call in calls if isinstance(call.args[0], ast.Tuple | ast.List))
    return next((name for each in tuples if (name := _at(axis, lengths, each.elts)) is not None), None)


def _at(axis: int, lengths: list[int], parts: list[ast.expr]) -> str | None:
    """The name of the part; None where it is no name, or where a `*rest` before it hides which one it is."""
    rest = next((place for place, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
    fits = len(parts) == len(lengths) if rest is None else axis < rest
    if not fits or not isinstance(parts[axis], ast.Name | ast.Attribute):
        return None
    return ast.unparse(parts[axis])


__all__ = ["FAR", "fix_shape"]
