"""Memory that PyTorch holds and cannot hand out in one piece."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, fragments, loading, logits, passes, snapshot

ENGINE_KNOBS = (
    "allocator-config", "lower-engine-reservation", "free-the-gpu", "smaller-prefill", "fewer-sequences",
    "shorter-context", "tensor-parallel",
)  # fmt: skip

# What asked for the piece is known: less of that needs no whole block
OF_LOGITS = ("allocator-config", "chunked-logits", "smaller-microbatch", "shorter-sequences", "token-budget-batching")
OF_ATTENTION = ("allocator-config", "memory-efficient-attention", "smaller-microbatch", "shorter-sequences",
                "token-budget-batching")  # fmt: skip

# A scene that goes on growing is soon as short of memory in one piece
OF_PRIMITIVES = ("allocator-config", "cap-primitives", "smaller-input", "smaller-microbatch")

CAUSE = Cause(
    id="allocator-fragmentation",
    title=mark("GPU memory is fragmented: enough is cached, but no block is large enough"),
    headlines=(
        mark("GPU memory is fragmented: {gpu_idle} are cached on {gpu}, but no block of {requested} is free"),
        mark("GPU memory may be fragmented: {gpu_pieces} lie idle in pieces on {gpu}, and {free} are free"),
        mark("GPU memory is fragmented: {summary_idle} of {summary_reserved} reserved on {gpu} hold no tensor"),
    ),
    pools=("gpu",),
    excluded=(
        fragments.room_beside_the_pieces,
        snapshot.free_blocks_too_few,
        fragments.idle_less_than_asked,
        fragments.ordinary_cache,
        fragments.expandable_segments_set,
        fragments.ordinary_rest_of_the_pool,
        fragments.pool_with_less_than_asked,
        loading.a_card_for_no_model,
    ),
    signs=(
        Row(snapshot.free_blocks_in_pieces, Grade.PROVES),
        Row(fragments.idle_in_pieces, Grade.PROVES),
        Row(fragments.pool_in_pieces, Grade.PROVES),
        Row(fragments.idle_by_the_table, Grade.NAMES),
        Row(fragments.some_idle_in_pieces, Grade.HINTS),
        Row(fragments.idle_and_free_would_do, Grade.HINTS),
    ),
    against=(
        Row(fragments.small_segment_refused, Grade.NAMES),
        Row(fragments.idle_is_barely_enough, Grade.POINTS),
        Row(fragments.others_hold_most_of_the_card, Grade.NAMES),
        Row(fragments.others_hold_more_than_lies_idle, Grade.HINTS),
        Row(fragments.pools_of_graphs_counted_as_idle, Grade.HINTS),
    ),
    missing=(fragments.idle_figure_missing,),
    knobs=("allocator-config", "smaller-microbatch", "smaller-input", "shorter-sequences", "token-budget-batching"),
    knobs_where=(
        (fragments.engine_starting, ENGINE_KNOBS),
        (logits.working_on_logits, OF_LOGITS),
        (passes.in_attention, OF_ATTENTION),
        (passes.while_primitives_grow, OF_PRIMITIVES),
    ),
)
