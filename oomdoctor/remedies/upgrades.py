"""Another release: one without a known regression, or a later one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from oomdoctor.incident.devices import maker
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import node_memory
from oomdoctor.job.frameworks import among
from oomdoctor.language import listed, say, semicolons, translated
from oomdoctor.patterns import late
from oomdoctor.regressions import Carrier, Regression
from oomdoctor.remedies.inputs import nothing_is_known_of_the_program
from oomdoctor.remedies.placement import VISIBLE
from oomdoctor.remedies.proposal import PROCESS_HOG, REFUSED_WHAT_IS_FREE, Answer, Case, Proposal, Skip
from oomdoctor.signs import releases
from oomdoctor.signs.kv_pool import evictable_tokens_stayed, last_prompt_refused
from oomdoctor.signs.library import the_driver_of_an_embedded_gpu_had_no_room
from oomdoctor.signs.releases import Match
from oomdoctor.units import show

_EVICTS: Final = "0.11.0"
_REFERENCE = late(r"([\w.\-]+/[\w.\-]+)#(\d+)")


def pin_version(case: Case) -> Answer:
    match = releases.likely(case.crash)
    if match is None and case.cause == PROCESS_HOG:
        return _of_the_cluster(case.crash)
    if match is None and evictable_tokens_stayed(case.crash) is not None:
        return _without_a_prefix_cache()
    if match is None:
        return _that_evicts(case.crash) or _no_known_regression(case.crash) or _another_build(case) or _of_none(case)
    known = match.known
    package = known.affected.package
    return Proposal(
        action=say("{action}: {what}", action=_upgrade(case.crash, match), what=translated(known.what)),
        setting=package if known.install else None,
        current=case.crash.context.frameworks.get(package) if known.install else None,
        suggested=_bound(known),
        derivation=_affected(case.crash, match),
        snippet=_to_copy(match),
        assumes=(_assumed(known),) if match.told == "nowhere" else (),
        reference=_address(known.seen[0]),
    )


def _without_a_prefix_cache() -> Proposal:
    """python/sglang/srt/server_args.py: what ends with its request needs no eviction."""
    return Proposal(
        action=say("Upgrade SGLang; until then turn its prefix cache off, whose tokens it failed to evict"),
        snippet="--disable-radix-cache",
        cost=say("prompts that share a prefix are computed in full again"),
    )


def _of_the_cluster(crash: Crash) -> Answer:
    """A helper of Ray's own runs no code of the job: a restart frees what it holds, a later release may hold less."""
    memory = node_memory(crash)
    helper = memory.heaviest if memory is not None else None
    if helper is None or not helper.is_a_helper:
        return _no_known_regression(crash)
    return Proposal(
        action=say(
            "Upgrade Ray and restart it on this node: {who} runs Ray's code, not yours; the restart frees {held}",
            who=helper.who,
            held=show(helper.largest),
        ),
        snippet="pip install --upgrade ray",
        subject=helper.who,
        cost=say("the restart ends what Ray runs on this node"),
    )


def _that_evicts(crash: Crash) -> Proposal | None:
    """#338 of vllm.rs, between 0.10.11 and 0.11.0: the words of the refusal tell the releases apart."""
    refused = last_prompt_refused(crash)
    if refused is None or refused.evicts:
        return None
    return Proposal(
        action=say(
            "Upgrade vllm.rs to {release} or later: it evicts cached prefixes before it refuses a prompt",
            release=_EVICTS,
        ),
        subject=f"vllm.rs {_EVICTS}",
        reference="https://github.com/guoqingbao/vllm.rs/pull/338",
    )


def _no_known_regression(crash: Crash) -> Answer:
    """Where no known case fits, the newest fixes are the best guess."""
    names = crash.context.frameworks
    used = [f"{name} {version}" for name, version in names.items() if version and name != "python"]
    installed = [each for each in among(names) if each.packages and each.layer != "base"]
    package = next((each.packages[0] for each in sorted(installed, key=lambda one: not names[one.name])), None)
    if not used and package is None:
        return None
    return Proposal(
        action=say(
            "Try a later release ({releases}); no known regression matches",
            releases=listed(used[:4] or [package or ""]),
        ),
        snippet=f"pip install --upgrade {package}" if package is not None else None,
    )


def _another_build(case: Case) -> Answer:
    if case.cause != REFUSED_WHAT_IS_FREE or maker(case.crash) not in VISIBLE:
        return None
    if the_driver_of_an_embedded_gpu_had_no_room(case.crash) is not None:
        return Proposal(
            action=say("Compare the release of L4T (JetPack) with those before and after it: 36.4.7 caps allocations"),
            snippet="cat /etc/nv_tegra_release",
            reference="https://github.com/ggml-org/llama.cpp/pull/23732",
        )
    return Proposal(
        action=say("Try another build of the framework for this driver, such as the GPU maker's container image")
    )


def _of_none(case: Case) -> Skip | None:
    """A program of which nothing is known has no framework."""
    return Skip() if nothing_is_known_of_the_program(case.crash) else None


def _upgrade(crash: Crash, match: Match) -> str:
    """What to do; where a framework pins the package, a release of it that pins another one goes first."""
    known = match.known
    carrier = match.carrier or next(_may_pin(crash, known), None)
    if carrier is None:
        return known.cures[0].upper() + known.cures[1:]
    return say(
        "Upgrade {carrier} to {sound} or later (pins {package} {pinned}), or install {install} with the current one",
        carrier=carrier.releases.package,
        sound=carrier.sound,
        package=known.affected.package,
        pinned=carrier.pins,
        install=known.install,
    )


def _may_pin(crash: Crash, known: Regression) -> Iterator[Carrier]:
    """The frameworks that the job uses in a release that is not printed."""
    frameworks = crash.context.frameworks
    for carrier in known.carriers:
        if carrier.releases.package in frameworks and not frameworks[carrier.releases.package]:
            yield carrier


def _to_copy(match: Match) -> str | None:
    known = match.known
    if match.carrier is not None:
        return f"pip install '{match.carrier.releases.package}>={match.carrier.sound}'"
    return f"pip install '{known.install}'" if known.install else known.set


def _bound(known: Regression) -> str | None:
    """The version in the requirement."""
    return re.split("[=><]=", known.install)[1] if known.install else None


def _affected(crash: Crash, match: Match) -> str:
    """The range, what is printed, and where it was read."""
    known = match.known
    parts = [
        say("affected: {releases}; fixed in {sound}", releases=known.affected, sound=_bound(known))
        if known.install
        else say("affected: {releases}", releases=known.affected)
    ]
    if match.told == "printed":
        package = known.affected.package
        release = f"{package} {match.version}"
        given = package in crash.context.outside
        parts.append(say("{release}", release=release) if given else say("{release} (from the log)", release=release))
    if match.told == "pinned":
        parts.append(say("{release} pins one", release=match.version))
    if known.dated:
        day, _, change = known.dated.partition(" ")
        parts.append(say("fixed on {day} by {change} (release unknown)", day=day, change=change))
    return f"{semicolons(parts)} ({', '.join(known.seen[:2])})"


def _assumed(known: Regression) -> str:
    package = known.affected.package
    return say("{package} is an affected release (not in the log; check `pip show {package}`)", package=package)


def _address(reference: str) -> str | None:
    match = _REFERENCE.fullmatch(reference)
    return f"https://github.com/{match[1]}/issues/{match[2]}" if match else None
