"""Smaller batches, with more steps to make up for them."""

from __future__ import annotations

import math
from typing import Final

from msgspec.structs import replace

from oomdoctor.families.container import LimitKill
from oomdoctor.families.event import RAM
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.kernel import KernelKill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import several_batches_went_by
from oomdoctor.job.frameworks import some
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import own_line
from oomdoctor.remedies.engine import share
from oomdoctor.remedies.halves import half
from oomdoctor.remedies.initial import as_default
from oomdoctor.remedies.inputs import names_no_batch
from oomdoctor.remedies.parts import limit, parts
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.whatif.states import STARTING
from oomdoctor.signs.arrays import PICTURES, VOLUMES, far_beyond_a_machine, little_too_large
from oomdoctor.signs.first_step import killed_bare, killed_bare_at_a_step, speaks_of_training
from oomdoctor.signs.host_data import cached_data, data_is_kept_by_batches
from oomdoctor.signs.passes import simulates_worlds
from oomdoctor.signs.trace import GENERATES
from oomdoctor.units import GIB, show

SMALLER_BATCHES: Final = mark("the starting engine reserves a share of the GPU, whatever the training batch size")
_SIGNED: Final = late(r"--[\w.-]{1,80}=")
_OF_A_FILTER: Final = r"(?i)variable|assign|initiali[sz]er|filter_?grad|backprop_?filter"
_QUARTER: Final = 4
_ACCUMULATION: Final = "gradient_accumulation_steps"
# What Lightning, MAE, x-transformers, and scripts of one's own call it
_ACCUMULATIONS: Final = (
    _ACCUMULATION, "gradient_accumulation", "grad_accumulation_steps", "grad_accumulation", "grad_accum_steps",
    "grad_accum", "grad_acc_steps", "grad_acc", "accumulate_grad_batches", "accumulation_steps", "accum_steps",
    "accum_iter", "gradient_accumulate_every", "grad_accum_every",
)  # fmt: skip
_DATA: Final = "dataset-in-ram"  # of which a smaller batch brings as much, only later
# The input of an operation, its result, and what the one before it has left
_AT_ONCE: Final = 3
_MOST_PARTS: Final = 16
_WITHOUT_UPDATES: Final = ("serving", "rollout", "eval", "data_load")
_TRAINING: Final = ("training", "rl")  # tasks
WITHOUT_TRAINING: Final = ("serving", "inference", "data", "simulation")
_CALLED_TRAINING: Final = r"(?i)\b(?:train(?:ing|er|_|\b)|fine_?tun)|\bepochs?\b"
_BY_BATCHES: Final = ("activations", "eval-accumulation", "logits-spike")  # causes
_OUTSIDE: Final = "non-torch-memory"
_BARE: Final = ("gpu-memory-exhausted", "non-torch-memory")
_WITHOUT_GRADIENTS: Final = ("rollout", "logprob", "reward")
_FORWARD_BATCHES: Final = (
    "micro_rollout_batch_size", "rollout.micro_batch_size", "log_prob_micro_batch_size_per_gpu",
    "log_prob_micro_batch_size", "micro_forward_batch_size", "micro_forward_batch_size_per_gpu", "logprob_batch_size",
    "forward_micro_batch_size_per_gpu", "infer_batch_size",
)  # fmt: skip


def halved(case: Case) -> Answer:
    """Batches and lengths of training matter once it trains."""
    if case.crash.stage in STARTING and share.share(case.crash) is not None:
        return Refusal(translated(SMALLER_BATCHES))
    return half(case)


def smaller_microbatch(case: Case) -> Answer:
    """Half the batch; the global one stays only where the steps are accumulated, by the framework or by its option."""
    case = _of_the_stage(case)
    if _adds_up(case) or (case.cause == _DATA and _fills_a_cache(case.crash)):
        return Skip()
    answer = _as_the_array_shows(case) or halved(case)
    times = 2
    if isinstance(answer, Proposal) and _at_its_first_step(case):
        answer, times = _quarter(case, answer), _QUARTER
    elif isinstance(answer, Proposal) and (count := _parts_that_fit(case)) is not None:
        answer, times = _part(case, answer, count), count
    if some(case.crash.context.frameworks, "keeps its global batch") or isinstance(answer, Refusal):
        return answer
    proposal = answer if isinstance(answer, Proposal) else _half_a_batch(case)
    accumulation = _accumulation(case)
    if _updates_nothing(case.crash):
        return replace(proposal, cost=say("lower throughput"))
    if accumulation is None or proposal.suggested is None:
        return replace(proposal, cost=say("smaller global batch without more accumulation"))
    now, assumed = accumulation
    shown = as_default(str(now)) if assumed else now
    line = _accumulated(proposal.snippet or case.snippet(proposal.suggested), case, times * now)
    return replace(
        proposal,
        action=say(
            "{action}, and {option} {now} -> {then}",
            action=proposal.action,
            option=_accumulated_by(case.crash),
            now=shown,
            then=times * now,
        ),
        derivation=say(
            "{formula}; {now} x {share} = {then} for the same global batch",
            formula=proposal.derivation,
            now=now,
            share=times,
            then=times * now,
        ),
        assumes=(*proposal.assumes, *assumed),
        snippet=line,
    )


def _adds_up(case: Case) -> bool:
    """Whether several batches of the same size went well before: half of one is kept as long as a whole one."""
    crash = case.crash
    killed = isinstance(crash.root, KernelKill | LimitKill) and crash.job.task != "training"
    if killed_bare(crash) and own_line.task_of(crash) not in _TRAINING and crash.context.progress.get("done", 0) > 2:
        return not speaks_of_training(crash)
    return (case.cause == _DATA or killed) and several_batches_went_by(crash)


def _fills_a_cache(crash: Crash) -> bool:
    """Whether the data were still being cached: before there was a batch of them, or by each batch of whatever size."""
    cached = cached_data(crash)
    return (cached is not None and cached.is_filling) or data_is_kept_by_batches(crash) is not None


def _half_a_batch(case: Case) -> Proposal:
    """Without an option, that the program may not have: first where it trains, or where batches are the cause."""
    task = own_line.task_of(case.crash)
    counts = task != "serving" if case.cause in _BY_BATCHES else case.cause in _BARE and task in _TRAINING
    first = counts and not simulates_worlds(case.crash) and not names_no_batch(case.crash)
    if first and (shown := next((found for one in _OF_ARRAYS if (found := one(case.crash)) is not None), None)):
        return shown
    if (little := little_too_large(case.crash)) is not None:
        return _of_a_program(little)
    if case.cause == _OUTSIDE and (library := _refused_library(case.crash)) is not None:
        return library
    return Proposal(
        action=say("Halve the batch size"), derivation=say("current value not in the log") if first else None
    )


def _of_a_program(array: ArrayOutOfMemory) -> Proposal:
    """What it lacks is little beside all that it computes with."""
    used, total = array.used_bytes or 0, array.total_bytes or 0
    return Proposal(
        action=say("Halve the batch size"),
        derivation=say(
            "{used} needed - {total} = {missing} too much",
            used=show(used),
            total=show(total),
            missing=show(used - total),
        ),
    )


def _refused_library(crash: Crash) -> Proposal | None:
    """A library beside the framework needs room that the framework has to leave."""
    root = crash.root
    if not isinstance(root, LibraryOutOfMemory):
        return None
    action = say("Leave {library} room on the GPU: halve the batch size", library=root.library)
    if own_line.task_of(crash) == "unknown" and crash.job.world in ("torch", "engine", "none"):
        action = say(
            "Leave {library} room on the GPU: in training, halve the batch size; in serving, lower the engine's memory "
            "share",
            library=root.library,
        )
    return Proposal(
        action=action,
        subject=root.library,
        derivation=say("{library} requested {tried}", library=root.library, tried=show(root.tried_bytes))
        if root.tried_bytes
        else None,
    )


def _of_a_huge_array(crash: Crash) -> Proposal | None:
    """Of one array that is larger than the device a half does not fit, either."""
    root = crash.root
    if not isinstance(root, ArrayOutOfMemory) or not root.tried_bytes or not root.total_bytes:
        return None
    room = root.free_bytes or root.total_bytes
    if root.tried_bytes <= 2 * root.total_bytes:
        return None
    count = math.ceil(root.tried_bytes / room)
    return Proposal(
        action=say("Find what makes this one array so large; if the batch does, lower it to 1/{count}", count=count),
        derivation=say(
            "{tried} / {room} free, rounded up = {count}", tried=show(root.tried_bytes), room=show(room), count=count
        ),
    )


def _of_a_huge_program(crash: Crash) -> Proposal | None:
    """Of a compiled program half is too much, too, where what it computes takes twice what its arguments leave."""
    root = crash.root
    if not isinstance(root, ArrayOutOfMemory) or not root.used_bytes or not root.total_bytes:
        return None
    given = root.arguments_bytes or 0
    computed, room = root.used_bytes - given, root.total_bytes - given
    if room <= 0 or computed <= 2 * room:
        return None
    count = math.ceil(computed / room)
    return Proposal(
        action=say("Lower the batch size to 1/{count}: half of it is still too much", count=count),
        derivation=say(
            "({used} - {given}) / ({total} - {given}), rounded up = {count}",
            used=show(root.used_bytes), given=show(given), total=show(root.total_bytes), count=count,
        ) if given else say(
            "{used} / {total}, rounded up = {count}",
            used=show(root.used_bytes), total=show(root.total_bytes), count=count,
        ),
        assumes=(say("all that it computes grows with the batch"),),
    )  # fmt: skip


def _of_the_array(crash: Crash) -> Proposal | None:
    """TensorFlow's arrays of pictures and of volumes begin with the batch, wherever their channels stand."""
    shape = crash.root.shape if isinstance(crash.root, ArrayOutOfMemory) and crash.job.world == "tensorflow" else None
    sizes = [int(one) for one in (shape or "").strip("[] ").split(",") if one.strip().isdigit()]
    of_a_filter = sizes[:1] == sizes[1:2] or crash.in_trace(_OF_A_FILTER) is not None
    if len(sizes) not in (PICTURES, VOLUMES) or sizes[0] < 2 or of_a_filter:
        return None
    then = sizes[0] // 2
    is_the_batch = say("the first dimension of {shape} is the batch", shape=f"[{','.join(map(str, sizes))}]")
    if isinstance(crash.root, ArrayOutOfMemory) and far_beyond_a_machine(crash):
        return _of_far_fewer(crash.root, is_the_batch)
    return Proposal(
        action=say("Halve the batch size: {now} -> {then}", now=sizes[0], then=then),
        current=sizes[0],
        suggested=then,
        setting="",
        derivation=f"{sizes[0]} / 2 = {then}",
        assumes=(is_the_batch,),
    )


def _as_the_array_shows(case: Case) -> Proposal | None:
    """The batch by the array, where an option for it is known and its value is not."""
    shown = _of_the_array(case.crash) if case.row is not None and case.number() is None else None
    if shown is None or shown.suggested is None:
        return shown
    return replace(shown, setting=None, snippet=case.snippet(shown.suggested))


_TO_BEGIN_WITH: Final = GIB  # in one array, beside others of a program that a machine runs
_OF_ARRAYS: Final = (_of_the_array, _of_a_huge_array, _of_a_huge_program)


def _of_far_fewer(array: ArrayOutOfMemory, is_the_batch: str) -> Proposal:
    """Beside such an array there are others, so that a half of it is too much as well: a number to begin with."""
    inputs, *each = array.lengths
    bytes_each = max(1, (array.usual_bytes or 0) // inputs)
    then = _power_below(min(_TO_BEGIN_WITH // bytes_each, inputs // 2))
    of_the_type = () if array.dtype else (say("numbers of 4 bytes (type not in the log)"),)
    return Proposal(
        action=say(
            "Compute far fewer inputs at once: all {inputs} take {whole} in this one array, {then} take {part}",
            inputs=inputs, whole=show(bytes_each * inputs), then=then, part=show(bytes_each * then),
        ),
        current=inputs,
        suggested=then,
        setting="",
        derivation=say(
            "{part} x {each} x {width} bytes = {size}",
            part=then, each=" x ".join(map(str, each)), width=bytes_each // math.prod(each),
            size=show(bytes_each * then),
        ),
        assumes=(is_the_batch, *of_the_type, say("{value} is a number to begin with", value=then)),
    )  # fmt: skip


def _power_below(count: int) -> int:
    """The largest power of two that is no larger; 1 where there is none."""
    return 1 << max(0, count.bit_length() - 1)


def _at_its_first_step(case: Case) -> bool:
    """Host memory ran out before a step was done: how much is missing nobody knows, and half is often too little."""
    crash, now = case.crash, case.number()
    progress = crash.context.progress
    steps = progress.get("done") or progress.get("step") or 0
    if crash.stage in _WITHOUT_UPDATES or (case.now is not None and "eval" in case.now.name):
        return False
    if several_batches_went_by(crash):
        return False
    fails = isinstance(crash.root, KernelKill | LimitKill | ArrayOutOfMemory)
    fails = fails or killed_bare_at_a_step(crash) is not None
    return fails and crash.pool in RAM and not steps and now is not None and now >= 2 * _QUARTER


def _parts_that_fit(case: Case) -> int | None:
    """Into how many parts the batch goes where the piece that was refused is large beside all that there is: of so
    many pieces at once, each as large as its part of the batch, half the memory has to be enough."""
    crash, now = case.crash, case.number()
    root = crash.root
    most = limit(crash)
    if not isinstance(root, HostAllocation) or not root.tried_bytes or not most or now is None:
        return None
    count = parts(root.tried_bytes, most, _AT_ONCE)
    return min(count, _MOST_PARTS) if count > 2 and now >= 2 * count else None


def _part(case: Case, answer: Proposal, count: int) -> Proposal:
    assert case.now is not None
    now, tried = case.number() or 0, case.crash.root.tried_bytes if isinstance(case.crash.root, HostAllocation) else 0
    then = int(now) // count
    return replace(
        answer,
        action=say("Lower {name} from {now} to {then}", name=case.now.name, now=f"{now:g}", then=then),
        suggested=then,
        derivation=say(
            "{now:g} / {parts} = {then}: {count} pieces of {tried} / {parts} in half of {limit}",
            now=now, parts=count, then=then, count=_AT_ONCE, tried=show(tried or 0), limit=show(limit(case.crash) or 0),
        ),
        snippet=case.own_spelling(then) if case.own_name() is not None else None,
        assumes=(*answer.assumes, say("{count} such pieces at once (a guess)", count=_AT_ONCE)),
    )  # fmt: skip


def _quarter(case: Case, answer: Proposal) -> Proposal:
    assert case.now is not None
    now = case.number() or 0
    then = int(now) // _QUARTER
    own = case.own_name()
    return replace(
        answer,
        action=say("Lower {name} from {now} to {then}", name=case.now.name, now=f"{now:g}", then=then),
        suggested=then,
        derivation=f"{now:g} / {_QUARTER} = {then}",
        snippet=case.own_spelling(then) if own is not None else None,
        assumes=(*answer.assumes, say("a quarter is a guess: no step was done")),
    )


def _updates_nothing(crash: Crash) -> bool:
    """Whether no step of training is in sight, whose batches a sum of gradients could make up for."""
    passes = crash.stage in _WITHOUT_UPDATES or crash.in_trace(GENERATES) is not None
    task = own_line.task_of(crash)
    return passes or not (task in _TRAINING or (task == "unknown" and crash.shows(_CALLED_TRAINING)))


def _of_the_stage(case: Case) -> Case:
    """While nothing is updated, the batch is that of the forward passes, which has an option of its own."""
    stated = case.crash.setting(*_FORWARD_BATCHES) if case.crash.stage in _WITHOUT_GRADIENTS else None
    return case if stated is None else replace(case, now=stated)


def _accumulation(case: Case) -> tuple[int, tuple[str, ...]] | None:
    """Over how many steps the job accumulates now, and what was assumed."""
    if case.number() is None:
        return None  # half of a batch that nobody printed asks for no number of steps
    stated = case.crash.setting(*_ACCUMULATIONS)
    if stated is not None:
        return (stated.whole, ()) if stated.whole is not None and stated.whole > 0 else None
    if case.row is None or not some([case.row.framework], "accumulates by option"):
        return None
    return 1, (say("{option} is 1 (its default, not in the log)", option=_ACCUMULATION),)


def _accumulated(line: str | None, case: Case, steps: int) -> str | None:
    """The option for the steps beside that for the batch, in the same manner."""
    if line is None:
        return None
    stated, option = case.crash.setting(*_ACCUMULATIONS), _accumulated_by(case.crash)
    signed = _SIGNED.match(line) is not None
    written = stated.written if stated is not None else None
    if stated is not None and written is not None and (written.startswith("-") or not line.startswith("-")):
        return f"{line} {stated.flag}={steps}" if signed else f"{line} {written}{steps}"
    if case.row is not None and case.row.is_argument and line.startswith(case.row.key):
        return f"{line}, {option}={steps}"
    if line.startswith("--"):
        flag = option.replace("_", "-") if "-" in line[2:].partition(" ")[0] else option
        return f"{line} --{flag}{'=' if signed else ' '}{steps}"
    if line.startswith('"'):
        return f'{line}, "{option}": {steps}'
    return f"{line}\n{option}: {steps}" if ": " in line else f"{line} {option}={steps}"


def _accumulated_by(crash: Crash) -> str:
    """What the option is called, as the log has it."""
    stated = crash.setting(*_ACCUMULATIONS)
    return _ACCUMULATION if stated is None else stated.name.rsplit(".", 1)[-1]
