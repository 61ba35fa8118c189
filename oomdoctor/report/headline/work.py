"""Slots about the work that needed host memory: a build, a checkpoint, data."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import CompilerKill
from oomdoctor.families.kernel import KernelKill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import Held
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import brief, briefly
from oomdoctor.report.headline.gpu import gpu
from oomdoctor.report.headline.slot import about, first, where
from oomdoctor.report.headline.victims import held_by, name_of
from oomdoctor.signs import evaluation
from oomdoctor.signs.builds import COMMAND_ABOVE, COMPILER, killed_under_a_compile_command, whole_program_crate
from oomdoctor.signs.checkpoints import RESUMING, SAVING, killed_at_a_step_that_saves
from oomdoctor.signs.evaluation import killed_bare_during_an_evaluation
from oomdoctor.signs.first_step import (
    adams_states_come_next,
    computes_on_the_cpu,
    killed_bare_before_the_first_step,
    killed_in_the_first_step_on_the_cpu,
)
from oomdoctor.signs.held_data import buffer_of, collected_things, killed_bare_among_tables, large_encoded_table
from oomdoctor.signs.host_data import (
    cached_data,
    data_goes_to_the_card_in_one_piece,
    refused_among_tables,
    step_on_tables,
)
from oomdoctor.signs.printed_arrays import (
    large_arrays,
    pairs_counted,
    pairs_of_what_is_counted_fill_it,
    results_of_one_shape,
)

_JOBS: Final = late(
    r"\bMAX_JOBS\W{1,3}(\d{1,4})\b|\b(?:make|ninja|cmake --build|cargo build)\b[^\n]{0,80} -j ?(\d{1,4})\b"
)
_COMPILES: Final = late(r"(?:^|[/\s])(nvcc|hipcc|cicc|clang\+\+|clang|g\+\+|gcc|c\+\+|cc)(?:-[\d.]{1,5})?\s")


@about(buffer_of)
def held_buffer(held: Held) -> str | None:
    """What a buffer of data held at its last print, at the head of a sentence."""
    what = held.what[:1].upper() + held.what[1:]
    if held.total is None:
        return say("{what} with {count:,} elements", what=what, count=held.count)
    return say("{what} with {count:,} of {total:,} elements", what=what, count=held.count, total=held.total)


@about(collected_things)
def collected(held: Held) -> str | None:
    """How much a job had loaded, decoded or collected at its last print."""
    if held.total is None:
        return say("{count:,} {what}", what=held.what, count=held.count)
    return say("{count:,} of {total:,} {what}", what=held.what, count=held.count, total=held.total)


def arrays_told(crash: Crash) -> str | None:
    """The largest array that the job prints, the number of its results and their shape, or how many have all pairs."""
    arrays, results = large_arrays(crash), results_of_one_shape(crash)
    if arrays:
        array = arrays[0]
        return say("{what} {shape} of {dtype}", what=array.what, shape=array.shape, dtype=array.dtype).strip()
    if results is not None:
        return say("{count:,} results of {shape}", count=results.count, shape=results.each.shape)
    pairs = pairs_counted(crash) if pairs_of_what_is_counted_fill_it(crash) is not None else None
    return say("all pairs of {count:,}", count=pairs.shape[0]) if pairs is not None else None


def compiler(crash: Crash) -> str | None:
    """The compiler that was killed: as the build's output, the kernel, or the command above the kill has it."""
    kill, reported = _compiler_kill(crash), crash.first(CompilerKill)
    if reported is not None:
        return None if reported.ended_itself else reported.program
    if kill is not None:
        return name_of(kill)
    if killed_under_a_compile_command(crash) is None:
        return None
    above = (_COMPILES.search(text) for text in reversed(crash.root.around.before[-COMMAND_ABOVE:]))
    return next((found[1] for found in above if found is not None), None)


@about(whole_program_crate)
def whole_program(found: tuple[str, str]) -> str | None:
    """The crate that a Rust compiler optimized together with all others."""
    return found[0]


def compiler_held(crash: Crash) -> str | None:
    """What the compiler held that the kernel killed."""
    kill = _compiler_kill(crash) if crash.first(CompilerKill) is None else None
    return briefly(held_by(kill)) if kill is not None else None


@about(first(CompilerKill))
def compiler_requested(reported: CompilerKill) -> str | None:
    """What a compiler requested and did not get, with its name where it is printed."""
    if reported.tried_bytes is None:
        return None
    who = reported.program or say("a compiler")
    return say("{who} requested {size}", who=who, size=brief(reported.tried_bytes))


def build_jobs(crash: Crash) -> str | None:
    """How many compile jobs the build runs at once, where a line near the failure says so."""
    line = crash.mentions(_JOBS.pattern)
    found = _JOBS.search(line) if line is not None else None
    return (found[1] or found[2]) if found is not None else None


def checkpointing(crash: Crash) -> str | None:
    """Saving or loading a checkpoint, with the function where the traceback names it."""
    if crash.stage == "checkpoint_load":
        frame, words = crash.in_trace(RESUMING), say("Loading a checkpoint")
    elif crash.stage == "checkpoint_save":
        frame, words = crash.in_trace(SAVING), say("Saving a checkpoint")
    else:
        return None
    return say("{what} ({function})", what=words, function=frame.function) if frame is not None else words


@where(checkpointing)
def checkpoint_gpu(crash: Crash) -> str | None:
    """The GPU that a checkpoint did not fit on; None where it was the host's memory."""
    return gpu(crash) if crash.pool == "gpu" else None


def cached(crash: Crash) -> str | None:
    """How much data a line near the failure says is cached in RAM, as it is printed."""
    data = cached_data(crash) if crash.proven else None
    return data.held if data is not None else None


def cached_before_a_death(crash: Crash) -> str | None:
    """The same where a process died, and nothing says that memory ran out."""
    data = cached_data(crash) if not crash.proven else None
    return data.held if data is not None else None


def data_in_one_piece(crash: Crash) -> str | None:
    """The allocation on the GPU that all data was to go to."""
    tried = crash.root.figures("usage").get("tried_bytes")
    return brief(tried) if data_goes_to_the_card_in_one_piece(crash) and isinstance(tried, int) else None


def in_first_step(crash: Crash) -> str | None:
    """When a job was killed that trains on the CPU, or on no GPU that a line shows, and had done no step."""
    if killed_in_the_first_step_on_the_cpu(crash) is None:
        return None
    on_the_cpu = computes_on_the_cpu(crash)
    return say("in the first training step on the CPU") if on_the_cpu else say("in the first training step")


def before_adams_states(crash: Crash) -> str | None:
    """When a job was killed whose last print says that its first backward pass is done."""
    return say("after its first backward pass") if adams_states_come_next(crash) is not None else None


def before_first_step(crash: Crash) -> str | None:
    """The same of a kill for no printed reason, of a job of which no line shows a GPU."""
    if killed_bare_before_the_first_step(crash) is None:
        return None
    return say("before its first training step was done")


def kept_results(crash: Crash) -> str | None:
    """What the job's own line calls the results that it keeps."""
    return evaluation.kept_results(crash) if evaluation.results_pile_up(crash) is not None else None


def in_an_evaluation(crash: Crash) -> str | None:
    """When a job was killed for no printed reason that had begun to evaluate."""
    return say("during an evaluation") if killed_bare_during_an_evaluation(crash) is not None else None


def among_tables(crash: Crash) -> str | None:
    """The same of one whose prints are of tables, or of the table that it was about to make."""
    table = large_encoded_table(crash)
    if table is not None:
        return say("before a table of {formula} = {size} was made", formula=table.formula, size=brief(table.bytes))
    return say("while it worked on tables") if killed_bare_among_tables(crash) is not None else None


def table_step(crash: Crash) -> str | None:
    """The function that made a table of tables in memory."""
    return step_on_tables(crash) if refused_among_tables(crash) is not None else None


def step_that_saves(crash: Crash) -> str | None:
    """The last step before a kill, where a setting has the state saved at it."""
    every, done = crash.setting("save_steps", "save_interval", "save_freq"), crash.context.progress.get("done")
    if every is None or killed_at_a_step_that_saves(crash) is None:
        return None
    return say("step {step} ({name} {value})", step=done, name=every.name, value=every.value)


def _compiler_kill(crash: Crash) -> KernelKill | None:
    return next((kill for kill in crash.every(KernelKill) if COMPILER.match(kill.process.name or "")), None)
