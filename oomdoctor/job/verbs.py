"""What doing.txt says of a name or of a line; the file says how at its head."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import ahocorasick_rs

from oomdoctor.patterns import LONG, late

TABLE: Final = Path(__file__).with_name("doing.txt")
CHARACTERS: Final = 400  # of a line that are looked at


GENERATION: Final = "generation"  # an engine's work: the rollout of a trainer, or somebody's service
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
    TRAINING: "forward",
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
def rows(where: str) -> tuple[Row, ...]:
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
    return tuple((row, Names(row.pattern)) for row in sorted(rows("function"), key=lambda row: -row.weight))


@cache
def _files() -> tuple[tuple[Row, list[str], Names], ...]:
    split = ((row, row.pattern.partition(" : ")) for row in rows("file"))
    return tuple((row, places.split(), Names(names)) for row, (places, _, names) in split)


def of_function(function: str) -> Row:
    """What a function's name says by itself."""
    return next((row for row, names in _functions() if names.hold(function)), SILENCE)


def of_name(function: str, context: str = "") -> Row:
    """What a function's name says: the listed ones first, others by their verb."""
    listed = of_function(function)
    return listed if listed.stage else of_identifier(function, context)


def of_place(file: str, function: str) -> Iterable[Row]:
    """What a function says together with the file that it stands in."""
    return (row for row, places, names in _files() if any(map(file.__contains__, places)) and names.hold(function))


def of_code(code: str) -> Iterable[Row]:
    """What a source line says."""
    return (row for row in rows("code") if row.pattern in code) if code else ()


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
    return _Texts(rows(where))


def of_line(where: str, line: str) -> Row | None:
    """The first row about this kind of line that it holds."""
    return _texts(where).first(line[:CHARACTERS])


@cache
def _workers() -> tuple[tuple[Row, Names, Names], ...]:
    split = ((row, row.pattern.partition(" : ")) for row in rows("worker"))
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


# Words of an identifier: "KVCacheManager_2" has four
_WORDS: Final = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# What a sentence's first word may stand behind: a date, a level, a logger's name, a bar of stars
_HEADS: Final = late(
    r"(?:\A|[\]:|>)=#*-] ?|\b(?:INFO|DEBUG|WARNING|WARN|ERROR|NOTICE) )[\W_]{0,8}(?=([A-Za-z]{3,20})\b)"
)
_BAR: Final = late(r"\d{1,3}%\||\d(?:it|s)/(?:s|it)\b|\[ ?\d{1,9}/\d{1,9}\]|\b\d{1,9}/\d{1,9} \[|:\s{0,4}\Z")
_DONE: Final = late(r"\b100%\|")
_JOINS: Final = frozenset({"and", "then"})
_NEAR: Final = 6  # words behind the first in which a sentence names its object
# A node of TensorFlow's graph, an operation of XLA, the file of a source in C++ or CUDA
_OPERATION: Final = late(
    r"\[\[ ?(?:Node: ?|\{\{node |node )([^\s}=]{1,300})|\bop_name=\"([^\"]{1,300})"
    r"|\b([A-Za-z]\w{2,80})\.(?:cpp|cc|cxx|cu|cuh|hpp|h|rs)\b"
)
_CALL: Final = late(r"(?:(\w{1,80})\.)?([A-Za-z_]\w{1,80})\(")


class Verb(NamedTuple):
    """One verb row: any of these words, and what they are done to."""

    row: Row
    verbs: frozenset[str]
    objects: frozenset[str]
    alone: bool  # nothing but fillers stands beside it
    by_file: bool  # what it is done to may stand in the name of its class or file


@cache
def _nouns() -> dict[str, frozenset[str]]:
    """The classes of words, each word also in its plural."""
    classes = (row.pattern.partition(" : ") for row in rows("noun"))
    return {name: _plurals(words.split()) for name, _, words in classes}


def _plurals(words: Iterable[str]) -> frozenset[str]:
    return frozenset(form for word in words for form in (word, f"{word}s", f"{word.removesuffix('y')}ies"))


def _forms(verb: str) -> Iterator[str]:
    """The forms of a verb in which something is under way: what ends in -ed is done."""
    yield from (verb, f"{verb}s", f"{verb}es", f"{verb}ing", f"{verb}{verb[-1]}ing")
    if verb.endswith("e"):
        yield f"{verb[:-1]}ing"


def _agents(verb: str) -> Iterator[str]:
    """What does it: files of C++ are named after that."""
    yield from (f"{verb}er", f"{verb}r", f"{verb}or", f"{verb.removesuffix('e')}or")


@cache
def _verbs(*where: str) -> dict[str, list[Verb]]:
    """The verb rows by their words, the most telling first."""
    index: dict[str, list[Verb]] = {}
    for row in sorted((row for kind in where for row in rows(kind)), key=lambda row: -row.weight):
        names, colons, things = re.split(r" (::?) ?", f"{row.pattern} ", maxsplit=1)
        objects = frozenset(form for thing in things.split() for form in _nouns().get(thing, _plurals((thing,))))
        words = frozenset(form for name in names.split() for form in _forms(name))
        verb = Verb(row, words, objects, "." in objects, colons == "::")
        for word in words:
            index.setdefault(word, []).append(verb)
    return index


@cache
def _agent_verbs() -> dict[str, str]:
    """ "loader" -> "load" """
    return {agent: verb for verb in _verbs("verb", "kernel") for agent in _agents(verb)}


@cache
def _lies() -> frozenset[str]:
    """Names whose verb is not what they do."""
    return frozenset(name for row in rows("lie") for name in row.pattern.split())


def words_of(identifier: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(identifier)]


def _joined(words: Sequence[str]) -> Iterator[str]:
    """The words, and each with the next: "MatMul" is "matmul", "warm_up" "warmup"."""
    yield from words
    yield from (one + other for one, other in pairwise(words))


@lru_cache(maxsize=8192)
def of_identifier(identifier: str, context: str = "") -> Row:
    """What the verb in an identifier says; what it is done to may stand in its class or file, where it names nothing
    itself."""
    if identifier in _lies():
        return SILENCE
    around = frozenset(_joined(words_of(context)))
    return _of_words(words_of(identifier), around if _nouns()["OTHER"].isdisjoint(around) else frozenset(), _verbs("verb"))


@lru_cache(maxsize=1024)
def _of_kernel(name: str) -> Row:
    """What the name of a kernel, of a node of a graph or of a source file of C++ says."""
    words = [_agent_verbs().get(word, word) for word in words_of(name)]
    return _of_words(words, frozenset(), _verbs("kernel", "verb"))


def _of_words(words: Sequence[str], context: frozenset[str], index: dict[str, list[Verb]]) -> Row:
    every = list(_joined(words))
    if not _nouns()["OTHER"].isdisjoint(every):
        return SILENCE
    told = [row for word in every if word in index and (row := _of_word(word, words, context, index[word])).stage]
    if len({row.stage for row in told}) > 1 and not _JOINS.isdisjoint(words):
        return SILENCE
    return max(told, key=lambda row: row.weight, default=SILENCE)


def _of_word(word: str, words: Sequence[str], context: frozenset[str], verbs: Iterable[Verb]) -> Row:
    others = {other for other in _joined(words) if other != word}
    alone = {other for other in words if other not in word} <= _nouns()["FILLER"]
    near = others | context if alone else others
    return next((verb.row for verb in verbs if _fits(verb, near if verb.by_file else others, alone)), SILENCE)


def _fits(verb: Verb, around: set[str], alone: bool) -> bool:
    if verb.alone:
        return alone
    return not verb.objects or not verb.objects.isdisjoint(around)


@lru_cache(maxsize=4096)
def of_call(code: str) -> Row:
    """What the calls in a source line say, the most telling of them."""
    said = (of_identifier(match[2], match[1] or "") for match in _CALL.finditer(code[:CHARACTERS]))
    return max(said, key=lambda row: row.weight, default=SILENCE)


@lru_cache(maxsize=4096)
def of_sentence(line: str) -> Row | None:
    """What a sentence says that begins with what is under way: "Loading the weights", "Tokenizing:  41%|"."""
    line = line[:CHARACTERS]
    index = _verbs("verb")
    for match in _HEADS.finditer(line):
        word = match[1].lower()
        if word in index and word.endswith(("ing", "ion")):
            near = words_of(line[match.end(1) : match.end(1) + 80])[:_NEAR]
            row = next((verb.row for verb in index[word] if _is_said(verb, near, line)), SILENCE)
            if row.stage and (_BAR.search(line) or _nouns()["OTHER"].isdisjoint(near)):
                return SILENCE if _DONE.search(line) else row
    return None


def _is_said(verb: Verb, near: Sequence[str], line: str) -> bool:
    if verb.objects and not verb.objects.isdisjoint(_joined(near)):
        return True
    return (not verb.objects or verb.alone or "BAR" in verb.objects) and _BAR.search(line) is not None


def of_graph(line: str) -> Row | None:
    """What a line says that names a node of a graph or an operation of XLA."""
    named = 'op_name="' in line or "[[" in line
    return row if named and (row := of_operation(line)).stage else None


@lru_cache(maxsize=4096)
def of_operation(line: str) -> Row:
    """What a node of a graph, an operation of XLA or a source file of C++ says, wherever the line names one."""
    text = line[:LONG]
    if listed := _texts("operation").first(text):
        return listed
    named = (match[1] or match[2] or match[3] for match in _OPERATION.finditer(text))
    best = max((_of_kernel(name) for name in named), key=lambda row: row.weight, default=SILENCE)
    return best if best.stage else _texts("other operation").first(text) or SILENCE
