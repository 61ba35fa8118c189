"""What the innermost frames make in one piece: which array of which library did not fit, and what its size depends on.

The functions stand in made.txt, whose head says what its columns mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from math import isqrt
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families.event import Frame
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.trace import asked, card, refusal
from oomdoctor.units import cut_off, show

# What the size of each kind depends on
KINDS: Final[Mapping[str, str]] = {
    "picture": mark("It is as large as the image: the batch size does not matter."),
    "masks": mark("It is as large as the image for each object in it: the batch size does not matter."),
    "output": mark("It is as large as the whole input: smaller windows, or fewer of them at once, change nothing."),
    "frames": mark("It holds every frame of the batch: half as many take half as much."),
    "square": mark("It has a row and a column for each node: twice as many nodes take four times as much."),
    "unknowns": mark("It has a row and a column for each unknown: twice as many unknowns take four times as much."),
    "pairs": mark("It has a value for every pair: half as many on one side take half as much."),
    "boxes": mark("It has a value for every pair of boxes of an image: images with many boxes take most."),
    "suppression": mark("It has a value for every pair of boxes of an image: images with many boxes take most."),
    "pixels": mark(
        "It has a value for every pair of pixels of two feature maps: half the width and height take a sixteenth."
    ),
    "gradients": mark(
        "It holds the gradients of all parameters that are trained, and is there before the first step: the batch size "
        "does not matter."
    ),
    "plan": mark("The library requests it for each plan that is made."),
    "layout": mark("It is laid out before the first step."),
    "merge": mark(
        "Two tensors of different shapes were broadcast against each other: the models are of different kinds."
    ),
}
# What to change, best first
KNOBS: Final[Mapping[str, tuple[str, ...]]] = {
    "picture": ("smaller-input", "free-the-gpu"),
    "masks": ("cap-primitives", "smaller-input", "free-the-gpu"),
    "output": ("tiled-processing", "smaller-input", "free-the-gpu"),
    "frames": ("smaller-buffers", "smaller-input"),
    "square": ("smaller-input", "smaller-partitions"),
    "unknowns": ("smaller-partitions", "smaller-input"),
    "pairs": ("smaller-microbatch", "smaller-input"),
    "boxes": (
        "offload-activations",
        "cap-primitives",
        "smaller-input",
        "smaller-microbatch",
        "gradient-checkpointing",
        "mixed-precision",
    ),
    "suppression": ("cap-primitives", "smaller-input", "smaller-microbatch"),
    "pixels": ("smaller-input", "smaller-microbatch"),
    "gradients": ("shard-states", "lora", "mixed-precision", "smaller-model", "more-gpus"),
    "plan": ("clear-references", "smaller-input", "free-the-gpu"),
    "layout": ("smaller-input", "free-the-gpu"),
    "merge": ("fix-shape",),
}
# Where host memory was refused: in pieces, and each value in fewer bytes
IN_BLOCKS: Final = ("smaller-partitions", "narrow-dtypes", "smaller-input", "spill-to-disk", "more-host-memory")
_FRAME: Final = "frame"
_NO_FRAMES: Final = ("message", "lines")
OF_ONE_INPUT: Final = ("picture", "masks", "output")
_OF_PAIRS: Final = ("square", "pairs", "boxes", "suppression", "pixels")
DEPTH: Final = 4  # frames: behind these another part of the program is at work
# What runs a network, or copies an input to check it: which array failed says nothing of who called it
_OF_ITS_OWN: Final = late(r"(?:^|/)(?:torch/nn/modules/module|sklearn/utils/validation)\.py$")
_IN_BLOCKS_ALREADY: Final = r"\bpairwise_distances_chunked\b"
_LENGTH: Final = late(r"\d+")
FLOAT32: Final = 4  # bytes: PyTorch's default
DIGITS: Final = 3  # of a number of nodes that is computed: the printed size has no more
# Lengths of a weight are multiples of it
_OF_A_WEIGHT: Final = 64
_BROADCAST: Final = 4  # axes: a kernel of 1 x 1 pixels against a matrix, each with its own two
_WIDTHS: Final = (2, 4)  # bytes of an element of a checkpoint


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """When a frame asks for it: few logs have one that any of the rows is about."""
    return re.compile(expression)


class Row(Struct, frozen=True):
    """One row of the table."""

    what: str
    kind: str
    where: str  # "frame", or what else its code stands in
    files: str  # an expression; empty: a call of any file, in the innermost line
    functions: str
    code: str
    knob: str
    instead: str

    def fits(self, frame: Frame, *, innermost: bool) -> bool:
        """Whether it is about this frame."""
        known = _compiled(self.files).search(f"/{frame.path}") is not None if self.files else innermost
        if not known or _compiled(self.functions).fullmatch(frame.function.rpartition(".")[2].strip("_")) is None:
            return False
        return not self.code or _compiled(self.code).search(frame.code) is not None


class Made(Struct, frozen=True):
    """The array that did not fit."""

    row: Row
    function: str

    @property
    def kind(self) -> str:
        return self.row.kind

    @property
    def what(self) -> str:
        return translated(self.row.what)


@cache
def table() -> tuple[Row, ...]:
    return tuple(_rows())


def _rows() -> Iterator[Row]:
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    next(lines)
    for what, kind, files, functions, code, knob, instead, _source in map(_cells, lines):
        yield Row(
            what=what,
            kind=kind,
            where=files if files in _NO_FRAMES else _FRAME,
            files=_files(files.split()) if files and files not in _NO_FRAMES else "",
            functions="|".join(map(_name, functions.split())),
            code=code,
            knob=knob or KNOBS[kind][0],
            instead=instead,
        )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r" \|(?= |\Z)", line)]  # an expression has no blank beside its strokes


def _files(parts: list[str]) -> str:
    ends = (re.escape(part) + ("" if part.endswith("/") else r"\Z") for part in parts)
    return rf"/(?:{'|'.join(ends)})"


def _name(name: str) -> str:
    if name == "*":
        return ".*"  # also a module, a lambda or a comprehension
    return re.escape(name).replace(r"\*", r"\w{0,60}")


def made_of(crash: Crash) -> Made | None:
    """What the message, the innermost frames or the lines near it say was made, as far as the table knows it."""
    if made_of not in crash.seen:
        crash.seen[made_of] = _of_the_message(crash) or _of_frames(crash) or _of_lines(crash)
    found: Made | None = crash.seen[made_of]
    return found


def _of_the_message(crash: Crash) -> Made | None:
    return next(_told("message", crash.root.at.text), None)


def _of_lines(crash: Crash) -> Made | None:
    """What a library did that was refused itself, in a traceback that is not Python's."""
    if not isinstance(crash.root, LibraryOutOfMemory):
        return None
    return next((found for line in crash.root.around.after for found in _told("lines", line)), None)


def _told(where: str, line: str) -> Iterator[Made]:
    rows = (row for row in table() if row.where == where and row.code)
    yield from (Made(row, hit[1]) for row in rows if (hit := _compiled(row.code).search(line)) is not None)


def _of_frames(crash: Crash) -> Made | None:
    for depth, frame in enumerate(islice(crash.frames(), DEPTH)):
        row = _row(frame, innermost=depth == 0)
        if row is not None:
            return Made(row, frame.function) if _is_of(row.kind, crash) else None
        if _OF_ITS_OWN.search(frame.path):
            return None
    return None


def _is_of(kind: str, crash: Crash) -> bool:
    """What the frame does not tell of an array of this kind."""
    if kind == "frames":
        return isinstance(crash.root, HostAllocation)  # a GPU takes them in tiles
    return kind != "pairs" or _may_be_of_pairs(crash)


def _may_be_of_pairs(crash: Crash) -> bool:
    """Not of a printed shape with one axis, or with one of length 1, which is one row against all others, and not where
    they come in blocks already."""
    shape = crash.root.shape if isinstance(crash.root, HostAllocation) else None
    lengths = _LENGTH.findall(shape or "")
    return (not shape or (len(lengths) > 1 and "1" not in lengths)) and crash.in_trace(_IN_BLOCKS_ALREADY) is None


@lru_cache(maxsize=4096)  # causes ask for each of their signs
def _row(frame: Frame, *, innermost: bool) -> Row | None:
    return next((row for row in table() if row.where == _FRAME and row.fits(frame, innermost=innermost)), None)


def _of(crash: Crash, *kinds: str) -> Made | None:
    found = made_of(crash)
    return found if found is not None and found.kind in kinds else None


@sign
def of_one_input(crash: Crash) -> Seen | None:
    """The array belongs to one picture or to one whole input, whatever the batch is."""
    found = _of(crash, *OF_ONE_INPUT)
    return _seen(crash, found) if found is not None else None


@sign
def of_all_pairs(crash: Crash) -> Seen | None:
    """The array has a value for every pair of what goes in."""
    found = _of(crash, *_OF_PAIRS)
    return _seen(crash, found) if found is not None else None


@sign
def of_all_pairs_in_ram(crash: Crash) -> Seen | None:
    """The same of an array that host memory was refused for, in which no batch of a network is."""
    seen = of_all_pairs(crash) if crash.first(HostAllocation) is not None else None
    return replace(seen, knobs=IN_BLOCKS) if seen is not None else None


@sign
def of_all_gradients(crash: Crash) -> Seen | None:
    """The array holds the gradients of a whole model, which was being prepared for its ranks."""
    found = _of(crash, "gradients")
    return _seen(crash, found) if found is not None else None


@sign
def of_a_plan(crash: Crash) -> Seen | None:
    """A library for Fourier transforms was refused what its plan works in."""
    found = _of(crash, "plan")
    return _seen(crash, found) if found is not None and isinstance(crash.root, LibraryOutOfMemory) else None


@sign
def of_a_layout(crash: Crash) -> Seen | None:
    """A simulation was refused an array that it lays out before its first step, and names it."""
    found = _of(crash, "layout")
    return _seen(crash, found) if found is not None else None


@sign
def as_large_as_all_pairs(crash: Crash) -> Seen | None:
    """A size that looks wrong is what a value for every pair takes."""
    if _of(crash, *_OF_PAIRS) is None:
        return None
    return Seen(words=say("a value for every pair takes as much with enough of them: no shape is wrong"))


@sign
def of_two_models(crash: Crash) -> Seen | None:
    """Two checkpoints were merged, and the result of two of their tensors is larger than any weight."""
    found, event = _of(crash, "merge"), crash.root
    if found is None or not isinstance(event, HostAllocation) or event.tried_bytes is None or event.tried_bytes <= 0:
        return None
    broadcast = as_broadcast(event.tried_bytes)
    if broadcast is None:
        return None
    length, width = broadcast
    words = say(
        "{size} were requested for one merged weight: {length}^{axes} x {width} bytes, as of a {length} x {length} x 1 "
        "x 1 kernel against a {length} x {length} matrix.",
        size=show(event.tried_bytes),
        length=length,
        axes=_BROADCAST,
        width=width,
    )
    return Seen(words=joined((words, translated(KINDS["merge"]))), evidence=(event,), knobs=KNOBS["merge"])


def as_broadcast(size: int) -> tuple[int, int] | None:
    """The length of each of four equal axes and the bytes of an element, where exactly these give the size."""
    for width in _WIDTHS:
        length = isqrt(isqrt(size // width))
        if length % _OF_A_WEIGHT == 0 and length**_BROADCAST * width == size:
            return length, width
    return None


def _seen(crash: Crash, found: Made) -> Seen:
    it = card(crash)
    what, function = found.what, found.function
    told = (
        say("{function} makes {what}: {asked}.", what=what, function=function, asked=asked(it))
        if found.row.where == _FRAME
        else say("There was no room for {what} ({function}): {asked}.", what=what, function=function, asked=asked(it))
    )
    words = joined((told, translated(KINDS[found.kind]), _as_nodes(crash, found) or ""))
    return Seen(words=words, evidence=(refusal(crash) or crash.root,), knobs=knobs_of(found.row))


def knobs_of(row: Row) -> tuple[str, ...]:
    """Those of its kind, and first what is known of the function itself."""
    return tuple(dict.fromkeys((row.knob, *KNOBS[row.kind]))) if row.instead else KNOBS[row.kind]


def _as_nodes(crash: Crash, found: Made) -> str | None:
    nodes = nodes_of(crash)
    if nodes is None or found.kind != "square":
        return None
    return say(
        "About {count} nodes = sqrt({size} / {width} bytes), if it is float32 and of one graph.",
        count=f"{nodes:,}",
        size=show(card(crash).tried_bytes or 0),
        width=FLOAT32,
    )


def nodes_of(crash: Crash) -> int | None:
    """How many rows and columns the dense matrix of one graph has, where the log prints its size on a GPU."""
    size = card(crash).tried_bytes
    if _of(crash, "square") is None or crash.pool != "gpu" or not size:
        return None
    return cut_off(isqrt(size // FLOAT32), DIGITS)


def nodes_that_fit(crash: Crash) -> tuple[int, int] | None:
    """How many rows and columns of such a matrix have room in what is free, and that."""
    free = card(crash).free_bytes
    if nodes_of(crash) is None or not free:
        return None
    return cut_off(isqrt(free // FLOAT32), DIGITS), free
