"""Which dimension of a shape that no machine can hold is the wrong one, and what the failing line calls it."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.array_dumps import ProgramBuffer
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies import axes
from oomdoctor.remedies.proposal import Answer, Case, Proposal
from oomdoctor.signs.arrays import arguments_of_many_devices, most_padded
from oomdoctor.signs.broadcasts import Broadcast, broadcast, in_words
from oomdoctor.signs.calendar import BEGIN, DAY, Range, since_1970
from oomdoctor.signs.sizes import overflowed_request
from oomdoctor.units import show

FAR: Final = 1000  # times the next dimension: nobody means both


def fix_shape(case: Case) -> Answer:
    spread = broadcast(case.crash)
    if spread is not None:
        return _of_a_loss(spread)
    if (range_of_times := since_1970(case.crash)) is not None:
        return _of_a_stamp(range_of_times)
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
    lengths = axes.lengths_of(shape)
    axis = _outstanding(lengths)
    if axis is None:
        return Proposal(action=say("Check the requested shape {shape}: at least one dimension is wrong", shape=shape))
    name = axes.names(lengths, case.crash).get(axis)
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


def _of_a_loss(spread: Broadcast) -> Proposal:
    return Proposal(
        action=say(
            "Give the loss a target of its input's shape {shape}, not {target}",
            shape=in_words(spread.input),
            target=in_words(spread.target),
        ),
        snippet="target = target.view_as(input)" if spread.is_of_one_length else None,
        subject="target",
    )


def _of_a_stamp(times: Range) -> Proposal:
    begin = BEGIN.isoformat()
    days = (
        say(
            "{rows} s / {day} s = {days} days after {begin}: {end}",
            rows=f"{times.rows:,}", day=f"{DAY:,}", days=f"{times.rows // DAY:,}", begin=begin,
            end=times.end.isoformat(),
        )
        if times.end is not None
        else None
    )  # fmt: skip
    return Proposal(
        action=say("Leave out or mend the rows stamped {begin}: the range begins there", begin=begin),
        snippet=f'df = df[df.index > "{begin}"]',
        derivation=days,
        subject=begin,
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


__all__ = ["FAR", "fix_shape"]
