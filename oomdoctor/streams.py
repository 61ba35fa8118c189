"""From the bytes of a slice to clean lines: decorations off and kept as facts, writers told apart, wraps joined."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mark:
    """What the decorations in front of and behind a line said."""

    time: str | None = None
    level: str | None = None
    name: str | None = None  # the process or actor: "LLMRayActor", "EngineCore_DP0", "raylet"
    pid: int | None = None
    ip: str | None = None
    rank: int | None = None
    source: str | None = None  # the file and line that logged it: "core.py:708"
    repeated: int | None = None  # Ray's "[repeated 7x across cluster]"


NO_MARK = Mark()


@dataclass(frozen=True, slots=True)
class Line:
    """One message line as its writer meant it; `number` and `end` are those of `grep -n`."""

    number: int
    end: int
    text: str  # clean: decorations, escapes and wraps gone
    raw: str  # as it stands in the log (capped), for quoting
    writer: str = ""  # "" where the line names nobody
    mark: Mark = NO_MARK


@dataclass(slots=True)
class Page:
    """The clean lines of one slice of one file, in file order."""

    file: str
    lines: list[Line]
    _by_writer: dict[str, list[int]] = field(default_factory=dict, repr=False)

    def after(self, index: int, limit: int = 80) -> list[Line]:
        """The line at the index and those that go on from it: of the same writer, and bare ones.

        Ray prefixes only the first line of a raylet message, so lines without a writer may continue any message.
        """
        writer = self.lines[index].writer
        found = [self.lines[index]]
        for line in self.lines[index + 1 : index + 1 + 4 * limit]:
            if line.writer in (writer, ""):
                found.append(line)
                if len(found) >= limit:
                    break
        return found

    def before(self, index: int, limit: int = 60) -> list[Line]:
        """The lines that lead up to the index, nearest last: of the same writer, and bare ones."""
        writer = self.lines[index].writer
        found: list[Line] = []
        for line in reversed(self.lines[max(0, index - 4 * limit) : index]):
            if line.writer == writer or not writer or not line.writer:
                found.append(line)
                if len(found) >= limit:
                    break
        return found[::-1]


def page(file: str, first_line: int, data: bytes) -> Page:
    """The clean lines of a slice."""
    lines = []
    for offset, raw in enumerate(data.decode("utf-8", "replace").split("\n")):
        number = first_line + offset
        lines.append(Line(number, number, raw.rsplit("\r", 1)[-1], raw[:500]))
    return Page(file, lines)
