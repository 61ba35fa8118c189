"""What doing.txt lists: names of functions, pieces of source and of lines. The file says how at its head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import ahocorasick_rs

TABLE: Final = Path(__file__).with_name("doing.txt")
CHARACTERS: Final = 400  # of a line that are looked at
GENERATION: Final = "generation"  # an engine's work: the rollout of a trainer, or somebody's service
INFERENCE: Final = "inference"  # a model's work on what a program was given, where a GPU ran out
TRAINING: Final = "training"  # a loop's step: where the card is short mostly its forward pass, and elsewhere anything
# What is done in each stage, where its row has no finer verb
STEPS: Final = {
    "launch": "launch",
    "cluster_start": "launch",
    "model_load": "load",
    "engine_init": "launch",
    "memory_profiling": "profile",
    "kv_cache_init": "allocate",
    "cuda_graph_capture": "capture",
    "data_load": "read",
    "rollout": "generate",
    "reward": "score",
    "logprob": "score",
    "forward": "forward",
    "backward": "backward",
    "optimizer_step": "optimize",
    "weight_sync": "sync",
    "checkpoint_save": "save",
    "checkpoint_load": "restore",
    "eval": "evaluate",
    "serving": "generate",
    "shutdown": "stop",
    GENERATION: "generate",
    INFERENCE: "generate",
    TRAINING: "train",
}


class Row(NamedTuple):
    """One fact of the table: how much it tells, and of which stage."""

    weight: float
    stage: str  # empty where the row says that nothing is told
    step: str  # the verb that is finer than the stage's own
    where: str
    pattern: str

    @property
    def verb(self) -> str:
        return self.step or STEPS.get(self.stage, "")


SILENCE: Final = Row(0, "", "", "", "")


@cache
def about(where: str) -> tuple[Row, ...]:
    """The rows about one kind of text, in their order."""
    return tuple(row for row in _every_row() if row.where == where)


@cache
def _every_row() -> tuple[Row, ...]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    facts = (line for line in lines if line.strip() and not line.startswith("#"))
    next(facts)  # the columns' names
    return tuple(map(_row, facts))


def _row(line: str) -> Row:
    weight, doing, where, rest = (part.strip() for part in line.split("|", 3))
    pattern = rest.rsplit("|", 2)[0].strip()
    stage, _, step = doing.partition(" ")
    return Row(float(weight), stage.strip("-"), step, where, pattern)


class Names:
    """Names of functions, "*" at a name's end or beginning standing for anything; underscores in front are nothing."""

    def __init__(self, names: str) -> None:
        words = [word if word.startswith("__") else word.lstrip("_") for word in names.split()]
        self.whole = frozenset(word for word in words if "*" not in word)
        self.beginnings = tuple(word[:-1] for word in words if word.endswith("*"))
        self.endings = tuple(word[1:] for word in words if word.startswith("*") and len(word) > 1)

    def hold(self, function: str) -> bool:
        bare = function.lstrip("_")
        return (
            function in self.whole
            or bare in self.whole
            or bare.startswith(self.beginnings)
            or bare.endswith(self.endings)
        )


@cache
def _functions() -> tuple[tuple[Row, Names], ...]:
    """By how much they tell, most first."""
    return tuple((row, Names(row.pattern)) for row in sorted(about("function"), key=lambda row: -row.weight))


@cache
def _files() -> tuple[tuple[Row, list[str], Names], ...]:
    split = ((row, row.pattern.partition(" : ")) for row in about("file"))
    return tuple((row, places.split(), Names(names)) for row, (places, _, names) in split)


def of_function(function: str) -> Row:
    """What a function's name says by itself."""
    return next((row for row, names in _functions() if names.hold(function)), SILENCE)


def of_place(file: str, function: str) -> Iterable[Row]:
    """What a function says together with the file that it stands in."""
    return (row for row, places, names in _files() if any(map(file.__contains__, places)) and names.hold(function))


def of_code(code: str) -> Iterable[Row]:
    """What a source line says."""
    return (row for row in about("code") if row.pattern in code) if code else ()


class _Texts:
    """Rows whose patterns are texts in small letters, cut at the stars; all of them are looked for at once."""

    def __init__(self, chosen: Sequence[Row]) -> None:
        self._rows = [(row, row.pattern.split("*")) for row in chosen]
        # Each text by its longest piece
        self._automaton = ahocorasick_rs.AhoCorasick([max(pieces, key=len) for _, pieces in self._rows])

    def first(self, line: str) -> Row | None:
        text = line.lower()
        hits = self._automaton.find_matches_as_indexes(text, overlapping=True)
        held = sorted({hit[0] for hit in hits})
        return next((row for row, pieces in (self._rows[number] for number in held) if _holds(text, pieces)), None)


def _holds(text: str, pieces: Sequence[str]) -> bool:
    """Whether the text holds the pieces, one behind the other."""
    position = 0
    for piece in pieces:
        position = text.find(piece, position)
        if position < 0:
            return False
        position += len(piece)
    return True


@cache
def _texts(where: str) -> _Texts:
    return _Texts(about(where))


def of_line(where: str, line: str, characters: int = CHARACTERS) -> Row | None:
    """The first row about this kind of line that it holds."""
    return _texts(where).first(line[:characters])


@cache
def _workers() -> tuple[tuple[Row, Names, Names], ...]:
    split = ((row, row.pattern.partition(" : ")) for row in about("worker"))
    return tuple((row, Names(workers), Names(methods)) for row, (workers, _, methods) in split)


def of_worker(name: str, role: str, method: str) -> Row | None:
    """What a worker's method does there and nowhere else, by the worker's class or its "@role"."""
    return next(
        (
            row
            for row, workers, methods in _workers()
            if (workers.hold(name) or workers.hold(f"@{role}")) and methods.hold(method)
        ),
        None,
    )
