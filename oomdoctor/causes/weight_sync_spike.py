"""Gathering or sending the trainer's weights to the engine needs memory on top of both."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.incident.engine_facts import beside_engine, phase
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import show

# Functions in which RL frameworks hand weights to their engine.
_SYNC = (
    r"\b(?:_?broadcast_to_vllm|broadcast_weights?_to_vllm|update_weights?(?:_\w{1,30})?|sync_weights|_sync_\w{0,20}weights?"
    r"|sync_policy_\w{1,20}|_move_model_to_vllm|transfer_and_update_weights|refit_policy_generation"
    r"|step_model_update|model_update|sync_model_weights|prepare_weights_for_ipc_refit)\b"
)
_NAMED = r"\b(?:method|function) '?_?(?:sync_|broadcast_|update_)(?:model|weight|policy)"
# ... and in which whole parameters are put together; alone they may also save a checkpoint or run a forward pass.
_GATHER = (
    r"\b(?:GatheredParameters|summon_full_params|full_tensor|_?all_gather(?:_params|_base|_into_tensor)?"
    r"|get_full_params|_unshard_params|state_dict)\b|_gather_state_dict"
)
# Frameworks' ways to run the engine with the trainer's weights
_FOR_GENERATION = (
    r"unwrap_model_for_generation|ShardingManager|rollout_mode|prepare_for_generation|per_tensor_generator"
)


def judge(crash: Crash) -> Judgement | None:
    if phase(crash) == "waking":
        return RuledOut(say("the engine was only waking up: no weights had been gathered or sent"))
    sync = crash.in_trace(_SYNC) or crash.in_trace(_FOR_GENERATION)
    gather = crash.in_trace(_GATHER)
    if sync is None and crash.stage != "weight_sync":
        return None
    if sync is None and not beside_engine(crash) and crash.mentions(_NAMED) is None:
        return None
    return Finding(
        weight=0.82 if sync and gather else 0.75 if sync else 0.55,
        why=joined(
            (
                say(
                    "The trainer's weights were on their way to the engine. Whole parameters are put "
                    "together for that, beside the trainer's shards and the engine's own copy."
                ),
                _asked(crash),
            )
        ),
        evidence=(crash.root,),
        stage="weight_sync",
    )


def _asked(crash: Crash) -> str:
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or root.tried_bytes is None:
        return ""
    if root.free_bytes is None:
        return say("{tried} was asked for.", tried=show(root.tried_bytes))
    return say("{tried} was asked for, {free} was free.", tried=show(root.tried_bytes), free=show(root.free_bytes))


CAUSE = Cause(
    id="weight-sync-spike",
    title=mark("Handing the trainer's weights to the engine needs more than is free"),
    pools=("gpu",),
    knobs=(
        "sync-in-parts",
        "lower-engine-reservation",
        "engine-sleep",
        "offload-optimizer",
        "separate-placement",
        "more-gpus",
    ),
    rule=judge,
)
