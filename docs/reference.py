"""The reference: pages that follow from the package, by their places in the site."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import typer.main
from typer.testing import CliRunner

from benchmarks.catalogue import Message, Program, programs
from oomdoctor.causes import Cause, causes
from oomdoctor.cli.app import app
from oomdoctor.cli.commands import OLD_NAMES
from oomdoctor.cli.reports import FORMATS
from oomdoctor.decision.outline import outline
from oomdoctor.families import whole
from oomdoctor.families.event import Event
from oomdoctor.job.frameworks import Layer
from oomdoctor.job.frameworks import frameworks as all_frameworks
from oomdoctor.pages import page
from oomdoctor.remedies.knobs import KNOBS, Knob
from oomdoctor.remedies.settings import rows
from oomdoctor.report.vocabulary import POOL_NAMES, POOLS, STAGES
from oomdoctor.spellings import frameworks, title

STORY: Final = "fixtures/stories/openrlhf-vllm-start-fragmented/log.txt"
WIDTH: Final = 100
LAYERS: Final[Mapping[Layer, str]] = {
    "program": "Programs that train",
    "states": "What holds a trainer's states",
    "engine": "Engines, which serve from a share of the card",
    "local": "Programs that serve or draw with what fits",
    "base": "What others stand on",
    "host": "What is around the job",
}
# What pages link to in the repository, and where the site has it.
SOURCES: Final = {"oomdoctor/causes": "reference/causes/index.md", "oomdoctor/remedies/knobs.txt": "reference/knobs.md"}


def pages() -> dict[str, str]:
    """All of them, as Markdown, and the schema as JSON."""
    return {
        "reference/commands.md": _commands(),
        "reference/exit-codes.md": _exit_codes(),
        "reference/causes/index.md": _causes(),
        **{f"reference/causes/{cause.id}.md": _cause(cause) for cause in causes()},
        "reference/knobs.md": _knobs(),
        "reference/spellings.md": _spellings(),
        "reference/frameworks.md": _frameworks(),
        **_messages(),
        "reference/pools-and-stages.md": _vocabulary(),
        "reference/events.md": _events(),
        "reference/formats.md": _formats(),
        "reference/schema.md": _schema(),
        "reference/schema.json": said("schema"),
    }


def said(*arguments: str, width: int = 80) -> str:
    environ = {"COLUMNS": str(width), "OOMDOCTOR_LANG": "en", "GITHUB_STEP_SUMMARY": None, "GITHUB_WORKSPACE": None}
    done = CliRunner(env=environ).invoke(app, list(arguments), prog_name="oomdoctor")
    if done.exit_code not in (0, 1):
        raise SystemExit(f"oomdoctor {' '.join(arguments)}: {done.output}")
    return done.output


def _fenced(text: str, language: str = "text") -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    told = [head, ["---"] * len(head), *([_cell(text) for text in line] for line in lines)]
    return "".join(f"| {' | '.join(line)} |\n" for line in told)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ") or " "


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(map(_code, texts))


def _command_names() -> tuple[str, ...]:
    every = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return tuple(name for name in every if name not in OLD_NAMES)


def _commands() -> str:
    parts = ["# Commands\n", _fenced(said("--help"))]
    for name in _command_names():
        parts += [f"## {name}\n", _fenced(said(*name.split(), "--help"))]
    return "\n".join(parts)


def _exit_codes() -> str:
    told = said("--help").split("Exit codes:")[1].split("Options:")[0]
    lines = [line.split(maxsplit=1) for line in told.splitlines() if line.strip()]
    telling = [name for name in _command_names() if _tells_exit_codes(name)]
    links = ", ".join(f"[{name}](commands.md#{name.replace(' ', '-')})" for name in telling)
    return (
        f"# Exit codes\n\n{_table(('code', ''), lines)}\n"
        "Which of several inputs decides is said [beside the options](../how-to/diagnose.md). These commands say more\n"
        f"of theirs: {links}.\n"
    )


def _tells_exit_codes(command: str) -> bool:
    """By its help; that there are `--exit-zero` and `--help` tells nothing of its own."""
    told = re.sub(r"--exit-zero +.*|Show this message and exit", "", said(*command.split(), "--help"))
    return re.search(r"\bexits?\s+(with|as)\b", told, re.IGNORECASE) is not None


def _causes() -> str:
    by_pool = {pool: [cause for cause in causes() if pool in cause.pools] for pool in POOL_NAMES}
    parts = ["# Causes\n", f"{len(causes())} causes are told apart. One may be asked of several pools.\n"]
    for pool, found in by_pool.items():
        lines = [(f"[{cause.id}]({cause.id}.md)", cause.title) for cause in found]
        parts += [f"## {POOL_NAMES[pool][:1].upper()}{POOL_NAMES[pool][1:]}\n", _table(("cause", ""), lines)]
    return "\n".join(parts)


def _cause(cause: Cause) -> str:
    knobs = ", ".join(f"[{knob}](../knobs.md#{knob})" for knob in cause.knobs)
    pools = ", ".join(POOL_NAMES.get(pool, "no memory that is named") for pool in cause.pools)
    facts = f"`{cause.id}`. Asked where this ran out: {pools}.\n\nWhat to change, best first: {knobs or 'nothing'}.\n"
    head, _, rest = (page(cause.id) or f"# {cause.title}\n").partition("\n")
    return f"{head}\n\n{facts}\n{rest.lstrip().rstrip()}\n\n{outline(cause)}"


def _knobs() -> str:
    used = {knob: [cause.id for cause in causes() if knob in cause.knobs] for knob in KNOBS}
    parts = ["# Knobs\n", "What can be changed; [how each framework spells it](spellings.md) is a page of its own.\n"]
    for knob in KNOBS.values():
        parts += [f"## {knob.id}\n", _knob(knob, used[knob.id])]
    return "\n".join(parts)


def _knob(knob: Knob, used: Sequence[str]) -> str:
    told = [
        f"{knob.action}.",
        f"Relieves {_pools(knob.relieves)}; spends {_pools(knob.spends)}. Costs: {knob.cost}.",
    ]
    if used:
        told.append(f"For {', '.join(f'[{cause}](causes/{cause}.md)' for cause in used)}.")
    return "\n\n".join(told) + "\n"


def _pools(names: Iterable[str]) -> str:
    return ", ".join(POOL_NAMES.get(name, name) for name in names) or "nothing"


def _spellings() -> str:
    parts = [
        "# How frameworks spell the knobs\n",
        "Looked up upstream, with the newest spelling first. `{}` is where the value goes.\n",
    ]
    for framework in frameworks():
        lines = [
            (f"[{row.knob}](knobs.md#{row.knob})", _code(row.write), _defaults(row.defaults), row.versions.text,
             _codes(row.needs), _codes(row.excludes))
            for row in rows(framework)
            if row.knob in KNOBS
        ]  # fmt: skip
        if lines:
            head = ("knob", "write", "default", "versions", "needs", "not with")
            parts += [f"## {title(framework)}\n", _table(head, lines)]
    return "\n".join(parts)


_WHAT_IS_READ: Final = """\
# What is read

{messages} messages of {programs} programs stand in `fixtures/catalogue/`, taken from their sources: what each can print
when memory is short, and what only sounds like it. A test holds what is said of each, alone. Messages in words that
stand in no list are read, too; these are the ones that are known to be.

"""
_ON_A_KIND: Final = """\
`{}` stands for a value. Where several causes are named, either may stand first: the message alone does not tell them
apart.
"""


def _messages() -> dict[str, str]:
    """What is read, by the catalogue: a page for each kind of program, and one that leads to them."""
    kinds = {kind: list(some) for kind, some in groupby(programs(), lambda program: program.kind)}
    lines = [(f"[{kind}]({_slug(kind)}.md)", _program_links(some), str(_count(some))) for kind, some in kinds.items()]
    every = programs()
    index = _WHAT_IS_READ.format(messages=_count(every), programs=len(every))
    index += _table(("kind", "programs", "messages"), lines)
    pages = {f"reference/messages/{_slug(kind)}.md": _kind_page(kind, some) for kind, some in kinds.items()}
    return {"reference/messages/index.md": index, **pages}


def _count(some: Iterable[Program]) -> int:
    return sum(len(program.message) for program in some)


def _program_links(some: Iterable[Program]) -> str:
    return ", ".join(f"[{one.program}]({_slug(one.kind)}.md#{_slug(one.program)})" for one in some)


def _kind_page(kind: str, some: Iterable[Program]) -> str:
    parts = [f"# What is read: {kind}\n", _ON_A_KIND]
    for program in some:
        lines = [(_verbatim(one.template), _code(one.file), _releases(one), _said(one)) for one in program.message]
        parts += [
            f"## {program.program}\n",
            f"`{program.repository}`\n",
            _table(("message", "source", "releases", "what is said"), lines),
        ]
    return "\n".join(parts)


def _verbatim(text: str) -> str:
    """Code with whatever stands in it, on one line."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    edge = " " if "`" in (text[:1], text[-1:]) else ""
    return f"{fence}{edge}{' '.join(text.split())}{edge}{fence}"


def _releases(message: Message) -> str:
    """From which one on, and up to which; nothing where nobody looked."""
    if message.first and message.last:
        return message.first if message.first == message.last else f"{message.first} to {message.last}"
    return f"since {message.first}" if message.first else f"up to {message.last}" if message.last else ""


def _said(message: Message) -> str:
    if message.gap:
        return f"not read rightly yet: {message.gap}"
    if message.expect != "oom":
        return "no failure: memory is short, and the work goes on" if message.expect == "pressure" else "no failure"
    found = " or ".join(f"[{cause}](../causes/{cause}.md)" for cause in message.causes)
    return f"{found} ({' or '.join(POOL_NAMES.get(pool, 'no memory that is named') for pool in message.pools)})"


def _frameworks() -> str:
    spelled = {name: _slug(title(name)) for name in frameworks()}
    about = (
        "What a log is recognised as, outermost first; the name is that in a report's `context.frameworks`. The world "
        "is what the numbers on the card are to it: arrays of PyTorch, JAX, TensorFlow or ggml, an engine's own pools, "
        "or none."
    )
    parts = [f"# Frameworks\n\n{about}\n"]
    for layer, what in LAYERS.items():
        lines = [
            (each.title, _code(each.name), each.task, each.world,
             f"[knobs](spellings.md#{spelled[each.name]})" if each.name in spelled else "")
            for each in all_frameworks()
            if each.layer == layer
        ]  # fmt: skip
        parts += [f"## {what}\n", _table(("", "name", "task", "world", ""), lines)]
    return "\n".join(parts)


def _slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def _defaults(found: Iterable[tuple[str, Any]]) -> str:
    return "; ".join(f"{value} {where.text}".strip() for value, where in found)


def _vocabulary() -> str:
    pools = [(_code(name), POOL_NAMES.get(name, ""), words) for name, words in POOLS.items()]
    stages = [(_code(name), words) for name, words in STAGES.items()]
    return (
        "# Pools and stages\n\nThe words of these lists are part of the public interface.\n\n"
        f"## Pools\n\n{_table(('pool', 'what it is', 'what a report says of it'), pools)}\n"
        f"## Stages\n\n{_table(('stage', 'what a report says of it'), stages)}"
    )


def _events() -> str:
    parts = [
        "# Events\n",
        "What `oomdoctor events` prints: one per message, with what it prints and nothing else.\n",
    ]
    kinds = sorted(_kinds(Event), key=lambda kind: kind.kind)
    for family in whole():
        lines = [
            (_code(kind.kind), (kind.__doc__ or "").partition("\n")[0], _codes(_figures(kind)))
            for kind in kinds
            if kind.family == family.name
        ]
        if lines:
            parts += [f"## {family.name}\n", _table(("kind", "", "fields"), lines)]
    return "\n".join(parts)


def _kinds(base: type[Event]) -> Iterator[type[Event]]:
    for kind in base.__subclasses__():
        if kind.kind and kind.__module__.startswith("oomdoctor."):
            yield kind
        yield from _kinds(kind)


def _figures(kind: Any) -> list[str]:
    return [name for name in kind.__struct_fields__ if name not in Event.__struct_fields__]


_FORMS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "text": ("For people, at a terminal, in a pager, in a file; `-v` prints everything.", _fenced),
    "json": ("For programs: the [schema](schema.md) is stable within its `schema_version`.", lambda _: ""),
    "jsonl": ("A line per crash, with its events and the context; nothing where nothing failed.", lambda _: ""),
    "markdown": (
        "For an issue, a chat or a mail: no longer than GitHub takes. Secrets, hosts and names are replaced.",
        lambda text: _fenced(text, "markdown"),
    ),
    "html": (
        "One page in one file, with drawings and without scripts. Secrets, hosts and names are replaced.",
        lambda _: "",
    ),
    "github": ("In a step of GitHub Actions: an annotation per crash, and the report in the step's summary.", _fenced),
}


def _formats() -> str:
    parts = ["# Report formats\n", f"`oomdoctor diagnose --format FORM`, here for\n`{STORY}`.\n"]
    for form in FORMATS:
        about, shown = _FORMS[form]
        parts += [f"## {form}\n", f"{about}\n"]
        if sample := shown(said("diagnose", str(TOP / STORY), "--format", form, width=WIDTH)):
            parts.append(sample)
    return "\n".join(parts)


def _schema() -> str:
    schema: dict[str, Any] = json.loads(said("schema"))
    parts = [
        "# The report's JSON Schema\n",
        "`oomdoctor schema` prints it; [here it is as a file](schema.json). These are its objects.\n",
        "## Report\n",
        _properties(schema),
    ]
    for name, found in schema["$defs"].items():
        parts += [f"## {name}\n", _properties(found)]
    return "\n".join(parts)


_LISTS: Final = {
    frozenset(cause.id for cause in causes()): "[a cause](causes/index.md)",
    frozenset(KNOBS): "[a knob](knobs.md)",
    frozenset(POOLS): "[a pool](pools-and-stages.md#pools)",
    frozenset(STAGES): "[a stage](pools-and-stages.md#stages)",
}


def _properties(of: Mapping[str, Any]) -> str:
    required = of.get("required", ())
    lines = [
        (_code(name), _type(found), "" if name in required else "may be missing")
        for name, found in of["properties"].items()
    ]
    return _table(("field", "type", ""), lines)


def _type(of: Mapping[str, Any]) -> str:
    """In words, with links to the other objects."""
    if "$ref" in of:
        name = of["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in of:
        return " or ".join(_type(one) for one in of["anyOf"])
    if listed := _LISTS.get(frozenset(of.get("enum", ()))):
        return listed
    if "enum" in of or "const" in of:
        return " or ".join(_code(json.dumps(one)) for one in of.get("enum", [of.get("const")]))
    if of.get("type") == "array":
        return f"list of {_type(of['items'])}" if of.get("items") else "list"
    if of.get("type") == "object":
        inside = of.get("properties") or {}
        return f"object with {_codes(inside)}" if inside else "object"
    told = of.get("type", "anything")
    return " or ".join(told) if isinstance(told, list) else str(told)


TOP: Final = Path(__file__).parent.parent
