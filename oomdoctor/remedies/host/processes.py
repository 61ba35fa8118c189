"""The processes of a node: moved, fewer at once, restarted before they have grown too far."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from oomdoctor.families.container import LimitKill
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import Holder, NodeMemory, node_memory, total_bytes
from oomdoctor.job.frameworks import some
from oomdoctor.job.model import Trajectory, Value
from oomdoctor.language import all_of, say, semicolons
from oomdoctor.patterns import late
from oomdoctor.remedies import held, ray_workers
from oomdoctor.remedies.halves import half
from oomdoctor.remedies.host.thresholds import ROOM, threshold_of
from oomdoctor.remedies.initial import least_of
from oomdoctor.remedies.inputs import nothing_is_known_of_the_program
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip, already
from oomdoctor.remedies.settings import Spelling, of_knob
from oomdoctor.signs.address_space import a_loader_was_not_forked
from oomdoctor.signs.held_data import hash_table_of
from oomdoctor.signs.host_data import (
    MANY,
    a_square_array_was_refused,
    a_wide_table_was_refused,
    many_readers_and_one_vanished,
)
from oomdoctor.signs.kills import ranks_beside_the_killed
from oomdoctor.signs.node import a_task_is_the_largest
from oomdoctor.signs.spark import drivers_heap_is_full
from oomdoctor.units import GIB, show

SEVERAL: Final = 2
_MORE_THAN_ONE: Final = late(r"\d[,-]\d")  # "1-3", "0,2"
_PROCESSES_OF_A_MAP: Final = 16  # preprocessing_num_workers in examples/train_lora of LLaMA-Factory v0.9.0
_PROCESSES_OF_A_NODE: Final = "--num_gpus"  # deepspeed/launcher/runner.py
OTHER_NODE: Final = "OTHER_NODE"  # stands for a host that the reader fills in
_LOADS_BESIDE: Final = "num_workers"
_PORT: Final = "PORT"
_URL: Final = late(
    r"(?P<scheme>https?://)(?:[\w.\-]{1,253}|\[[0-9a-fA-F:]{2,45}\])(?P<port>:\d{1,5})?(?P<path>(?:/[\w.\-/]{0,200})?)"
)

NEARLY_ALL: Final = 0.9  # of what is in use, in one process
# What a restart costs nothing: work that is saved and taken up again, requests that come anew
_GOES_ON: Final = (
    r"(?i)check-?point|snapshot|\bresum(?:e|ed|ing)\b|\bsav(?:e|ed|ing)\b"
    r"|\bserv(?:er|ice|ing)\b|\blisten(?:s|ing)? (?:on|at)\b|\brequests?\b|\bdaemon\b|\bconsumers?\b"
)
_HASH_TABLE: Final = "HashMap"
_ALIKE: Final = 2  # times the middle one: a larger one is of another kind
_THREADS: Final = frozenset({"threads", "nthreads", "num_threads"})


def move_process(case: Case) -> Answer:
    crash = case.crash
    memory = node_memory(crash)
    holder = memory.heaviest if memory is not None else None
    if memory is None or holder is None:
        return None
    if memory.equals and not memory.overlaps:
        return _apart(memory)
    if _fills_any_such_node(memory, holder):
        return Skip()
    threshold, used = threshold_of(crash), memory.used_bytes
    parts = [
        say("{process} holds {amount} of {whole}", process=holder.who, amount=show(holder.largest), whole=memory.whole)
    ]
    target: int | None = None
    assumes: tuple[str, ...] = ()
    if threshold is not None and used is not None:
        if used > threshold[0]:
            to_give_back = say(
                "{used} in use - {threshold} threshold = {amount} to free at least",
                used=show(used),
                threshold=threshold[1],
                amount=show(used - threshold[0]),
            )
            parts.append(to_give_back)
        total = memory.total_bytes or threshold[0]
        rest = round(ROOM * (total if ROOM * total < threshold[0] else threshold[0]))
        if rest < used and holder.largest - (used - rest) > 0:
            target = holder.largest - (used - rest)
            to_rest = say(
                "it must shrink by {amount} to bring the node to {share} ({rest})",
                rest=show(rest),
                share=f"{ROOM:.0%}",
                amount=show(used - rest),
            )
            parts.append(to_rest)
            assumes = (say("20 % free for growth of the other processes (a guess)"),)
    move = (
        say("Move {process} to another node", process=holder.who)
        if target is None
        else say("Move {process} to another node or cap it at {amount}", process=holder.who, amount=show(target))
    )
    if holder.outside_ray:
        move = say("{action}; Ray does not manage this process and never kills it", action=move)
    return Proposal(
        action=move,
        derivation=semicolons(parts),
        assumes=assumes,
        snippet=_reward_url(case, holder),
        setting=case.row.setting if case.row is not None and holder.role == "reward" else None,
    )


def _fills_any_such_node(memory: NodeMemory, holder: Holder) -> bool:
    """Whether the job's own process would be killed on another node of this size as well, next to nothing else being
    here; of a server beside the job at least the job goes on."""
    of_the_job = not holder.outside_ray and holder.role != "reward"
    return of_the_job and not memory.overlaps and holder.largest >= NEARLY_ALL * memory.base_bytes


def _apart(memory: NodeMemory) -> Proposal:
    """Of processes that are as large as each other, one is as much to blame as the next."""
    first, *others = memory.equals
    both = sum(one.largest for one in memory.equals)
    return Proposal(
        action=say(
            "Put {others} on another node than {first}",
            others=all_of(one.who for one in others),
            first=first.who,
        ),
        derivation=say("{both} together of {whole}", both=show(both), whole=memory.whole),
        setting="",
        subject=others[0].who,
    )


def _reward_url(case: Case, holder: Holder) -> str | None:
    if holder.role != "reward" or case.row is None:
        return None
    return case.row.snippet(_elsewhere(case))


def _elsewhere(case: Case) -> Value:
    """The server's address on another node: the job's own, else the usual one with the port that the server got."""
    url = _URL.fullmatch(str(case.now.value)) if case.now is not None else None
    if url is not None:
        return f"{url['scheme']}{OTHER_NODE}{url['port'] or ''}{url['path']}"
    usual = case.row.value if case.row is not None else None
    port = _port_of_the_server(case.crash)
    return usual.replace(_PORT, str(port)) if isinstance(usual, str) and port is not None else usual


def _port_of_the_server(crash: Crash) -> int | None:
    """The option of the line that also names the reward model: an engine and a dashboard have ports too."""
    port, model = crash.setting("port"), crash.setting("reward_pretrain")
    if port is None or model is None or (port.file, port.line) != (model.file, model.line):
        return None
    return port.whole


def fewer_workers(case: Case) -> Answer:
    """As many as fit below the threshold, from what the largest of them holds: the others may still grow to that."""
    if (threads := held.fewer_threads(case)) is not None:
        return threads
    row = case.row
    if a_loader_was_not_forked(case.crash) is not None and (row is None or least_of(case) == 0):
        return _in_its_own_process(case)
    if row is not None and of_threads(row):
        if case.now is not None or row.smallest_default(None) is not None:
            return half(case)
        return Proposal(
            action=say("Let each process work on fewer parts at once ({name})", name=row.setting),
            suggested=row.value,
            derivation=say("{value} is a usual start value", value=row.value),
        )
    memory = node_memory(case.crash)
    threshold = threshold_of(case.crash)
    group = memory.group if memory is not None else None
    if memory is None or group is None or threshold is None or memory.used_bytes is None:
        return (
            _of_ranks(case) or _of_a_step(case) or _of_actors(case) or _of_tasks(case) or _of_a_map(case) or half(case)
        )
    limit, at = threshold
    one = _size_to_come(group)
    others = (memory.base_bytes if memory.lists_all_of(group) else memory.listed_bytes) - group.bytes
    fit = math.floor((ROOM * limit - others) / one) if one else 0
    if memory.overlaps or fit < 1:
        if (fewer := _half_of_those_listed(case.row, group)) is not None:
            return fewer
        return Proposal(
            action=say("Run fewer {name} at once, and check the other processes", name=group.name),
            derivation=say(
                "{largest} in the largest of them; threshold {threshold}", largest=show(group.largest), threshold=at
            )
            if memory.overlaps
            else say(
                "{amount} in {count} listed processes + {others} in others; threshold {threshold}",
                count=len(group.sizes),
                amount=show(group.bytes),
                others=show(others),
                threshold=at,
            ),
        )
    line, assumed = _at_most(case.row, fit)
    return Proposal(
        action=say("Run at most {count} {name} at once on this node", count=fit, name=group.name),
        suggested=fit,
        derivation=say(
            "floor(({share} of the {threshold} threshold - {others} of others) / {each} for each) = {count}",
            share=f"{ROOM:.0%}",
            threshold=at,
            others=show(others),
            each=show(one),
            count=fit,
        ),
        assumes=(*_not_listed(memory, group), *assumed),
        snippet=line,
    )


def _in_its_own_process(case: Case) -> Answer:
    """torch/utils/data/dataloader.py, _SingleProcessDataLoaderIter: each of half as many workers is a fork of the
    same parent."""
    if case.now is not None and case.now.value == 0:
        return already(case.now, 0)
    return Proposal(
        action=say("Load the data in the job's own process: without workers nothing is forked"),
        setting=None if case.row is not None else _LOADS_BESIDE,
        suggested=0,
        derivation=say("0 is the minimum"),
        snippet=None if case.row is not None else f"DataLoader(..., {_LOADS_BESIDE}=0)",
        cost=say("slower loading"),
    )


def _size_to_come(group: Holder) -> int:
    """What each of them may grow to: to the largest, unless that one is of another kind."""
    middle = sorted(group.sizes)[len(group.sizes) // 2]
    return group.largest if group.largest <= _ALIKE * middle else group.bytes // len(group.sizes)


def of_threads(row: Spelling | None) -> bool:
    """Whether the option counts what one process does at once, and no processes."""
    return row is not None and row.setting.strip("-") in _THREADS


def _not_listed(memory: NodeMemory, group: Holder) -> Iterator[str]:
    if not memory.lists_all_of(group):
        yield say("processes not listed by Ray (it lists ten) are of the same kind")


def _half_of_those_listed(row: Spelling | None, group: Holder) -> Proposal | None:
    """Where their option is known, and how many fit cannot be said."""
    listed = len(group.sizes)
    if row is None or not some([row.framework], "starts as many as its option says") or listed < SEVERAL:
        return None
    fewer = listed // 2
    return Proposal(
        action=say(
            "Run fewer {name} at once: {half} instead of the {listed} listed",
            name=group.name, half=fewer, listed=listed,
        ),
        suggested=fewer,
        derivation=say(
            "{listed} / 2 = {half}; {largest} in the largest of them",
            listed=listed, half=fewer, largest=show(group.largest),
        ),
    )  # fmt: skip


def _at_most(row: Spelling | None, count: int) -> tuple[str | None, tuple[str, ...]]:
    """The option with this number; where a task's own request for CPUs is all that is known, Ray's number of them."""
    if row is None or row.takes_value:
        return (row.snippet(count) if row is not None else None), ()
    by_number = next((one for one in of_knob(row.knob, row.framework) if one.is_call and one.takes_value), None)
    if by_number is None:
        return None, ()
    return by_number.snippet(count), (say("the program starts Ray itself (not in the log)"),)


def _of_actors(case: Case) -> Proposal | None:
    """Actors that the program starts: no option of Ray's says how many."""
    name = ray_workers.own_actor(case.crash) if case.row is None and case.now is None else None
    if name is None:
        return None
    action = say("Start fewer {name} actors: their number is set in your program", name=name)
    return Proposal(action=action, subject=name)


def _of_ranks(case: Case) -> Proposal | None:
    """A launcher starts one process for each GPU, and each keeps memory of its own."""
    ranks = ranks_beside_the_killed(case.crash)
    if ranks is None:
        return None
    fewer = ranks.count // 2
    return Proposal(
        action=say("Start fewer processes on the node: {now} -> {then}", now=ranks.count, then=fewer),
        suggested=fewer,
        derivation=say("each one less frees {own}", own=show(ranks.own_bytes)),
        assumes=(say("the {count} processes are alike", count=ranks.count),),
        setting=_PROCESSES_OF_A_NODE,
        snippet=f"deepspeed {_PROCESSES_OF_A_NODE} {fewer} ...",
        cost=say("slower: fewer GPUs compute"),
    )


def _of_a_step(case: Case) -> Proposal | None:
    """Slurm names the tasks of a step that ran out together."""
    if not several_tasks(case.crash):
        return None
    row = next(of_knob("fewer-workers", "slurm"))
    return Proposal(
        action=say("Start fewer tasks on each node ({option}): they share the limit", option=row.setting),
        setting=row.setting,
        cost=say("more nodes, or fewer tasks in all"),
    )


def several_tasks(crash: Crash) -> bool:
    """More than one task of a step, in a job of no world of arrays: there each may be one of the ranks."""
    tasks = (kill.tasks or "" for kill in crash.every(LimitKill))
    return crash.job.world == "none" and any(_MORE_THAN_ONE.search(named) for named in tasks)


def _of_tasks(case: Case) -> Proposal | None:
    """Tasks of Ray, which runs as many at once as there are CPUs for."""
    row = case.row
    if row is None or row.framework != ray_workers.NAME or row.takes_value:
        return None
    unnamed = ray_workers.are_unnamed(case.crash)
    return Proposal(
        action=say("Run fewer Ray tasks at once: let each request more CPUs"),
        assumes=(say("Ray killed tasks; of actors the program starts as many as it is told"),) if unnamed else (),
        snippet=row.snippet(row.value),
    )


def smaller_parts(case: Case) -> Answer:
    """A task of Ray works on what it is called with, and gives it back at its end."""
    if drivers_heap_is_full(case.crash):
        return Skip()  # it keeps account of every partition
    of_numpy = a_square_array_was_refused(case.crash) or a_wide_table_was_refused(case.crash)
    if case.row is None and of_numpy is not None:
        return _in_blocks_of_rows(case.crash)
    if case.row is None and hash_table_of(case.crash) is not None:
        return Proposal(
            action=say(
                "Fill the table with a part of the keys at a time (by a hash of the key), one pass for each part"
            ),
            subject=_HASH_TABLE,
            cost=say("slower"),
        )
    memory = node_memory(case.crash)
    if case.row is not None or memory is None or memory.heaviest is None or a_task_is_the_largest(case.crash) is None:
        return None
    return Proposal(
        action=say("Give each call of {task} less to work on, and call it more often", task=memory.heaviest.name)
    )


def _in_blocks_of_rows(crash: Crash) -> Proposal:
    """As many blocks of NumPy's array that was refused as make each no larger than 1 GiB."""
    refused = crash.first(HostAllocation)
    whole = (refused.tried_bytes if refused is not None else None) or GIB
    count = 2 ** (math.ceil(whole / GIB) - 1).bit_length()
    return Proposal(
        action=say("Compute them in blocks of rows, and keep only what you need of each"),
        snippet=f"for rows in np.array_split(x, {count}): ...",
        derivation=f"{show(whole)} / {count} = {show(whole // count)}",
        cost=say("slower"),
    )


def _of_a_map(case: Case) -> Proposal | None:
    """Half of hundreds of processes is as many as no machine has cores for."""
    now = case.now
    if now is None or many_readers_and_one_vanished(case.crash) is None or (now.whole or 0) < MANY:
        return None
    answer = half(case)
    if not isinstance(answer, Proposal):
        return None
    return replace(
        answer,
        action=say("Lower {name} from {now} to {then}", name=case.name, now=now.value, then=_PROCESSES_OF_A_MAP),
        suggested=_PROCESSES_OF_A_MAP,
        derivation=say("{value} is a usual start value", value=_PROCESSES_OF_A_MAP),
        snippet=case.own_spelling(_PROCESSES_OF_A_MAP) if answer.snippet is not None else None,
    )


def restart(case: Case) -> Answer:
    """How many steps fit between two restarts; where none are counted, how many prints of the figure."""
    crash = case.crash
    grows = crash.trajectory
    if nothing_is_known_of_the_program(crash) and not crash.shows(_GOES_ON):
        return _of_what_runs_on(grows)
    if grows is None or not grows.growth_bytes or grows.per == "second":
        return None
    first, by_step = grows.points[0].bytes, grows.per == "step"
    limit, at = threshold_of(crash) or _whole_node(crash)
    if limit <= first:
        return None
    steps = math.floor(ROOM * (limit - first) / grows.growth_bytes)
    if steps < 1:
        growth = show(grows.growth_bytes)
        return Refusal(
            say("it grows by {amount} per step: not even one step fits between two restarts", amount=growth)
            if by_step
            else say("it grows by {amount} per print: not even one print fits between two restarts", amount=growth)
        )
    figures = {
        "share": f"{ROOM:.0%}",
        "limit": at,
        "first": show(first),
        "growth": show(grows.growth_bytes),
        "count": steps,
    }
    if not by_step:
        return Proposal(
            action=say("Save and restart every {count} prints of this figure until the leak is fixed", count=steps),
            derivation=say("floor({share} of ({limit} - {first} at first) / {growth} per print) = {count}", **figures),
        )
    return Proposal(
        action=say("Save and restart every {count} steps until the leak is fixed", count=steps),
        suggested=steps,
        derivation=say("floor({share} of ({limit} - {first} at first) / {growth} per step) = {count}", **figures),
    )


def _of_what_runs_on(grows: Trajectory | None) -> Answer:
    """Of a job that counts its work nothing shows that it can take it up again; what fills a machine by the clock may
    do without."""
    if grows is not None and grows.per != "second":
        return Skip()
    return Proposal(action=say("Restart it before memory is full, until the leak is fixed"))


def _whole_node(crash: Crash) -> tuple[int, str]:
    total = total_bytes(crash) or 0
    return total, show(total)
