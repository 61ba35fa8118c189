"""The share of engines that reckon otherwise than vLLM.

SGLang's fraction is of what was free when it started, weights included. LMDeploy's and TensorRT-LLM's are of what is
free after the weights, for the cache alone; how much that was is not printed where it matters, so they go in steps.
"""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import sglang, shares, vllm
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.sglang import NoPool
from oomdoctor.incident.engine_facts import REST_SETTINGS, Loading, loading, static_fraction
from oomdoctor.incident.model import Crash
from oomdoctor.job.checkpoint_names import has_eight_bits
from oomdoctor.job.frameworks import among, engine_printing, some
from oomdoctor.language import say
from oomdoctor.remedies.engine.known import card_total, weights_bytes
from oomdoctor.remedies.initial import as_default, default_of
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal
from oomdoctor.remedies.settings import Spelling
from oomdoctor.units import show

# Of what is free, for a server alone on a card: server_args.py of SGLang takes 0.8 to 0.9 where nobody says, by the
# number of cards (0.2 to 0.4.6) and by their size (later)
OF_A_SERVER: Final = 0.85
FOR_THE_CACHE: Final = 0.02  # of what was free: a guess of the least cache that is worth a start


def spare_assumed() -> str:
    return say("{spare} spare for the next allocations (a guess)", spare=show(vllm.CAPTURE_SLACK_BYTES))


def cache_guessed(cache: float = FOR_THE_CACHE) -> str:
    return say("{cache} for the KV cache is a guess: the longest request may need more", cache=cache)


def first_step(formula: str) -> str:
    """A step up or down, where nothing tells how long a way it is."""
    return say("{formula} (first step; need unknown)", formula=formula)


def engine_of(crash: Crash) -> str | None:
    """The engine whose message it is; vLLM where its own messages stand there too."""
    printed = {name for event in (crash.root, *crash.events) if (name := engine_printing(event.family))}
    named = (each for each in among(crash.context.frameworks) if each.families)
    return next((each.name for each in (*among(printed), *named)), None)


def reckons_otherwise(crash: Crash) -> bool:
    """Whether the engine whose message it is takes no share of the whole card, as vLLM does."""
    engine = engine_of(crash)
    return engine is not None and not some([engine], "takes a share of the card")


def raised(case: Case) -> Answer:
    """A larger share, for an engine that is not vLLM."""
    crash = case.crash
    if some([engine_of(crash) or ""], "takes a share of the rest"):
        return _raised_of_the_rest(case.row, _now(crash))
    if not some([engine_of(crash) or ""], "takes a share of what is free"):
        return None
    now, loaded = _now(crash), loading(crash)
    if loaded is not None:
        return _from_loading(now, loaded)
    needed = crash.first(NoPool)
    if needed is not None and needed.smallest_fraction:
        return _from_its_own(now, needed.smallest_fraction)
    if now is None:
        return None
    weights = None if _may_be_of_8_bits(crash) else weights_bytes(crash)
    if weights is not None and (answer := _for_weights(crash, now, *weights)) is not None:
        return answer
    return _by_a_step(now)


def _raised_of_the_rest(row: Spelling | None, now: float | None) -> Answer:
    """From the share that is set: to the usual one, or a step above it."""
    if now is None or row is None or not isinstance(row.value, float):
        return None
    if now < row.value:
        usual = say("{value} is a usual start value", value=f"{row.value:g}")
        return Proposal(action=_raised(now, row.value), current=now, suggested=row.value, derivation=usual)
    return _by_a_step(now)


def _by_a_step(now: float) -> Answer:
    then = round(now + shares.STEP, 3)
    if then > shares.AT_THE_LIMIT:
        return Refusal(
            say("already {now}: a larger share leaves nothing for activations and CUDA graphs", now=f"{now:g}")
        )
    return Proposal(
        action=_raised(now, then),
        current=now,
        suggested=then,
        derivation=first_step(f"{now:g} + {shares.STEP} = {then:g}"),
    )


def _may_be_of_8_bits(crash: Crash) -> bool:
    """By an option or by a name; formulas count two bytes for each parameter."""
    return crash.setting("quantization") is not None or any(map(has_eight_bits, crash.context.models))


def _for_weights(crash: Crash, now: float, weights: int, source: str) -> Answer:
    """A share that holds weights of a known size: of a card whose size is known, else with the cards that it does for.
    In a trainer's job the rest of the card is not the engine's, and a step is all that is known."""
    total, step = card_total(crash), round(now + shares.STEP, 3)
    if total is not None:
        return _of_that_card(now, weights, total, source)
    then = step if crash.job.may_share else max(step, OF_A_SERVER)
    if then > shares.AT_THE_LIMIT:
        return None
    return Proposal(
        action=_raised(now, then),
        current=now,
        suggested=then,
        derivation=say(
            "{weights} of weights: with {now} they need a GPU of more than {now_least}, with {then} one of more than "
            "{least}",
            weights=show(weights), now=f"{now:g}", now_least=show(round(weights / now)), then=f"{then:g}",
            least=show(round(weights / then)),
        ),
        assumes=(source, say("nothing else on the GPU needs this memory")),
    )  # fmt: skip


def _of_that_card(now: float, weights: int, total: int, source: str) -> Answer:
    then = shares.ceil(weights / total + FOR_THE_CACHE)
    if then <= now:
        return None  # what is short are not the weights
    formula = say(
        "{weights} of weights / {total} + {cache} for the KV cache = {then}",
        weights=show(weights), total=show(total), cache=FOR_THE_CACHE, then=f"{then:g}",
    )  # fmt: skip
    if then > shares.AT_THE_LIMIT:
        return Refusal(
            say(
                "{weights} of weights would need a share of {then} ({formula}), which leaves too little for the rest",
                weights=show(weights), then=f"{then:g}", formula=formula,
            )
        )  # fmt: skip
    return Proposal(
        action=_raised(now, then),
        current=now,
        suggested=then,
        derivation=formula,
        assumes=(source, say("the GPU was empty when the engine started"), cache_guessed()),
    )


def _from_loading(now: float | None, loaded: Loading) -> Answer:
    before, after = loaded.free_before_bytes, loaded.free_after_bytes
    least = sglang.smallest_fraction(after, before)
    then = shares.ceil(least + FOR_THE_CACHE)
    formula = say(
        "1 - {after} after / {before} before loading + {cache} for the KV cache = {then}",
        after=show(after), before=show(before), cache=FOR_THE_CACHE, then=f"{then:g}",
    )  # fmt: skip
    if then > shares.AT_THE_LIMIT:
        return Refusal(
            say(
                "{weights} of weights would need a share of {then} ({formula}), which leaves too little for the "
                "rest",
                weights=show(before - after), then=f"{then:g}", formula=formula,
            )
        )  # fmt: skip
    return _if_larger(now, then, formula)


def _from_its_own(now: float | None, least: float) -> Answer:
    then = shares.ceil(least + FOR_THE_CACHE)
    formula = say(
        "{least} by the engine's own count + {cache} for the KV cache = {then}",
        least=f"{least:g}", cache=FOR_THE_CACHE, then=f"{then:g}",
    )  # fmt: skip
    if then > shares.AT_THE_LIMIT:
        return Refusal(
            say(
                "weights that take {least} would need a share of {then} ({formula}), which leaves too little "
                "for the rest",
                least=f"{least:g}", then=f"{then:g}", formula=formula,
            )
        )  # fmt: skip
    return _if_larger(now, then, formula)


def _if_larger(now: float | None, then: float, derivation: str) -> Answer:
    if now is not None and then <= now:
        return None
    return Proposal(
        action=_raised(now, then),
        current=now,
        suggested=then,
        derivation=derivation,
        assumes=(cache_guessed(),),
    )


def lowered(case: Case, refused: DeviceOutOfMemory | None) -> Answer:
    """A smaller share, for an engine that is not vLLM."""
    crash = case.crash
    stated = _now(crash)
    now, assumed = (stated, ()) if stated is not None else default_of(case) or (None, ())
    if stated is None and case.row is not None and some([case.row.framework], "takes a share of the rest"):
        return _to_begin_with(case.row)
    if refused is None or refused.tried_bytes is None or some([engine_of(crash) or ""], "takes a share of the rest"):
        return _step_down(now, assumed)
    if (refused.free_bytes or 0) >= refused.tried_bytes:
        return _step_down(now, assumed)  # what was short when it failed is not in the message
    loaded = loading(crash)
    base = loaded.free_before_bytes if loaded is not None else refused.total_bytes
    if not base:
        return _step_down(now, assumed)
    needed, formula = _lacking(refused.tried_bytes, refused.free_bytes or 0, base, before_loading=loaded is not None)
    assumes = [*assumed, spare_assumed()]
    if loaded is None:
        assumes.append(say("the GPU was empty when the engine started"))
    if now is None:
        step = shares.ceil(needed / base)
        return Proposal(
            action=say("Lower the engine's GPU memory share (not in the log) by at least {step}", step=f"{step:g}"),
            derivation=f"{formula} = {step:g}",
            assumes=tuple(assumes),
        )
    then = sglang.fraction_that_leaves(now, 0, needed, base)
    if then < shares.LEAST:
        return Refusal(say("no lower share makes enough room ({formula})", formula=f"{now:g} - {formula} = {then:g}"))
    return Proposal(
        action=_lowered(now, then, assumed),
        current=None if assumed else now,
        suggested=then,
        derivation=say("{now} - {formula} = {then}", now=f"{now:g}", formula=formula, then=f"{then:g}"),
        assumes=tuple(assumes),
    )


def _lacking(tried: int, free: int, base: int, *, before_loading: bool) -> tuple[int, str]:
    """What the engine has to leave free beyond what it does, and the formula of its part of the whole."""
    free, slack = min(free, tried), vllm.CAPTURE_SLACK_BYTES
    figures = {"tried": show(tried), "free": show(free), "spare": show(slack), "base": show(base)}
    formula = (
        say("({tried} requested - {free} free + {spare} spare) / {base} free before loading", **figures)
        if before_loading
        else say("({tried} requested - {free} free + {spare} spare) / {base} of the GPU", **figures)
    )
    return tried - free + slack, formula


def _to_begin_with(row: Spelling) -> Answer:
    """Of what is free after the weights a small step is little, and the default hangs on the release."""
    if not isinstance(row.value, float):
        return None
    return Proposal(
        action=say("Lower the engine's GPU memory share to {then}", then=f"{row.value:g}"),
        suggested=row.value,
        derivation=say("{value} is a usual start value", value=f"{row.value:g}"),
    )


def _step_down(now: float | None, assumed: tuple[str, ...]) -> Answer:
    if now is None:
        return None
    then = round(now - shares.STEP, 3)
    if then < shares.LEAST:
        return Proposal()
    return Proposal(
        action=_lowered(now, then, assumed),
        current=None if assumed else now,
        suggested=then,
        derivation=first_step(f"{now:g} - {shares.STEP} = {then:g}"),
        assumes=assumed,
    )


def _now(crash: Crash) -> float | None:
    """The fraction in force: the engine's own word, its arguments, or the option of its framework."""
    told = crash.first(NoPool)
    if told is not None and told.fraction:
        return told.fraction
    stated = crash.setting(*REST_SETTINGS)
    if stated is not None and isinstance(stated.value, float):
        return stated.value
    return static_fraction(crash)


def _raised(now: float | None, then: float) -> str:
    if now is None:
        return say("Raise the engine's GPU memory share to {then}", then=f"{then:g}")
    return say("Raise the engine's GPU memory share: {now} -> {then}", now=f"{now:g}", then=f"{then:g}")


def _lowered(now: float, then: float, assumed: tuple[str, ...]) -> str:
    shown = as_default(f"{now:g}") if assumed else f"{now:g}"
    return say("Lower the engine's GPU memory share: {now} -> {then}", now=shown, then=f"{then:g}")
