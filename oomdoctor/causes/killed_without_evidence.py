"""A kill that memory would explain, without proof."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.causes.container_limit import OF_AN_ENGINE
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.first_step import killed_bare_before_the_first_step, states_are_told, states_weigh_most
from oomdoctor.signs.host_engines import an_engine_computes_on_the_host
from oomdoctor.signs.kills import in_a_container, killed_for_no_printed_reason

OF_A_CONTAINER = ("collect-evidence", "raise-container-limit", "bigger-shm", "more-host-memory")
# Of a job that trains, and of which no line shows a GPU: what a first step needs
OF_STATES = ("low-memory-optimizer", "smaller-microbatch", "smaller-model", "mixed-precision", "shorter-sequences",
             "more-host-memory", "collect-evidence")  # fmt: skip
OF_SMALLER_STATES = ("smaller-microbatch", "low-memory-optimizer", "smaller-model", "shorter-sequences",
                     "smaller-input", "mixed-precision", "more-host-memory", "collect-evidence")  # fmt: skip
OF_A_STEP = ("smaller-microbatch", "smaller-input", "shorter-sequences", "smaller-model", "mixed-precision",
             "more-host-memory", "collect-evidence")  # fmt: skip

CAUSE = Cause(
    id="killed-without-evidence",
    title=mark("A process died and the log does not say why"),
    headlines=(
        mark("{killed_process} was killed ({kill_code})[ {doing}] and the log does not say why[; limit {job_limit}]"),
        mark("The log ends inside the traceback around line {cut_line}, before the error message"),
        mark("{lost} became unreachable[ {doing}] and the log does not say why"),
        mark("{dead_process} died[ ({kill_code})][ {doing}] and the log does not say why[; Ray suspects {suspected}]"),
    ),
    pools=("host_ram", "cgroup", "shm", "none"),
    fallback=True,
    signs=(Row(killed_for_no_printed_reason, Grade.HINTS),),
    knobs=("collect-evidence", "fewer-workers", "more-host-memory"),
    knobs_where=(
        (an_engine_computes_on_the_host, OF_AN_ENGINE),
        (states_weigh_most, OF_STATES),
        (states_are_told, OF_SMALLER_STATES),
        (killed_bare_before_the_first_step, OF_A_STEP),
        (in_a_container, OF_A_CONTAINER),
    ),
)
