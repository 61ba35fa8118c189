"""What is moved from the GPU to host memory: offloaded states, copies of sleeping engines, caches of a host."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.arithmetic import host as ram
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.sglang import HostCacheTooLarge
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import total_bytes
from oomdoctor.job.frameworks import some
from oomdoctor.job.verbs import words_of
from oomdoctor.language import listed, say, semicolons
from oomdoctor.patterns import late
from oomdoctor.remedies import reach
from oomdoctor.remedies.initial import as_default
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import Spelling, is_there, known_versions, of_knob, spelling
from oomdoctor.remedies.sizes import nodes, size_of_model, size_of_trained
from oomdoctor.signs.host_caches import (
    KEPT_BY_SGLANG,
    LMCACHE_BUFFER,
    LMCACHE_USUAL,
    caches_of_ranks,
    lmcache_was_refused,
)
from oomdoctor.signs.offload import (
    TO_A_DISK,
    optimizer_on_the_cpu,
    option_that_offloads,
    ranks_may_keep_their_states,
    refused_for_parameters_on_the_host,
    refused_for_the_buffer_of_parameters,
    sleeping_engines_have_it,
    states_are_on_a_disk,
)
from oomdoctor.signs.other_words import host_cache_in_other_words, with_advice
from oomdoctor.units import show
from oomdoctor.versions import version_of

# Switches that put GPU memory into host memory, by the names under which they are stated.
OFFLOADS: Final = (
    "adam_offload", "ds.adam_offload", "optimizer_offload", "param_offload", "offload_optimizer.device",
    "offload_param.device", "cpu_offload_gb", "ref_reward_offload", "ref.offload", "vllm_enable_sleep",
    "vllm.enable_sleep", "enable_sleep_mode", "deepspeed_enable_sleep", "optimizer_cpu_offload",
)  # fmt: skip
_BUFFERS: Final = 5
SEVERAL: Final = 2
_BYTES: Final = 2
_PARTS: Final = 8
OFF: Final = (False, None, 0, 0.0, "none", "None", "")
_SLEEP: Final = "enable_sleep"  # states are in RAM only while the engine works
# An option that the message asks to lower: "Lower the HiSparseConnector host_pool_gib", "reduce --hicache-size"
_SIZES_A_CACHE: Final = late(
    r"(?i)\b(?:lower|reduc|decreas|shrink)\w{0,3} (?:[\w'-]{1,24} ){0,4}?[`'\"]?"
    r"(?P<name>(?:--)?(?:[a-z]\w{0,20}[._-]){0,3}(?:hicache|host|offload\w{0,3}|cpu|swap)(?:[._-][a-z]\w{0,20}){0,3}"
    r"[._-](?:size|ratio|fraction|space|gi?b|mi?b|bytes)(?:[._-][a-z]{1,8})?)\b"
)
# Of the models that every job has: not every one has a critic
_OF_STATES: Final = late(r"^(?!critic\b).*(?:(?:param|optimizer)_offload|offload_(?:params|optimizer)|cpu_offload)$")
_NOT_SPARE: Final = 0.95
_FREE_WITHOUT_RESERVE: Final = (0, 5, 3)  # SGLang


def less_offload(case: Case) -> Answer:
    crash = case.crash
    if (pair := caches_of_ranks(crash)) is not None:
        return _smaller_buffers_of_ranks(*pair)
    if lmcache_was_refused(crash) is not None:
        return _smaller_buffer(crash)
    refused = crash.first(HostCacheTooLarge)
    if refused is not None and refused.tried_bytes and refused.free_bytes is not None:
        return _smaller_host_cache(crash, refused.tried_bytes, refused.free_bytes)
    if host_cache_in_other_words(crash) is not None:
        return _smaller_cache_by_the_message(crash)
    stated = [s for s in (crash.setting(name) for name in OFFLOADS) if s is not None]
    switched_on = [s for s in stated if s.value not in OFF]
    if not switched_on:
        if not stated:
            return (
                _awake(case)
                or _smaller_buffers_to_a_disk(case)
                or _parameters_back(case)
                or _states_back(case)
                or _between_the_phases(case)
                or _without(case)
            )
        return Refusal(say("{name} is already off ({place})", name=stated[0].name, place=stated[0].place))
    if states_are_on_a_disk(crash):
        return _halved_buffers_for_a_disk(crash)
    one = switched_on[0]
    names = listed(s.name for s in switched_on)
    row = case.row if case.row is not None and case.row.key == one.name else None
    derivation, assumes = _taken(crash, one.name)
    return Proposal(
        action=say("Turn off what moves GPU memory to host RAM: {names}", names=names),
        current=one.value,
        suggested=False if one.value is True else None,
        setting=one.name if row is None else None,
        snippet=row.snippet(row.value) if row is not None else None,
        derivation=derivation,
        assumes=assumes,
    )


def _awake(case: Case) -> Proposal | None:
    """Of a launch line that is not in the log, by what the engines say."""
    row = spelling("engine-sleep", case.crash.context)
    if row is None or sleeping_engines_have_it(case.crash) is None:
        return None
    return Proposal(
        action=say("Run without {option}, if it is set, where the trainer fits beside the engines", option=row.setting),
        setting=row.setting,
        cost=say("the engines keep their GPU memory while the trainer works"),
    )


def _without(case: Case) -> Proposal | None:
    """Of a program with an option of its own."""
    option = option_that_offloads(case.crash)
    if option is None:
        return None
    return Proposal(
        action=say("Run without {option}, or with less of it", option=option.flag),
        setting=option.flag,
        current=option.value,
        cost=say("the GPU holds what was offloaded"),
    )


def _smaller_buffers_to_a_disk(case: Case) -> Proposal | None:
    """DeepSpeed allocates all of them in one piece: runtime/swap_tensor/partitioned_param_swapper.py, and
    buffer_count of runtime/zero/offload_config.py."""
    crash = case.crash
    option, refused = option_that_offloads(crash), crash.first(HostAllocation)
    if option is None or refused is None or not refused.tried_bytes or "deepspeed" not in crash.job.frameworks:
        return None
    elements, rest = divmod(refused.tried_bytes, _BUFFERS * _BYTES)
    if rest or not TO_A_DISK & frozenset(words_of(option.name)):
        return None
    then = elements // _PARTS
    return Proposal(
        action=say("Make DeepSpeed's buffers for the disk smaller: each has to hold the largest tensor"),
        setting="buffer_size",
        current=elements,
        suggested=then,
        snippet=f'"zero_optimization": {{"offload_param": {{"buffer_size": {then}}}}}',
        derivation=say(
            "{tried} / {buffers} buffers / {each} bytes = {elements}; / {parts} = {then}, {amount} in all",
            tried=show(refused.tried_bytes), buffers=_BUFFERS, each=_BYTES, elements=elements, parts=_PARTS, then=then,
            amount=show(refused.tried_bytes / _PARTS),
        ),
        assumes=(say("buffer_count 5 (DeepSpeed's default) and 16-bit weights (not in the log)"),),
        cost=say("slower reads from the disk"),
    )  # fmt: skip


def _halved_buffers_for_a_disk(crash: Crash) -> Answer:
    """Of a configuration in the log: what it keeps in RAM are the buffers of the parameters and max_in_cpu of them, for
    each rank (deepspeed/runtime/zero/offload_config.py). Off it would be on the GPU."""
    size = crash.setting("offload_param.buffer_size")
    elements = int(size.number) if size is not None and size.number is not None else 0
    if elements < SEVERAL:
        return Skip()
    stated, kept = crash.setting("offload_param.buffer_count"), crash.setting("offload_param.max_in_cpu")
    count = (stated.whole if stated is not None else None) or _BUFFERS
    then = elements // 2
    buffers = say(
        "{count} buffers x {elements} x {each} bytes = {amount}, then {half}",
        count=count, elements=elements, each=_BYTES, amount=show(count * elements * _BYTES),
        half=show(count * then * _BYTES),
    )  # fmt: skip
    stays = (
        say("max_in_cpu {elements} x {each} bytes = {amount}", elements=int(kept.number), each=_BYTES,
            amount=show(kept.number * _BYTES))
        if kept is not None and kept.number
        else ""
    )  # fmt: skip
    by_default = say("buffer_count 5 (DeepSpeed's default)") if stated is None else ""
    return Proposal(
        action=say(
            "Halve DeepSpeed's buffers for the disk (each has to hold the largest tensor), and lower max_in_cpu"
        ),
        setting="buffer_size",
        current=elements,
        suggested=then,
        snippet=f'"zero_optimization": {{"offload_param": {{"buffer_size": {then}}}}}',
        derivation=semicolons(filter(None, (buffers, stays))),
        assumes=tuple(filter(None, (by_default, say("16-bit weights, and one rank on the node (not in the log)")))),
        cost=say("slower reads from the disk"),
    )


def unpin(case: Case) -> Answer:
    """Where DeepSpeed's configuration pins both, neither alone is all of it."""
    rows = [row for row in of_knob(case.knob, "deepspeed") if reach.acts(case.knob, case.crash, row)]
    pinned = [
        one for row in rows if (one := case.crash.setting(f"{row.key}.pin_memory")) is not None and one.value is True
    ]
    if len(rows) < SEVERAL or len(pinned) < len(rows):
        return None
    inner = ", ".join(f'"{row.key}": {{"pin_memory": false}}' for row in rows)
    return Proposal(suggested=False, snippet=f'"zero_optimization": {{{inner}}}')


def _parameters_back(case: Case) -> Proposal | None:
    """Of a configuration that is not in the log, by the frames."""
    row = next((one for one in of_knob(case.knob, "deepspeed") if one.key == "offload_param"), None)
    is_on = refused_for_the_buffer_of_parameters(case.crash) is not None
    if row is None or not (is_on or refused_for_parameters_on_the_host(case.crash) is not None):
        return None
    return Proposal(
        action=say("Turn off what keeps the parameters in RAM (offload_param): the GPU takes them")
        if is_on
        else say("Turn off what keeps the parameters in RAM (offload_param), if it is on: the GPU takes them"),
        setting=row.setting,
        snippet=row.write,
        cost=say("2 bytes of GPU memory per parameter, divided by the GPUs"),
    )


def _states_back(case: Case) -> Proposal | None:
    """Of a configuration that is not in the log, by the optimizer that DeepSpeed names."""
    context = case.crash.context
    rows = (row for name in context.frameworks for row in of_knob("offload-optimizer", name) if row.is_switch)
    known = (row for row in rows if row.versions.overlaps(known_versions(row.framework, context)))
    switch = next((row for row in known if row.key in OFFLOADS and not row.key.endswith(_SLEEP)), None)
    config = next((one for one in of_knob(case.knob, "deepspeed") if one.key == "offload_optimizer"), None)
    row = switch or config
    if row is None or optimizer_on_the_cpu(case.crash) is None:
        return None
    return Proposal(
        action=say("Run without {option}: the GPUs take the optimizer states, if they have room", option=row.setting)
        if switch is not None
        else say("Turn off what keeps the optimizer states in RAM (offload_optimizer): the GPUs take them"),
        setting=row.setting,
        snippet=row.write if switch is None else None,
        cost=say("12 bytes of GPU memory per parameter, divided by the GPUs over which they are sharded"),
    )


def _between_the_phases(case: Case) -> Proposal | None:
    """Of ranks whose states wait in RAM while the engine works: of options that are not in the log."""
    rows = _switches_of_states(case.crash)
    if not rows or ranks_may_keep_their_states(case.crash) is None:
        return None
    return Proposal(
        action=say(
            "Turn off what keeps the trainer's states in RAM between the phases, where it is on: {names}",
            names=listed(row.setting for row in rows),
        ),
        setting=rows[0].setting,
        snippet=" ".join(filter(None, (row.snippet(row.value) for row in rows))),
        assumes=(say("they are on (not in the log): many of the program's examples turn them on"),),
        cost=say("the GPU holds what was offloaded"),
    )


def _switches_of_states(crash: Crash) -> list[Spelling]:
    """Of the outermost program that has any: one for each model and kind of state."""
    for name in crash.context.frameworks:
        if not some([name], "brings states back"):
            continue
        known = known_versions(name, crash.context)
        rows = (row for row in of_knob("less-offload", name) if row.versions.overlaps(known))
        fitting = [row for row in rows if is_there(row, crash.context) and _OF_STATES.search(row.key)]
        return list({_model_and_state(row): row for row in reversed(fitting)}.values())[::-1]
    return []


def _model_and_state(row: Spelling) -> tuple[str, str]:
    *path, state = row.key.split(".")
    return ".".join(path[:-1]), state


def _smaller_buffers_of_ranks(size: float, ranks: float) -> Proposal:
    """LMCache's setting counts for each rank."""
    half = math.floor(size / 2)
    return Proposal(
        action=say(
            "Lower max_local_cpu_size from {size:g} GB until {ranks:g} times that fits into the node's RAM",
            size=size,
            ranks=ranks,
        ),
        setting="max_local_cpu_size",
        current=size,
        suggested=half,
        snippet=f"max_local_cpu_size: {half}",
        derivation=say(
            "{size:g} / 2 = {half}; {ranks:g} ranks x {half} GB = {all:g} GB",
            size=size,
            half=half,
            ranks=ranks,
            all=ranks * half,
        ),
        cost=say("fewer cached prefixes"),
    )


def _smaller_buffer(crash: Crash) -> Proposal:
    stated = crash.setting(*LMCACHE_BUFFER)
    size = (stated.number if stated is not None else None) or LMCACHE_USUAL
    then, derivation = _half_of_what_it_takes(crash, size)
    now, half = f"{size:g}", f"{then:g}"
    default = say("{name} is {value} (its default, not in the log)", name=LMCACHE_BUFFER[0], value=now)
    return Proposal(
        action=say(
            "Lower LMCache's page-locked host buffer (max_local_cpu_size, in GB per rank): {now} -> {then}",
            now=now if stated is not None else as_default(now),
            then=half,
        ),
        setting=LMCACHE_BUFFER[1],
        current=stated.value if stated is not None else None,
        suggested=then,
        snippet=f"export {LMCACHE_BUFFER[1]}={half}",
        derivation=derivation,
        assumes=(
            *(() if stated is not None else (default,)),
            say("half is a guess: what may be page-locked is unknown"),
        ),
        cost=say("fewer cached prefixes"),
    )


def _half_of_what_it_takes(crash: Crash, size: float) -> tuple[float, str]:
    """PyTorch allocates pinned memory in powers of two: aten/src/ATen/core/CachingHostAllocator.h, PowerOf2Ceil."""
    half = size / 2
    if size < 1 or crash.in_trace(r"pin_memory=True") is None:
        return half, f"{size:g} / 2 = {half:g}"
    taken = 2 ** math.ceil(math.log2(size))
    if taken == size:
        return half, f"{size:g} / 2 = {half:g}"
    words = say(
        "PyTorch rounds {size} up to a power of two: {taken}; {taken} / 2 = {half}",
        size=f"{size:g}",
        taken=taken,
        half=taken // 2,
    )
    return float(taken // 2), words


def _smaller_host_cache(crash: Crash, tried: int, free: int) -> Answer:
    """What fits beside the 10 GiB that SGLang leaves alone; from 0.5.3 on they are taken off what it prints as free."""
    known = known_versions("sglang", crash.context)
    row = next((r for r in of_knob("less-offload", "sglang") if r.key == "hicache_size"), None)
    if row is None or not row.versions.overlaps(known):
        return Proposal(action=say("Shrink the KV cache's host part"), setting="--hicache-ratio")
    version = version_of(crash.context.frameworks.get("sglang"))
    left_alone = 0 if version is not None and version >= _FREE_WITHOUT_RESERVE else KEPT_BY_SGLANG
    fits = int(_NOT_SPARE * (free - left_alone)) // 10**9
    room = show(free - left_alone)
    derivation = (
        say(
            "{free} free - {reserve} reserve of SGLang = {room}",
            free=show(free),
            reserve=show(left_alone),
            room=room,
        )
        if left_alone
        else say("{room} free beyond SGLang's reserve", room=room)
    )
    if fits < 1:
        return Refusal(say("no room for the KV cache's host part ({formula})", formula=derivation))
    return Proposal(
        action=say(
            "Shrink the KV cache's host part from {tried} to {fits} GB",
            fits=fits,
            tried=f"{tried / 10**9:g}",
        ),
        setting=row.setting,
        suggested=fits,
        snippet=row.snippet(fits),
        derivation=semicolons((derivation, f"floor({(free - left_alone) / 10**9:.2f} GB x {_NOT_SPARE}) = {fits}")),
        assumes=(
            say("each rank on the node requests as much; this one was the last"),
            say("5 % spare, as what is free changes from start to start (a guess)"),
        ),
        cost=say("fewer cached prefixes"),
    )


def _smaller_cache_by_the_message(crash: Crash) -> Proposal:
    """By the option that the message names; whether one that it only speaks of is to be lower, it does not say."""
    named = _SIZES_A_CACHE.search(with_advice(crash.root))
    if named is None:
        return Proposal(action=say("Shrink the KV cache's host part"), cost=say("fewer cached prefixes"))
    return Proposal(
        action=say("Lower {name}, which the message itself names", name=named["name"]),
        setting=named["name"],
        subject=named["name"],
        cost=say("fewer cached prefixes"),
    )


def _taken(crash: Crash, name: str) -> tuple[str | None, tuple[str, ...]]:
    """What the switch takes of the node's memory."""
    if "adam" in name or "optimizer" in name:
        return _adam(crash)
    return _copies(crash) if "sleep" in name and "deepspeed" not in name else (None, ())


def _copies(crash: Crash) -> tuple[str | None, tuple[str, ...]]:
    model = size_of_model(crash)
    engines = crash.setting("vllm_num_engines", "vllm.num_engines")
    if model is None or engines is None or not isinstance(engines.value, int) or engines.value < 1:
        return None, ()
    amount = ram.sleep_copies(model.parameters, engines.value)
    formula = say(
        "{count} engines x 2 bytes x {size} = {amount} of copies while they sleep",
        count=engines.value,
        size=model.billions,
        amount=show(amount),
    )
    return formula, (model.source, say("sleep level 1, all engines on one node, before pinned rounding"))


def _adam(crash: Crash) -> tuple[str | None, tuple[str, ...]]:
    found = adam_states(crash)
    if found is None:
        return None, ()
    _, formula, source = found
    total = total_bytes(crash)
    if not total:
        return say("{formula} per trained model", formula=formula), (source,)
    told = say("{formula} of the node's {total} per trained model", formula=formula, total=show(total))
    return told, (source,)


def adam_states(crash: Crash) -> tuple[int, str, str] | None:
    """What an offloaded Adam takes of one node, its formula, and where the model's size is from."""
    model = size_of_trained(crash)
    if model is None:
        return None
    count = nodes(crash)
    amount = ram.adam(model.parameters, count)
    formula = (
        say("12 bytes x {size} / {count} nodes = {amount}", size=model.billions, count=count, amount=show(amount))
        if count > 1
        else say("12 bytes x {size} = {amount}", size=model.billions, amount=show(amount))
    )
    return amount, formula, model.source
