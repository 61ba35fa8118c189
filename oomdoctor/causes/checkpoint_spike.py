"""Saving, gathering or loading a full state needs the memory."""

from __future__ import annotations

from typing import Final

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.causes.host import asked_for
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say

STAGES: Final = ("checkpoint_save", "checkpoint_load")
# Frames that build or move a whole state, the innermost names first looked for.
_SAVING: Final = (
    r"_?save_checkpoint\b|save_pretrained|\bsave_model\b|_save_zero|save_16bit|torch/serialization.{0,40}\bsave\b"
    r"|_zero3_consolidated_16bit_state_dict|full_state_dict|FullStateDict|_gather_state_dict|_full_post_state_dict_hook"
    r"|_optim_state_dict|\bstate_dict\b.{0,80}fsdp|fsdp.{0,80}\bstate_dict\b|zero_to_fp32|get_fsdp_full_state_dict"
    r"|dist_checkpointing|dcp\.save|FSDPCheckpointManager|safetensors.{0,40}save_file"
)
# Not "resume_from_checkpoint": it is an argument of every training run's outermost frame.
_LOADING: Final = r"_?load_checkpoint\b|_load_from_checkpoint|_load_optimizer|load_optimizer_states|dcp\.load"
_SAID: Final = (
    r"(?i)saving (?:model |training |optimizer )?(?:checkpoint|state)|save_checkpoint|local_global_step_folder"
    r"|\[_save_checkpoint|global_step_\d+|_zero3_consolidated|saving model"
)
_STATE_DICT_ENTRY: Final = r"Failed to clone\(\) tensor with name .{0,200}state_dict"


def judge(crash: Crash) -> Judgement | None:
    if crash.mentions(_STATE_DICT_ENTRY):
        return Finding(
            weight=0.85,
            shows_memory=True,
            why=say(
                "A full state was gathered on one device to be saved, and cloning a tensor of it was refused{asked}.",
                asked=asked_for(crash),
            ),
            evidence=(crash.root,),
            stage="checkpoint_save",
            pool="gpu" if crash.pool == "gpu" else None,
        )
    frame = crash.in_trace(_SAVING) or crash.in_trace(_LOADING)
    if frame is not None:
        loading = crash.in_trace(_SAVING) is None
        return Finding(
            weight=0.8,
            shows_memory=True,
            why=say(
                "The job was loading its state ({function}) when memory ran out{asked}: gathering a "
                "full state needs the weights once more, with the optimizer several times as much.",
                function=frame.function,
                asked=asked_for(crash),
            )
            if loading
            else say(
                "The job was saving its state ({function}) when memory ran out{asked}: gathering a "
                "full state needs the weights once more, with the optimizer several times as much.",
                function=frame.function,
                asked=asked_for(crash),
            ),
            evidence=(crash.root,),
            stage=STAGES[1] if loading else STAGES[0],
        )
    if crash.stage in STAGES:
        return Finding(
            weight=0.7,
            shows_memory=True,
            why=say("Memory ran out while a checkpoint was loaded{asked}.", asked=asked_for(crash))
            if crash.stage == STAGES[1]
            else say("Memory ran out while a checkpoint was saved{asked}.", asked=asked_for(crash)),
            evidence=(crash.root,),
        )
    said = crash.mentions(_SAID)
    if said is not None and crash.root.strength >= 1:
        return Finding(
            weight=0.35,
            why=say("The last lines before the failure speak of a checkpoint."),
            evidence=(crash.root,),
            against=(say("no frame shows that the job was in it when memory ran out"),),
        )
    return None


CAUSE = Cause(
    id="checkpoint-spike",
    title=mark("Saving or loading a full state needs the memory"),
    pools=("host_ram", "cgroup", "gpu", "shm"),
    knobs=("sharded-checkpoint", "less-offload", "offload-parameters", "low-memory-loading", "more-host-memory"),
    rule=judge,
)
