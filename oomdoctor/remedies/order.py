"""In which order remedies stand: what is changed for nothing before what has to be bought, evidence last.

A limit that was hit, a node that is full and a kill without a reason say where it ended. The knobs of the causes that
stand behind them in the decision say what filled the memory, and go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oomdoctor.decision.diagnosis import Decision
from oomdoctor.decision.ranking import Ranked
from oomdoctor.families.container import LimitKill
from oomdoctor.families.cuda import AllocatorAdvice, DeviceOutOfMemory
from oomdoctor.families.event import RAM
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.vllm_error import ContextDoesNotFit
from oomdoctor.incident.card import card_of
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import early_kill, node_memory, ray_kill
from oomdoctor.incident.prints import several_steps_went_by
from oomdoctor.language import say, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import Remedy, misread, own_options, ray_workers
from oomdoctor.remedies.allocator import WORTH_A_TRY, little_is_unused
from oomdoctor.remedies.engine.requests import CHUNKS, beams_of, cache_beside
from oomdoctor.remedies.host.thresholds import room_below_the_default
from oomdoctor.remedies.initial import of_the_default
from oomdoctor.remedies.inputs import names_no_batch, nothing_is_known_of_the_program
from oomdoctor.remedies.knobs import BOUGHT, KNOBS
from oomdoctor.remedies.placement import may_be_of_a_cell
from oomdoctor.remedies.proposal import NODE_FULL, PROCESS_HOG, UNPROVEN
from oomdoctor.signs import made
from oomdoctor.signs.evaluation import may_keep_a_graph
from oomdoctor.signs.first_step import killed_bare, speaks_of_training
from oomdoctor.signs.growing_caches import cache_of_items, unbounded_cache
from oomdoctor.signs.host_growth import the_jump
from oomdoctor.signs.limits import most_is_in_no_process
from oomdoctor.signs.set_limits import address_limit

EVIDENCE: Final = "collect-evidence"  # relieves nothing, and comes after what does
# Without its limit on a Mac PyTorch takes the RAM that the system itself needs: after all else
_RISKY: Final = ("PYTORCH_MPS_HIGH_WATERMARK_RATIO",)
FREE_BEFORE: Final = 2  # so that what is bought still stands among the first three
FIRST: Final = 3  # remedies of a report
_OF_A_GROUP: Final = "cgroup"  # a pool
_LARGER: Final = "more-host-memory"
_RAISED: Final = "raise-container-limit"
_ADDRESSES: Final = "more-address-space"
_GROUP: Final = "container-limit"  # a cause whose own remedy is bought
_LIMIT: Final = "address-space-limit"  # a cause whose limit is not lifted before the job asks for less
_ALLOCATOR: Final = "allocator-config"
_OLD_HINT: Final = "max_split_size_mb"  # of releases up to 2.2, most of which cannot grow a segment
_COMES_AND_GOES: Final = (
    "activations", "checkpoint-spike", "gpu-memory-exhausted", "logits-spike", "vllm-utilization-too-high",
)  # fmt: skip
_A_GOOD_DEAL: Final = 2
_THIRD: Final = 2
_FROM_THE_DISK: Final = ("stream-data", "low-memory-loading")
_TWICE: Final = 2  # the limit
_FAR: Final = 1.5  # times what the cache holds
_VERY_FAR: Final = 4
_FREE: Final = "free-the-gpu"
_BESIDE_THE_FRAMEWORK: Final = "non-torch-memory"
_OF_A_FULL_GPU: Final = ("gpu-memory-exhausted", "gpu-shared", "model-does-not-fit")
_LEAK: Final = "clear-references"
_BATCH: Final = "smaller-microbatch"
_ACTIVATIONS: Final = "activations"
_OF_FEW: Final = ("cap-primitives", "fewer-environments")  # knobs that most jobs do not have
_TRAINS: Final = "training"  # a task
_INFERS: Final = "inference"  # a task, of which no step leaves anything for the next
_BUFFERS: Final = "smaller-buffers"
_PIECES: Final = "smaller-partitions"
_TILES: Final = "tiled-processing"
_RESERVES: Final = "vllm-utilization-too-high"
_SHARE: Final = "lower-engine-reservation"
_OF_A_BUILT_ENGINE: Final = "config.pbtxt"  # Triton's, whose TensorRT-LLM loads what `build.py` made
_LENGTH: Final = "shorter-context"
_SEQUENCES: Final = "fewer-sequences"
_OF_AN_ENGINES_BATCHES: Final = (_SEQUENCES, "smaller-prefill", _LENGTH)
_WORKERS: Final = "fewer-workers"
_AT_ONCE: Final = late(r"(?i)concurren|in_?flight|max_?pending")
# Knobs that fit any job where nothing says what of it they change
_OF_ANY_JOB: Final = ("stream-data", "low-memory-loading", "smaller-microbatch")
_DELAY: Final = "tune-ray-monitor"  # relieves nothing
_TO_DISK: Final = "spill-to-disk"
_HOST_LEAK: Final = "host-memory-leak"
_LEAKS: Final = "-leak"  # causes that fill any limit
_LIMITS_OF_THE_SYSTEM: Final = "fix-environment"
# Knobs that a program of one's own states under names of its own
_OWN: Final = (
    "fewer-workers",
    "fewer-environments",
    "fewer-sequences",
    "smaller-buffers",
    "smaller-partitions",
    "smaller-microbatch",
    "smaller-input",
    "narrow-dtypes",
    "stream-data",
    "chunked-logits",
    "cap-primitives",
    "shorter-sequences",
)
# Knobs that jobs state as a number on their launch line, the likeliest to fill a host's memory first
_HOW_MUCH: Final = (_WORKERS, "fewer-environments", "smaller-microbatch", "smaller-input", "shorter-context")


def knobs_of(answer: Ranked, decision: Decision) -> tuple[str, ...]:
    """What to change for an answer of the decision, best first; those of the causes behind it where it names none."""
    crash = decision.crash_of(answer)
    grows = answer.cause.id.endswith(_LEAKS)
    limit = () if grows else _of_a_low_limit(crash)
    knobs = _with_beams(tuple(dict.fromkeys((*limit, *_knobs_of(answer, decision)))), crash)
    knobs = knobs if grows else _whole_first(_with_a_cache(answer, knobs, crash), crash)
    knobs = _of_each_process(knobs) if crash.pool in RAM and address_limit(crash) is not None else knobs
    return _of_the_group(knobs, grows=grows) if crash.pool == _OF_A_GROUP else knobs


def _whole_first(knobs: tuple[str, ...], crash: Crash) -> tuple[str, ...]:
    """What the job does all at once, by an option of its own, it can do in parts, and what it reads whole it can map or
    stream where it has a switch for that: nothing else costs as little, and the result is the same."""
    if crash.pool not in RAM:
        return knobs
    options = ((knob, own_options.own_option(knob, crash)) for knob in knobs)
    stated = [(knob, option) for knob, option in options if option is not None]
    whole = [knob for knob, option in stated if option.is_all_at_once]
    whole += [knob for knob, option in stated if knob in _FROM_THE_DISK and option.then is True and knob not in whole]
    return (*whole, *(knob for knob in knobs if knob not in whole))


def _with_a_cache(answer: Ranked, knobs: tuple[str, ...], crash: Crash) -> tuple[str, ...]:
    """What each process keeps of what it reads, by an option of the job, before a batch: that was as large in the
    steps that went well, and a cache or a buffer was not."""
    if answer.cause.id in _COMES_AND_GOES or crash.pool not in RAM or not _fills_from_step_to_step(crash):
        return knobs
    if most_is_in_no_process(crash) is not None:
        return knobs
    before = [knobs.index(one) for one in (_BATCH, _WORKERS) if one in knobs]
    place = before[0] + (_BATCH not in knobs) if before else 1
    return knobs if _BUFFERS in knobs[:place] else _placed(_BUFFERS, knobs, place)


def _fills_from_step_to_step(crash: Crash) -> bool:
    """Whether the job has an option for a cache of things, or one for a buffer and did several steps."""
    if cache_of_items(crash) is not None:
        return True
    buffer = own_options.own_option(_BUFFERS, crash) if several_steps_went_by(crash) else None
    return buffer is not None and buffer.row.then == own_options.HALF


def _with_beams(knobs: tuple[str, ...], crash: Crash) -> tuple[str, ...]:
    """Each prompt of a batch is as many sequences as beams: fewer of those answer as many prompts at once."""
    if _BATCH not in knobs or beams_of(crash) is None:
        return knobs
    return _placed(_SEQUENCES, knobs, knobs.index(_BATCH))


def _of_each_process(knobs: tuple[str, ...]) -> tuple[str, ...]:
    """On a larger node the limit on a process' address space is the same."""
    return tuple(dict.fromkeys(_ADDRESSES if knob == _LARGER else knob for knob in knobs))


def _of_the_group(knobs: tuple[str, ...], *, grows: bool) -> tuple[str, ...]:
    """On a larger node the limit is the same: that is raised instead, unless a leak fills any."""
    instead = () if grows else (_RAISED,)
    return tuple(dict.fromkeys(one for knob in knobs for one in (instead if knob == _LARGER else (knob,))))


def _of_a_low_limit(crash: Crash) -> tuple[str, ...]:
    """The killer's own limit goes first where it leaves much of the memory: nothing else is the reason."""
    if crash.pool not in RAM:
        return ()
    kill = ray_kill(crash)
    if kill is not None and room_below_the_default(kill) is not None:
        return (_DELAY,)
    return (_LIMITS_OF_THE_SYSTEM,) if early_kill(crash) is not None else ()


def _knobs_of(answer: Ranked, decision: Decision) -> tuple[str, ...]:
    own = _own(answer)
    if answer.cause.id == _ACTIVATIONS:
        return tuple(dict.fromkeys((*_pieces_of(decision.crash_of(answer)), *own)))
    if answer is decision.answers[0] and answer.cause.id == _HOST_LEAK:
        return _of_a_leak(own, decision.crash_of(answer))
    if answer is not decision.answers[0] or not (answer.cause.only_ends or answer.cause.id in (PROCESS_HOG, _LIMIT)):
        return own
    stated = _shown_knobs(decision.crash_of(answer))
    if answer.cause.id == _LIMIT:
        # Each process has a limit of `ulimit -v` for itself: fewer of them change nothing
        each = address_limit(decision.crash_of(answer)) is not None and own[0] != _WORKERS
        asked = [knob for knob in stated if knob != _WORKERS or not each]
        # What was not started may not be needed at all
        unstarted = own[:1] if own[0] == _WORKERS else ()
        return tuple(dict.fromkeys((*unstarted, *asked[:FREE_BEFORE], *own)))
    if own[0] == _TO_DISK and most_is_in_no_process(decision.crash_of(answer)) is not None:
        return own  # no process holds what a smaller batch or fewer workers would free
    if not answer.cause.only_ends:
        # Of workers that hold little there may be fewer: it changes nothing for the one process
        first = (knob for knob in stated if knob != _WORKERS or _may_be_fewer(decision.crash_of(answer)))
        return tuple(dict.fromkeys((*first, *own, *stated)))
    behind = [one for one in decision.answers[1:] if _says_more(one) and _same_memory(one, answer, decision)]
    known = [one for one in behind if one.cause.id != PROCESS_HOG]
    theirs = [knob for one in known for knob in _own(one) if knob not in BOUGHT]
    holders = [knob for one in behind for knob in _own(one) if knob not in BOUGHT]
    # Of a limit whose sign names knobs of its own, the log shows what is beyond it
    shown = [knob for knob in answer.finding.knobs[:1] if knob not in BOUGHT]
    return tuple(
        dict.fromkeys((*shown, *stated[:1], *theirs[:FREE_BEFORE], *stated, *holders[:FREE_BEFORE], *own, *holders))
    )


def _pieces_of(crash: Crash) -> tuple[str, ...]:
    """What cuts the work where the program has an option for it: nothing is lost by that but time."""
    parts = (_PIECES,) if own_options.parts(crash) else ()
    tiles = (_TILES,) if own_options.own_option(_TILES, crash) is not None else ()
    return (*parts, *tiles)


def _of_a_leak(own: tuple[str, ...], crash: Crash) -> tuple[str, ...]:
    """What grows is looked for first, and bounded where a setting may do it. Of a program of which nothing is known,
    its own options come next: they say how much it reads or keeps at once, and whoever runs it may not have its code.
    Workers grow as they did, if fewer."""
    if unbounded_cache(crash) is not None:
        return _placed(_BUFFERS, own, 0)
    if not nothing_is_known_of_the_program(crash):
        return own
    place = own.index(_LEAK) + 1 if _LEAK in own else 0
    stated = sorted(stated_knobs(crash), key=lambda knob: knob == _WORKERS)
    return tuple(dict.fromkeys((*own[:place], *stated, *own[place:])))


def _says_more(one: Ranked) -> bool:
    """What the memory was for, or who held it: a limit behind other answers is a guess."""
    return not one.cause.only_ends and one.cause.id != _LIMIT


def _may_be_fewer(crash: Crash) -> bool:
    """What one process does at once is in that process."""
    option = own_options.own_option(_WORKERS, crash)
    return not _one_holds_it(crash) or (option is not None and _AT_ONCE.search(option.setting.name) is not None)


def _one_holds_it(crash: Crash) -> bool:
    memory = node_memory(crash)
    top = memory.heaviest if memory is not None else None
    return memory is not None and top is not None and memory.dominates(top) and not memory.equals


def with_references(cause: str, knobs: tuple[str, ...], crash: Crash) -> tuple[str, ...]:
    """Where several steps of a pass on the CPU went well, what they leave behind is the second thing to look at: RAM
    is not in pieces, and a batch of the same size did fit before. An evaluation that may keep a graph comes first."""
    if cause == _ACTIVATIONS and may_keep_a_graph(crash) is not None:
        return _placed(_LEAK, knobs, 0)
    if cause == UNPROVEN and _may_keep_of_each_step(crash):
        bought = next((n for n, knob in enumerate(knobs) if knob in BOUGHT), len(knobs))
        return _placed(_LEAK, knobs, bought)
    if cause not in (_ACTIVATIONS, _LIMIT) or not isinstance(crash.root, HostAllocation):
        return knobs
    if crash.job.task == _INFERS or not several_steps_went_by(crash):
        return knobs
    first = [knob for knob in knobs if knob not in _OF_FEW][:FREE_BEFORE]
    return _placed(_LEAK, knobs, knobs.index(_BATCH) + 1 if _BATCH in first else 1)


def _may_keep_of_each_step(crash: Crash) -> bool:
    """A bare kill behind several steps that were as large: of a job that states nothing, or trains nothing."""
    if crash.pool not in RAM or not killed_bare(crash) or not several_steps_went_by(crash):
        return False
    return not stated_knobs(crash) or not (speaks_of_training(crash) or crash.job.task == _TRAINS)


def with_a_restart(cause: str, knobs: tuple[str, ...], crash: Crash) -> tuple[str, ...]:
    """Nobody splits or quantizes a model before the notebook's kernel is known to hold no other."""
    if cause not in _OF_A_FULL_GPU or not may_be_of_a_cell(crash):
        return knobs
    return _placed(_FREE, knobs, 0)


def with_misread(knobs: tuple[str, ...], crash: Crash) -> tuple[str, ...]:
    """Second: what somebody meant to be so is a better guess than what nobody tried, and may not do."""
    return knobs if misread.of_bytes(crash) is None else _placed(_LIMITS_OF_THE_SYSTEM, knobs, 1)


def _placed(knob: str, knobs: tuple[str, ...], place: int) -> tuple[str, ...]:
    return (*knobs[:place], knob, *(one for one in knobs[place:] if one != knob))


def _shown_knobs(crash: Crash) -> tuple[str, ...]:
    """What is known of the function that makes the array, and what the job states the number of."""
    found = made.made_of(crash) if crash.pool in RAM else None
    by_function = made.knobs_of(found.row) if found is not None and found.row.instead else ()
    return tuple(dict.fromkeys((*by_function, *stated_knobs(crash))))


def stated_knobs(crash: Crash) -> tuple[str, ...]:
    """What the job states the number of: who starts 8 workers with batches of 64 can halve either."""
    if crash.pool not in RAM:
        return ()
    amounts = (knob for knob in _HOW_MUCH if _is_several(crash, knob))
    own = (knob for knob in _OWN if own_options.own_option(knob, crash) is not None)
    return tuple(dict.fromkeys((*amounts, *own)))


def _is_several(crash: Crash, knob: str) -> bool:
    stated = crash.setting(*KNOBS[knob].settings)
    return stated is not None and (stated.whole or 0) > max(1, KNOBS[knob].least)


def _own(answer: Ranked) -> tuple[str, ...]:
    return answer.finding.knobs or answer.cause.knobs


def _same_memory(one: Ranked, first: Ranked, decision: Decision) -> bool:
    return decision.crash_of(one).pool == decision.crash_of(first).pool


def with_allocator(cause: str, knobs: tuple[str, ...], crash: Crash) -> tuple[str, ...]:
    """The allocator's setting second where it costs nothing and may do, of a need that comes and goes: what is reserved
    but unused is a good deal more than what was missing. Where weights fill the GPU the next one would not fit."""
    place = _place_of_allocator(cause, knobs, crash)
    return knobs if place is None else (*knobs[:place], _ALLOCATOR, *knobs[place:])


def _place_of_allocator(cause: str, knobs: tuple[str, ...], crash: Crash) -> int | None:
    """Third where it is just enough for one request of many, or where the release is old and cannot grow a segment."""
    root = crash.root
    if cause not in _COMES_AND_GOES or _ALLOCATOR in knobs or not isinstance(root, DeviceOutOfMemory):
        return None
    card = card_of(root)
    missing, unused = card.missing_bytes, card.unallocated_bytes or 0
    if missing is None or unused < WORTH_A_TRY:
        return None
    old = any(_OLD_HINT in advice.advises for advice in crash.every(AllocatorAdvice))
    good_deal = unused >= _A_GOOD_DEAL * missing
    if old and not good_deal:
        return None
    return 1 if good_deal and not old and not little_is_unused(card) else _THIRD


def allocator_behind(remedies: Sequence[Remedy], cause: str, knobs: tuple[str, ...], crash: Crash) -> list[Remedy]:
    """The same after those without a line to copy have gone behind the others: what the figures speak for is no worse
    than those, nor than what only records."""
    place = _place_of_allocator(cause, knobs, crash)
    one = next((each for each in remedies if each.knob == _ALLOCATOR), None)
    if place != _THIRD or one is None:
        return list(remedies)
    return _behind(one, remedies, _THIRD)


def default_behind(remedies: Sequence[Remedy]) -> list[Remedy]:
    """What is so already, unless somebody changed it, goes behind what surely changes something."""
    one = next((each for each in remedies if each.derivation == of_the_default(each.suggested)), None)
    return list(remedies) if one is None else _behind(one, remedies, len(remedies))


def batch_behind(remedies: Sequence[Remedy], crash: Crash) -> list[Remedy]:
    """Of a job whose whole launch line names no batch a half of one goes behind what names its object, and away where
    three do."""
    one = next((each for each in remedies if each.knob == _BATCH and each.snippet is None), None)
    if one is None or one.current is not None or one.suggested is not None or not names_no_batch(crash):
        return list(remedies)
    rest = _stated_before_a_leak([each for each in remedies if each is not one])
    told = [each for each in rest if each.has_object and each.knob != EVIDENCE]
    if len(told) >= FIRST:
        return rest
    place = rest.index(told[-1]) + 1 if told else 0
    return [*rest[:place], one, *rest[place:]]


def _stated_before_a_leak(remedies: list[Remedy]) -> list[Remedy]:
    """What is left behind was second to the batch: without one it is second to what the job states."""
    stated = next((one for one in remedies if one.suggested is not None), None)
    if stated is None or remedies[0].knob != _LEAK:
        return remedies
    return [stated, *(one for one in remedies if one is not stated)]


def once(remedies: Sequence[Remedy]) -> list[Remedy]:
    """A switch by which files are mapped is one remedy, whether weights or data are read from them."""
    return [one for n, one in enumerate(remedies) if not any(_is_the_same(one, each) for each in remedies[:n])]


def _is_the_same(one: Remedy, other: Remedy) -> bool:
    if one.knob not in _FROM_THE_DISK:
        return False
    return bool(one.setting and one.snippet) and (one.setting, one.snippet) == (other.setting, other.snippet)


def _behind(one: Remedy, remedies: Sequence[Remedy], most: int) -> list[Remedy]:
    """Behind those that say what to change, and at most so many."""
    rest = [each for each in remedies if each is not one]
    clear = next((n for n, each in enumerate(rest) if _says_little(each)), len(rest))
    place = min(most, clear)
    return [*rest[:place], one, *rest[place:]]


def _says_little(remedy: Remedy) -> bool:
    return remedy.knob == EVIDENCE or not (remedy.has_object or remedy.knob == _BATCH)


def in_order(remedies: Iterable[Remedy], cause: str, pool: str) -> list[Remedy]:
    """Two that cost nothing but a change, where they say what to change, before the first that is bought; where a limit
    was hit, no more than two, or three that the job has options for. Before a purchase that no line states the vague
    ones stand, too. What a cluster does not have is no matter of price."""
    listed = sorted(remedies, key=lambda remedy: (remedy.knob == EVIDENCE, remedy.setting in _RISKY))
    listed = _stated_before_general(listed, cause) if pool in RAM else listed
    place = next((n for n, remedy in enumerate(listed) if remedy.knob in BOUGHT), None)
    if place is None or pool == "scheduling":
        return listed
    before, bought = listed[:place], listed[place]
    free = [one for one in listed if one.knob not in (*BOUGHT, EVIDENCE) and not _delays_or_risks(one)]
    clear = [remedy for remedy in free if remedy.has_object]
    if cause == _GROUP:
        stated = [one for one in clear if one.current is not None and one.suggested is not None]
        free_before = FIRST if len(stated) >= FIRST else FREE_BEFORE
        before = [*clear, *(remedy for remedy in before if remedy not in clear)][:free_before]
    elif len(before) < FREE_BEFORE:
        vague = [] if bought.snippet or bought.setting else free
        before = list({one.knob: one for one in (*before, *clear, *vague)}.values())[:FREE_BEFORE]
    return [*before, bought, *(one for one in listed if one is not bought and one not in before)]


def _stated_before_general(listed: list[Remedy], cause: str) -> list[Remedy]:
    """What only names the process that held the memory is as good for any job: behind the options that this one has."""
    last = max((n for n, one in enumerate(listed) if _is_stated(one) and one.knob not in BOUGHT), default=0)
    general = [one for one in listed[:last] if is_vague(one, cause)]
    rest = [one for one in listed if one not in general]
    place = last + 1 - len(general)
    return [*rest[:place], *general, *rest[place:]]


def is_vague(remedy: Remedy, cause: str) -> bool:
    """Whether it names at most the process that held the memory."""
    return _is_of_any_job(remedy, cause) and not _is_written(remedy)


def _is_of_any_job(remedy: Remedy, cause: str) -> bool:
    """In the knob's own words; references where nothing shows that anything grows."""
    if remedy.knob == _LEAK:
        return cause != PROCESS_HOG and not cause.endswith(_LEAKS)
    return remedy.knob in _OF_ANY_JOB and remedy.action.startswith(translated(KNOBS[remedy.knob].action))


def _is_written(remedy: Remedy) -> bool:
    return bool(remedy.setting or remedy.snippet) or _is_stated(remedy)


def _delays_or_risks(remedy: Remedy) -> bool:
    return _only_delays(remedy) or remedy.setting in _RISKY


def _only_delays(remedy: Remedy) -> bool:
    """Ray's limit raised beyond its default; where it is lower, it is the reason."""
    return remedy.knob == _DELAY and remedy.suggested is None


def evidence_ahead(remedies: Sequence[Remedy], cause: str, crash: Crash) -> list[Remedy]:
    """The command that finds the holder goes first where nobody knows it, and where memory jumped and nothing shows for
    what. Elsewhere it takes none of the first three places from what the log states."""
    command = next((one for one in remedies if one.knob == EVIDENCE and one.snippet), None)
    rest = [one for one in remedies if one is not command]
    if command is None or crash.pool not in RAM:
        return list(remedies)
    if the_jump(crash) is not None or (cause == NODE_FULL and rest and _is_held_elsewhere(crash, rest[0])):
        return [command, *rest]
    place = max(_place_of_evidence(rest, cause, crash), _behind_the_stated(rest))
    return [*rest[:place], command, *rest[place:]]


def _place_of_evidence(rest: Sequence[Remedy], cause: str, crash: Crash) -> int:
    """The command that shows who killed stands behind what can be done at once, and behind all where the log states any
    of it: to look is no remedy. One for the holder stands behind what the job states a number of, and before a leak
    that nothing shows."""
    if cause == UNPROVEN and any(map(_is_stated, rest)):
        return len(rest)
    if cause == UNPROVEN:
        return next((n for n, one in enumerate(rest) if one.knob == _LEAK or not one.snippet), len(rest))
    if cause == NODE_FULL and not isinstance(crash.root, HostAllocation):
        return next((n for n, one in enumerate(rest) if one.suggested is None or _only_delays(one)), len(rest))
    leaks = (n for n, one in enumerate(rest) if one.knob == _LEAK and cause == PROCESS_HOG)
    return next(leaks, len(rest))


def _behind_the_stated(rest: Sequence[Remedy]) -> int:
    """Behind the last of the first three whose value the log states; among fewer it takes no place from any."""
    stated = (n for n, one in enumerate(rest[:FIRST], start=1) if _is_stated(one))
    return max(stated, default=0) if len(rest) >= FIRST else 0


def _is_stated(remedy: Remedy) -> bool:
    told = remedy.current is not None or remedy.suggested is not None
    return told and not _only_delays(remedy)


def _is_held_elsewhere(crash: Crash, first: Remedy) -> bool:
    """Fewer workers free little where Ray killed one that held next to nothing."""
    return first.knob == _WORKERS and ray_workers.killed_held_little(crash)


def others_ahead(remedies: Sequence[Remedy], cause: str) -> list[Remedy]:
    """Who else holds the GPU is seen at once. A library that found no room does not say what filled it, and nobody
    halves a batch that the log does not state before."""
    look = next((one for one in remedies if one.knob == _FREE and one.snippet), None)
    if cause != _BESIDE_THE_FRAMEWORK or look is None or remedies[0].snippet or remedies[0].current is not None:
        return list(remedies)
    return [look, *(one for one in remedies if one is not look)]


def _is_a_start(remedy: Remedy) -> bool:
    """Whether its value hangs on nothing in the log."""
    value = remedy.suggested
    return isinstance(value, float) and remedy.derivation == say("{value} is a usual start value", value=f"{value:g}")


def stated_ahead(remedies: Sequence[Remedy], cause: str) -> list[Remedy]:
    """What the log states of an engine's batches is lowered before a share that it does not: nobody knows how large
    that is. Of an engine that was built before, the share alone is no matter of a new build."""
    share = next((one for one in remedies if one.knob == _SHARE), None)
    if cause != _RESERVES or share is None or _OF_A_BUILT_ENGINE in (share.snippet or ""):
        return list(remedies)
    if share.suggested is not None and not _is_a_start(share):
        return list(remedies)
    stated = [one for one in remedies if one.knob in _OF_AN_ENGINES_BATCHES and one.current is not None]
    return [*stated, *(one for one in remedies if one not in stated)]


def limit_ahead(remedies: Sequence[Remedy], crash: Crash) -> list[Remedy]:
    """Of a job that had more than twice its limit in use, half of anything is still too much."""
    raised = next((one for one in remedies if one.knob == _RAISED), None)
    kills = [kill for kill in crash.every(LimitKill) if kill.used_bytes and kill.limit_bytes and not kill.virtual]
    if raised is None or not any((kill.used_bytes or 0) > _TWICE * (kill.limit_bytes or 0) for kill in kills):
        return list(remedies)
    return [raised, *(one for one in remedies if one is not raised)]


def length_ahead(remedies: Sequence[Remedy], crash: Crash) -> list[Remedy]:
    """A context far too long for the cache is shortened first: no step of a share whose gain nobody knows makes up for
    it, whatever the message names first; and a cache that holds many times what was refused gives most. What keeps the
    context stands beside it, and before it where nobody wants so short a one."""
    length = next((one for one in remedies if one.knob == _LENGTH and one.has_object), None)
    if length is not None and cache_beside(crash) is not None:
        return [length, *(one for one in remedies if one is not length)]
    error = crash.first(ContextDoesNotFit)
    length = next((one for one in remedies if one.knob == _LENGTH and one.suggested is not None), None)
    if error is None or length is None or not error.kv_tokens or not error.max_model_len:
        return list(remedies)
    if error.max_model_len <= _FAR * error.kv_tokens:
        return list(remedies)
    chunks = [one for one in remedies if one.setting == CHUNKS]
    ahead = [*chunks, length] if error.max_model_len > _VERY_FAR * error.kv_tokens else [length, *chunks]
    return [*ahead, *(one for one in remedies if one not in ahead)]


__all__ = [
    "EVIDENCE",
    "allocator_behind",
    "batch_behind",
    "default_behind",
    "evidence_ahead",
    "in_order",
    "is_vague",
    "knobs_of",
    "length_ahead",
    "limit_ahead",
    "once",
    "others_ahead",
    "stated_ahead",
    "stated_knobs",
    "with_a_restart",
    "with_allocator",
    "with_misread",
    "with_references",
]
