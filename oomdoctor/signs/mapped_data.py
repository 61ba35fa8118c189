"""Rows that `datasets` keeps back while it maps a data set: how many wait to be written, and how large they are.

src/datasets/arrow_writer.py at 5.2.0, `ArrowWriter.write`: the rows of a map that is not batched wait as Python objects
until there are `writer_batch_size` of them, in each process; then all of them become one Arrow table.
"""

from __future__ import annotations

from math import prod
from typing import Final

from msgspec import Struct

from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE
from oomdoctor.incident.prints import own_lines, type_stated
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import killed_bare
from oomdoctor.units import show

USUAL_ROWS: Final = 1000  # src/datasets/arrow_dataset.py 5.2.0, Dataset.map and Dataset.filter
_REPORTER: Final = "datasets"
_WAITING: Final = "writer_batch_size"
_BAR: Final = late(r"\d{1,3}%\|[^\n]{0,200}\b\d{1,9}/\d{1,9} ?\[")
_COPIES: Final = 2
_OF_A_MAP: Final = ("smaller-buffers", "fewer-workers", "stream-data", "narrow-dtypes", "smaller-input",
                    "more-host-memory")  # fmt: skip
# Options that say how long an edge of a picture is
_EDGES: Final = ("image_size", "img_size", "imgsz", "crop_size", "resolution", "input_size")
_CHANNELS: Final = 3
_LEAST_EDGE: Final = 32
_BYTES: Final = 4  # float32: what models are fed with
# "pixel_values (3, 224, 224) float32", "input_features: torch.Size([80, 3000])"
_SHAPE: Final = late(
    r"(?i)\b(?:pixel_values|input_(?:features|values)|features?|example|sample|row|image|frames?|spectrogram|waveform)\b"
    r"[^\n(\[]{0,30}(?:\(shape=)?[(\[]{1,2}(?P<shape>\d{1,9}(?:, ?\d{1,9}){1,2})[)\]]"
)
_LENGTH: Final = late(r"\d{1,9}")
_OF_A_FILTER: Final = r"\barrow_dataset\.py filter\b"  # which writes the numbers of rows alone


class Waiting(Struct, frozen=True):
    """The rows that wait in all processes when each of them is about to write."""

    rows: int  # in each process
    processes: int
    row_bytes: int
    row: str  # the formula of a row
    assumed: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        return self.rows * self.processes * self.row_bytes

    @property
    def formula(self) -> str:
        parts = f"{self.rows} x {show(self.row_bytes)}"
        return f"{parts} x {self.processes}" if self.processes > 1 else parts


@sign
def rows_wait_to_be_written(crash: Crash) -> Seen | None:
    """A process of a map died for no printed reason, and rows of the size that the log tells wait for 1 GiB or more;
    or the job in the bar of one, and they wait for half of that, which the table that they become doubles."""
    waiting = waiting_rows(crash)
    if waiting is None or waiting.bytes < (LARGE // _COPIES if killed_bare(crash) else LARGE):
        return None
    words = say(
        "datasets keeps {rows} rows back in each process before it writes them: {formula} = {size} ({row} for a row), "
        "and as much again while they become a table.",
        rows=waiting.rows, formula=waiting.formula, size=show(waiting.bytes), row=waiting.row,
    )  # fmt: skip
    against = (say("no line shows how much memory was in use"), *waiting.assumed)
    return Seen(
        words=joined((words, without_processes())),
        evidence=(crash.root,),
        against=against,
        stage="data_load",
        knobs=_OF_A_MAP,
    )


def without_processes() -> str:
    """What the message of `datasets` advises, and since which release one process is one more."""
    return say(
        "Run it once without processes of its own (leave num_proc out: since datasets 4.1 even 1 starts one): the "
        "error itself then shows."
    )


def waiting_rows(crash: Crash) -> Waiting | None:
    """By the settings and prints of a job one of whose processes died in a map."""
    root = crash.root
    if not isinstance(root, Kill) or crash.in_trace(_OF_A_FILTER) is not None:
        return None
    if root.reporter != _REPORTER and not _was_mapping(crash):
        return None
    row = _row_printed(crash) or _row_of_pictures(crash)
    if row is None:
        return None
    row_bytes, formula, assumed = row
    stated, processes = crash.setting(_WAITING), crash.setting("num_proc", "preprocessing_num_workers")
    rows = stated.whole if stated is not None else None
    if rows is None:
        rows, assumed = USUAL_ROWS, (*assumed, say("writer_batch_size is {rows} (its default)", rows=USUAL_ROWS))
    return Waiting(rows, max(1, (processes.whole if processes is not None else None) or 1), row_bytes, formula, assumed)


def _was_mapping(crash: Crash) -> bool:
    """Whether the job states how many rows wait, and its last line is a bar."""
    if crash.setting(_WAITING) is None or not killed_bare(crash):
        return False
    last = next(own_lines(crash), "")
    return _BAR.search(last) is not None


_Row = tuple[int, str, tuple[str, ...]]  # bytes, the formula, and what was assumed


def _row_printed(crash: Crash) -> _Row | None:
    """By a line of the job's that prints the shape of one."""
    for line in own_lines(crash):
        if (match := _SHAPE.search(line)) is not None:
            return _sized([int(length) for length in _LENGTH.findall(match["shape"])], line, crash)
    return None


def _row_of_pictures(crash: Crash) -> _Row | None:
    """By an option that says how long the edges of a square picture are."""
    stated = crash.setting(*_EDGES)
    edge = stated.whole if stated is not None else None
    if edge is None or edge < _LEAST_EDGE:
        return None
    size, formula, assumed = _sized([_CHANNELS, edge, edge], "", crash)
    return size, formula, (*assumed, say("pictures have {count} channels", count=_CHANNELS))


def _sized(lengths: list[int], line: str, crash: Crash) -> _Row:
    stated = type_stated(line, crash)
    width = stated[0] if stated is not None else None
    assumed = () if width else (say("numbers of {count} bytes (float32)", count=_BYTES),)
    size = prod(lengths) * (width or _BYTES)
    return size, f"{' x '.join(map(str, lengths))} x {width or _BYTES} = {show(size)}", assumed


__all__ = ["USUAL_ROWS", "Waiting", "rows_wait_to_be_written", "waiting_rows", "without_processes"]
