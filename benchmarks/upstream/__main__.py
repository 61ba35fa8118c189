"""What a program can print of memory, and what of it is not read.

    python -m benchmarks.upstream CHECKOUT [--at REVISION] [--since REVISION] [--json | --all]

CHECKOUT is a work tree of any program, or a git directory, which is read at HEAD or --at; --since leaves out what an
earlier release has, too. Its strings are found where they are
raised, thrown, checked, logged or printed; figures are filled in, and each is read alone, as a user would see it.
Listed are those that say that memory ran out and are not read as a failure, and warnings and notes that are. Which is
which is a guess from words (words.toml): look at a line before you believe it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from benchmarks.catalogue import Answer, answer
from benchmarks.upstream import about, literals, python
from benchmarks.upstream.figures import filled
from benchmarks.upstream.rendered import rendered
from benchmarks.upstream.text import Level, Printed
from benchmarks.upstream.tree import files, language

MISSED = "says that memory ran out, and is not read"
LOUD = "the work goes on, and it is called a failure"
WORDLESS = "a failure that none of the words for a shortage is in, and it is called one of memory"
EVERY = 2000  # files between two lines of progress


class Judged(Struct, frozen=True, kw_only=True):
    """A string about memory, and what the tool says of it."""

    printed: Printed
    shortage: bool  # whether it says that memory ran out or was refused
    said: Answer
    times: int = 1  # how often the program has it

    @property
    def failure(self) -> bool:
        return self.printed.level == "failure" and self.shortage

    @property
    def verdict(self) -> str:
        """What is wrong with the answer; "" where nothing is."""
        if self.said.verdict == "oom":
            quiet = self.printed.level in ("warning", "info") or (self.printed.level == "print" and not self.shortage)
            return LOUD if quiet else "" if self.shortage else WORDLESS
        return MISSED if self.failure else ""

    def line(self) -> str:
        one = self.printed
        more = f" (and {self.times - 1} more)" if self.times > 1 else ""
        answered = " ".join(part for part in (self.said.verdict, self.said.cause) if part)
        return (
            f"{one.path}:{one.line}: {one.name or one.frame}: {answered}: {' '.join(one.template.split())[:200]}{more}"
        )

    def as_json(self) -> dict[str, object]:
        one = self.printed
        return {
            "file": one.path,
            "line": one.line,
            "frame": one.frame,
            "name": one.name,
            "level": one.level,
            "template": one.template,
            "rendered": rendered(one),
            "shortage": self.shortage,
            "verdict": self.said.verdict,
            "cause": self.said.cause,
            "wrong": self.verdict,
        }


def strings(path: str, data: bytes) -> Iterator[Printed]:
    """What a file prints of memory."""
    kind = language(path)
    if kind is None or not about.touches(data):
        return
    if kind == "python":
        every = python.printed(path, data)
    else:
        every = literals.printed(path, data.decode("utf-8", "replace"), kind, about.mentions)
    yield from (one for one in every if literals.is_string(one.pieces) and about.mentions(one.template))


def judged(every: Iterable[Printed]) -> Iterator[Judged]:
    """Each string once, with the tool's answer."""
    times: Counter[tuple[Level, str]] = Counter()
    firsts: dict[tuple[Level, str], Printed] = {}
    for one in every:
        key = (one.level, one.template)
        times[key] += 1
        firsts.setdefault(key, one)
    for key, one in firsts.items():
        yield Judged(
            printed=one, shortage=about.shortage(filled(one.pieces)), said=answer(rendered(one)), times=times[key]
        )


def walked(folder: Path, at: str = "") -> Iterator[Printed]:
    """All strings about memory of a checkout; what goes on is said on standard error."""
    for number, (path, data) in enumerate(files(folder, at), 1):
        if number % EVERY == 0:
            print(f"{number} files", file=sys.stderr)
        yield from strings(path, data)


def told(every: list[Judged], *, whole: bool) -> Iterator[str]:
    for heading in (MISSED, LOUD, WORDLESS) if whole else (MISSED, LOUD):
        some = [one for one in every if one.verdict == heading]
        if some:
            yield f"{heading} ({len(some)}):"
            yield from (f"  {one.line()}" for one in some)
    if whole:
        yield f"all ({len(every)}):"
        yield from (f"  {'short' if one.shortage else '-'} {one.printed.level} {one.line()}" for one in every)
    failures = [one for one in every if one.failure]
    missed, loud = (sum(one.verdict == heading for one in every) for heading in (MISSED, LOUD))
    yield (
        f"{len(every)} strings about memory: of {len(failures)} that fail for want of it {len(failures) - missed} are "
        f"read, {missed} missed; of {len(every) - len(failures)} others {loud} are called a failure"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upstream", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a work tree, or a git directory")
    parser.add_argument(
        "--at", metavar="REVISION", default="", help="a release of a git repository (default: as it is)"
    )
    parser.add_argument("--since", metavar="REVISION", default="", help="leave out what that release prints, too")
    parser.add_argument("--all", action="store_true", help="list every string about memory, with what is said of it")
    parser.add_argument("--json", action="store_true", help="all of them as JSON lines")
    options = parser.parse_args()
    if not options.checkout.is_dir():
        parser.error(f"no such folder: {options.checkout}")
    before = {one.template for one in walked(options.checkout, options.since)} if options.since else set()
    every = list(judged(one for one in walked(options.checkout, options.at) if one.template not in before))
    if options.json:
        sys.stdout.writelines(json.dumps(one.as_json()) + "\n" for one in every)
    else:
        sys.stdout.writelines(f"{line}\n" for line in told(every, whole=options.all))
    return 0


if __name__ == "__main__":
    sys.exit(main())
