"""Labelled logs: cases in folders, the fixtures of a checkout, and the generator's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from oomdoctor import street
from oomdoctor.causes import causes
from oomdoctor.language import say
from oomdoctor.sources import InMemory
from oomdoctor.street import Facts
from oomdoctor.training.generator import NOT_OOM, Labelled

FIXTURES: Final = Path(__file__).parent.parent.parent / "fixtures"  # in a checkout; a wheel has none
LABEL: Final = "case.json"


class CaseError(ValueError):
    """A labelled log that cannot be used; the text says which and why."""


class Case(Struct, frozen=True, kw_only=True):
    """A labelled log: `case.json` beside its logs."""

    name: str
    logs: tuple[Path, ...]
    cause: str  # what an expert says, or "not-oom"
    also: tuple[str, ...] = ()  # what a fair judge would also accept first
    decided: bool = True  # whether the log alone tells
    software: tuple[str, ...] = ()
    label: dict[str, Any]  # the whole of case.json

    @property
    def fair(self) -> frozenset[str]:
        return frozenset((self.cause, *self.also))

    @property
    def project(self) -> str:
        """Whose logs are alike: the repository that the case is from, the family of a fixture, else the case alone."""
        source = self.label.get("source")
        if isinstance(source, str) and "#" in source:
            return source.partition("#")[0]
        return self.name.partition("/")[0]

    @property
    def failed(self) -> bool:
        """Whether memory failed."""
        return self.cause != NOT_OOM

    def facts(self) -> Facts:
        sources, troubles = street.gather([str(log) for log in self.logs])
        return street.facts_of(sources, troubles)


def cases_in(folder: Path) -> list[Case]:
    """The cases in a folder: one sub-folder each, in order of their names."""
    labels = sorted(folder.glob(f"*/{LABEL}"))
    if not labels:
        raise CaseError(
            say(
                "{folder}: no case in it (a case is a folder with a {label} and its log.txt)",
                folder=folder,
                label=LABEL,
            )
        )
    return [_case(path) for path in labels]


def _case(path: Path) -> Case:
    try:
        label = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaseError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CaseError(say("{file}: no JSON ({why})", file=path, why=error)) from error
    if not isinstance(label, dict) or not isinstance(label.get("root_cause"), str):
        raise CaseError(say('{file}: it has to say "root_cause", the id of a cause or not-oom', file=path))
    names = _names(label, "inputs", path) or ("log.txt",)
    if elsewhere := next((name for name in names if Path(name).is_absolute() or ".." in Path(name).parts), None):
        raise CaseError(say('{file}: "inputs" names logs beside it, and {name} is none', file=path, name=elsewhere))
    logs = tuple(path.parent / name for name in names)
    if missing := next((log for log in logs if not log.exists()), None):
        raise CaseError(say("{file}: its log {log} is not there", file=path, log=missing.name))
    return Case(
        name=path.parent.name,
        logs=logs,
        cause=_known(label["root_cause"], path),
        also=tuple(_known(name, path) for name in _names(label, "also_acceptable", path)),
        decided=bool(label.get("from_log_alone", True)),
        software=_names(label, "software", path),
        label=label,
    )


def _names(label: dict[str, Any], field: str, path: Path) -> tuple[str, ...]:
    told = label.get(field, [])
    if not isinstance(told, list) or not all(isinstance(name, str) for name in told):
        raise CaseError(say('{file}: "{field}" has to be a list of texts', file=path, field=field))
    return tuple(told)


def _known(cause: str, path: Path) -> str:
    if cause != NOT_OOM and cause not in {known.id for known in causes()}:
        raise CaseError(
            say("{file}: there is no cause {name}; `oomdoctor explain causes` lists all", file=path, name=cause)
        )
    return cause


def fixtures() -> list[Case]:
    """The fixtures with a reviewed cause, where this is a checkout."""
    found = []
    for path in sorted(FIXTURES.glob("*/*.json")):
        label = json.loads(path.read_text(encoding="utf-8"))
        if label.get("cause") and path.with_suffix(".log").is_file() and label["cause"] != "inconclusive":
            found.append(
                Case(
                    name=f"{path.parent.name}/{path.stem}",
                    logs=(path.with_suffix(".log"),),
                    cause=label["cause"],
                    label=label,
                )
            )
    return found


def facts_of_text(generated: Labelled) -> Facts:
    """A generated log, read as any other."""
    return street.facts_of([InMemory("job.log", None, data=generated.text.encode())], ())


__all__ = ["Case", "CaseError", "cases_in", "facts_of_text", "fixtures"]
