"""What is known of each framework: one file per framework, of its name, with a head and a table.

The table is how the knobs are spelled for it (`remedies/settings.py` says what its columns mean). The head says what it
is and how a log shows it, in lines of `key: value, value`; where a key has nothing behind it, its values follow, one on
each indented line. Behind two blanks and a `#` stands where upstream a value was looked up, or since when it holds; a
value that begins or ends with a blank stands in quotation marks.

    world       what its numbers live in: torch, jax, tensorflow, ggml, an engine's own pools; own for a framework of
                networks that shares its arrays, and the calls that spare them, with no other; none
    task        what one runs it for; unknown where that may be anything
    layer       program (one job has one, and what it is built on), states (holds a trainer's), engine (serves from a
                share of the card), local (serves or draws with what fits), base (others stand on it), host (around all)
    builds_on   what is there wherever it is: forks print the same names as what they come from
    devices     whose devices it ports those to that it builds on, by the names that errors give them
    before      stands before these where both are there: advice is spelled for the first that has the knob
    borrows     whose class names it uses, which are then no sign of their first owner
    replaces    whose spellings it has left behind: a fork with keys of its own
    pins        the releases that it runs with and that its logs do not print
    engine      whether a trainer has an inference engine: never, optional, always on its own cards, or on shared cards
    share       of the card for that engine where nobody says; `share_by` who says so, if it is not its default
    zero_stage  of DeepSpeed where nobody says
    style       how options are written: overrides (name=value), flags, yaml, json, code, environment
    flags       the releases that take as flags what stands as keys of YAML in the table
    roots       what its dotted overrides begin with
    traits      see `Trait`
    packages    whose version decides something, as pip writes them
    programs    whose flags are settings of the job
    families    of messages that it alone prints
    loggers     the packages that its log lines name
    files       where its code lies, as a path in a traceback begins or goes on
    trains_in   those of its files that only training runs
    infers_in   those of its files that only loading and inference run
    processes   what the names of an engine's processes hold
    banners     `word | expression` for what states its version, in lines that hold the word; in any where there is
                none: `{version}`, or `{build}` where it counts its builds
    wordings    `expression | releases` of messages in words that only these releases have
    layouts     `expression | releases` of files in a traceback that only these releases have
    prints      what only it prints, or a path, class or module that only it has; case counts
    launches    the modules, scripts and commands it is started with
    actors      `name | role | engine`: its classes and processes, wherever a line names them; the engine in them
    writers     the same, a sign of it only where the name says who wrote the line: anybody's may be like it
    titles      the same, no sign of it; an expression for the whole name
    methods     `expression | role` for an actor whose role is `by method`, which runs there
    commands    `expression | role` for what a command line holds
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Final, Literal

World = Literal["torch", "jax", "tensorflow", "ggml", "engine", "own", "none"]
Task = Literal["training", "rl", "serving", "inference", "data", "simulation", "system", "unknown"]
Layer = Literal["program", "states", "engine", "local", "base", "host"]
Engine = Literal["never", "optional", "own cards", "shared cards"]
Style = Literal["overrides", "flags", "yaml", "json", "code", "environment", ""]
Trait = Literal[
    "keeps its global batch",  # which is an option of its own: it accumulates as often as it takes
    "accumulates by option",  # gradient_accumulation_steps, 1 where nobody says
    "holds tables in Rust",  # whose runtime names neither itself nor the place where it is refused memory
    "brings states back",  # that are offloaded, to the card for the update
    "sleeps by itself",  # its engine, where both are on the same cards
    "sleeps before the trainer starts",  # the same, and it is asleep while the trainer is created
    "counts cards as nodes",
    "runs inside trainers",  # an engine that they start themselves
    "hands its engine only its own options",  # that engine's other ones are out of reach
    "takes its options as arguments",  # of the same names, where a program builds the engine or its configuration
    "takes what it needs",  # an engine, and no share
    "takes a share of the card",
    "takes a share of what is free",  # when it starts
    "takes a share of the rest",  # of what is free after the weights
    "allocates outside PyTorch",  # an engine, its weights and its cache
    "trains no quantized weights",  # but adapters on them
    "quantizes nothing itself",  # its option is for weights that were quantized before
    "spreads over cards",
    "keeps an object store",
    "starts as many as its option says",  # of the processes that a table of the node shows
    "computes by partitions",  # of its data, which are never in memory as a whole unless its caller asks for it
    "reads all at once",  # of its input, and keeps it with what it makes of it
    "takes its arrays from a library",  # whose allocator is its own
    "has no sequences",  # but pictures, points or worlds
    "has no batch",  # one prompt, one picture after the other, unless somebody asks for more
    "simulates worlds",
    "runs tests",  # of somebody's program, several at once where it is told to
    "allows itself most of the RAM",  # unless somebody sets a limit
    "answers queries",  # of others, about data that it keeps
    "says when it has loaded",  # its model, which it makes on the card
    "grows with its copies",  # of the inputs, which it keeps for pipeline parallelism
]
Row = tuple[str, ...]

FOLDER: Final = Path(__file__).parent
TABLE: Final = "\nknob "  # how the table of a file begins
BY_METHOD: Final = "by method"
_INDENT: Final = "\n  "
_PART: Final = "\0"
_ROWS: Final = frozenset({"banners", "wordings", "layouts", "actors", "writers", "titles", "methods", "commands"})
_SINGLE: Final[Mapping[str, Callable[[str], object]]] = {
    **dict.fromkeys(("world", "task", "layer", "engine", "share_by", "style", "flags"), str),
    "share": float,
    "zero_stage": int,
}
_LARGEST_FILE: Final = 1 << 20
_NOBODY: Final = (0, None)
_place = itemgetter(0)
_PACKAGE: Final = re.compile(r"[.:/]")  # what ends the package in a source
_LAYERS: Final = ("program", "states", "engine", "local", "base", "host")  # outermost first
_DRIVEN: Final = ("program", "engine", "local")


class Framework:
    """One framework, as the head of its file has it: frozen, and no dataclass, since every run makes all of them."""

    name: str
    title: str  # what it calls itself
    world: World
    task: Task
    layer: Layer
    builds_on: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    borrows: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    engine: Engine = "never"
    share: float | None = None
    share_by: str = ""
    zero_stage: int | None = None
    style: Style = ""
    flags: str = ""
    traits: tuple[Trait, ...] = ()
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    loggers: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    trains_in: tuple[str, ...] = ()
    infers_in: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    banners: tuple[Row, ...] = ()
    wordings: tuple[Row, ...] = ()
    layouts: tuple[Row, ...] = ()
    prints: tuple[str, ...] = ()
    launches: tuple[str, ...] = ()
    actors: tuple[Row, ...] = ()
    writers: tuple[Row, ...] = ()
    titles: tuple[Row, ...] = ()
    methods: tuple[Row, ...] = ()
    commands: tuple[Row, ...] = ()

    def __init__(self, facts: Mapping[str, object]) -> None:
        if not _KEYS.issuperset(facts):
            raise TypeError(f"{facts['name']}.txt: there is no {', '.join(sorted(facts.keys() - _KEYS))}")
        object.__setattr__(self, "__dict__", facts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self.name}.{name} is what the file says")

    def __repr__(self) -> str:
        return f"<{self.name}: {self.world}, {self.task}>"

    @property
    def trains(self) -> bool:
        """With one of these in the log, a bare refusal may be the trainer's."""
        return self.task in ("rl", "training")

    @property
    def serves(self) -> bool:
        """Serves from a share of the card."""
        return self.layer == "engine"


# asking


@cache
def frameworks() -> tuple[Framework, ...]:
    """All frameworks, outermost first."""
    return tuple(_outermost_first({each.name: each for each in _read()}))


@cache
def _by_name() -> Mapping[str, tuple[int, Framework]]:
    return {each.name: (place, each) for place, each in enumerate(frameworks())}


def framework(name: str) -> Framework | None:
    """The framework of this name."""
    return _by_name().get(name, _NOBODY)[1]


def among(names: Iterable[str]) -> list[Framework]:
    """The frameworks with these names, outermost first."""
    known = _by_name()
    return [one for _, one in sorted((known[name] for name in names if name in known), key=_place)]


def of_devices(device: str, name: str) -> Framework | None:
    """What ports the framework of this name to such devices: without it none of them runs."""
    return next((each for each in frameworks() if device in each.devices and name in each.builds_on), None)


def outside_pytorch(names: Iterable[str]) -> Framework | None:
    """The engine among these whose weights and cache are no tensors of PyTorch's."""
    return next((one for one in among(names) if "allocates outside PyTorch" in one.traits), None)


def some(names: Iterable[str], trait: Trait) -> bool:
    """Whether one of the frameworks with these names has the trait."""
    return any(one is not None and trait in one.traits for one in map(framework, names))


def driven(names: Iterable[str]) -> bool:
    """Whether one of the frameworks with these names is a program with options, which no code of the job's turns."""
    shown = among(names)
    left = {name for each in shown for name in each.replaces}
    return any(each.layer in _DRIVEN and each.style != "code" and each.name not in left for each in shown)


def draws(names: Iterable[str]) -> bool:
    """Whether one of them is a program that loads its model itself, of pictures, sounds or molecules: the model's files
    come in one precision, for one device."""
    return any(each.layer == "local" and "has no sequences" in each.traits for each in among(names))


@cache
def programs() -> frozenset[str]:
    """One job has one of them, and what it is built on."""
    return frozenset(each.name for each in frameworks() if each.layer == "program")


@cache
def trainers() -> frozenset[str]:
    """What learns, tunes, or holds the states of what does."""
    return frozenset(each.name for each in frameworks() if each.trains)


@cache
def learners() -> frozenset[str]:
    """What learns by reinforcement."""
    return frozenset(each.name for each in frameworks() if each.task == "rl")


@cache
def engines() -> frozenset[str]:
    """What serves from a share of the card."""
    return frozenset(each.name for each in frameworks() if each.serves)


@cache
def files_of_engines() -> str:
    """Where their code lies, as alternatives of an expression."""
    return "|".join(path for each in frameworks() if each.task == "serving" for path in each.files)


@cache
def files_of_training() -> str:
    """Where the code lies that only training runs, as alternatives of an expression."""
    own = (f"{path}/" for each in frameworks() if each.trains for path in each.files)
    return "|".join((*own, *(path for each in frameworks() for path in each.trains_in)))


@cache
def files_of_simulation() -> str:
    """Where the code of simulators lies, as alternatives of an expression."""
    return "|".join(path for each in frameworks() if each.task == "simulation" for path in each.files)


@cache
def files_of_inference() -> Mapping[str, str]:
    """Where the code of a framework lies that only loading and inference run, as alternatives of an expression."""
    return {each.name: "|".join(each.infers_in) for each in frameworks() if each.infers_in}


@cache
def files_by_world() -> Mapping[World, str]:
    """Where the code lies whose arrays are of a world, as alternatives of an expression; folders of Lua's Torch have
    names of PyTorch's."""
    worlds: tuple[World, ...] = ("own", "torch", "jax", "tensorflow")
    return {
        world: "|".join(path for each in frameworks() if each.world == world for path in each.files) for world in worlds
    }


@cache
def names_of_engines() -> tuple[str, ...]:
    """What the names of their processes hold."""
    return tuple(word for each in frameworks() for word in each.processes)


@cache
def _printing() -> Mapping[str, str]:
    return {family: each.name for each in frameworks() if each.task == "serving" for family in each.families}


def engine_printing(family: str) -> str | None:
    """The engine that alone prints messages of this family."""
    return _printing().get(family)


@cache
def packages() -> tuple[str, ...]:
    """The packages whose version decides something, as pip, collect_env, banners and bug forms write them."""
    return tuple(dict.fromkeys(name for each in frameworks() for name in each.packages))


@cache
def commands() -> frozenset[str]:
    """The programs of theirs whose flags are settings of the job."""
    return frozenset(name for each in frameworks() for name in each.programs)


@cache
def roots() -> frozenset[str]:
    """What their dotted overrides begin with."""
    return frozenset(root for each in frameworks() for root in each.roots)


@cache
def hallmarks() -> Mapping[str, tuple[str, ...]]:
    """What in a line shows each framework: what it prints and is launched with, its actors and those it works in, and
    in a program that was pasted along, that it is imported."""
    inside: dict[str, list[str]] = {}
    for each in frameworks():
        for name, *_, engine in (row for row in (*each.actors, *each.writers) if len(row) > 2):
            inside.setdefault(engine, []).append(name)
    return {
        each.name: (
            *_on_windows(each.prints), *each.launches, *(row[0] for row in each.actors), *inside.get(each.name, ()),
            *_imported(each),
        )
        for each in frameworks()
        if each.layer != "host"
    }  # fmt: skip


def _imported(one: Framework) -> Iterator[str]:
    """How a program imports it: what others stand on says nothing, since all do."""
    if one.layer in _DRIVEN:
        yield from (f"from {package} import " for package in one.packages if "-" not in package)


def _on_windows(prints: Iterable[str]) -> Iterator[str]:
    """Paths with the separators of Windows, too."""
    for words in prints:
        yield words
        if "/" in words and " " not in words:
            yield words.replace("/", "\\")


def has_versions(name: str) -> bool:
    """Whether it is a framework or a package whose version may be asked for."""
    return name in hallmarks() or name in packages()


@cache
def _writers() -> Mapping[str, Sequence[str]]:
    owners: dict[str, dict[str, None]] = {}
    for each in frameworks():
        for name, *roles in (*each.actors, *each.writers):
            owners.setdefault(name, {}).update(dict.fromkeys((each.name, *roles[1:])))
    return {name: tuple(of_name) for name, of_name in owners.items()}


def written_by(name: str) -> Sequence[str]:
    """The frameworks whose process has this name: "EngineCore_DP0" is an "EngineCore"."""
    return _writers().get(name) or _writers().get(name.split("_", maxsplit=1)[0], ())


@cache
def _loggers() -> Mapping[str, str]:
    return {logger: each.name for each in frameworks() for logger in each.loggers}


def logged_by(source: str) -> str | None:
    """The framework whose logger has this name: "llamafactory.hparams.parser:401", "tensorflow/core/op.cc:71"."""
    return _loggers().get(_PACKAGE.split(source.lstrip("./\\"), maxsplit=1)[0])


def launched_by(commands: str) -> set[str]:
    """The frameworks that these commands start."""
    return {each.name for each in frameworks() if any(words in commands for words in each.launches)}


def layers(seen: Iterable[str]) -> list[str]:
    """The frameworks whose signs were seen, what they build on added, outermost first."""
    names = set(seen)
    shown = among(names)
    names.difference_update(*(each.borrows for each in shown))
    names.update(*(each.builds_on for each in shown if each.name in names))
    return [each.name for each in among(names)] + sorted(names - _by_name().keys())


# reading


def text_of(name: str) -> str:
    """The framework's file."""
    opened = os.open(f"{FOLDER}/{name}.txt", os.O_RDONLY)  # a fifth of Path.read_text: every run reads them all
    try:
        return os.read(opened, _LARGEST_FILE).decode()
    finally:
        os.close(opened)


def _read() -> Iterator[Framework]:
    for name, _, kind in (entry.name.rpartition(".") for entry in os.scandir(FOLDER)):
        if kind == "txt":
            yield _framework(name, text_of(name).partition(TABLE)[0])


def _framework(name: str, head: str) -> Framework:
    remarks, _, lines = head.partition("\n\n")
    facts: dict[str, object] = {"name": name, "title": remarks[2 : remarks.index(":")]}
    for line in lines.rstrip().replace(_INDENT, _PART).split("\n"):
        if _PART in line:
            key, *values = line.split(_PART)
            key = key[: key.index(":")]
            own = map(_bare, values) if "#" in line or '"' in line else values
            facts[key] = tuple([_row(value) for value in own]) if key in _ROWS else tuple(own)
        else:
            key, _, value = line.partition("  # ")[0].partition(": ")
            facts[key] = _SINGLE[key](value) if key in _SINGLE else tuple(value.split(", "))
    return Framework(facts)


def _bare(value: str) -> str:
    """Without the remark behind it and the quotation marks that keep its blanks."""
    value = value.partition("  # ")[0]
    return value[1:-1] if value[:1] == value[-1:] == '"' else value


def _row(value: str) -> Row:
    cells = value.split(" | ")
    return tuple(map(_bare, cells) if '"' in value else cells)


def _outermost_first(left: dict[str, Framework]) -> Iterator[Framework]:
    """By layer, those that learn before those that tune, each behind what stands before it, else by name."""
    ahead: dict[str, list[str]] = {}
    for each in left.values():
        for name in each.before + each.builds_on:
            ahead.setdefault(name, []).append(each.name)

    def placed(name: str) -> Iterator[Framework]:
        own = left.pop(name, None)
        for other in sorted(ahead.get(name, ())):
            yield from placed(other)
        if own is not None:
            yield own

    for _, _, name in sorted((_LAYERS.index(each.layer), each.task != "rl", each.name) for each in left.values()):
        if name in ahead:
            yield from placed(name)
        elif name in left:
            yield left.pop(name)


_KEYS: Final = frozenset(Framework.__annotations__)
