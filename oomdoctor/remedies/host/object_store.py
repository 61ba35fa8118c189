"""Ray's object store, smaller or larger."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oomdoctor.families.ray_store import StoreFull, StoreTooLarge, StoreUsage
from oomdoctor.incident.node import ray_kill, store_bytes, total_bytes
from oomdoctor.language import say
from oomdoctor.remedies import ray_workers
from oomdoctor.remedies.host.shm import for_shm
from oomdoctor.remedies.proposal import NODE_FULL, REWARD_HOG, Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import Spelling, of_knob
from oomdoctor.signs import limits
from oomdoctor.signs.store import only_the_disk_is_short
from oomdoctor.units import GIB, gib_up, show

_AN_AMOUNT: Final = "BYTES"
_RAY: Final = "ray"  # whose messages need not name it
_OF_RAY_START: Final = "--object-store-memory"
# Causes that leave open, or say otherwise, what an object store without a figure has to do with it
_SAYS_NOTHING_OF_THE_STORE: Final = (NODE_FULL, REWARD_HOG)
STORES_SHARE: Final = 0.3  # DEFAULT_OBJECT_STORE_MEMORY_PROPORTION of ray/_private/ray_constants.py
# ray/_private/resource_spec.py, estimate_available_memory: of what psutil says is available when Ray starts
_OF_PYTHON: Final = f"int({STORES_SHARE} * psutil.virtual_memory().available) + {{more}}"
_OF_THE_SHELL: Final = f"$(free -b | awk '/^Mem/ {{{{printf \"%d\", {STORES_SHARE} * $7 + {{more}}}}}}')"
LARGE_OBJECT: Final = 10 * GIB  # more than most stores have room for (a rule of thumb)
BESIDE_AN_OBJECT: Final = 1.1
OF_SHM: Final = 0.95
HARDLY: Final = 0.02  # of a node: giving back less is not worth a restart


def smaller_store(case: Case) -> Answer:
    limit = limits.limit_of(case.crash)
    if limit is not None and limits.store_exceeds_the_limit(case.crash) is not None:
        return _store_within(case, limit)
    if (shm := next((e.shm_bytes for e in case.crash.every(StoreTooLarge) if e.shm_bytes), None)) is not None:
        return _store_in_shm(shm, _row(case))
    held = store_bytes(case.crash, ray_kill(case.crash))
    if held is None and case.now is None and case.cause in _SAYS_NOTHING_OF_THE_STORE:
        return Skip()
    total = total_bytes(case.crash)
    if total is None:  # nobody knows of how much
        return None if case.now is not None or case.cause != NODE_FULL else Skip()
    if held is not None and held < HARDLY * total:
        return Refusal(
            say(
                "Ray's object store holds only {held} of the node's {total}",
                held=show(held),
                total=show(total),
            )
        )
    now = case.number()
    share = 0.1
    then = int(share * total)
    if now is not None and now <= then:
        return Refusal(say("{name} is already {value}", name=case.name, value=show(now)))
    by_default = say("object store now 30 % of the node (Ray's default, not in the log)")
    return Proposal(
        action=say("Set Ray's object store to {amount}", amount=show(then)),
        suggested=then,
        derivation=say(
            "{share} of the node's {total} = {amount} bytes", share=f"{share:.0%}", total=show(total), amount=then
        ),
        assumes=(
            say("10 % is a guess; `ray memory` shows the usage"),
            *(() if now is not None else (by_default,)),
        ),
    )


def _row(case: Case) -> Spelling:
    """Ray's own, where nothing names it but its message."""
    return case.row or next(row for row in of_knob(case.knob, _RAY) if row.is_call)


def _store_in_shm(there: int, row: Spelling) -> Proposal:
    """As much of what is available as Ray takes where nobody says: `resolve` of ray/_private/resource_spec.py."""
    then = int(OF_SHM * there)
    return Proposal(
        action=say("Set Ray's object store to {amount}, which /dev/shm holds", amount=show(then)),
        suggested=then,
        setting=row.setting,
        snippet=row.snippet(then),
        derivation=f"{OF_SHM:.0%} x {show(there)} = {then} bytes",
        assumes=(say("95 % is the most that Ray takes of /dev/shm by itself"),),
    )


def _store_within(case: Case, limit: int) -> Proposal:
    """Ray's usual share of what the container may have, with a /dev/shm that holds it."""
    then = int(STORES_SHARE * limit)
    line = case.snippet(then)
    return Proposal(
        action=say("Set Ray's object store to {amount}, and make /dev/shm as large", amount=show(then)),
        suggested=then,
        snippet="\n".join(filter(None, (line, for_shm(case.crash, f"{gib_up(then)}g")))),
        derivation=say(
            "{share} of the limit of {limit} = {amount} bytes",
            share=f"{STORES_SHARE:.0%}",
            limit=show(limit),
            amount=then,
        ),
        assumes=(say("30 % is the share that Ray takes by itself"),),
    )


def bigger_store(case: Case) -> Answer:
    if only_the_disk_is_short(case.crash):
        return Skip()
    answer, row = _with_more_room(case), _row(case)
    if isinstance(answer, Refusal) or not row.is_call:
        return answer
    if ray_workers.nodes_in_sight(case.crash) > 1:
        return _on_every_node(answer)
    if answer is None:
        line = row.write.format(_AN_AMOUNT)
        return Proposal(action=say("Make Ray's object store larger: {line}", line=line), setting=row.setting)
    return answer


def _on_every_node(answer: Proposal | None) -> Proposal:
    """python/ray/_private/worker.py, `init`: a driver that joins a cluster must not state it. Each node has its own."""
    then = answer.suggested if answer is not None else None
    line = f"{_OF_RAY_START}={_AN_AMOUNT if then is None else then}"
    if answer is None or then is None:
        return Proposal(
            action=say("Make Ray's object store larger on every node: ray start {option}", option=line),
            setting=_OF_RAY_START,
        )
    action = say("{action}, on every node (`ray start`)", action=answer.action)
    return replace(answer, action=action, setting=_OF_RAY_START, snippet=line)


def _with_more_room(case: Case) -> Proposal | Refusal | None:
    crash = case.crash
    full = crash.first(StoreFull)
    stores = [e.capacity_bytes for e in crash.events if isinstance(e, StoreFull | StoreUsage) and e.capacity_bytes]
    capacity = stores[0] if stores else None
    if full is not None and full.object_bytes and capacity:
        used = _used_of_store(full, capacity)
        then = used + full.object_bytes
        total = total_bytes(crash)
        if total and then > total:
            size_ = show(full.object_bytes)
            return Refusal(say("an object of {size} exceeds the node's memory: pass it in parts", size=size_))
        return Proposal(
            action=say("Set Ray's object store to {amount}", amount=show(then)),
            current=capacity,
            suggested=then,
            derivation=say(
                "{used} in use + {refused} that did not fit = {amount} bytes",
                used=show(used),
                refused=show(full.object_bytes),
                amount=then,
            ),
        )
    if capacity:
        return Proposal(
            action=say(
                "Double Ray's object store from {amount}, if /dev/shm and the node have room", amount=show(capacity)
            ),
            current=capacity,
            suggested=2 * capacity,
            derivation=f"2 x {show(capacity)} = {2 * capacity} bytes",
        )
    if full is not None and (full.object_bytes or 0) >= LARGE_OBJECT:
        return _for_the_object(full.object_bytes or 0, total_bytes(crash), _row(case))
    if full is not None and full.object_bytes:
        return Proposal(
            action=say(
                "Make Ray's object store {amount} larger than it is by itself, so that the object has room",
                amount=show(full.object_bytes),
            ),
            snippet=_beside_the_usual(case.row, full.object_bytes),
            derivation=say(
                "Ray's usual share of the free RAM + {amount} that did not fit", amount=show(full.object_bytes)
            ),
            assumes=(
                say("nobody set the store's size (not in the log), and the machine and its /dev/shm have the memory"),
            ),
        )
    return None


def _beside_the_usual(row: Spelling | None, more: int) -> str | None:
    """As much more than Ray takes by itself, which nobody printed: reckoned where it starts."""
    amount = _OF_PYTHON if row is not None and row.is_call else _OF_THE_SHELL
    return row.write.format(amount.format(more=more)) if row is not None else None


def _for_the_object(size: int, total: int | None, row: Spelling) -> Proposal | Refusal:
    """The store has to hold at least the one object."""
    then = gib_up(BESIDE_AN_OBJECT * size) * GIB
    if total is not None and then > total:
        return Refusal(say("an object of {size} exceeds the node's memory: pass it in parts", size=show(size)))
    return Proposal(
        action=say("Set Ray's object store to {amount}, where it has less now", amount=show(then)),
        suggested=then,
        setting=row.setting,
        snippet=row.snippet(then),
        derivation=say(
            "{times} x {size}, in whole GiB = {amount} bytes", times=BESIDE_AN_OBJECT, size=show(size), amount=then
        ),
        assumes=(say("10 % beside the object (a guess); the store's size is not in the log: `ray memory` shows it"),),
    )


def _used_of_store(full: StoreFull, capacity: int) -> int:
    """All of it, where the log does not print how much: the object found no room."""
    if full.used_bytes is not None:
        return full.used_bytes
    return round(full.used_fraction * capacity) if full.used_fraction is not None else capacity
