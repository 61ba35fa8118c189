"""Which remedies to print for a cause, with their values, and which to reject and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from oomdoctor.arithmetic import vllm
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import SIDES
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident import devices
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import among, driven, framework, of_devices, some, trainers
from oomdoctor.job.model import Setting, Value
from oomdoctor.language import filled, mark, say, semicolons, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import (
    A_CHOICE,
    A_SWITCH,
    A_WORD,
    Rejected,
    Remedy,
    axes,
    by_function,
    conditions,
    encodings,
    evaluation,
    fractions,
    from_outside,
    generations,
    in_force,
    inputs,
    loading,
    own_line,
    own_options,
    placement,
    ray_workers,
    reach,
    shells,
    together,
)
from oomdoctor.remedies.builds import python_builds
from oomdoctor.remedies.captions import Caption, caption
from oomdoctor.remedies.engine.known import is_set_in_code
from oomdoctor.remedies.functions import OF_THE_ENGINE, compute
from oomdoctor.remedies.holder import holder
from oomdoctor.remedies.initial import counts_tokens
from oomdoctor.remedies.knobs import KNOBS, Knob
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip, already
from oomdoctor.remedies.settings import (
    NO_OPTION,
    Spelling,
    assumptions,
    by_flags,
    current,
    done,
    excluded_by,
    known_versions,
    left_behind,
    missing,
    of_another_release,
    of_call,
    of_knob,
    same,
    spelling,
)
from oomdoctor.remedies.training.batches import SMALLER_BATCHES
from oomdoctor.remedies.training.predictions import keeps_predictions
from oomdoctor.remedies.whatif.states import STARTING
from oomdoctor.signs import releases
from oomdoctor.signs.arrays import told_by_a_compiler
from oomdoctor.signs.builds import in_a_dockerfile
from oomdoctor.signs.growing_caches import cache_of_items
from oomdoctor.signs.machine import is_on_windows
from oomdoctor.signs.placement import other_ranks_opened_a_context
from oomdoctor.versions import version_of

_RAM: Final = frozenset({"host_ram", "cgroup", "pinned"})
AMONG_THE_FIRST: Final = 2
_ANY_WORLD: Final = ("none", "engine")  # where no library of arrays is named
# Knobs whose numbers stand for a choice and are no amounts to begin with
_CHOICES: Final = frozenset(
    {
        "engine-sleep", "keep-engine-cache", "less-offload", "less-swap-space", "memory-efficient-attention",
        "more-address-space", "quantize-kv-cache", "quantize-weights", "raise-memlock", "shard-states", "unpin-memory",
    }
)  # fmt: skip
_RAISED: Final = late(r"Error|Exception:|Traceback|\brank\d|\bpid=|\d:\d")  # a class, or who wrote the line and when
_OF_A_BUILD: Final = "fewer-build-jobs"
_TELLING: Final = 8  # characters of a function's name
_BUFFERS: Final = "smaller-buffers"
_STATES: Final = "low-memory-optimizer"  # whose words each world has of its own
_TO_DISK: Final = "spill-to-disk"  # whose files are another matter than what a program keeps
_NARROW: Final = "narrow-dtypes"  # what is sparse is kept so
_SAVED: Final = "sharded-checkpoint"  # by one process alone, which has no ranks
_FROM_DISK: Final = "stream-data"  # what is cached there is not streamed
_IN_ITS_WORDS: Final = frozenset({_STATES, _TO_DISK, _NARROW, _SAVED, _FROM_DISK})
_BITS: Final = "quantize-weights"  # of a checkpoint, whatever options there are
# Knobs that are nothing but an option of the engine
_BY_AN_OPTION: Final = frozenset({*OF_THE_ENGINE, "less-swap-space"} - {"smaller-model"})
# What a library has a call for, and no option
BY_WORLD: Final = ("collect-evidence", "fix-placement")
# What else than an option does as well
_AHEAD: Final = "prefetch_factor"
_OUTERMOST: Final = "<module>"  # of a script
_TRAINS_BY_NAME: Final = late(r"(?i)train|epoch|learning_?rate|warmup|weight_?decay|max_?steps|gradient|\blr\b")
_OF_ANY_RELEASE: Final = (_BITS, "mixed-precision", "fewer-workers", *BY_WORLD)
_JOBS: Final = "-j"
_WORKERS: Final = "fewer-workers"
_OF_BATCHES: Final = ("smaller-microbatch", "token-budget-batching")
_IN_A_FILE: Final = "json"  # a style
_SCORING: Final = ("log_prob", "logprob", "micro_forward", "forward_micro", "infer_batch")  # in names of options
ONLY_A_DELAY: Final = mark("raising RAY_memory_usage_threshold only delays the kill or leaves it to the kernel")

# Engines by words that they do not print at the head of a line; the saver is SGLang's: sgl-project/sglang#2542
_SAVER: Final = ("sglang", r"torch_?memory_?saver")
_SHOWN: Final = ((vllm.NAME, rf"(?i)\b{vllm.NAME}\b"), _SAVER)

# What people reach for when host memory runs out, although it is meant for the card.
_MEANT_FOR_THE_CARD: Final = ("offload-optimizer", "engine-sleep", "shard-states")


def remedies(cause: str, knobs: Sequence[str], crash: Crash) -> tuple[list[Remedy], list[Rejected]]:
    """The remedies for a cause, in the order of its knobs, and what must not be tried, with the reason."""
    chosen: list[Remedy] = []
    rejected: dict[str, Rejected] = {}
    for name in _with_neighbours(knobs, crash):
        answer = _one(cause, KNOBS[name], crash)
        if isinstance(answer, Rejected):
            rejected[name] = answer
        elif answer is not None:
            chosen.append(answer)
    for refused in _often_tried(cause, crash):
        if refused.knob not in rejected and all(remedy.knob != refused.knob for remedy in chosen):
            rejected[refused.knob] = refused
    return _said_once(chosen, crash), [*rejected.values(), *_other_versions(cause, crash)]


def _said_once(chosen: list[Remedy], crash: Crash) -> list[Remedy]:
    """Of inputs that may be anything either their length or their size, as more is known of."""
    sizes = [remedy for remedy in chosen if remedy.knob in (inputs.LENGTH, inputs.SIZE)]
    if len(sizes) == 1 or not inputs.may_be_anything(crash):
        return chosen
    left = max(sizes, key=lambda remedy: (remedy.has_object, remedy.knob == inputs.SIZE), default=None)
    return [remedy for remedy in chosen if remedy is left or remedy not in sizes]


def _with_neighbours(knobs: Sequence[str], crash: Crash) -> Sequence[str]:
    """Whatever the cause: where somebody else has a good share of the card, look who it is before much else; and where
    what the other ranks have opened on it is as much as was missing, that comes back for nothing."""
    looks = _look(crash) if SIDES.get(crash.pool) == "device" and len(knobs) >= AMONG_THE_FIRST else None
    if looks is None or looks in knobs[:AMONG_THE_FIRST]:
        return knobs
    others = [name for name in knobs if name != looks]
    return (*others[:1], looks, *others[1:])


def _look(crash: Crash) -> str | None:
    if other_ranks_opened_a_context(crash) is not None:
        return "fix-placement"
    if not conditions.crowded(crash):
        return None
    return "free-the-gpu" if placement.strangers(crash) or not crash.job.spread else "fix-placement"


def _one(cause: str, knob: Knob, crash: Crash) -> Remedy | Rejected | None:
    row = _row(knob, cause, crash)
    case = _case(knob, cause, crash, row)
    told = by_function.proposal(case) or encodings.proposal(case)
    if told is None and not (conditions.holds(knob, case) and _acts(knob, crash, row)):
        return None
    row = _beside(told, row)
    wrong = _wrong_sign(knob, crash, row)
    if wrong is not None:
        return Rejected(knob.id, wrong)
    if not _relieves(knob, crash.pool):
        return None
    hindrance = excluded_by(row, crash.context) if row is not None else None
    if row is not None and hindrance is not None:
        why = say(
            "{setting} does not work with {other} ({place})",
            setting=row.setting,
            other=hindrance.name,
            place=hindrance.place,
        )
        return Rejected(knob.id, why)
    unfit = together.refused(knob.id, crash) or in_force.refused(knob.id, crash, row)
    if unfit is not None:
        return Rejected(knob.id, unfit)
    heard: list[Setting] = []
    crash = from_outside.listening(crash, heard)
    case = _case(knob, cause, crash, row)
    answer = loading.reaching(case) if told is None else told
    answer = axes.fewer(case) if answer is None else answer
    if answer is None and (computed := compute(knob.id)) is not None:
        answer = computed(case)
    if answer is None:
        answer = _plain(case)
    own = _by_its_own_option(case, answer)
    if isinstance(answer, Skip | Refusal):
        return Rejected(knob.id, answer.why) if isinstance(answer, Refusal) else None
    remedy = generations.remedy_for(_remedy(knob, case, own or answer), case)
    if remedy is None:
        return None
    return from_outside.marked(remedy if own is not None else own_line.referring(remedy, case), case, heard)


def _beside(told: Proposal | Skip | None, row: Spelling | None) -> Spelling | None:
    """What is known of the function says more than a line for any program."""
    return None if isinstance(told, Proposal) and row is not None and own_line.of_a_library(row) else row


def _case(knob: Knob, cause: str, crash: Crash, row: Spelling | None) -> Case:
    stated = evaluation.now_of if evaluation.concerns(knob.id, crash) else partial(current, knob.id)
    now = stated(row, crash.context) or axes.now(knob.id, crash)
    if now is not None and now.call is not None and own_line.shows(knob.id, crash):
        now = replace(now, call=None)  # the line itself can be written anew
    return Case(knob.id, cause, crash, row, now)


def _by_its_own_option(case: Case, answer: Answer) -> Proposal | None:
    """The option of the job's own program, where nothing better than a library's line of code is known."""
    computed = isinstance(answer, Proposal) and answer.suggested is not None and case.now is not None
    if computed and case.now is not None and case.now.mentioned:
        computed = False  # a size that is told in a sentence is what an option makes of it
    if case.knob == _WORKERS and isinstance(answer, Proposal) and isinstance(answer.suggested, bool):
        computed = False  # whether workers are kept is no number of them
    of_a_program = case.row is not None and not own_line.of_a_library(case.row)
    if isinstance(answer, Skip | Refusal) or of_a_program or (computed and not _in_other_words(case)):
        return None
    if evaluation.concerns(case.knob, case.crash) and not own_options.is_switched(case.knob, case.crash):
        return None  # the program's option is that of its training
    told = answer.action if answer is not None and case.knob in _IN_ITS_WORDS else None
    own = own_options.proposal(case.knob, told or KNOBS[case.knob].action, case.crash)
    if own is None or answer is None:
        return own
    if case.knob == _WORKERS and (fitting := own_options.workers_that_fit(case.crash, answer)) is not None:
        return fitting
    of_the_option = translated(caption(case.row).cost) if case.row is not None else ""
    cost = answer.cost if answer.cost is not None else of_the_option or None
    return replace(own, cost=cost, derivation=own.derivation or encodings.formula(case))


def _in_other_words(case: Case) -> bool:
    """A library's own word for the value, which an option of a script does not take."""
    return case.row is not None and case.row.is_code and case.row.type == "str"


def _row(knob: Knob, cause: str, crash: Crash) -> Spelling | None:
    """How the knob is spelled in the job's own world."""
    if knob.id in BY_WORLD or (knob.id == _BUFFERS and keeps_predictions(cause, crash)):
        return None
    in_sight = partial(_in_sight, crash=crash)
    row = spelling(knob.id, crash.context, in_sight=in_sight)
    if row is None or _is_for_callers(row, crash):
        row = _engines_own(knob, crash) or row or _systems_own(knob, crash)
    if row is None or _of_another_world(row, crash):
        row = spelling(knob.id, crash.context, crash.job.world, in_sight)
    if row is not None and not _reaches(row, crash):
        return None
    if row is not None:
        row = of_call(row, crash.context, _calls(knob, crash), in_sight)
    if evaluation.concerns(knob.id, crash):
        row = evaluation.row_of(row, crash.context)
    if row is not None:
        row = _as_handed_over(row, crash)
    if row is not None and (port := of_devices(devices.device_name((crash,)), row.framework)) is not None:
        row = spelling(knob.id, crash.context, port.name) or row
    in_code = row is not None and (row.is_call or row.is_argument)
    if in_code and (_told_by_an_application(crash) or told_by_a_compiler(crash)):
        return None
    return None if row is not None and row.is_call and not (_own_program(crash) and _has_a_script(row, crash)) else row


def _keeps_by_its_own(row: Spelling, crash: Crash) -> bool:
    """What a library's line would move to the host is not what the job keeps there, by an option of its own."""
    if row.knob != _BUFFERS or row.type not in NO_OPTION or crash.pool not in _RAM:
        return False
    return cache_of_items(crash) is not None or own_options.own_option(_BUFFERS, crash) is not None


def _as_handed_over(row: Spelling, crash: Crash) -> Spelling:
    """As who calls the program's code writes it, or who starts a release that takes no file."""
    if is_set_in_code(row, crash):
        return row.as_argument
    return (row.as_flag if by_flags(row, crash.context) else row).as_launched(crash.context)


def _has_a_script(row: Spelling, crash: Crash) -> bool:
    """Whether there is a place for PyTorch's line: what a solver calls for its forces is nobody's script."""
    return row.framework != "torch" or crash.job.task != inputs.OF_NATURE


def _is_for_callers(row: Spelling, crash: Crash) -> bool:
    """A call of the arrays' own library, whose model an engine has in its hands."""
    own = framework(row.framework)
    return row.is_call and crash.job.in_engine and own is not None and own.layer == "base"


def _in_sight(row: Spelling, crash: Crash) -> bool:
    """Whether the job calls what takes the option, where not every job with the framework does: the log states it under
    one of its names, or shows the words of the row; and a program with options of its own is not called."""
    if (row.is_call and not _own_program(crash)) or not _is_of_the_program(row, crash):
        return False
    if row.setting == _JOBS and python_builds(crash):
        return False  # nobody types that command
    if not generations.fits(row, crash):
        return False
    if not reach.acts(row.knob, crash, row) or _is_left_to_the_program(row, crash) or _keeps_by_its_own(row, crash):
        return False
    if row.setting == _AHEAD and own_options.own_option(row.knob, crash) is not None:
        return False  # there are workers to be fewer before each of them fetches less
    return _is_called(row, crash) and not _is_of_a_trainer_elsewhere(row, crash)


def _is_of_a_trainer_elsewhere(row: Spelling, crash: Crash) -> bool:
    """An option of the trainer that a library has beside its models, where a whole traceback goes through no trainer,
    and nothing else in sight trains: whoever calls the model has no such option."""
    own = framework(row.framework)
    if own is None or own.layer != "base" or not own.trains_in or not row.write.startswith("--"):
        return False
    whole = any(frame.function == _OUTERMOST for frame in crash.root.around.trace)
    if not whole or current(row.knob, row, crash.context) is not None:
        return False
    return conditions.nothing_trains(crash) and not _states_training(crash)


def _states_training(crash: Crash) -> bool:
    return any(_TRAINS_BY_NAME.search(one.name) for one in crash.context.settings.values())


def _is_called(row: Spelling, crash: Crash) -> bool:
    """Whether the log states the option, or shows the words of its row where it has some."""
    return not row.words or current(row.knob, row, crash.context) is not None or crash.shows(_any_of(row.words))


def _is_left_to_the_program(row: Spelling, crash: Crash) -> bool:
    """A library's argument, where a program is driven by options of its own for the knob: none of them acts here."""
    own, driving = framework(row.framework), among(crash.job.frameworks)
    if own is None or own.layer != "base" or not row.is_argument or _own_program(crash):
        return False
    return any(each.layer == "program" and any(of_knob(row.knob, each.name)) for each in driving)


def _is_of_the_program(row: Spelling, crash: Crash) -> bool:
    """Whether nothing shows another program, which has other options."""
    return not row.never or not crash.shows(_any_of(row.never))


def _any_of(words: Sequence[str]) -> str:
    return f"(?i){'|'.join(words)}"


def _acts(knob: Knob, crash: Crash, row: Spelling | None) -> bool:
    """Whether the knob can be turned from where the job is started, and acts on what failed."""
    if row is None and knob.id in _BY_AN_OPTION and _hands_on_nothing_else(crash):
        return False
    if row is None and knob.id in _BY_AN_OPTION and knob.id != _BITS and _is_of_others(knob, crash):
        return False
    if row is None and knob.id not in _OF_ANY_RELEASE and _comes_with_later_releases(knob, crash):
        return False
    return reach.acts(knob.id, crash, row)


def _reaches(row: Spelling, crash: Crash) -> bool:
    """Whether the option gets to the processes that hold the memory: Ray's number of CPUs is about its tasks, and an
    engine's own may be out of reach."""
    inner = some([row.framework], "runs inside trainers")
    if inner and (_hands_on_nothing_else(crash) or _hands_on_to_later_ones(row, crash)):
        return False
    if row.knob != "fewer-workers" or row.framework != ray_workers.NAME:
        return True
    return ray_workers.tasks(crash) or ray_workers.are_unnamed(crash)


def _calls(knob: Knob, crash: Crash) -> Iterator[str]:
    """By what names the options of the failing call go, the longest first: "ref_log_prob" of `compute_ref_log_prob`."""
    called = {frame.function.lstrip("_").removeprefix("compute_") for frame in crash.frames()}
    yield from sorted((name for name in called if len(name) >= _TELLING and "_" in name), key=lambda name: -len(name))
    if crash.stage == "logprob" and knob.id in _OF_BATCHES:
        yield from _SCORING


def _told_by_an_application(crash: Crash) -> bool:
    """A program caught the error and tells of it in words of its own: whoever reads that has settings, and no code."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or root.around.trace or crash.context.settings:
        return False
    before, message, _ = root.at.text.partition("CUDA out of memory")
    words = before.strip(" :[]'\"(")
    return bool(message) and " " in words and _RAISED.search(before) is None


def _own_program(crash: Crash) -> bool:
    """Whether the job's code is the reader's own, and not a framework's that is driven by its options."""
    return not driven(crash.job.frameworks)


def _hands_on_nothing_else(crash: Crash) -> bool:
    """The program that starts the engine hands on what it has options for itself: the engine's other ones are out of
    reach."""
    return some(crash.job.frameworks, "hands its engine only its own options")


def _hands_on_to_later_ones(row: Spelling, crash: Crash) -> bool:
    """The program that starts the engine has an option of its own for it, for other releases of the engine."""
    own = (
        one for each in among(crash.job.frameworks) if each.layer == "program" for one in of_knob(row.knob, each.name)
    )
    return any(of_another_release(need, crash.context) for one in own for need in one.beside)


def _is_of_others(knob: Knob, crash: Crash) -> bool:
    """Other releases of the engine have the option."""
    engine = crash.job.engine or ""
    known, rows = known_versions(engine, crash.context), list(of_knob(knob.id, engine))
    return bool(rows) and not any(row.versions.overlaps(known) for row in rows)


def _comes_with_later_releases(knob: Knob, crash: Crash) -> bool:
    """Whether all of the job's frameworks that have an option for it got it later; what a library of arrays has a call
    for now, others had before."""
    spell_it = [each.name for each in among(crash.job.frameworks) if any(of_knob(knob.id, each.name))]
    on_top = [name for name in spell_it if (own := framework(name)) is not None and own.layer != "base"]
    return bool(on_top) and all(_begins_later(knob, name, crash) for name in on_top)


def _begins_later(knob: Knob, name: str, crash: Crash) -> bool:
    known = known_versions(name, crash.context)
    return all(row.versions.since >= known.before for row in of_knob(knob.id, name))


def _of_another_world(row: Spelling, crash: Crash) -> bool:
    own, world = framework(row.framework), crash.job.world
    return own is not None and world not in (own.world, *_ANY_WORLD) and own.world not in _ANY_WORLD


def _engines_own(knob: Knob, crash: Crash) -> Spelling | None:
    """The engine's spelling where a message is its own and no framework is named."""
    engine = fractions.engine_of(crash)
    if engine is None:
        engine = next((name for name, shown in _SHOWN if crash.shows(shown)), None)
    if engine is None or engine in left_behind(crash.context):
        return None
    fits = partial(generations.fits, crash=crash)
    return spelling(
        knob.id,
        crash.context,
        engine,
        lambda row: _is_of_the_program(row, crash) and _is_called(row, crash) and fits(row),
    )


def _systems_own(knob: Knob, crash: Crash) -> Spelling | None:
    """The system's own spelling of what belongs to no framework."""
    system = "windows" if is_on_windows(crash) else "linux"
    return spelling(knob.id, crash.context, system)


def _spends(knob: Knob, row: Spelling | None) -> tuple[str, ...]:
    return knob.spends if row is None or row.spends is None else row.spends


def _wrong_sign(knob: Knob, crash: Crash, row: Spelling | None = None) -> str | None:
    """Why the knob would make it worse, or is meant for the other memory."""
    pool = crash.pool
    spent = _RAM if pool in _RAM else {pool}
    spends = _spends(knob, row)
    if pool == "scheduling" and pool in spends:
        return say("it requests more than the cluster has")
    if spent & set(spends):
        return say("it uses more {pool}, which ran out", pool=_words(pool))
    if SIDES.get(pool) == "host" and not _relieves(knob, pool):
        return say("it frees {relieved}, but {pool} ran out", relieved=_words(knob.relieves[0]), pool=_words(pool))
    return None


def _relieves(knob: Knob, pool: str) -> bool:
    side = SIDES.get(pool)
    return side not in ("host", "device") or not knob.relieves or side in map(SIDES.get, knob.relieves)


_POOLS: Final[Mapping[str, str]] = {
    "host_ram": mark("host RAM"),
    "cgroup": mark("container memory"),
    "gpu": mark("GPU memory"),
    "kv_cache": mark("KV cache"),
    "pinned": mark("pinned host memory"),
    "object_store": mark("object store"),
    "shm": mark("shared memory"),
    "scheduling": mark("cluster resources"),
}


def _words(pool: str) -> str:
    return translated(_POOLS.get(pool, pool))


def _plain(case: Case) -> Proposal | Refusal:
    """A switch or a fixed value, unless it is set already."""
    row, now = case.row, case.now
    exact = row is not None and row.key in case.crash.context.settings
    set_already = None if exact else done(case.knob, case.crash.context)
    if set_already is not None:
        return already(set_already, set_already.value)
    if row is None:
        return Proposal()
    if now is not None and (now.value is True if row.is_switch else same(now.value, row.value)):
        return already(now, now.value)
    value: Value = True if row.is_switch else row.value
    default = row.default(version_of(case.crash.context.frameworks.get(row.framework)))
    if now is None and same(default, value) and not _stands_in_a_file(row, case.crash):
        return Refusal(say("{name} is already {value} by default", name=row.setting, value=default))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return Proposal(suggested=value)
    if counts_tokens(case):
        return Proposal()
    if case.knob in _CHOICES:
        return Proposal(suggested=value, derivation=filled(A_CHOICE, {"value": value}))
    return Proposal(suggested=value, derivation=say("{value} is a usual start value", value=value))


def _stands_in_a_file(row: Spelling, crash: Crash) -> bool:
    """The job was given a file with the framework's options that the log does not print: no default is known."""
    own = framework(row.framework)
    if own is None or own.style != _IN_A_FILE:
        return False
    stated = crash.setting(own.name, f"{own.name}_config")
    return stated is not None and isinstance(stated.value, str)


def _for_its_device(snippet: str, crash: Crash) -> str:
    """PyTorch's other devices have modules and a type of their own."""
    kind = devices.torch_type(crash) if crash.job.world == "torch" else None
    return snippet.replace("torch.cuda.", f"torch.{kind}.").replace('"cuda"', f'"{kind}"') if kind else snippet


def _remedy(knob: Knob, case: Case, answer: Proposal) -> Remedy:
    row = case.row
    spelled = (None, row.setting) if row is not None else (None,)
    stated = case.now.value if case.now is not None and answer.setting in (*spelled, case.now.name) else None
    snippet = answer.snippet
    if snippet is None and row is not None and answer.setting is None:
        snippet = row.snippet(answer.suggested) if answer.suggested is not None or not row.takes_value else None
    inner = row is not None and some([row.framework], "runs inside trainers") and case.crash.job.may_share
    if row is not None and inner and snippet is not None and answer.snippet is None:
        snippet = f"{row.key}={answer.suggested}"  # an engine's flag is no option of the framework that starts it
    if snippet is None and answer.suggested is not None and (row is None or inner):
        snippet = case.as_launched(answer.suggested)
    if snippet is not None:
        snippet = _for_its_device(snippet, case.crash)
    if snippet is not None and is_on_windows(case.crash):
        snippet = shells.in_powershell(snippet)
    elif snippet is not None and knob.id == _OF_A_BUILD and in_a_dockerfile(case.crash):
        snippet = shells.in_a_dockerfile(snippet)
    setting = (_setting(row, inner) if answer.setting is None else answer.setting) or None
    tells = snippet or setting or answer.subject or answer.derivation
    held_by = holder(knob.id, case.crash) if not tells else None
    own = caption(row) if answer.setting in spelled else Caption()
    action = answer.action or translated(own.action or knob.action)
    return Remedy(
        knob=knob.id,
        action=action if held_by is None else semicolons((action, held_by)),
        subject=answer.subject or held_by,
        setting=setting,
        current=answer.current if answer.current is not None else stated,
        suggested=answer.suggested,
        beside=answer.beside,
        snippet=snippet,
        derivation=answer.derivation or _not_computed(answer.suggested),
        assumes=(*answer.assumes, *(_assumed(row, inner, case.crash) if answer.setting in spelled else ())),
        relieves=conditions.relieved(knob, case),
        spends=_spends(knob, row),
        cost=answer.cost if answer.cost is not None else translated(own.cost or knob.cost),
        reference=answer.reference,
    )


def _not_computed(suggested: Value) -> str | None:
    """What stands for the formula where there is none."""
    if suggested is None:
        return None
    return translated(A_SWITCH if isinstance(suggested, bool) else A_WORD)


def _setting(row: Spelling | None, inner: bool) -> str | None:
    if row is None or row.type in NO_OPTION:
        return None
    return row.key if inner else row.setting


def _assumed(row: Spelling | None, inner: bool, crash: Crash) -> tuple[str, ...]:
    if row is None:
        return ()
    if inner:
        told = say("the framework passes {name} on to the engine", name=row.key)
        return (told,)
    if row.framework == _SAVER[0] and _SAVER[0] not in crash.context.frameworks and crash.shows(_SAVER[1]):
        told = say("the engine is SGLang, which uses torch_memory_saver (not in the log)")
        return (told,)
    needed = (say("needs {need} (not in the log)", need=need) for need in missing(row, crash.context))
    return (*assumptions(row, crash.context), *needed)


def _often_tried(cause: str, crash: Crash) -> Iterator[Rejected]:
    """What is often advised for such a crash and would not help."""
    if crash.pool in _RAM:
        trains = not trainers().isdisjoint(crash.context.frameworks)
        for name in _MEANT_FOR_THE_CARD if trains else ():
            why = _wrong_sign(KNOBS[name], crash)
            if why is not None:
                yield Rejected(name, why)
        if crash.first(NodeOutOfMemory) is not None:
            yield Rejected("tune-ray-monitor", translated(ONLY_A_DELAY))
    if cause == "kv-cache-no-room":
        larger = _one(cause, KNOBS["raise-engine-reservation"], crash)
        if isinstance(larger, Rejected):
            yield larger
    if cause == "vllm-utilization-too-high" and crash.stage in STARTING:
        yield Rejected("smaller-microbatch", translated(SMALLER_BATCHES))


def _other_versions(cause: str, crash: Crash) -> Iterator[Rejected]:
    """What was advised once against this regression and is the worse answer now."""
    match = releases.likely(crash) if cause == "framework-regression" else None
    if match is not None and match.known.worse is not None:
        yield Rejected("pin-version", translated(match.known.worse))
