"""Parallel compile jobs are killed: each compiler of a CUDA extension takes gigabytes."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, builds

# Where nobody killed, a limit on address space answers the same way
OF_A_REFUSAL = ("fewer-build-jobs", "more-address-space", "more-host-memory", "raise-container-limit")

CAUSE = Cause(
    id="build-parallelism",
    title=mark("Parallel compile jobs ran out of memory"),
    headlines=(
        mark("rustc was killed in link-time optimization of the crate {whole_program}"),
        mark("Parallel compile jobs ran out of memory: the kernel killed {compiler}, which held {compiler_held}"),
        mark("Parallel compile jobs ran out of memory: {compiler_requested}"),
        mark("Parallel compile jobs ran out of memory: {compiler} was killed[ ({kill_code})][, {build_jobs} jobs]"),
        mark("{killed_process} was killed ({kill_code}) during a build[ with {build_jobs} jobs]"),
    ),
    pools=("host_ram", "cgroup"),
    signs=(
        Row(builds.whole_program_was_optimized, Grade.NAMES),
        Row(builds.compiler_reports_it, Grade.PROVES),
        Row(builds.kernel_killed_a_compiler, Grade.PROVES),
        Row(builds.killed_under_a_compile_command, Grade.NAMES),
        Row(builds.killed_while_building, Grade.POINTS),
    ),
    against=(Row(builds.a_compiler_stopped_beside_free_memory, Grade.HINTS),),
    knobs_where=((builds.a_compiler_ended_itself, OF_A_REFUSAL),),
    knobs=("fewer-build-jobs", "raise-container-limit", "more-host-memory"),
    before=("too-many-workers",),
)
