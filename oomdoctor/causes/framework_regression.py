"""A known version needs more memory than another one: symptom and version together decide."""

from __future__ import annotations

import re

from oomdoctor.causes import Cause, Finding, Judgement, NotEnough, RuledOut
from oomdoctor.causes.gpu import innermost
from oomdoctor.incident.model import Crash
from oomdoctor.regressions import REGRESSIONS, Range, Regression, Version, version

_ZERO_STAGE = ("zero_stage", "zero_optimization.stage", "deepspeed_stage", "actor.zero_stage", "ds_zero_stage")
_OFF = frozenset({"", "0", "false", "no", "none", "null", "cpu=false"})


def judge(crash: Crash) -> Judgement | None:
    """The best of what the table says; one that is ruled out or lacks a figure only where nothing fits."""
    judgements = [judgement for regression in REGRESSIONS if (judgement := _one(crash, regression)) is not None]
    findings = [judgement for judgement in judgements if isinstance(judgement, Finding)]
    if findings:
        return max(findings, key=lambda finding: finding.weight)
    return judgements[0] if judgements else None


def _one(crash: Crash, known: Regression) -> Judgement | None:
    signs = _signs(crash, known)
    if signs is None:
        return None
    package = known.affected.package
    found = version(crash.context.frameworks.get(package))
    carrier = _carrier(crash, known)
    if found is None and carrier is None:
        if known.tell_tale and crash.mentions(known.tell_tale):
            weight = 0.8 if innermost(crash, known.tell_tale, 1) else 0.55  # its own source is what failed
            whose = f"The version of {package} is not printed, but the log shows it"
            return _finding(crash, known, signs, weight, whose)
        return NotEnough(f"the version of {package}", (f"pip show {package}",)) if package in _named(crash) else None
    if found is not None and not known.affected.holds(found):
        return RuledOut(f"{package} {_spelled(found)} is not affected ({_range(known.affected)} are)")
    if found is None:
        return _finding(crash, known, signs, 0.78, f"{carrier} pins an affected {package}")
    return _finding(crash, known, signs, _weight(known), f"{package} {_spelled(found)} is one of the affected")


def _weight(known: Regression) -> float:
    """A version alone is no symptom: the more the table asks for, the more it proves."""
    return 0.9 if _specific(known) else 0.45


def _specific(known: Regression) -> bool:
    return bool(known.settings and known.zero_stages) or known.trace is not None or known.grows


def _finding(crash: Crash, known: Regression, signs: str, weight: float, whose: str) -> Finding:
    return Finding(
        weight=weight,
        shows_memory=_specific(known) or known.tell_tale is not None,
        why=f"{whose} ({_range(known.affected)}): {known.what}. Here: {signs}. Another version: {known.cure}.",
        evidence=(crash.root,),
        against=() if crash.proven else ("the log shows a kill, not what it was for",),
    )


def _signs(crash: Crash, known: Regression) -> str | None:
    """The symptom in words, or None where a part of it is missing."""
    if crash.pool not in known.pools:
        return None
    parts = [
        *([_stage(crash, known.stages)] if known.stages else []),
        *([_zero(crash, known.zero_stages)] if known.zero_stages else []),
        *(_switched_on(crash, names) for names in known.settings),
        *([_frame(crash, known.trace)] if known.trace else []),
        *([_growth(crash)] if known.grows else []),
    ]
    signs = [part for part in parts if part is not None]
    return ", ".join(signs) if signs and len(signs) == len(parts) else None


def _stage(crash: Crash, stages: frozenset[str]) -> str | None:
    return f"it failed in {crash.stage}" if crash.stage in stages else None


def _zero(crash: Crash, stages: frozenset[int]) -> str | None:
    stage = _integer(crash, _ZERO_STAGE)
    return f"ZeRO-{stage}" if stage in stages else None


def _switched_on(crash: Crash, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if _on(crash, name)), None)


def _frame(crash: Crash, pattern: str) -> str | None:
    frame = crash.in_trace(pattern)
    if frame is None:
        return None
    return f"in {frame.function}" if frame.function.isidentifier() else "in a frame that belongs to it"


def _growth(crash: Crash) -> str | None:
    grows = crash.trajectory is not None and crash.trajectory.growth_bytes
    return "the memory grows with every step" if grows else None


def _carrier(crash: Crash, known: Regression) -> str | None:
    for carrier in known.carriers:
        found = version(crash.context.frameworks.get(carrier.package))
        if found is not None and carrier.holds(found):
            return f"{carrier.package} {_spelled(found)}"
    return None


def _named(crash: Crash) -> frozenset[str]:
    """The packages that the job uses, as far as the log shows; ZeRO is DeepSpeed's."""
    uses_zero = _integer(crash, _ZERO_STAGE) is not None
    return frozenset({*crash.context.frameworks, *(("deepspeed",) if uses_zero else ())})


def _integer(crash: Crash, names: tuple[str, ...]) -> int | None:
    setting = crash.setting(*names)
    if setting is None or isinstance(setting.value, bool):
        return None
    match = re.fullmatch(r"(?:zero)?_?(?:stage)?_?([0-3])", str(setting.value).lower())
    return int(match[1]) if match else None


def _on(crash: Crash, name: str) -> bool:
    setting = crash.setting(name)
    return setting is not None and setting.value is not None and str(setting.value).lower() not in _OFF


def _spelled(found: Version) -> str:
    return ".".join(str(part) for part in found)


def _range(affected: Range) -> str:
    first = f"{affected.package} from {affected.first}" if affected.first else affected.package
    return f"{first} before {affected.fixed}" if affected.fixed else first


CAUSE = Cause(
    id="framework-regression",
    title="A version of a package needs more memory than it should",
    pools=("gpu", "host_ram", "cgroup"),
    knobs=("pin-version",),
    judge=judge,
)
