"""A larger share of the card for the engine, from what its cache lacks."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import kv_cache, shares, vllm
from oomdoctor.families.sglang import PoolExhausted
from oomdoctor.families.vllm_error import ContextDoesNotFit, NotEnoughFree
from oomdoctor.families.vllm_figures import KvCacheSize, MemoryProfile
from oomdoctor.incident.engine_facts import facts
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import some
from oomdoctor.language import say
from oomdoctor.remedies import Beside, fractions
from oomdoctor.remedies.engine.in_ram import larger_cache
from oomdoctor.remedies.engine.known import card_total, free_at_start, one_request, token_bytes, weights_bytes
from oomdoctor.remedies.engine.share import as_known, fixed_cache, share
from oomdoctor.remedies.initial import default_of
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal
from oomdoctor.remedies.settings import Spelling, spelling
from oomdoctor.units import GIB, in_print, show

LEAST_CONTEXT: Final = 1024  # tokens: a guess of the shortest context that is worth a start
LARGEST_CARD: Final = 432 * 10**9  # AMD's Instinct MI400 series of 2026; no GPU that is sold has more
_POOL_OF_SGLANG: Final = "max_total_tokens"


def _raised_pool(crash: Crash) -> Proposal | None:
    """SGLang takes the smaller of what it measured and what is stated (model_runner.py, `init_memory_pool`)."""
    stated = crash.setting(_POOL_OF_SGLANG) if isinstance(crash.root, PoolExhausted) else None
    if stated is None or stated.whole is None:
        return None
    return Proposal(
        action=say(
            "Raise {name} (now {now}) or leave it out: the KV pool has no more tokens, whatever the share",
            name=stated.name, now=stated.whole,
        ),
        setting=f"--{_POOL_OF_SGLANG.replace('_', '-')}",
        current=stated.whole,
        cost=say("less memory on the device for all else"),
    )  # fmt: skip


def raise_share(case: Case) -> Answer:
    crash = case.crash
    fixed = fixed_cache(crash) or _raised_pool(crash) or larger_cache(crash)
    if fixed is not None:
        return fixed
    if fractions.reckons_otherwise(crash):
        return fractions.raised(case)
    held = next((e for e in crash.every(NotEnoughFree) if e.external_bytes and e.requested_bytes), None)
    if held is not None:
        return _above_weights_of_another(held.utilization, held.external_bytes or 0, held.requested_bytes or 0)
    known = share(crash) or default_of(case)
    total = card_total(crash)
    missing = _missing_cache(crash)
    if known is None:
        return None
    now, assumed = known
    at_the_limit = (
        Refusal(
            say(
                "already {now}: a larger share leaves no room for the driver, CUDA graphs and the sampler",
                now=f"{now:g}",
            )
        )
        if now >= shares.AT_THE_LIMIT
        else None
    )
    if total is not None and missing is None and (above := _above_what_was_used(crash, known, total)) is not None:
        return above
    if total is None or missing is None:
        return at_the_limit or _step_up(crash, now, assumed, missing)
    amount, why = missing
    most = _most(crash, total)
    least = shares.raised(now, amount, total)
    wanted = min(max(least, _with_a_cache(crash, least)), most) if least <= most else least
    if wanted > most:
        return _without_a_block(case, known, total) or Refusal(
            say(
                "{amount} more would need {wanted} of the GPU; at most {most} can be given",
                amount=show(amount), wanted=f"{wanted:.2f}", most=f"{most:.2f}",
            )
        )  # fmt: skip
    if at_the_limit is not None or wanted <= now:
        return at_the_limit
    return Proposal(
        action=_raised(now, wanted, assumed),
        current=None if assumed else now,
        suggested=wanted,
        derivation=_sum_of_the_share(now, why, total, least, wanted),
        assumes=(
            *assumed,
            *((fractions.cache_guessed(round(wanted - least, 2)),) if wanted > least else ()),
            say("nothing else on the GPU needs this memory"),
        ),
    )


def _above_what_was_used(crash: Crash, known: tuple[float, tuple[str, ...]], total: int) -> Answer:
    """vLLM 0.6.4 counts all that is in use on the GPU inside the share: worker.py, determine_num_available_blocks."""
    used = next((e.used_before_bytes for e in crash.every(MemoryProfile) if e.used_before_bytes), None)
    now, assumed = known
    if used is None or now * total > used:
        return None
    then = shares.ceil(used / total + shares.STEP)
    formula = say(
        "{used} in use before the profiling run / {total} + {cache} for the KV cache = {share}",
        used=show(used), total=show(total), cache=f"{shares.STEP:g}", share=f"{then:.2f}",
    )  # fmt: skip
    if then > shares.LARGEST:
        return Refusal(say("no share is larger than what is in use already ({formula})", formula=formula))
    return Proposal(
        action=_raised(now, then, assumed),
        current=None if assumed else now,
        suggested=then,
        derivation=formula,
        assumes=(*assumed, fractions.cache_guessed(shares.STEP)),
    )


def _with_a_cache(crash: Crash, least: float) -> float:
    """Above what holds the first block alone, the cache of a request, where nobody says what it takes."""
    rooms = [event.kv_bytes for event in crash.every(KvCacheSize)]
    rooms += [event.kv_bytes for event in crash.every(MemoryProfile)]
    without = any(room is not None and room < 0 for room in rooms) and one_request(crash) is None
    return round(least + shares.STEP, 2) if without else least


def _sum_of_the_share(now: float, why: str, total: int, least: float, wanted: float) -> str:
    figures = {"now": f"{now:.2f}", "missing": why, "total": show(total), "share": f"{wanted:.2f}"}
    if wanted == least:
        return say("{now} + {missing} / {total} = {share}", **figures)
    cache = f"{wanted - least:.2f}"
    return say("{now} + {missing} / {total} + {cache} for the KV cache = {share}", cache=cache, **figures)


def _raised(now: float, then: float, assumed: tuple[str, ...] = ()) -> str:
    return say("Raise the engine's GPU memory share: {now} -> {then}", now=as_known(now, assumed), then=f"{then:.2f}")


def _step_up(crash: Crash, now: float, assumed: tuple[str, ...], missing: tuple[int, str] | None) -> Answer:
    """A step, where the size of the card is unknown; none where what is missing is more than any has left."""
    rest = shares.AT_THE_LIMIT - now
    if missing is not None and missing[0] > rest * LARGEST_CARD:
        return Refusal(
            say(
                "{missing} = {amount}; the {rest} that can be added to {now} are less on any GPU",
                missing=missing[1], amount=show(missing[0]), rest=f"{rest:.2g}", now=f"{now:g}",
            )
        )  # fmt: skip
    if (enough := _enough_on_any_card(crash, now)) is not None:
        return Proposal(
            action=_raised(now, enough[0], assumed),
            current=None if assumed else now,
            suggested=enough[0],
            derivation=enough[1],
            assumes=assumed,
        )
    then = min(round(now + shares.STEP, 3), shares.AT_THE_LIMIT)
    step = round(then - now, 3)
    formula = f"{now:g} + {step:g} = {then:g}"
    return Proposal(
        action=_raised(now, then, assumed),
        current=None if assumed else now,
        suggested=then,
        derivation=_least_card(crash, formula, then) if missing is None else _enough_from(formula, step, *missing),
        assumes=(*assumed, *((request[1],) if missing is None and (request := _first_request(crash)) else ())),
    )


def _enough_on_any_card(crash: Crash, now: float) -> tuple[float, str] | None:
    """The cache is what the rest of the engine leaves of its share: grown in proportion to the context, the share holds
    it whatever the weights take."""
    for error in crash.every(ContextDoesNotFit):
        wanted, there = error.needed_bytes, error.kv_bytes
        written = show(wanted or 0), show(there or 0)
        if not wanted or not there:
            wanted, there = error.max_model_len, error.kv_tokens
            written = str(wanted), str(there)
        if not wanted or not there:
            continue
        exact = now * wanted / there
        then = shares.ceil(exact)
        if now < then <= shares.AT_THE_LIMIT:
            return then, say(
                "{now} x {wanted} / {there} = {exact}, rounded up: enough on any GPU, as the cache is a part of the "
                "share",
                now=f"{now:g}", wanted=written[0], there=written[1], exact=f"{exact:.3g}",
            )  # fmt: skip
    return None


def _enough_from(formula: str, step: float, amount: int, why: str) -> str:
    """From which size of the card on the step is what is missing; no card that runs an engine is as small as that of a
    few hundredths of a GiB."""
    if amount < step * GIB:
        return say("{formula}; {missing} = {amount}", formula=formula, missing=why, amount=in_print(amount))
    return say(
        "{formula}; enough on a GPU of {size} or more: {missing} = {amount}, / {step}",
        formula=formula, size=show(amount / step), missing=why, amount=show(amount), step=f"{step:g}",
    )  # fmt: skip


def _least_card(crash: Crash, formula: str, then: float) -> str:
    """From which size of the card on the share holds the weights and one request, where these are known."""
    weights, request = weights_bytes(crash), _first_request(crash)
    if weights is None or request is None:
        return fractions.first_step(formula)
    return say(
        "{formula} (first step); enough only on a GPU of more than ({weights} weights + {request} for one request) / "
        "{share} = {least}",
        formula=formula, weights=show(weights[0]), request=show(request[0]), share=f"{then:g}",
        least=show(round((weights[0] + request[0]) / then)),
    )  # fmt: skip


def _first_request(crash: Crash) -> tuple[int, str] | None:
    """The cache of one request, where the weights are known too, and the size of the card is not."""
    known = card_total(crash) is None and weights_bytes(crash) is not None
    return one_request(crash) if known else None


def _above_weights_of_another(now: float | None, held: int, budget: int) -> Answer:
    """vLLM 0.33: the weights that another process holds for the engine have to fit into its share."""
    if now is None:
        return None
    then = shares.ceil(now * held / budget + fractions.FOR_THE_CACHE)
    formula = say(
        "{now} x {held} held / {budget} + {cache} for the KV cache = {share}",
        now=f"{now:g}", held=show(held), budget=show(budget), cache=fractions.FOR_THE_CACHE, share=f"{then:.2f}",
    )  # fmt: skip
    if then > shares.LARGEST:
        return Refusal(say("no share of the GPU fits another process's weights ({formula})", formula=formula))
    return Proposal(
        action=_raised(now, then),
        current=now,
        suggested=then,
        derivation=formula,
        assumes=(fractions.cache_guessed(), say("nothing else on the GPU needs this memory")),
    )


def _most(crash: Crash, total: int) -> float:
    """The largest share that the card can give."""
    free = free_at_start(crash)
    return min(shares.LARGEST, shares.largest(free, total) if free else shares.LARGEST)


def _without_a_block(case: Case, known: tuple[float, tuple[str, ...]], total: int) -> Answer:
    """Where the room for the cache is below zero: what a larger share could do; None where it is above."""
    room, most = facts(case.crash).kv_bytes, _most(case.crash, total)
    if room is None or room > 0:
        return None
    least = shares.raised(known[0], -room, total)
    if least <= most:
        return _with_shorter_context(case, known, room, total)
    figures = {"least": f"{least:.2f}", "total": show(total), "most": f"{most:.2f}"}
    return Refusal(
        say(
            "no share works with any context: {least} of the {total} are needed before the first KV-cache "
            "block, at most {most} can be given. Shrink the weights (8 or 4 bits, more GPUs) or the tokens "
            "per step, or free the GPU",
            **figures,
        )
        if most < shares.LARGEST
        else say(
            "no share works with any context: {least} of the {total} are needed before the first KV-cache "
            "block, at most {most} can be given. Shrink the weights (8 or 4 bits, more GPUs) or the tokens "
            "per step",
            **figures,
        )
    )


def _with_shorter_context(case: Case, known: tuple[float, tuple[str, ...]], room: int, total: int) -> Proposal | None:
    """Where neither is enough alone: the largest share that leaves something beside it, and what then fits."""
    crash, per_token, (now, assumed) = case.crash, token_bytes(case.crash), known
    then = min(shares.AT_THE_LIMIT, _most(crash, total))
    length = facts(crash).max_model_len
    if per_token is None or then <= now or length is None:
        return None
    gained = round((then - now) * total)
    tokens = kv_cache.fitting(room + gained, per_token[0])
    if tokens < LEAST_CONTEXT:
        return None
    spelled = _as_the_engine_spells("shorter-context", crash)
    name = spelled.setting if spelled is not None else "max_model_len"
    lines = [row.snippet(value) for row, value in ((case.row, then), (spelled, tokens)) if row is not None]
    copied = [line for line in lines if line is not None]
    inner = case.row is not None and some([case.row.framework], "runs inside trainers") and crash.job.may_share
    return Proposal(
        action=say(
            "Raise the GPU memory share ({now} -> {then}) and lower the context length ({length} -> "
            "{tokens} tokens)",
            now=as_known(now, assumed), then=f"{then:.2f}", length=length, tokens=tokens,
        ),
        current=None if assumed else now,
        suggested=then,
        beside=(Beside(name, tokens),),
        snippet="\n".join(copied) if len(copied) == 2 and not inner else None,
        derivation=say(
            "({then} - {now}) x {total} = {gained}; - {lacking} missing before the first block = {room}; / "
            "{each} bytes per token = {tokens} tokens (a multiple of 16)",
            then=f"{then:.2f}", now=f"{now:.2f}", total=show(total), gained=show(gained), lacking=show(-room),
            room=show(room + gained), each=f"{per_token[0]:.0f}", tokens=tokens,
        ),
        assumes=(
            *assumed,
            say("bytes per token: {source}", source=per_token[1]),
            say("nothing else on the GPU needs this memory"),
        ),
        cost=say("longer requests are rejected or truncated; less GPU memory for CUDA graphs, NCCL and colocated "
                 "training"),
    )  # fmt: skip


def _as_the_engine_spells(knob: str, crash: Crash) -> Spelling | None:
    return spelling(knob, crash.context) or spelling(knob, crash.context, vllm.NAME)


def _missing_cache(crash: Crash) -> tuple[int, str] | None:
    """The KV cache that is missing, and how that was reckoned."""
    for error in crash.every(ContextDoesNotFit):
        if error.needed_bytes and error.kv_bytes is not None:
            return error.needed_bytes - error.kv_bytes, f"({show(error.needed_bytes)} - {show(error.kv_bytes)})"
        per_token = token_bytes(crash)
        if error.kv_tokens and error.max_model_len and per_token:
            tokens = error.max_model_len - error.kv_tokens
            return round(tokens * per_token[0]), say(
                "{tokens} tokens x {each} bytes ({source})",
                tokens=tokens, each=f"{per_token[0]:.0f}", source=per_token[1],
            )  # fmt: skip
    for event in crash.events:
        if isinstance(event, KvCacheSize | MemoryProfile) and event.kv_bytes is not None and event.kv_bytes < 0:
            need = one_request(crash)
            if need is None:
                return -event.kv_bytes, say("{amount} missing before the first block", amount=show(-event.kv_bytes))
            short = show(-event.kv_bytes)
            return need[0] - event.kv_bytes, say("({amount} short + {request})", amount=short, request=need[1])
    return None
