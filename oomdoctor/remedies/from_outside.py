"""What a remedy rests on that the log does not print: it says so under what it assumes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import some
from oomdoctor.job.model import Context, Setting
from oomdoctor.language import say
from oomdoctor.remedies import Remedy, models
from oomdoctor.remedies.functions import OF_THE_ENGINE
from oomdoctor.remedies.proposal import Case


def listening(crash: Crash, heard: list[Setting]) -> Crash:
    """The crash, noting which settings from outside the log it is asked for."""
    if not any(setting.outside for setting in crash.context.settings.values()):
        return crash
    return replace(crash, context=replace(crash.context, heard=heard))


def marked(remedy: Remedy, case: Case, heard: list[Setting]) -> Remedy:
    """The remedy with what it takes from outside the log among its assumptions."""
    context = case.crash.context
    settings = [*([case.now] if case.now is not None and case.now.outside else []), *heard]
    said = [told(f"{one.name}={one.value}", one.outside or "") for one in settings]
    said += [told(what, source) for what, source in _sources(remedy, case, context)]
    return replace(remedy, assumes=tuple(dict.fromkeys([*remedy.assumes, *said]))) if said else remedy


def told(what: str, source: str) -> str:
    """What is reckoned with, and who says so."""
    return say("{what} from {source}, not from the log", what=what, source=source)


def _sources(remedy: Remedy, case: Case, context: Context) -> Iterator[tuple[str, str]]:
    """The versions, frameworks and models that it rests on."""
    words = " ".join((remedy.action, remedy.derivation or "", *remedy.assumes))
    for name, source in context.outside.items():
        version = context.frameworks.get(name)
        spelled = case.row is not None and case.row.framework == name
        computed = some([name], "runs inside trainers") and remedy.knob in OF_THE_ENGINE
        if spelled or computed or remedy.setting == name:
            yield f"{name} {version}" if version else name, source
        elif (model := models.known([name])) is not None and model.name in words:
            yield say("the model {name}", name=name), source
