"""What a process is to the job, from the name it has in Ray's table, in a log's prefix or in the kernel's dump.

Ray names its workers after the class and the method that runs ("ray::LLMRayActor.update_weight"); everything else
shows its command line. A kill names an actor's creation task ("abc123WorkerDict_0:5:WorkerDict.__init__") whatever
it was doing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Final

from oomdoctor.job.frameworks import BY_METHOD, frameworks
from oomdoctor.patterns import AnyOf, late

CHARACTERS: Final = 400  # of a title or command line that are looked at
SHORT: Final = 48
CUT: Final = 15  # characters after which the kernel cuts a name

# Class names and command lines that any job may have. The first role counts whose command it is.
_TITLES: Final = (
    ("reward_fn", "reward"),
    (r"[Rr]eward(?:(?:[-_ ][Mm]|M)odel)?(?:[-_ ]?(?:[Ss]erver|[Ww]orker|[Mm]anager|[Ss]ervice))?", "reward"),
)
_COMMANDS: Final = (
    ("reward", r"\brm_server\b|(?:[/\s]|^)(?:[a-z0-9]{1,40}_){0,3}reward(?:_[a-z0-9]{1,40}){0,4}(?:\.py\b|\s|$)"),
    ("driver", r"\btrain\w{0,40}(?:\.py)?\b|\bfinetune\w{0,20}\b"),
)
_ORDER: Final = ("ray", "object_store", "engine", "data_loader", "reward", "driver")
_ANY_METHOD: Final = "policy"  # a worker that holds several models at least trains one

# "ray::Class.method", the creation task "name:Class.__init__", and the "ray_Class:method()" of 2018
_TITLE = late(r"(?:ray::|ray_(?=[A-Z]))(?P<name>[^\s()]{1,200})")
_CREATION = late(r"(?:[^\s:]{0,120}:){0,3}(?P<name>[A-Za-z_]\w{0,80})\.__init__$")
# verl puts six random characters before and the node and rank behind a colocated worker's class; NeMo-RL and ROLL put
# the rank or the group behind theirs
_SPAWNED = late(
    r"[0-9A-Za-z]{6}(?=(?:WorkerDict|FusedWorker)_\d)|_\d{1,5}:\d{1,5}$|\[rank=\d{1,5}\]$|\([a-z_]{1,40}-\d{1,4}\)$"
)
_INTERPRETER = late(r"(?:.*/)?(?:python[\d.]*|pypy\d?|uv|bash|sh)(?:\.exe)?$")
_PLAIN = late(r"[A-Za-z_][\w:.<>-]{0,80}(?:\[rank=\d{1,5}\]|\([a-z_]{1,40}-\d{1,4}\))?$")


@lru_cache(maxsize=1024)  # a log names the same processes again and again
def role_of(process_name: str) -> str | None:
    """What the process is to the job; None where its name does not tell."""
    title = process_name.strip()[:CHARACTERS]
    name, method = class_and_method(title)
    if several := _with_methods().search(name):
        return next((role for pattern, role in _methods()[several[0]] if pattern.match(method)), _ANY_METHOD)
    if role := _names().get(name):
        return role
    if whole := _expressions().match(name):
        return whole.lastgroup
    if _TITLE.match(title):
        return _cut().get(name) if len(title) == CUT else None
    return next((role for role, pattern in _commands() if pattern.search(title)), None)


# what the frameworks' files say


def _titles() -> Iterator[tuple[str, str]]:
    yield from _TITLES
    for each in frameworks():
        yield from ((name, role) for name, role, *_ in (*each.actors, *each.writers, *each.titles))


@cache
def _names() -> Mapping[str, str]:
    """The roles of names that are written out."""
    return {name: role for name, role in _titles() if role != BY_METHOD and _is_plain(name)}


@cache
def _expressions() -> re.Pattern[str]:
    """The others, each role's in a group of its name."""
    by_role: dict[str, list[str]] = {}
    for name, role in _titles():
        if not _is_plain(name):
            by_role.setdefault(role, []).append(name)
    groups = (f"(?P<{role}>{'|'.join(names)})" for role, names in by_role.items())
    return late(f"(?:{'|'.join(groups)})$")


def _is_plain(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalnum()


@cache
def _cut() -> Mapping[str, str]:
    """What the kernel leaves of a name behind "ray::", where it can be of one role only."""
    roles: dict[str, set[str]] = {}
    for name, role in _titles():
        whole = re.match(r"\w*", name)
        if whole is not None and len(whole[0]) > CUT - len("ray::"):
            roles.setdefault(whole[0][: CUT - len("ray::")], set()).add(role)
    return {name: role for name, (role, *others) in roles.items() if role != BY_METHOD and not others}


@cache
def _methods() -> Mapping[str, tuple[tuple[re.Pattern[str], str], ...]]:
    """Workers that hold several models in one process: the method tells which one is at work."""
    return {
        name: tuple((late(expression), role) for expression, role in each.methods)
        for each in frameworks()
        for name, role, *_ in (*each.actors, *each.titles)
        if role == BY_METHOD
    }


@cache
def _with_methods() -> re.Pattern[str]:
    return late(rf"\b(?:{'|'.join(_methods())})\b")


@cache
def _commands() -> tuple[tuple[str, AnyOf], ...]:
    by_role: dict[str, list[str]] = {role: [] for role in _ORDER}
    for each in frameworks():
        for expression, role in each.commands:
            by_role[role].append(expression)
    for role, expression in _COMMANDS:
        by_role[role].append(expression)
    return tuple((role, AnyOf(*expressions)) for role, expressions in by_role.items())


# titles


def class_and_method(title: str) -> tuple[str, str]:
    """The class and the running method of a worker's title or an actor's name; the creation task tells no method."""
    title = title.strip()[:CHARACTERS]
    if match := _CREATION.match(title.removeprefix("ray::")):
        return match["name"], ""
    match = _TITLE.match(title)
    if match is None and not _PLAIN.match(title):
        return "", ""
    name = (match["name"] if match else title).replace("create_colocated_worker_cls.<locals>.", "")
    mark = ":" if title.startswith("ray_") else "."  # before Ray 0.9
    name, _, method = name.partition(mark) if "::" not in name else (name, "", "")
    return _SPAWNED.sub("", name).rstrip(":"), method


def is_outside_ray(title: str) -> bool:
    """Whether a row of Ray's table is a process that Ray did not start and can never kill."""
    title = title.strip()[:CHARACTERS]
    if _TITLE.match(title) or _CREATION.match(title):
        return False
    return role_of(title) not in ("ray", "object_store")


def short_name(title: str) -> str:
    """A few words for a table: the class of a worker, the script or module that a command runs."""
    title = title.strip()[:CHARACTERS]
    name, _ = class_and_method(title)
    if name:
        return name[:SHORT]
    return _program(title)[:SHORT] or title[:SHORT]


def _program(command: str) -> str:
    command = command.replace("\\", "/")
    try:
        words = shlex.split(command)
    except ValueError:  # cut inside a quotation
        words = command.split()
    while words and (_INTERPRETER.match(words[0]) or words[0].startswith("-")):
        flag = words.pop(0)
        if flag == "-m" and words:
            return words[0]
        if flag == "-c":
            return f"python -c {' '.join(words)}"
    if not words:
        return command
    return words[0].rstrip("/").rpartition("/")[2] or words[0]
