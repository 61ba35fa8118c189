"""What an inference engine's settings change: its share of the card, its cache, its graphs, its sleep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.arithmetic import host as ram
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.sglang import CaptureFailed
from oomdoctor.families.vllm_error import ContextDoesNotFit, NotEnoughFree, SwapSpaceTooLarge
from oomdoctor.incident.engine_facts import EngineFacts, facts, loading, phase
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies import models
from oomdoctor.remedies.engine.known import PRINTED, card_total, one_request, token_bytes, weights_bytes
from oomdoctor.remedies.engine.share import BEFORE_THE_CACHE, TRAINING, not_its_share, share
from oomdoctor.remedies.sizes import size_of_model, tensor_parallel
from oomdoctor.remedies.whatif import options
from oomdoctor.remedies.whatif.host import not_stated
from oomdoctor.remedies.whatif.model import Effect, Pair, Rule, Shift, Unknown
from oomdoctor.remedies.whatif.states import STARTING, together
from oomdoctor.signs.offload import gpus_per_node
from oomdoctor.units import GIB, MIB, show

OUTSIDE: Final = "outside the engine's share"  # a row of the engine's own plan

# What CUDA graphs take where nothing prints it.
GRAPHS: Final = (100 * MIB, 3 * GIB)
# An engine asleep keeps its CUDA context and what is outside its pools.
ASLEEP: Final = 2 * GIB
_BYTES: Final = {"fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1, "auto": 2, "bfloat16": 2, "float16": 2}


def _shares(pair: Pair) -> tuple[float, float, tuple[str, ...]] | None:
    now, then = share(pair.now), share(pair.then)
    return None if now is None or then is None else (now[0], then[0], now[1])


def reservation(pair: Pair) -> Iterator[Effect]:
    """The engine's share of the card, and what of it is left for the KV cache."""
    total, known = card_total(pair.now), _shares(pair)
    what = say("the engine's share of the GPU")
    if total is None or known is None:
        why = say("the log does not say how large the GPU is") if total is None else say("its share is not in the log")
        for pool in ("gpu", "kv_cache"):
            yield Unknown(pool=pool, what=what, why=why, spends=True)
        return
    now, then, assumes = known
    change = round((then - now) * total)
    words = f"({then:g} - {now:g}) x {show(total)} = {show(change)}"
    reason = not_its_share(pair.now)
    if reason is not None:
        yield Shift(pool="gpu", what=what, low=0, high=0, derivation=reason, assumes=assumes)
    elif not pair.now.job.in_reserving_engine and not pair.now.job.may_share and pair.now.first(NotEnoughFree) is None:
        yield Unknown(pool="gpu", what=what, why=say("the log shows no engine on that GPU"), spends=change > 0)
    elif _elsewhere(pair.now):
        why = say("the engine may run on its own GPUs (the log does not say that it is colocated)")
        yield Unknown(pool="gpu", what=what, why=why, spends=change > 0)
    else:
        yield Shift(
            pool="gpu",
            what=what,
            low=change,
            high=change,
            derivation=words,
            assumes=assumes,
            rows=_rows(pair.now),
            booked=pair.now.first(NotEnoughFree) is None,
            back=OUTSIDE,
        )
    if pair.now.first(NotEnoughFree) is None:
        words = f"({now:g} - {then:g}) x {show(total)} = {show(-change)}"
        lacks = say("missing room for the KV cache")
        yield Shift(pool="kv_cache", what=lacks, low=-change, high=-change, derivation=words)


def _elsewhere(crash: Crash) -> bool:
    """A trainer's refusal, and nothing says that its engine is on the same cards."""
    return not crash.job.in_reserving_engine and crash.first(NotEnoughFree) is None and not together(crash)


def _rows(crash: Crash) -> tuple[str, ...]:
    """The ledger's row that holds the engine's cache: its own tensors, or somebody else's memory."""
    return ("KV cache", "live tensors") if crash.job.in_reserving_engine else ("process",)


def fraction(pair: Pair) -> Iterator[Effect]:
    """SGLang's: a share of what was free at start, for weights and token pool together."""
    now, then = pair.numbers(*options.FRACTION)
    what = say("SGLang's static memory")
    before = loading(pair.now)
    if now is None or then is None or before is None:
        why = (
            say("the current fraction is not in the log")
            if now is None
            else say("the log does not say how much was free at start")
        )
        for pool in ("gpu", "kv_cache"):
            yield Unknown(pool=pool, what=what, why=why, spends=True)
        return
    change = round((then - now) * before.free_before_bytes)
    words = _of_free(then, now, before.free_before_bytes)
    yield Shift(pool="gpu", what=what, low=change, high=change, derivation=words, rows=("live tensors",))
    words = _of_free(now, then, before.free_before_bytes)
    yield Shift(
        pool="kv_cache", what=say("missing room for the token pool"), low=-change, high=-change, derivation=words
    )


def _of_free(one: float, other: float, free: int) -> str:
    return say(
        "({one} - {other}) x {free} free at start = {change}",
        one=f"{one:g}",
        other=f"{other:g}",
        free=show(free),
        change=show(round((one - other) * free)),
    )


# the cache


def context_length(pair: Pair) -> Iterator[Effect]:
    """What one request of the full length needs. A card that ran out has the same share filled either way."""
    now, then = pair.numbers(*options.LENGTH)
    error = pair.now.first(ContextDoesNotFit)
    now = error.max_model_len if error is not None and error.max_model_len else now
    what = say("KV cache for one request")
    if now is None or then is None or now <= 0:
        yield Unknown(pool="kv_cache", what=what, why=say("the current length is not in the log"), spends=True)
        return
    if pair.now.pool == "gpu":
        yield _of_passes(pair, say("the length"), then / now, options.LENGTH[0])
    if error is not None and error.needed_bytes and error.kv_bytes is not None and error.estimated_tokens:
        # With windows and state layers the need is not proportional: a line through the two points that are printed.
        missing, tokens = error.needed_bytes - error.kv_bytes, now - error.estimated_tokens
        if tokens > 0:
            change = round(missing * (then - now) / tokens)
            words = say(
                "the engine's estimate: {fitting} tokens fit, {now} tokens lack {missing}; {then} tokens: {change}",
                fitting=error.estimated_tokens,
                now=f"{now:g}",
                missing=show(missing),
                then=f"{then:g}",
                change=show(change),
            )
            yield Shift(pool="kv_cache", what=what, low=change, high=change, derivation=words)
            return
    per_token = token_bytes(pair.now)
    if per_token is None:
        yield Unknown(
            pool="kv_cache", what=what, why=say("the log does not say how much a token takes"), spends=then > now
        )
        return
    change = round((then - now) * per_token[0])
    words = say(
        "({then} - {now}) tokens x {each} bytes ({source}) = {change}",
        then=f"{then:g}",
        now=f"{now:g}",
        each=f"{per_token[0]:.0f}",
        source=per_token[1],
        change=show(change),
    )
    yield Shift(pool="kv_cache", what=what, low=change, high=change, derivation=words)


def cache_type(pair: Pair) -> Iterator[Effect]:
    """Fewer bytes for each token; the share of the card stays as it is, and more tokens fit in it."""
    now, then = (str(value if value is not None else "auto") for value in pair.values(*options.CACHE_TYPE))
    per_token, length = token_bytes(pair.now), pair.numbers(*options.LENGTH)[1]
    error = pair.now.first(ContextDoesNotFit)
    need = error.needed_bytes if error is not None and error.needed_bytes else None
    if need is None and per_token is not None and length is not None:
        need = round(per_token[0] * length)
    if now not in _BYTES or then not in _BYTES or need is None:
        why = (
            say("unknown size of a token in {type}", type=then)
            if then not in _BYTES
            else say("the log does not say how much a request needs")
        )
        yield Unknown(pool="kv_cache", what=say("KV cache for one request"), why=why, spends=then not in _BYTES)
        return
    change = need * _BYTES[then] // _BYTES[now] - need
    words = say(
        "{need} x {then} / {now} bytes each = {less}",
        need=show(need),
        then=_BYTES[then],
        now=_BYTES[now],
        less=show(need + change),
    )
    what = say("KV cache for one request")
    yield Shift(pool="kv_cache", what=what, low=change, high=change, derivation=words)
    if pair.now.pool == "gpu":
        words = say("the engine fills the same share of the GPU, with more tokens")
        yield Shift(pool="gpu", what=say("KV cache"), low=0, high=0, derivation=words)


# the passes


def sequences(pair: Pair) -> Iterator[Effect]:
    """What the engine computes at once: up to so much, and it may be nothing."""
    for names, what in ((options.SEQUENCES, say("sequences")), (options.TOKENS, say("tokens in one step"))):
        if not pair.touches(*names):
            continue
        now, then = pair.numbers(*names)
        if now is None or then is None or now <= 0:
            yield Unknown(pool=pair.now.pool, what=what, why=not_stated(names[0]), spends=True)
        else:
            yield _of_passes(pair, what, then / now, names[0])


def _of_passes(pair: Pair, what: str, ratio: float, name: str) -> Effect:
    """The activations of the engine's passes, of which a part grows with what is set."""
    known = facts(pair.now)
    pool = pair.now.pool if pair.now.pool in ("gpu", "kv_cache") else "gpu"
    peak = _peak(pair.now, known)
    if peak is None:
        why = say("the log does not say how much of the engine's activations depends on {what}", what=what)
        return Unknown(
            pool=pool, what=say("activations ({option})", option=name), why=why, relieves=ratio < 1, spends=ratio > 1
        )
    most = round((ratio - 1) * peak[0])
    return Shift(
        pool=pool,
        what=say("activations ({option})", option=name),
        low=min(most, 0),
        high=max(most, 0),
        derivation=say(
            "at most ({ratio} - 1) x {peak} = {most}, if all of it depends on {what}",
            ratio=f"{ratio:g}",
            peak=peak[1],
            most=show(most),
            what=what,
        ),
        assumes=peak[2],
        rows=("activation peak", "live tensors"),
        asked=0 if known.activation_bytes else getattr(pair.now.root, "tried_bytes", None) or 0,
    )


def _peak(crash: Crash, known: EngineFacts) -> tuple[int, str, tuple[str, ...]] | None:
    """What the passes took at their peak, in words too, and what had to be assumed for it."""
    if known.activation_bytes:
        told = say("{amount} of activations at their peak", amount=show(known.activation_bytes))
        return known.activation_bytes, told, ()
    root = crash.root
    if (
        not isinstance(root, DeviceOutOfMemory)
        or root.allocated_bytes is None
        or phase(crash) not in ("profiling", "warming")
    ):
        return None
    held = weights_bytes(crash)
    beside = max(root.allocated_bytes - (held[0] if held else 0), 0) + (root.tried_bytes or 0)
    allocated, tried = show(root.allocated_bytes), show(root.tried_bytes or 0)
    if not held:
        return beside, say("({allocated} allocated + {tried} requested)", allocated=allocated, tried=tried), ()
    told = say(
        "({allocated} allocated - {weights} of weights + {tried} requested)",
        allocated=allocated,
        weights=show(held[0]),
        tried=tried,
    )
    return beside, told, () if held[1] == PRINTED else (held[1],)


def graphs(pair: Pair) -> Iterator[Effect]:
    """CUDA graphs, which eager mode does without."""
    now, then = (value is True for value in pair.values(*options.EAGER))
    if now == then:
        return
    crash, sign, what = pair.now, -1 if then else 1, say("CUDA graphs")
    root = crash.root
    capturing = phase(crash) == "capturing" or crash.first(CaptureFailed) is not None
    if then and capturing and isinstance(root, DeviceOutOfMemory) and root.tried_bytes:
        so_far = root.private_pools_bytes or 0
        words = say("no capture, so the {tried} requested in it are not needed", tried=show(root.tried_bytes))
        low, high = -(root.tried_bytes + so_far), -root.tried_bytes
        yield Shift(
            pool="gpu",
            what=what,
            low=low,
            high=high,
            derivation=words,
            rows=("private pools",),
            asked=root.tried_bytes,
        )
        return
    if phase(crash) in BEFORE_THE_CACHE:
        yield Shift(pool="gpu", what=what, low=0, high=0, derivation=say("no graph was captured yet"))
        return
    printed = getattr(root, "private_pools_bytes", None) or facts(crash).graph_bytes
    low, high = (printed, printed) if printed else GRAPHS
    words = (
        say("{amount} in the log", amount=show(printed))
        if printed
        else say("usually {low} to {high}", low=show(GRAPHS[0]), high=show(GRAPHS[1]))
    )
    bounds = sorted((sign * low, sign * high))
    era = facts(crash).era
    pool = "kv_cache" if crash.pool == "kv_cache" and era is not None and era.graphs_inside else "gpu"
    yield Shift(
        pool=pool,
        what=what,
        low=bounds[0],
        high=bounds[1],
        derivation=words,
        basis="printed" if printed else "assumed",
        assumes=() if printed else (say("rule of thumb for CUDA graphs; the log has no figure"),),
    )


def parallel(pair: Pair) -> Iterator[Effect]:
    """The weights over more cards: less of them on each, and less cache for each token."""
    now, then = tensor_parallel(pair.now), tensor_parallel(pair.then)
    held = weights_bytes(pair.now)
    if held is None:
        for pool in ("gpu", "kv_cache"):
            yield Unknown(
                pool=pool,
                what=say("weights per GPU"),
                why=say("the log does not say how much they take"),
                spends=then < now,
            )
        return
    change = held[0] * now // then - held[0]
    what = say("weights")
    words = say(
        "{weights} of weights x {now} / {then} GPUs = {each} per GPU",
        weights=show(held[0]),
        now=now,
        then=then,
        each=show(held[0] + change),
    )
    assumes = () if held[1] == PRINTED else (held[1],)
    root = pair.now.root
    if pair.now.job.in_reserving_engine and phase(pair.now) in BEFORE_THE_CACHE:
        if phase(pair.now) == "loading" and isinstance(root, DeviceOutOfMemory) and root.allocated_bytes:
            # A part of the weights was there; the rest was still to come.
            part = root.allocated_bytes + (root.tried_bytes or 0)
            words = say("{formula}; {part} were there or requested", formula=words, part=show(part))
            change = held[0] + change - part
        yield Shift(
            pool="gpu", what=what, low=change, high=change, derivation=words, assumes=assumes,
            rows=("live tensors",),
        )  # fmt: skip
    elif pair.now.pool == "gpu":
        why = say("the engine fills its share of the GPU either way; other savings per GPU are not in the log")
        yield Unknown(pool="gpu", what=what, why=why, relieves=then > now, spends=then < now)
    if pair.now.pool == "kv_cache":
        yield Shift(
            pool="kv_cache",
            what=what,
            low=change,
            high=change,
            derivation=words,
            assumes=assumes,
            rows=("weights",),
            back="KV cache",
        )
        yield from _request_over(pair.now, now, then)


def _request_over(crash: Crash, now: int, then: int) -> Iterator[Effect]:
    """One request's cache on each card: the heads are split, until there are fewer of them than cards."""
    error = crash.first(ContextDoesNotFit)
    request = one_request(crash)
    need = error.needed_bytes if error is not None and error.needed_bytes else request[0] if request else None
    if need is None:
        return
    what, model = say("KV cache for one request"), models.known(crash.context.models)
    if model is not None:
        heads, less_heads = (max(1, model.kv_heads // cards) for cards in (now, then))
        change = need * less_heads // heads - need
        words = say(
            "{need} x {then} / {now} key-value heads per GPU = {less}",
            need=show(need),
            then=less_heads,
            now=heads,
            less=show(need + change),
        )
        assumes = (say("the model is a {model}: {heads} key-value heads", model=model.name, heads=model.kv_heads),)
        yield Shift(pool="kv_cache", what=what, low=change, high=change, derivation=words, assumes=assumes)
        return
    change = need * now // then - need
    words = say(
        "{need} x {now} / {then} GPUs = {each} per GPU",
        need=show(need),
        now=now,
        then=then,
        each=show(need + change),
    )
    assumes = (say("the key-value heads are split over the GPUs; latent attention is whole on each"),)
    yield Shift(
        pool="kv_cache", what=what, low=min(change, 0), high=max(change, 0), derivation=words, assumes=assumes,
    )  # fmt: skip


# sleep and swap


def sleep(pair: Pair) -> Iterator[Effect]:
    """Asleep the engine has its share given back, and keeps its weights in host memory."""
    now, then = (value is True for value in pair.values(*options.SLEEP))
    if now == then:
        return
    sign = 1 if then else -1
    copies_of = say("copies of sleeping engines")
    size, engines = size_of_model(pair.now), pair.numbers("vllm_num_engines", "vllm.num_engines", "num_engines")[0]
    if size is None:
        yield Unknown(
            pool="host_ram", what=copies_of, why=say("unknown model size"), spends=then,
            relieves=not then,
        )  # fmt: skip
    else:
        count = int(engines or 1)
        copies = ram.sleep_copies(size.parameters, count)
        figures = {"count": count, "size": size.billions, "amount": show(copies)}
        words = (
            say("{count} engines x 2 bytes x {size} = {amount}, at most twice that", **figures)
            if count > 1
            else say("{count} engine x 2 bytes x {size} = {amount}, at most twice that", **figures)
        )
        bounds = sorted((sign * copies, sign * 2 * copies))
        yield Shift(
            pool="host_ram", what=copies_of, low=bounds[0], high=bounds[1], derivation=words,
            assumes=(
                size.source,
                say("sleep level 1, all engines on one node"),
                *(() if engines else (say("one engine: the log does not say how many"),)),
            ),
        )  # fmt: skip
    if pair.now.pool != "gpu":
        return
    what = say("the engine while the trainer works")
    if pair.now.job.in_reserving_engine and pair.now.stage in STARTING:
        words = say("the engine was starting: it sleeps only later")
        yield Shift(pool="gpu", what=what, low=0, high=0, derivation=words)
        return
    if pair.now.stage not in TRAINING:
        why = say("unknown whether the engine could sleep where it failed")
        yield Unknown(pool="gpu", what=what, why=why, relieves=then, spends=not then)
        return
    total, known = card_total(pair.now), share(pair.now)
    if total is None or known is None or _elsewhere(pair.now):
        why = say("the log does not say how much of that GPU an engine holds")
        yield Unknown(pool="gpu", what=what, why=why, relieves=then, spends=not then)
        return
    held = round(known[0] * total)
    bounds = sorted((-sign * held, -sign * max(held - ASLEEP, 0)))
    words = say(
        "{share} x {total} = {held}; up to {stays} stays",
        share=f"{known[0]:g}",
        total=show(total),
        held=show(held),
        stays=show(ASLEEP),
    )
    yield Shift(
        pool="gpu", what=what, low=bounds[0], high=bounds[1], derivation=words,
        basis="assumed",
        assumes=(*known[1], say("up to {amount} stays allocated in sleep (a guess)", amount=show(ASLEEP))),
        rows=("process",),
    )  # fmt: skip


def swap(pair: Pair) -> Iterator[Effect]:
    """vLLM's swap space, page-locked layer by layer."""
    now, then = pair.numbers(*options.SWAP)
    refused = pair.now.first(SwapSpaceTooLarge)
    if refused is not None and refused.swap_bytes and then is not None:
        yield _of_refused_swap(refused.swap_bytes, now, then)
        return
    assumes: tuple[str, ...] = ()
    if now is None and not pair.now.job.runs_engine:
        why = say("the log shows no engine with swap space")
        yield Unknown(pool="host_ram", what=say("swap space"), why=why, relieves=False, spends=bool(then))
        return
    if now is None:
        now, assumes = 4, (say("4 GiB per GPU: vLLM's default up to 0.17"),)
    if then is None:
        return
    gpus, model = gpus_per_node(pair.now), models.known(pair.now.context.models)
    cards, what = gpus or 1, say("swap space")
    if gpus is None:
        assumes = (*assumes, say("one GPU per node: the log does not say how many"))
    if model is None:
        change = round((then - now) * GIB * cards)
        words = say(
            "({then} - {now}) GiB x {cards} GPUs = {change}; up to twice that when pinned",
            then=f"{then:g}",
            now=f"{now:g}",
            cards=cards,
            change=show(change),
        )
        yield Shift(
            pool="host_ram", what=what, low=min(change, 2 * change), high=max(change, 2 * change),
            derivation=words, assumes=assumes, rows=("in use, in no row",),
        )  # fmt: skip
        return
    was, becomes = (ram.swap_space(gib, model.layers, cards) if gib else 0 for gib in (now, then))
    words = say(
        "{now} -> {then} GiB, in pinned buffers (powers of two) for {layers} layers x {cards} GPUs: {was} -> {becomes}",
        then=f"{then:g}",
        now=f"{now:g}",
        layers=model.layers,
        cards=cards,
        becomes=show(becomes),
        was=show(was),
    )
    yield Shift(
        pool="host_ram", what=what, low=becomes - was, high=becomes - was, derivation=words,
        basis="assumed", rows=_swap_rows(pair.now),
        assumes=(
            *assumes,
            say("the engine serves a {model} ({layers} layers)", model=model.name, layers=model.layers),
            say("swap space is allocated at start or at each rollout"),
        ),
    )  # fmt: skip


def _of_refused_swap(asked: int, now: float | None, then: float) -> Effect:
    """The message prints what all of it comes to; nothing of that was taken."""
    what = say("swap space")
    if then and not now:
        why = say("the log does not say how much each GPU has now")
        return Unknown(pool="host_ram", what=what, why=why, spends=True)
    change = round(asked * (then / now - 1)) if now else -asked
    words = (
        f"{show(asked)} x {then:g} / {now:g} = {show(asked + change)}"
        if now
        else say("{asked} -> none = {left}", asked=show(asked), left=show(asked + change))
    )
    return Shift(pool="host_ram", what=what, low=change, high=change, derivation=words, booked=False)


def _swap_rows(crash: Crash) -> tuple[str, ...]:
    """The processes of the engine are the largest of the table."""
    ledger = crash.ledger("host_ram")
    return (ledger.rows[0].what,) if ledger is not None and ledger.rows and " x " in ledger.rows[0].what else ()


RULES: Final = (
    Rule(frozenset(options.SHARE), reservation),
    Rule(frozenset(options.FRACTION), fraction),
    Rule(frozenset(options.LENGTH), context_length),
    Rule(frozenset(options.CACHE_TYPE), cache_type),
    Rule(frozenset((*options.SEQUENCES, *options.TOKENS)), sequences),
    Rule(frozenset(options.EAGER), graphs),
    Rule(frozenset(options.PARALLEL), parallel),
    Rule(frozenset(options.SLEEP), sleep),
    Rule(frozenset(options.SWAP), swap),
)
