"""What the harnesses run on any bytes, each with what must hold of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from fuzz.checks import unsafe
from oomdoctor import families, grammars, reading, scan, streams
from oomdoctor.redaction import Redactor
from oomdoctor.text import disarm

Target = Callable[[bytes], None]

# So small that a few hundred bytes have windows, seams and slices of their own.
WINDOWS = {
    "BEFORE": 64, "AFTER": 48, "HEAD": 64, "TAIL": 64, "SMALL": 160, "LARGEST": 600, "CHUNK": 256, "IN_LINE": 40,
    "_REACH": 96, "PLENTY": 2048, "NEAR": 16, "HITS_PER_DISTANCE": 4,
}  # fmt: skip
# Drawn by lot; nobody's
TOKEN = "hf_" + "qV7dXkzRw2LmNcBp" + "9sTgYhUjEa4oIfKtZx"


@contextmanager
def small_windows() -> Iterator[None]:
    with ExitStack() as patches:
        for name, value in WINDOWS.items():
            patches.enter_context(patch.object(scan, name, value))
        yield


def run_scan(data: bytes) -> None:
    """The same slices however the bytes come; each where it says it is, every anchor's line in one of them."""
    step = 1 + (data[0] if data else 0)
    with small_windows():
        whole = list(scan.slices([data], reading.anchors()))
        cut = list(scan.slices((data[at : at + step] for at in range(0, len(data), step)), reading.anchors()))
    assert whole == cut, "the slices depend on the blocks"
    at = 0
    for piece in whole:
        at = _place(data, piece, at)
    assert not data or data.endswith(whole[-1].data), "the tail is missing"


def _place(data: bytes, piece: scan.Slice, at: int) -> int:
    """Where the slice stands: not before the one before it, and in the line that it says."""
    while (at := data.find(piece.data, at)) >= 0:
        if data.count(b"\n", 0, at) + 1 == piece.first_line:
            return at
        at += 1
    raise AssertionError("a slice does not stand where it says")


def run_streams(data: bytes) -> None:
    """Clean lines in their order, none longer than a reader takes, and nothing in them that a terminal obeys."""
    page = streams.page("job.log", 7, data)
    last = 7 + data.count(b"\n")
    before = 7
    for line in page.lines:
        assert before <= line.number <= line.end <= last, "lines out of order"
        before = line.number
        assert len(line.text) <= streams.LONGEST_LINE
        assert len(line.raw) <= streams.LONGEST_QUOTE
        assert not unsafe(line.raw) - {"\t"}, "a quote is not safe"
        assert not unsafe(line.text) - {"\t", "\r"}, "a line is not safe"
    for found in families.read(page):
        assert 7 <= found.at.line <= found.at.end_line <= last, "an event outside of its page"


def run_grammar(name: str) -> Target:
    """The clauses of a text, in their order and with values that stand in it; and what the family makes of them."""
    family = next((family for family in families.families() if family.name == name), None)

    def run(data: bytes) -> None:
        text = disarm(data.decode("utf-8", "replace"))[:4000]
        at = 0
        for _, values in grammars.said(name, text):
            for value in values:
                at = text.index(value, at) + len(value)
        page = streams.page("job.log", 1, text.encode())
        for index, line in enumerate(page.lines if family else ()):
            if family and any(trigger in line.text for trigger in family.triggers):
                list(family.read(page, index))

    return run


def run_redactor(data: bytes) -> None:
    """As many lines as before, and of a token that stands alone nothing."""
    text = disarm(data.decode("utf-8", "replace"))
    half = text.rfind("\n", 0, len(text) // 2) + 1
    planted = f"{text[:half]}token={TOKEN}\n{text[half:]}"
    shown = Redactor().text(planted)
    assert shown.count("\n") == planted.count("\n"), "another number of lines"
    assert TOKEN not in shown, "the token is shown"


TARGETS: dict[str, Target] = {"scan": run_scan, "streams": run_streams, "redactor": run_redactor}
