"""The caps that a program or a runtime has of its own, lifted or raised."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.families.budget import OF_A_QUERY, BudgetSpent, BudgetUsage
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import RAM
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.initial import as_default
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip, already
from oomdoctor.signs.address_space import limit_of_r_is_hit
from oomdoctor.signs.allocator import (
    ENDS_AT,
    XPU_LARGEST,
    beyond_the_largest_allocation,
    budget_of_the_machines_size_is_spent,
    card_partly_hidden,
    counts_what_is_gone,
    ends_early,
    vram_of_the_driver,
)
from oomdoctor.signs.databases import sqlite_limit
from oomdoctor.signs.host_caches import LMCACHE_BUFFER, LMCACHE_USUAL
from oomdoctor.signs.loading import a_card_for_no_model
from oomdoctor.signs.other_words import with_advice
from oomdoctor.signs.spark import SPARK, drivers_heap_is_full
from oomdoctor.signs.trace import card
from oomdoctor.units import BINARY, GIB, MIB, gib_up, percent, show
from oomdoctor.versions import version_of

_HARD_LIMIT: Final = "hard_heap_limit"  # of SQLite
_CAP: Final = "torch.cuda.set_per_process_memory_fraction"  # torch/cuda/memory.py since 1.8: 0 to 1 of the GPU
_WHOLE: Final = 1.0
_RELAXED: Final = "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS"  # oneapi-src/unified-runtime#1245, 2024-01
_AT_LEAST: Final = late(r"(?i)\bat least\b[^\n]{1,80}")
# "Try tweaking config option spark.memory.offHeap.size", "increase 'query.max-memory-per-node'"
_NAMED: Final = late(
    r"(?i)\b(?:options?|config(?:uration)?|parameters?|propert(?:y|ies)|settings?|variables?|flags?"
    r"|(?:increas|rais|enlarg|adjust|tweak)\w{1,3}|set)"
    r"(?: (?:the|config|option|parameter|property|setting|value of|size|pool|buffer|when calling)){0,5}"
    r" [`'\"]?(?P<name>(?:--?)?[A-Za-z][\w-]{0,40}(?:[._-][A-Za-z][\w-]{0,40}){1,6})"
)
_OF_A_SIZE: Final = late(r"(?i)mem|limit|heap|budget|ram(?![a-z])|pool")
_OF_LESS: Final = late(r"(?i)\b(?:decreas|reduc|lower|smaller|shrink)\w{0,4}\b[^.;\n]{0,40}$")
_WORKSPACE_STEP: Final = 512 * MIB
_SIZE: Final = late(r"(\d{1,12})([kKmMgGtT]?b?)")
_OF_A_BARE_NUMBER: Final = "m"  # V8
_LIMIT_OF_DUCKDB: Final = "memory_limit"
_CORRECTS: Final = "memory_worker_correct_memory_tracker"
# Limits that are shares of a heap, and which share where that is known
_SHARES_OF_A_HEAP: Final = {
    "indices.breaker.total.limit": 0.95,
    "indices.breaker.fielddata.limit": None,
    "indexing_pressure.memory.limit": None,
}
_OF_ELASTICSEARCH: Final = "ES_JAVA_OPTS"
_OF_OPENSEARCH: Final = "OPENSEARCH_JAVA_OPTS"
_TERMINATES: Final = "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE"
_SHARE: Final = late(r"(\d{1,2})%")
_SMALL_HEAP: Final = GIB // 2
_MANY_TIMES: Final = 4
# The java command's manual, JDK 21: neither is a part of the heap, and -Xmx bounds neither
_BESIDE_THE_HEAP: Final = {"metaspace": "-XX:MaxMetaspaceSize", "direct": "-XX:MaxDirectMemorySize"}
_BESIDE: Final = 1.25
_MAPPED: Final = "ttm.pages_limit"
_PHP: Final = "php"
_POINTERS: Final = 31  # GiB: what compressed object pointers reach, JDK's UseCompressedOops
_OF_THE_DRIVER: Final = "spark.driver.memory"  # docs/configuration.md: 1g where nobody says


def raise_cap(case: Case) -> Answer:
    root = case.crash.root
    if case.row is not None and case.row.framework == SPARK and drivers_heap_is_full(case.crash):
        return _larger_driver(case.crash)
    if isinstance(root, DeviceOutOfMemory) and root.limit == "watermark":
        if case.now is not None and case.number() == 0:
            return already(case.now, 0.0)
        return Proposal(
            action=say("Lift the limit on the Mac's unified memory"),
            setting="PYTORCH_MPS_HIGH_WATERMARK_RATIO",
            snippet="export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
            suggested=0.0,
            derivation=say("0.0 means no limit"),
            cost=say("the whole machine may freeze: beyond the limit macOS pages to disk"),
        )
    if a_card_for_no_model(case.crash) is not None:
        return _more_set_aside()
    if beyond_the_largest_allocation(case.crash) is not None:
        return _larger_at_once(case.crash)
    if isinstance(root, LibraryOutOfMemory) and root.library == "FlashInfer" and root.tried_bytes:
        return _larger_workspace(root.tried_bytes)
    if (of_a_program := _of_a_program(case)) is not None:
        return of_a_program
    allowed = root.allowed_bytes if isinstance(root, DeviceOutOfMemory) else None
    if card_partly_hidden(case.crash) is not None:
        return _mapped_memory(card(case.crash), vram_of_the_driver(case.crash))
    if allowed:
        alone = isinstance(root, DeviceOutOfMemory) and (root.tried_bytes or allowed) <= (root.free_bytes or 0)
        return Proposal(
            action=say("Raise the process's memory fraction (now {allowed})", allowed=show(allowed)),
            setting=_CAP,
            suggested=_WHOLE,
            snippet=f"{_CAP}({_WHOLE})" if alone else None,
            derivation=say("{fraction} is the whole GPU", fraction=_WHOLE),
            cost=say("other processes on the GPU get less of it"),
        )
    return _by_its_option(case)


def _larger_driver(crash: Crash) -> Proposal:
    """Twice the driver's heap, by an option of the launch: in client mode it runs when its program could set one."""
    stated = crash.setting("driver_memory", _OF_THE_DRIVER)
    size = _SIZE.fullmatch(str(stated.value)) if stated is not None else None
    now, unit = (int(size[1]), size[2] or _OF_A_BARE_NUMBER) if size is not None else (1, "g")
    then = f"{2 * now}{unit}"
    guess = say("double is a guess: the need is unknown")
    default = say("{name} is {value} (its default, not in the log)", name=_OF_THE_DRIVER, value=f"{now}{unit}")
    return Proposal(
        action=say(
            "Raise the driver's heap from {now} to {then} (in client mode on the command line, not in a SparkConf)",
            now=f"{now}{unit}" if size is not None else as_default(f"{now}{unit}"),
            then=then,
        ),
        setting="--driver-memory",
        suggested=then,
        snippet=f"spark-submit --driver-memory={then}",
        derivation=f"2 x {now}{unit} = {then}",
        assumes=(guess,) if size is not None else (default, guess),
    )


def _by_its_option(case: Case) -> Answer:
    """Where nothing prints the limit: twice the option's default. Of a program that is not known, what its message
    names; without an option there is nothing to raise."""
    row = case.row
    if row is None:
        return _by_the_message(case.crash)
    default = row.default(version_of(case.crash.context.frameworks.get(row.framework)))
    size = _SIZE.fullmatch(str(default))
    if row.value is not None or not row.takes_value:
        return None
    if size is None or not size[2]:
        return Proposal(action=say("Raise {name}, if the machine has the memory", name=row.setting))
    then = f"{2 * int(size[1])}{size[2]}"
    return Proposal(
        action=say(
            "Raise {name} from {now} to {then}, if the machine has the memory",
            name=row.setting,
            now=as_default(str(default)),
            then=then,
        ),
        suggested=then,
        derivation=f"2 x {default} = {then}",
        assumes=(
            say("{name} is {value} (its default, not in the log)", name=row.setting, value=default),
            say("double is a guess: the need is unknown"),
        ),
    )


def _by_the_message(crash: Crash) -> Proposal | Skip:
    said = with_advice(crash.root)
    named = _NAMED.search(said)
    if named is None or _OF_A_SIZE.search(named["name"]) is None or _OF_LESS.search(said[: named.start("name")]):
        return Skip()
    name = named["name"]
    return Proposal(action=say("Raise {name}, which the message itself names", name=name), setting=name, subject=name)


def _of_a_program(case: Case) -> Answer:
    """What a program or its runtime allows itself of the machine's RAM."""
    root = case.crash.root
    if isinstance(root, BufferFull):
        return _larger_host_buffer(case.crash)
    if isinstance(root, BudgetSpent) or case.crash.first(BudgetUsage) is not None:
        return _larger_budget(case)
    if (of_sqlite := sqlite_limit(case.crash)) is not None:
        return _more_for_sqlite(of_sqlite)
    if isinstance(root, HostAllocation) and limit_of_r_is_hit(case.crash) is not None:
        return _more_for_r(root.limit_bytes or 0)
    if isinstance(root, HostAllocation) and root.part in _BESIDE_THE_HEAP:
        return _more_beside_the_heap(root, _BESIDE_THE_HEAP[root.part])
    if case.crash.pool in RAM and case.now is not None and (size := _SIZE.fullmatch(str(case.now.value))):
        if _is_asked_for(case.crash, size[0]):
            return _as_asked(case, size[0])
        return _twice(case, int(size[1]), size[2])
    used = root.heap_used_bytes if isinstance(root, HostAllocation) else None
    return _larger_default(used) if used and used < GIB and case.now is None else None


def _larger_default(used: int) -> Proposal:
    """V8's heap is a quarter of the machine's memory where nobody states it: one that is full so early is of a small
    machine, which has no room for the usual value (v8/src/heap/heap.cc, HeapSizeFromPhysicalMemory)."""
    then = math.ceil(2 * used / MIB)
    return Proposal(
        suggested=then,
        derivation=f"2 x {show(used)} = {then} MiB",
        assumes=(say("double is a guess: the need is unknown"),),
    )


def _more_for_sqlite(limit: int) -> Proposal:
    """A PRAGMA only lowers the limit that is set: the first one of the process has to be larger."""
    then = 2 * limit
    return Proposal(
        action=say(
            "Set hard_heap_limit to {then} where the program first sets it, if the machine has the memory: a later "
            "PRAGMA only lowers it",
            then=show(then),
        ),
        setting=_HARD_LIMIT,
        current=limit,
        suggested=then,
        snippet=f"PRAGMA {_HARD_LIMIT}={then};",
        derivation=f"2 x {limit} = {then}",
        assumes=(say("double is a guess: the need is unknown"),),
    )


def _more_for_r(limit: int) -> Proposal:
    """?memory.size of R 4.1: in Mb, and it can be raised only. From 4.2 on it does nothing, and there is no limit."""
    now, then = limit // MIB, 2 * limit // MIB
    return Proposal(
        action=say("Raise R's memory limit from {now} to {then} Mb, if the machine has the memory", now=now, then=then),
        setting="memory.limit",
        current=now,
        suggested=then,
        snippet=f"memory.limit(size = {then})",
        derivation=f"2 x {now} = {then}",
        assumes=(
            say("R before 4.2 (not in the log): later ones have no such limit"),
            say("double is a guess: the need is unknown"),
        ),
        cost=say("beyond the RAM, Windows pages to disk"),
    )


def _is_asked_for(crash: Crash, value: str) -> bool:
    """Whether the message asks for the value: it is what the work needs, and not what the limit was."""
    return any(value in found[0] for found in _AT_LEAST.finditer(with_advice(crash.root)))


def _as_asked(case: Case, value: str) -> Proposal:
    return Proposal(
        action=say("Raise {name} to {value}, if the machine has the memory", name=case.name, value=value),
        suggested=int(value) if value.isdecimal() else value,
        derivation=say("{value} is what the message asks for", value=value),
        cost=say("the system may run out of memory instead"),
    )


def _larger_at_once(crash: Crash) -> Proposal | Skip:
    """Intel's runtime lifts its limit where it is told to; what Metal and a framework refuse by themselves nobody
    lifts."""
    if isinstance(crash.root, DeviceOutOfMemory) and crash.root.limit == "per-allocation":
        return Skip()
    return Proposal(
        action=say(
            "Let Intel's runtime make single allocations of {limit} and more, or keep each tensor below that",
            limit=show(XPU_LARGEST),
        ),
        setting=_RELAXED,
        suggested=1,
        snippet=f"export {_RELAXED}=1",
        assumes=(say("a Level Zero runtime of 2024 or later (not in the log)"),),
        cost=say("slower kernels: they address memory with 64 bits"),
    )


def _mapped_memory(it: Card, there: int) -> Proposal:
    """An APU's GPU takes system memory, of which the driver maps a part: docs of ROCm, system-optimization/rdna3-5; the
    kernel calls amdgpu.gttsize deprecated in favour of this (ROCm/legacy-rocm-build#5595). Since Linux 6.16.9 what the
    BIOS sets aside counts, too (#5444)."""
    amount = gib_up(math.ceil(it.tried_bytes * _BESIDE)) if it.tried_bytes else None
    least = say(
        "{tried} requested x {times} = {amount} GiB, rounded up",
        tried=show(it.tried_bytes or 0), times=_BESIDE, amount=amount,
    )  # fmt: skip
    guess = say("{part} beside the allocation that failed is a guess", part=f"{_BESIDE - 1:.0%}")
    by_default = (it.total_bytes or 0) + there // 2
    is_enough = amount is not None and amount * GIB <= by_default
    return Proposal(
        action=say(
            "On an APU: run Linux 6.16.9 or later, which counts what the BIOS sets aside for the GPU; or set less "
            "aside there, so that the GPU maps half of all RAM"
        )
        if is_enough
        else say(
            "On an APU: give the GPU less memory in the BIOS, and let it map more of the system's (ttm.pages_limit)"
        ),
        setting="" if is_enough else _MAPPED,
        suggested=None if is_enough else amount,
        snippet="uname -r" if is_enough else f"amd-ttm --set {amount or 'N'}   # GiB; of the package amd-debug-tools",
        derivation=say(
            "{seen} + {there} / 2 = {then} once nothing is set aside; {formula}",
            seen=show(it.total_bytes or 0), there=show(there), then=show(by_default), formula=least,
        )
        if is_enough
        else least if amount else None,
        assumes=(
            say("the GPU is an APU's, and its runtime counts mapped memory only"),
            *((say("the GPU maps half of the RAM that the BIOS leaves (Linux's default)"),) if is_enough else ()),
            *((guess,) if amount else ()),
        ),
        cost=say("a reboot; what the GPU maps, the CPU lacks"),
    )  # fmt: skip


def _more_set_aside() -> Proposal:
    """Makers call it UMA frame buffer size, iGPU memory or DVMT."""
    return Proposal(
        action=say("On an integrated GPU: set aside more of the RAM for it in the BIOS"),
        assumes=(say("the GPU is part of the processor (not in the log)"),),
        cost=say("a reboot; what the GPU has, the CPU lacks"),
    )


def _larger_workspace(tried: int) -> Proposal:
    """Engines have 384 MiB, or 512 MiB for some models: SGLANG_FLASHINFER_WORKSPACE_SIZE in sglang/srt/environ.py."""
    steps = math.ceil(tried / _WORKSPACE_STEP)
    then = steps * _WORKSPACE_STEP
    return Proposal(
        action=say("Give the engine a FlashInfer workspace of at least {then}", then=show(then)),
        suggested=then,
        derivation=say(
            "{tried} requested; {formula}",
            tried=show(tried),
            formula=f"{steps} x {show(_WORKSPACE_STEP)} = {show(then)}",
        ),
        cost=say("less GPU memory for the KV cache"),
    )


def _larger_host_buffer(crash: Crash) -> Proposal:
    """LMCache's own buffer."""
    stated = crash.setting(*LMCACHE_BUFFER)
    now = stated.number if stated is not None else None
    then = 2 * (now or LMCACHE_USUAL)
    return Proposal(
        action=say(
            "Raise LMCache's host buffer (max_local_cpu_size, in GB per rank): {now} -> {then}",
            now=f"{now:g}" if now else as_default(f"{LMCACHE_USUAL:g}"),
            then=f"{then:g}",
        ),
        setting=LMCACHE_BUFFER[1],
        current=now,
        suggested=then,
        snippet=f"export {LMCACHE_BUFFER[1]}={then:g}",
        derivation=f"2 x {now or LMCACHE_USUAL:g} = {then:g}",
        assumes=(say("double is a guess: the need is unknown"),),
        cost=say("as much more host RAM for each rank"),
    )


def _twice(case: Case, now: int, unit: str) -> Proposal:
    """A heap whose size the launch line states."""
    times = _MANY_TIMES if now * BINARY[unit.lower().rstrip("b") or _OF_A_BARE_NUMBER] < _SMALL_HEAP else 2
    then = f"{times * now}{unit}"
    return Proposal(
        action=say(
            "Raise {name} from {now} to {then}, if the machine has the memory",
            name=case.name,
            now=f"{now}{unit}",
            then=then,
        ),
        suggested=then if unit else times * now,
        derivation=f"{times} x {now}{unit} = {then}",
        assumes=(
            say("double is a guess: the need is unknown")
            if times == 2
            else say("{times} times is a guess: the heap is small and the need is unknown", times=times),
        ),
    )


def _more_beside_the_heap(refused: HostAllocation, option: str) -> Proposal:
    """A memory of Java's that has a limit of its own."""
    limit = refused.metaspace_limit_bytes or refused.limit_bytes
    if not limit:
        return Proposal(action=say("Raise {name}, if the machine has the memory", name=option), setting=option)
    then = f"{math.ceil(2 * limit / MIB)}m"
    return Proposal(
        action=say(
            "Raise {name} from {now} to {then}, if the machine has the memory", name=option, now=show(limit), then=then
        ),
        setting=option,
        current=limit,
        suggested=then,
        snippet=f"java {option}={then}",
        derivation=f"2 x {show(limit)} = {show(2 * limit)}",
        assumes=(say("double is a guess: the need is unknown"),),
    )


def _larger_budget(case: Case) -> Answer:
    """Twice what a program allows itself."""
    root = case.crash.root
    if any(one.lowered_bytes is not None for one in case.crash.every(BudgetSpent)):
        return _before_the_data()
    if isinstance(root, BudgetSpent) and root.fraction is not None and ends_early(root):
        return _usual_share(root.fraction)
    if isinstance(root, BudgetSpent) and counts_what_is_gone(root):
        return _corrected_count(root)
    if isinstance(root, BudgetSpent) and root.setting in _SHARES_OF_A_HEAP:
        return _larger_heap(root, case.crash)
    stated = [one for one in case.crash.events if isinstance(one, BudgetSpent | BudgetUsage) and one.limit_bytes]
    limit = stated[-1].limit_bytes if stated else None
    if not limit:
        return _without_a_limit(case)
    if (unset := _unless_set(case, limit)) is not None:
        return unset
    if isinstance(root, BudgetSpent) and root.setting in OF_A_QUERY:
        return _for_a_query(root.setting, limit)
    of_php = isinstance(root, BudgetSpent) and root.program == _PHP
    then, now = f"{math.ceil(2 * limit / MIB)}{'M' if of_php else 'MiB'}", _as_printed(limit)
    return Proposal(
        action=say(
            "Raise the program's own limit from {now} to {then}, if the machine has the memory",
            now=now,
            then=then,
        ),
        current=limit,
        suggested=then,
        derivation=f"2 x {now} = {then}"
        if 2 * limit % MIB == 0
        else say("2 x {now}, rounded up = {then}", now=now, then=then),
        assumes=(say("double is a guess: the need is unknown"),),
        snippet=f"php -d memory_limit={then}" if of_php else None,
        setting=next((one.setting for one in stated if isinstance(one, BudgetSpent) and case.row is None), None),
    )


def _as_printed(limit: int) -> str:
    """With a tenth of a MiB where the log has one: doubled it counts."""
    return f"{limit / MIB:.1f} MiB" if limit < GIB and limit % MIB else show(limit)


def _without_a_limit(case: Case) -> Answer:
    """The setting alone, of a program whose message says no more than that it is too small."""
    root, found = case.crash.root, _by_its_option(case)
    if not isinstance(found, Skip) or not isinstance(root, BudgetSpent) or root.setting is None:
        return found
    return Proposal(action=say("Raise {name}, if the machine has the memory", name=root.setting), setting=root.setting)


def _for_a_query(setting: str, limit: int) -> Proposal:
    """In bytes: clickhouse.com/docs, settings of a query."""
    return Proposal(
        action=say(
            "Raise {name} from {now} to {then}, if the machine has the memory",
            name=setting,
            now=show(limit),
            then=show(2 * limit),
        ),
        current=limit,
        suggested=2 * limit,
        setting=setting,
        snippet=f"SET {setting} = {2 * limit}",
        derivation=f"2 x {show(limit)} = {show(2 * limit)}",
        assumes=(say("double is a guess: the need is unknown"),),
    )


def _larger_heap(spent: BudgetSpent, crash: Crash) -> Proposal:
    """A breaker is a share of the heap: beyond that the runtime itself has no room. The parent one that knows the real
    usage is 95 % of it where nobody says: circuit-breaker.html of Elasticsearch 7.7."""
    variable = _OF_OPENSEARCH if crash.shows(r"(?i)\bopensearch\b") else _OF_ELASTICSEARCH
    share = _SHARES_OF_A_HEAP.get(spent.setting or "")
    if share is None or spent.used_bytes is None or not spent.limit_bytes:
        return Proposal(
            action=say("Raise the JVM's heap (-Xms and -Xmx): the limit is a share of it"),
            setting=variable,
        )
    heap = round(spent.limit_bytes / share / MIB) * MIB
    if 2 * heap > _POINTERS * GIB:
        return Proposal(
            action=say(
                "Add a node: beyond {most} of heap a JVM's pointers take twice the room", most=show(_POINTERS * GIB)
            ),
            setting=variable,
        )
    then = f"{2 * heap // GIB}g" if 2 * heap % GIB == 0 else f"{2 * heap // MIB}m"
    return Proposal(
        action=say("Raise the JVM's heap from {now} to {then}: the limit is a share of it", now=show(heap), then=then),
        setting=variable,
        suggested=then,
        snippet=f'export {variable}="-Xms{then} -Xmx{then}"',
        derivation=say(
            "{limit} / {share} = {heap} of heap; 2 x {heap} = {double}",
            limit=show(spent.limit_bytes), share=share, heap=show(heap), double=show(2 * heap),
        ),
        assumes=(
            say("{name} is {value} (its default, not in the log)", name=spent.setting, value=percent(share)),
            say("double is a guess: the need is unknown"),
        ),
        cost=say("as much more RAM; at most half of the machine's is for the heap"),
    )  # fmt: skip


def _corrected_count(spent: BudgetSpent) -> Proposal:
    """clickhouse.com/docs, server settings, memory_worker: the count is then corrected by what is resident."""
    return Proposal(
        action=say(
            "Restart the server, and let it correct its count of memory in the configuration ({resident} of {needed} "
            "are in RAM)",
            resident=show(spent.resident_bytes or 0),
            needed=show(spent.needed_bytes or 0),
        ),
        setting=_CORRECTS,
        suggested=1,
        snippet=f"<{_CORRECTS}>1</{_CORRECTS}>",
        assumes=(say("a release of 2025 or later, which has the setting (not in the log)"),),
        cost="",
    )


def _usual_share(now: float) -> Proposal:
    return Proposal(
        action=say(
            "Let Dask end a worker at {usual} of its memory limit, not at {now}",
            usual=percent(ENDS_AT),
            now=percent(now),
        ),
        setting=_TERMINATES,
        current=now,
        suggested=ENDS_AT,
        snippet=f"export {_TERMINATES}={ENDS_AT}",
        derivation=say("{value} is Dask's default", value=ENDS_AT),
    )


def _before_the_data() -> Proposal:
    """DuckDB gives back what nothing holds on to, and refuses to go below the rest: src/storage/buffer/buffer_pool.cpp,
    `BufferPool::SetLimit`."""
    return Proposal(
        action=say(
            "Set {name} when the database is opened, before data is in memory, or to more than is in use",
            name=_LIMIT_OF_DUCKDB,
        ),
        setting=_LIMIT_OF_DUCKDB,
        snippet="SELECT sum(memory_usage_bytes) FROM duckdb_memory();",
    )


def _unless_set(case: Case, limit: int) -> Proposal | None:
    """A share of the machine cannot be doubled."""
    root = case.crash.root
    if budget_of_the_machines_size_is_spent(case.crash) is None or not isinstance(root, BudgetSpent):
        return None
    share = _SHARE.fullmatch(str(case.row.default(None))) if case.row is not None else None
    part = int(share[1]) / 100 if share is not None else None
    by_default = (
        say("nobody set it: then it is {share} of the RAM, which is {ram}", share=percent(part), ram=show(limit / part))
        if part
        else say("nobody set it: then all workers together may use the whole RAM")
    )
    return Proposal(
        action=say("Raise the program's own limit of {now} only where somebody has set it", now=show(limit)),
        current=limit,
        assumes=(by_default,),
    )
