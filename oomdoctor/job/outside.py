"""What is known of the job from outside its log: launch scripts, configurations, and what somebody says they know.

It adds what the log does not print. What the log prints wins, and where the two contradict each other that is said.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families.event import Event
from oomdoctor.job import plain_yaml, recognition, script
from oomdoctor.job.context import is_secret
from oomdoctor.job.frameworks import hallmarks, has_versions, launched_by, layers, programs
from oomdoctor.job.literals import entries, typed
from oomdoctor.job.model import Context, Setting, Value
from oomdoctor.language import listed, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.sources.source import opened
from oomdoctor.sources.trouble import UnreadableError, why
from oomdoctor.text import disarm
from oomdoctor.versions import version_of

Kind = Literal["config", "launch", "assume", "set"]

LARGEST_FILE: Final = 4 * 1024 * 1024
MOST_NOTES: Final = 6
ASSUMED: Final = "--assume"
_NAME: Final = late(r"-{0,2}([A-Za-z_][\w.\-]{0,150})")
_FORMS: Final = mark("write --assume vllm=0.8.3 for a version, or --assume zero_stage=3 for a setting")
# Printed by an engine's own messages under names of ours: event's field → the settings that it is.
_PRINTED: Final[Mapping[str, tuple[str, ...]]] = {
    "utilization": ("gpu_memory_utilization", "vllm_gpu_memory_utilization"),
    "max_model_len": ("max_model_len", "max_seq_len"),
    "max_num_seqs": ("max_num_seqs",),
}


class OutsideError(ValueError):
    """A script, configuration or assumption that cannot be read: which, where, and what to do."""

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Outside(Struct, frozen=True):
    """What stands outside the log, the strongest last: configurations, launch scripts, assumptions."""

    settings: tuple[Setting, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    frameworks: tuple[tuple[str, str], ...] = ()  # what is launched, and the script that does it
    notes: tuple[str, ...] = ()


FilePath = str | os.PathLike[str]


def read(launch: Sequence[FilePath] = (), config: Sequence[FilePath] = (), assume: Sequence[str] = ()) -> Outside:
    """The settings and versions of these files and of assumptions like "vllm=0.8.3"."""
    notes: list[str] = []
    frameworks: dict[str, str] = {}
    configured = _agreed([one for path in config for one in _configured(os.fspath(path))], notes)
    launched: list[Setting] = []
    for path in launch:
        text, name = _text("launch", os.fspath(path))
        launched += _launched(text, name)
        for framework in layers(launched_by("\n".join(script.commands(text)))):
            frameworks.setdefault(framework, name)
    settings, versions = _assumed(assume)
    found = [*configured, *_agreed(launched, notes), *settings]
    if (launch or config) and not (found or frameworks or notes):
        names = listed(map(_named, (*launch, *config)))
        notes.append(say("nothing that says how the job was set stands in {names}", names=names))
    return Outside(tuple(found), tuple(versions), tuple(frameworks.items()), tuple(notes))


def _named(path: FilePath) -> str:
    return Path(path).name


def _text(kind: Kind, path: str) -> tuple[str, str]:
    """The file's text, safe to print, and the name to call it by."""
    try:
        with opened(path) as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, UnreadableError, ValueError) as error:  # ValueError: a NUL in the path
        reason = _reason(error)
        raise OutsideError(kind, say("{path}: {why}; name a file that can be read", path=path, why=reason)) from error
    if len(data) > LARGEST_FILE:
        most = LARGEST_FILE >> 20
        told = say("{path}: larger than {most} MiB; name the script, not the log", path=path, most=most)
        raise OutsideError(kind, told)
    if b"\0" in data:
        raise OutsideError(kind, say("{path}: no text (it holds NUL bytes)", path=path))
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return "\n".join(disarm(line) for line in text.split("\n")), disarm(Path(path).name)


def _reason(error: OSError | UnreadableError | ValueError) -> str:
    if isinstance(error, OSError):
        return why(error)
    return str(error) if isinstance(error, UnreadableError) else say("no such file")


# reading


def _launched(text: str, name: str) -> Iterator[Setting]:
    for flag in script.flags(text):
        yield from _setting(flag.name, flag.value, name, flag.line, flag.written)


def _configured(path: str) -> Iterator[Setting]:
    text, name = _text("config", path)
    if path.lower().endswith(".json") or text.lstrip().startswith(("{", "[")):
        yield from _json(text, path, name)
        return
    if path.lower().endswith(".toml"):
        told = say("{path}: TOML is not read; hand over YAML or JSON, or --assume NAME=VALUE", path=path)
        raise OutsideError("config", told)
    try:
        for stated in plain_yaml.read(text):
            yield from _setting(stated.name, stated.value, name, stated.line)
    except plain_yaml.UnreadableYamlError as error:
        told = say("{path} {what}; write it out, or use --assume", path=path, what=error)
        raise OutsideError("config", told) from error


def _json(text: str, path: str, name: str) -> Iterator[Setting]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutsideError("config", _no_json(path, error)) from error
    if not isinstance(body, dict):
        kind = type(body).__name__
        told = say("{path}: a JSON object with names is wanted, not a {kind}", path=path, kind=kind)
        raise OutsideError("config", told)
    for entry in entries(text):
        yield from _setting(entry.name, entry.value, name, text.count("\n", 0, entry.offset) + 1)


def _no_json(path: str, error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return say("{path}: no JSON (nested too deeply); mend it, or pass --assume NAME=VALUE", path=path)
    if not isinstance(error, json.JSONDecodeError):
        return say("{path}: no JSON (a number of too many digits); mend it, or pass --assume NAME=VALUE", path=path)
    return say(
        "{path} line {line}: no JSON ({what}); mend it, or pass --assume NAME=VALUE",
        path=path,
        line=error.lineno,
        what=error.msg,
    )


def _assumed(assume: Sequence[str]) -> tuple[list[Setting], list[tuple[str, str]]]:
    settings: dict[str, Setting] = {}
    versions: dict[str, str] = {}
    for one in assume:
        name, value = parted(one, "assume", translated(_FORMS))
        package = name.lower().replace("_", "-")
        if has_versions(package):
            if version_of(value) is None:
                told = say(
                    "{value} is no version of {package}; {forms}",
                    value=repr(value),
                    package=package,
                    forms=translated(_FORMS),
                )
                raise OutsideError("assume", told)
            versions[package] = value.lstrip("v")
        else:
            settings.update((one.name, one) for one in _setting(name, typed(value), ASSUMED, 0))
    return list(settings.values()), list(versions.items())


def parted(one: str, kind: Kind, forms: str) -> tuple[str, str]:
    """Name and value of NAME=VALUE."""
    name, sign, value = (part.strip() for part in disarm(one).partition("="))
    match = _NAME.fullmatch(name)
    if not sign or not value or match is None:
        raise OutsideError(kind, say("{given} is no NAME=VALUE; {forms}", given=repr(one), forms=forms))
    return match[1], value


def _setting(name: str, value: Value, file: str, line: int, written: str | None = None) -> Iterator[Setting]:
    name = name.strip("-+").replace("-", "_")
    if not name or is_secret(name, value) or (isinstance(value, str) and re.search(r"[$`]", value)):
        return
    outside = file if file == ASSUMED else say("{file} line {line}", file=file, line=line)
    yield Setting(name, value, file, line, written, outside=outside)


def _agreed(settings: Sequence[Setting], notes: list[str]) -> list[Setting]:
    """Those that are stated once, or always the same: which of two values the job ran with is not known."""
    found: dict[str, Setting] = {}
    unclear: dict[str, None] = {}
    for setting in settings:
        first = found.setdefault(setting.name, setting)
        if not _same(first.value, setting.value):
            if setting.name not in unclear:
                notes.append(
                    say(
                        "{name} is {value} ({source}) and {other} ({other_source}): neither is used; --assume says "
                        "which",
                        name=setting.name,
                        value=first.value,
                        source=first.outside,
                        other=setting.value,
                        other_source=setting.outside,
                    )
                )
            unclear[setting.name] = None
    return [setting for name, setting in found.items() if name not in unclear]


# joining


def joined(context: Context, outside: Outside, events: Iterable[Event] = ()) -> tuple[Context, tuple[str, ...]]:
    """The context with what the log does not say, and where the log says otherwise."""
    notes = list(outside.notes)
    settings = dict(context.settings)
    printed = {**printed_by(events), **context.settings}
    for setting in _strongest(outside.settings, notes):
        own = _of_the_log(setting, printed)
        if own is None:
            settings[setting.name] = setting
        elif not _same(own.value, setting.value):
            notes.append(
                say(
                    "{name} is {value} in the log ({place}) and {other} in {source}: the log counts",
                    name=setting.name,
                    value=own.value,
                    place=f"{own.file}:{own.line}",
                    other=setting.value,
                    source=setting.outside,
                )
            )
    frameworks, sources = _frameworks(context, outside, notes)
    models = context.models
    if not models:
        named = [s for s in settings.values() if s.outside and _names_a_model(s)]
        models = tuple(dict.fromkeys(str(s.value).rstrip("/") for s in named))
        sources.update((str(s.value).rstrip("/"), s.outside or "") for s in named)
    told = replace(context, settings=settings, frameworks=frameworks, models=models, outside=sources)
    more = say("and {count} more such contradictions", count=len(notes) - MOST_NOTES)
    return told, tuple(notes if len(notes) <= MOST_NOTES + 1 else [*notes[:MOST_NOTES], more])


def _strongest(settings: Iterable[Setting], notes: list[str]) -> Iterator[Setting]:
    """Of a configuration, a launch line and an assumption the last counts."""
    found: dict[str, Setting] = {}
    for setting in settings:
        weaker = found.get(setting.name)
        if weaker is not None and not _same(weaker.value, setting.value):
            notes.append(
                say(
                    "{name} is {value} in {source} and {other} in {other_source}: the latter counts",
                    name=setting.name,
                    value=weaker.value,
                    source=weaker.outside,
                    other=setting.value,
                    other_source=setting.outside,
                )
            )
        found[setting.name] = setting
    yield from found.values()


def _names_a_model(setting: Setting) -> bool:
    return isinstance(setting.value, str) and recognition.names_a_model(setting.name, setting.value)


def printed_by(events: Iterable[Event]) -> dict[str, Setting]:
    """The settings that an engine's own messages print."""
    found: dict[str, Setting] = {}
    for event in events:
        for field, names in _PRINTED.items():
            value = getattr(event, field, None)
            if value is not None:
                found.update((name, Setting(name, value, event.at.file, event.at.line)) for name in names)
    return found


def _of_the_log(setting: Setting, printed: Mapping[str, Setting]) -> Setting | None:
    """The log's setting of the same name, with or without what stands before its dots."""
    name = setting.name.lower()
    for known, own in printed.items():
        spelled = known.replace("-", "_").lower()
        if spelled == name or spelled.endswith("." + name) or name.endswith("." + spelled):
            return own
    return None


def _frameworks(
    context: Context, outside: Outside, notes: list[str]
) -> tuple[Mapping[str, str | None], dict[str, str]]:
    versions = dict(context.frameworks)
    sources: dict[str, str] = {}
    mine = programs() & versions.keys()
    for name, file in outside.frameworks:
        if name in versions:
            continue
        if mine and name in programs():
            notes.append(
                say(
                    "{file} starts {name}, and the log is of {others}: is it the right script?",
                    file=file,
                    name=name,
                    others=listed(sorted(mine)),
                )
            )
            continue
        versions[name] = None
        sources[name] = file
    for name, version in outside.versions:
        own = versions.get(name)
        if own is None:
            versions[name] = version
            sources[name] = ASSUMED
        elif version_of(own) != version_of(version):
            notes.append(
                say(
                    "{name} is {value} in the log and {other} in {source}: the log counts",
                    name=name,
                    value=own,
                    other=version,
                    source=ASSUMED,
                )
            )
    known = layers(versions.keys() & hallmarks().keys()) if sources else []
    return {name: versions.get(name) for name in [*known, *versions]}, sources


def _same(one: Value, other: Value) -> bool:
    return one == other or str(one).lower() == str(other).lower()
