"""How much of a buffer fits: from what it held, by the job's own prints, when memory ran out."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import held_by
from oomdoctor.job.model import Setting
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.host.thresholds import limit_bytes
from oomdoctor.remedies.proposal import Case, Proposal
from oomdoctor.signs.address_space import a_thread_was_refused
from oomdoctor.signs.first_step import memory_in_all
from oomdoctor.signs.growing_caches import bound_of_a_cache, cache_of_items, unbounded_cache
from oomdoctor.signs.held_data import buffer_of
from oomdoctor.signs.host_caches import prompt_cache_of, prompts_filled_the_limit
from oomdoctor.signs.kept_ready import as_many_as_fit, kept_ready, more_is_kept_ready_than_there_is
from oomdoctor.signs.limits import budget_beyond_the_limit, is_of_a_heap
from oomdoctor.signs.optimizer import lbfgs_keeps_its_history, size_of_history
from oomdoctor.signs.own_arrays import a_buffer_is_made_at_once, capacity_of
from oomdoctor.signs.passes import bucket_was_refused
from oomdoctor.signs.replays import Replay, a_replay_memory_is_large, replay_of
from oomdoctor.signs.trace import refusal
from oomdoctor.units import MIB, cut_off, show

SHARE: Final = 0.7  # of what it held at the last print: the rest of the job grows, too
_DIGITS: Final = 2
_OF_JAVA: Final = late(r"native thread|\[os,thread\]")
_OF_LIBRARIES: Final = late(r"OpenBLAS|libgomp|OMP: ")
_THREADS: Final = "export OMP_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4"
_PARTS: Final = 10
_A_FEW: Final = 8  # things in a cache, of which a quarter is next to none
_LOADERS: Final = ("num_workers", "dataloader_num_workers", "workers", "n_workers", "loader_workers")
_PAIRS: Final = 10  # scipy/optimize/_lbfgsb_py.py, maxcor
_SHUFFLES: Final = "shuffle"
_OF_PROMPTS: Final = "cache_ram"
_PART_OF_PROMPTS: Final = 0.5
_OF_HISTOGRAMS: Final = "histogram_pool_size"
_PART_OF_HISTOGRAMS: Final = 4  # of what the job may use: the data and their bins take some, too
_PART_OF_A_HEAP: Final = 2 / 3  # of the limit: what the runtime needs beside its heap is about the rest
_BYTES_OF_GRADIENTS: Final = frozenset({2.0, 4.0})
_STACKS: Final = "ulimit -s 1024   # before the start; in Python threading.stack_size(2**20)"
_STACKS_OF_JAVA: Final = "-Xss512k"


def that_fits(crash: Crash, now: object) -> tuple[int, str] | None:
    """A size that fits, and how it was found, for an option that says how much the buffer may hold."""
    if not isinstance(now, int) or isinstance(now, bool):
        return None
    if lbfgs_keeps_its_history(crash) is not None and now > _PAIRS:
        return _PAIRS, say("{formula}; {pairs} is SciPy's default (maxcor)", formula=size_of_history(crash, _PAIRS),
                           pairs=_PAIRS)  # fmt: skip
    ready = kept_ready(crash)
    if ready is not None and ready.count == now and more_is_kept_ready_than_there_is(crash) is not None:
        whole = memory_in_all(crash)
        then = as_many_as_fit(ready, whole)
        if then >= now:
            return None
        size = show(then * ready.each_bytes)
        beside = say("{size} of {whole}", size=size, whole=show(whole)) if whole else size
        return then, f"{then} x {show(ready.each_bytes)} = {beside}"
    held = buffer_of(crash)
    if held is None or now <= held.count:
        return None
    if held.total is not None and held.total != now:
        return None
    then = cut_off(SHARE * held.count, _DIGITS)
    if not then:
        return None
    words = say("{share} of the {count:,} that it held at the last print = {then:,}", share=f"{SHARE:.0%}",
                count=held.count, then=then)  # fmt: skip
    return then, words


def smaller_buffer(case: Case) -> Proposal | None:
    """The buffer that was filling, by the option that says how much it may hold."""
    if case.now is None:
        return _half_of_a_full_one(case)
    if (found := that_fits(case.crash, case.now.value)) is None:
        return None
    then, why = found
    name = (case.now.written or case.now.name).strip().rstrip("=")
    return Proposal(
        action=say("Set {name} from {now} to {then}", name=name, now=case.now.value, then=then),
        current=case.now.value,
        suggested=then,
        setting=name,
        snippet=case.as_launched(then) or f"{case.now.name}={then}",
        derivation=why,
    )


def _half_of_a_full_one(case: Case) -> Proposal | None:
    """Of the shuffle buffer, whose size was printed when it was full, in a framework's own words."""
    held, row = buffer_of(case.crash), case.row
    if held is None or row is None or not held.is_full or _SHUFFLES not in row.write or _SHUFFLES not in held.what:
        return None
    return Proposal(
        action=say("Make the shuffle buffer smaller: {now:,} -> {then:,}", now=held.count, then=held.count // 2),
        current=held.count,
        suggested=held.count // 2,
        derivation=f"{held.count} / 2 = {held.count // 2}",
        cost=say("data are shuffled less well"),
    )


def bounded_cache(case: Case) -> Proposal | None:
    """A bound for the cache that only grows: less than it held when memory ran out."""
    cache, bound = unbounded_cache(case.crash), bound_of_a_cache(case.crash)
    if cache is None or bound is None:
        return None
    then = cut_off(SHARE * cache.last, _DIGITS)
    if not then:
        return None
    share = say("{share} of the {count:,} that it held at the last print = {then:,}", share=f"{SHARE:.0%}",
                count=cache.last, then=then)  # fmt: skip
    takes = f"; {then} x {show(cache.each_bytes)} = {show(then * cache.each_bytes)}" if cache.each_bytes else ""
    return Proposal(
        action=say("Bound the {what}: set {name} from {now} to {then}", what=cache.what, name=bound.flag,
                   now=bound.value, then=then),
        current=bound.value,
        suggested=then,
        setting=bound.flag,
        snippet=f"{bound.written or f'{bound.name}='}{then}",
        derivation=share + takes,
        cost=say("what is no longer in it is computed or read again"),
        assumes=(say("the program drops old entries at this bound"),),
    )  # fmt: skip


def smaller_cache(case: Case) -> Proposal | None:
    """A part of what each process may keep: a half, and a quarter where a kill has left no size."""
    cache = cache_of_items(case.crash)
    if cache is None or cache.number is None:
        return None
    bare = isinstance(case.crash.root, Kill) and not case.crash.proven
    parts = 4 if bare and not 1 < cache.number < _A_FEW else 2
    then = cache.whole // parts if cache.whole is not None and cache.whole > 1 else round(cache.number / parts, 3)
    formula, workers = f"{cache.value} / {parts} = {then}", case.crash.setting(*_LOADERS)
    if workers is not None and (workers.whole or 0) > 1:
        formula = say("{formula}; each of {workers} workers has one", formula=formula, workers=workers.whole)
    return Proposal(
        action=say("Set {name} from {now} to {then}", name=cache.flag, now=cache.value, then=then),
        current=cache.value,
        suggested=then,
        setting=cache.flag,
        snippet=f"{cache.written}{then}",
        derivation=formula,
        assumes=(say("a quarter is a guess: the log has no size"),) if bare and parts > 2 else (),
        cost=say("more is read again"),
    )


def smaller_capacity(case: Case) -> Proposal | None:
    """What is laid out at once is as large as its number of entries, whoever it was that set it."""
    replay = replay_of(case.crash) if a_replay_memory_is_large(case.crash) is not None else None
    if replay is not None:
        return _half_of_a_replay(replay)
    if case.now is not None or a_buffer_is_made_at_once(case.crash) is None:
        return None
    name = capacity_of(case.crash)
    action = (
        say("Lower the buffer's capacity ({name}): half of the entries take half of the memory", name=name)
        if name is not None
        else say("Lower the buffer's capacity: half of the entries take half of the memory")
    )
    return Proposal(action=action, setting="", cost=say("less history to learn from"))


def _half_of_a_replay(replay: Replay) -> Proposal:
    then = replay.capacity // 2
    return Proposal(
        action=say("Lower {name} from {now:,} to {then:,}", name=replay.name, now=replay.capacity, then=then),
        setting=replay.name,
        current=replay.capacity,
        suggested=then,
        derivation=f"{replay.capacity} / 2 = {then}",
        assumes=(say("half is a guess: the log does not print how much memory there is"),),
        cost=say("less history to learn from"),
    )


def below_the_limit(case: Case) -> Proposal | None:
    """What a program may use by its own setting, where that is more than the control group has. It counts its buffers
    alone (docs of DuckDB, `memory_limit`): half of the limit leaves room for the rest of the process."""
    budget, root = budget_beyond_the_limit(case.crash), case.crash.root
    if budget is None or not isinstance(root, KernelKill) or root.limit_bytes is None:
        return None
    if is_of_a_heap(budget):
        return _smaller_heap(budget, root.limit_bytes)
    then = f"{root.limit_bytes // 2 // MIB}MiB"
    return Proposal(
        action=say(
            "Lower {name} from {now} to {then}, below the limit of {limit}: it then spills to disk in time",
            name=budget.flag, now=budget.value, then=then, limit=show(root.limit_bytes),
        ),
        current=budget.value,
        suggested=then,
        setting=budget.flag,
        snippet=f"{budget.written or f'{budget.name}='}{then}",
        derivation=f"{show(root.limit_bytes)} / 2 = {then}",
        cost=say("slower; needs disk space"),
    )  # fmt: skip


def _smaller_heap(heap: Setting, limit: int) -> Proposal:
    """Two thirds: a runtime needs memory beside its heap, for threads, code and buffers."""
    then = int(limit * _PART_OF_A_HEAP) // MIB
    value = then if heap.whole is not None else f"{then}m"
    return Proposal(
        action=say(
            "Lower {name} from {now} to {then}, below the limit of {limit}: garbage is then collected in time",
            name=heap.flag, now=heap.value, then=value, limit=show(limit),
        ),
        current=heap.value,
        suggested=value,
        setting=heap.flag,
        snippet=f"{heap.written or f'{heap.name}='}{value}",
        derivation=say("{limit} x 2/3 = {then} MiB", limit=show(limit), then=then),
        cost=say("more garbage collection; an error of the runtime's own where the program needs more"),
    )  # fmt: skip


def smaller_prompt_cache(case: Case) -> Proposal | None:
    """A part of what the rest of the process leaves of the limit; half of what it held where nobody knows how much that
    is."""
    cache, row, root = prompt_cache_of(case.crash), case.row, case.crash.root
    if cache is None or row is None or row.key != _OF_PROMPTS or prompts_filled_the_limit(case.crash) is None:
        return None
    whole, held = memory_in_all(case.crash), held_by(root) if isinstance(root, KernelKill) else None
    if not whole or not held or held <= cache.bytes:
        then = cache.bytes // 2 // MIB
        return Proposal(suggested=then, derivation=f"{show(cache.bytes)} / 2 = {then} MiB")
    rest = held - cache.bytes
    then = cut_off(int(_PART_OF_PROMPTS * (whole - rest)) // MIB, _DIGITS)
    if then < 1:
        return Proposal(suggested=0, derivation=say("0 is the minimum"))
    return Proposal(
        suggested=then,
        derivation=say(
            "{share} of ({whole} - {rest} of the rest of the process) = {then} MiB",
            share=f"{_PART_OF_PROMPTS:.0%}", whole=show(whole), rest=show(rest), then=then,
        ),
    )  # fmt: skip


def smaller_histograms(case: Case) -> Proposal | None:
    """LightGBM's are in MB, and as many as the leaves want where nothing is set: what the job may use bounds them."""
    limit, row = limit_bytes(case.crash), case.row
    if limit is None or row is None or row.key != _OF_HISTOGRAMS:
        return None
    then = limit // _PART_OF_HISTOGRAMS // MIB
    return Proposal(suggested=then, derivation=f"{show(limit)} / {_PART_OF_HISTOGRAMS} = {then} MiB")


def smaller_bucket(case: Case) -> Proposal | None:
    """A tenth of DeepSpeed's buffer of gradients, which takes as many bytes as it has elements of their type."""
    refused, row = refusal(case.crash), case.row
    if bucket_was_refused(case.crash) is None or row is None or refused is None or not refused.tried_bytes:
        return None
    default = row.default(None)
    now = case.number() or default
    if not isinstance(now, int | float) or round(refused.tried_bytes / now, 1) not in _BYTES_OF_GRADIENTS:
        return None
    then, tried = int(now) // _PARTS, show(refused.tried_bytes)
    by_default = say("{name} is {value} (the default, not in the log)", name=row.setting, value=default)
    return Proposal(
        action=say("Make DeepSpeed's buffer for gradients a tenth: reduce_bucket_size"),
        suggested=then,
        derivation=f"{tried} / {_PARTS} = {show(refused.tried_bytes / _PARTS)}",
        assumes=() if case.now is not None else (by_default,),
        cost=say("more, smaller reductions"),
    )


def smaller_stacks(case: Case) -> Proposal | None:
    """Of threads; their number is another knob's."""
    refused = case.crash.root
    if not isinstance(refused, HostAllocation) or a_thread_was_refused(case.crash) is None:
        return None
    in_java = _OF_JAVA.search(refused.at.text) is not None
    return Proposal(
        action=say("Give each thread a smaller stack (8 MiB by default)") if not in_java
        else say("Give each thread a smaller stack (1 MiB by default)"),
        snippet=_STACKS_OF_JAVA if in_java else _STACKS,
        setting="-Xss" if in_java else "ulimit -s",
        cost=say("deep recursion fails sooner"),
    )  # fmt: skip


def fewer_threads(case: Case) -> Proposal | None:
    """Libraries of numbers start one per core, in each process; a program's own are another number."""
    refused = case.crash.root
    if not isinstance(refused, HostAllocation) or a_thread_was_refused(case.crash) is None or case.now is not None:
        return None
    if _OF_LIBRARIES.search(refused.at.text) is None:
        return Proposal(action=say("Start fewer threads at once"))
    return Proposal(action=say("Let the libraries start fewer threads per process"), snippet=_THREADS, setting="")


__all__ = [
    "SHARE",
    "below_the_limit",
    "fewer_threads",
    "smaller_bucket",
    "smaller_buffer",
    "smaller_capacity",
    "smaller_stacks",
    "that_fits",
]
