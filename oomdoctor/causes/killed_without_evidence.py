"""A kill that memory would explain, without proof."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.causes.container_limit import OF_AN_ENGINE
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.above_a_kill import before_its_first_step, texts_were_tokenized, the_weights_were_ready
from oomdoctor.signs.host_engines import an_engine_computes_on_the_host
from oomdoctor.signs.kills import in_a_container, killed_for_no_printed_reason

OF_A_CONTAINER = ("collect-evidence", "raise-container-limit", "bigger-shm", "more-host-memory")
OF_WEIGHTS = ("collect-evidence", "low-memory-loading", "fewer-workers", "more-host-memory")
OF_WHAT_IS_READ = ("collect-evidence", "stream-data", "fewer-workers", "more-host-memory")

CAUSE = Cause(
    id="killed-without-evidence",
    title=mark("A process died and the log does not say why"),
    headlines=(
        mark(
            "{killed_process} was killed ({kill_code})[ {doing}][ {after}] and the log does not say why"
            "[; limit {job_limit}]"
        ),
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
        (in_a_container, OF_A_CONTAINER),
        (the_weights_were_ready, OF_WEIGHTS),
        (texts_were_tokenized, OF_WHAT_IS_READ),
        (before_its_first_step, OF_WHAT_IS_READ),
    ),
)
