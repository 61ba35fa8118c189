"""A full state that is saved, gathered or loaded."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import RAM
from oomdoctor.families.kill import Kill
from oomdoctor.families.lines import PROGRESS
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import asked_for
from oomdoctor.incident.prints import is_told_last
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.node import rows_left_out
from oomdoctor.units import show

# Frames that build or move a whole state, the innermost names first looked for.
SAVING: Final = (
    r"_?save_checkpoint\b|save_pretrained|\bsave_model\b|_save_zero|save_16bit|torch/serialization.{0,40}\bsave\b"
    r"|_zero3_consolidated_16bit_state_dict|full_state_dict|FullStateDict|_gather_state_dict|_full_post_state_dict_hook"
    r"|_optim_state_dict|\bstate_dict\b.{0,80}fsdp|fsdp.{0,80}\bstate_dict\b|zero_to_fp32|get_fsdp_full_state_dict"
    r"|dist_checkpointing|dcp\.save|merge_and_unload|\bget_delta_weight\b|\bmerge_adapter\b|FSDPCheckpointManager|safetensors.{0,40}save_file"
)
# Not "resume_from_checkpoint": it is an argument of every training run's outermost frame.
RESUMING: Final = r"_?load_checkpoint\b|_load_from_checkpoint|_load_optimizer|load_optimizer_states|dcp\.load"
# Weights are on the card before their optimizer takes up its state again, of which torch.load has made a second one
# and, up to 1.13, Optimizer.load_state_dict a third.
OF_AN_OPTIMIZER: Final = (
    r"torch[/\\]optim[/\\]optimizer\.py load_state_dict\b|(?i:optim)\w{0,20}\.load_state_dict\("
    r"|_?load_optimizer\w{0,20}\b"
)
_SAVING_LINE: Final = late(
    r"(?i)saving (?:model |training |optimizer )?(?:checkpoint|state)|save_checkpoint|local_global_step_folder"
    r"|\[_save_checkpoint|global_step_\d+|_zero3_consolidated|saving model"
)
# The title of a worker at it: "ray::WorkerDict.actor_save_checkpoint"
_IN_A_CHECKPOINT: Final = late(r"\bray::\S{0,80}(?:save|load|write|restore)\w{0,20}_?(?:checkpoint|ckpt|state|model)")
_GATHERING: Final = (
    r"_zero3_consolidated|save_16bit|full_state_dict|FullStateDict|full_optim_state_dict|_gather_state_dict"
    r"|_full_post_state_dict_hook|get_fsdp_full_state_dict|\b_?(?:all_)?gather\w{0,40}|summon_full_params"
)
# Before a state of FSDP 1 is made, full or sharded, each unit's parameters are put together: torch/distributed/fsdp/
# _state_dict_utils.py, of which `_sharded_pre_state_dict_hook` calls the same as `_full_pre_state_dict_hook` (the first
# of these names since 2.1, the other in 1.13 and 2.0)
_UNSHARDS_A_UNIT: Final = r"\b_common_(?:unshard|summon)_pre_state_dict_hook\b"
_NAMES_SAVING: Final = late(r"(?i)\bsav(?:e|ing)|checkpoint|ckpt|state|shard|gather")
# "saving step_200 asynchronously", "Async checkpoint save of step 200 started"; "checkpoint step_200 written in 41 s"
_OF_A_STATE: Final = r"checkpoint|ckpt|snapshot|(?:model|optimizer|training) state|step[_ -]?\d"
_SAVES_BEHIND: Final = late(
    rf"(?i)^(?=.{{0,200}}(?:{_OF_A_STATE}))(?=.{{0,200}}\bsav(?:e|es|ing)\b)"
    r"(?=.{0,200}\b(?:in (?:the |a )?background|async\w*)\b)"
    r"(?!.{0,200}\b(?:disabled|enabled?|will|if|finished|complete\w*|done|saved|took|success\w*|written|waiting)\b)"
)
_END_OF_A_SAVE: Final = late(
    rf"(?i)^(?=.{{0,200}}(?:{_OF_A_STATE}|\bsave\b))"
    r".{0,200}\b(?:written|finished|completed?|done|committed|uploaded|saved|took|success\w*)\b"
)
_CHARACTERS: Final = 300  # of a line
SEVERAL: Final = 2
MOST: Final = 0.75
NO_MEMORY: Final = "none"  # a pool
_STATE_DICT_ENTRY: Final = r"Failed to clone\(\) tensor with name .{0,200}state_dict"


@sign
def a_copy_of_a_state_was_refused(crash: Crash) -> Seen | None:
    """FSDP could not clone a tensor of the full state that it gathered to save it."""
    if crash.mentions(_STATE_DICT_ENTRY) is None:
        return None
    words = say(
        "FSDP gathered the full state on one device to save it and could not clone one of its tensors{asked}.",
        asked=asked_for(crash),
    )
    broken = say("A checkpoint written after this may be broken: do not rely on it, save it again.")
    evidence = (crash.root,)
    return Seen(words=joined((words, broken)), evidence=evidence, shows_memory=True, stage="checkpoint_save")


@sign
def in_code_that_saves_a_state(crash: Crash) -> Seen | None:
    """A stack frame saves a state or gathers it for saving (not an engine that takes over weights)."""
    frame = crash.in_trace(SAVING)
    if frame is None or crash.stage == "weight_sync":
        return None
    words = say(
        "Memory ran out while the job saved its state ({function}){asked}.",
        function=frame.function,
        asked=asked_for(crash),
    )
    words = joined((words, _gathers(crash)))
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, stage="checkpoint_save")


@sign
def a_unit_was_put_together_for_a_state(crash: Crash) -> Seen | None:
    """FSDP 1 was refused the memory for a whole unit, which it needs for a full and for a sharded state."""
    return Seen(words="") if crash.in_trace(_UNSHARDS_A_UNIT) is not None else None


@sign
def no_memory_is_named(crash: Crash) -> Seen | None:
    """The log ends before it says which memory ran out, if one did."""
    return Seen(words="") if crash.pool == NO_MEMORY else None


@sign
def in_code_that_loads_an_optimizers_state(crash: Crash) -> Seen | None:
    """A stack frame gives an optimizer its saved state: the weights were there before."""
    frame = crash.in_trace(OF_AN_OPTIMIZER)
    if frame is None or crash.stage != "checkpoint_load":
        return None
    words = say(
        "Memory ran out while the job loaded its optimizer's saved state ({function}){asked}. Until it has taken over, "
        "the loaded copy and the state from before both hold memory.",
        function=frame.function,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), shows_memory=True)


@sign
def in_code_that_loads_a_state(crash: Crash) -> Seen | None:
    """A stack frame loads a saved state."""
    frame = crash.in_trace(RESUMING)
    if frame is None:
        return None
    words = say(
        "Memory ran out while the job loaded its state ({function}){asked}.",
        function=frame.function,
        asked=asked_for(crash),
    )
    words = joined((words, _gathers(crash)))
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, stage="checkpoint_load")


def _gathers(crash: Crash) -> str:
    """Of a state that the ranks share out: a frame that puts it together on one of them."""
    if crash.in_trace(_GATHERING) is None:
        return ""
    return say(
        "Gathering a full state needs a second copy of the weights; with optimizer states several times as much."
    )


@sign
def who_held_most_was_saving(crash: Crash) -> Seen | None:
    """Ray's table: two workers or more were saving or loading a checkpoint, and hold most of what the table lists."""
    table = crash.first(NodeOutOfMemory)
    if table is None or crash.stage not in ("checkpoint_save", "checkpoint_load"):
        return None
    saving = [row.bytes or 0 for row in table.rows if _IN_A_CHECKPOINT.search(row.command)]
    listed = sum(row.bytes or 0 for row in table.rows)
    if len(saving) < SEVERAL or sum(saving) < MOST * listed:
        return None
    words = say(
        "{count} workers were at their checkpoint and held {held} of the {listed} in Ray's table.",
        count=len(saving),
        held=show(sum(saving)),
        listed=show(listed),
    )
    return Seen(words=joined((words, rows_left_out(table, saving))), evidence=(table,))


@sign
def while_a_checkpoint_was_written_or_read(crash: Crash) -> Seen | None:
    """The job was saving or loading a checkpoint; no stack frame says where."""
    if crash.stage not in ("checkpoint_load", "checkpoint_save"):
        return None
    unseen = isinstance(crash.root, WorkerDeath)  # which Ray reports of a crash as well as of a kill
    return Seen(words=_at_a_checkpoint(crash), evidence=(crash.root,), shows_memory=crash.proven or not unseen)


def _at_a_checkpoint(crash: Crash) -> str:
    """Of a death without a reason only its moment speaks."""
    loads, asked = crash.stage == "checkpoint_load", asked_for(crash)
    if not crash.proven and loads:
        return say("The process died while the job loaded a checkpoint, when it needs the most memory.")
    if not crash.proven and _is_only_due(crash):
        return say("The process died at a step at which a checkpoint is due; saving one needs the most memory.")
    if not crash.proven:
        return say("The process died while the job saved a checkpoint, when it needs the most memory.")
    if loads:
        return say("Memory ran out while the job loaded a checkpoint{asked}.", asked=asked)
    return say("Memory ran out while the job saved a checkpoint{asked}.", asked=asked)


def _is_only_due(crash: Crash) -> bool:
    """The step alone says so: what tells the stage is a bar that names nothing of saving."""
    told = crash.doing.because
    named = not isinstance(told, str) or _NAMES_SAVING.search(told) is not None
    return not named and killed_at_a_step_that_saves(crash) is not None


@sign
def saves_wait_in_the_background(crash: Crash) -> Seen | None:
    """The job saves in the background, and its last lines begin two saves more than they end: each keeps a copy of what
    it writes."""
    begun, ended = _saves_behind(crash)
    if not ended or begun < ended + SEVERAL:
        return None  # who prints no end tells nothing
    words = say(
        "Of {begun} saves in the background {ended} had ended. Each that waits keeps a copy of the state in host "
        "memory.",
        begun=begun,
        ended=ended,
    )
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, stage="checkpoint_save")


@sign
def saves_run_in_the_background(crash: Crash) -> Seen | None:
    """The job saves in the background, and more than once."""
    begun, _ = _saves_behind(crash)
    return Seen(words="") if begun >= SEVERAL else None


def _saves_behind(crash: Crash) -> tuple[int, int]:
    """How many saves in the background the lines before begin, and how many of any kind they end."""
    if crash.pool not in RAM:
        return 0, 0
    lines = [line[:_CHARACTERS] for line in crash.root.around.before]
    begun = sum(_SAVES_BEHIND.search(line) is not None for line in lines)
    return begun, sum(_END_OF_A_SAVE.search(line) is not None for line in lines)


@sign
def killed_at_a_step_that_saves(crash: Crash) -> Seen | None:
    """A process was killed, and the last step in the log is one at which save_steps saves a checkpoint."""
    every, done = crash.setting("save_steps", "save_interval", "save_freq"), crash.context.progress.get("done")
    if not isinstance(crash.root, Kill) or crash.root.pool not in RAM or every is None or not done:
        return None
    if (every.whole or 0) < 2 or done % (every.whole or 1):
        return None
    words = say(
        "The last step before the kill was {done}, and {name}={value} saves the state at this step.",
        done=done,
        name=every.name,
        value=every.value,
    )
    unseen = say("the log has no line about saving")
    return Seen(words=words, evidence=(crash.root,), against=(unseen,), shows_memory=True, stage="checkpoint_save")


def _ends_at_a_checkpoint(crash: Crash) -> bool:
    """Whether nothing shows that training went on behind the last line that mentions one."""
    root = crash.root
    if any(_SAVING_LINE.search(line) for line in root.around.after):
        return True
    return is_told_last((root.at.text, *reversed(root.around.before)), _SAVING_LINE, (PROGRESS,))


@sign
def a_line_on_a_checkpoint(crash: Crash) -> Seen | None:
    """A line near a failure that memory would explain mentions a checkpoint."""
    if crash.root.strength < 1 or not _ends_at_a_checkpoint(crash):
        return None
    words = say("The last lines before the failure mention a checkpoint.")
    unseen = say("no stack frame shows that the job was saving or loading when memory ran out")
    return Seen(words=words, evidence=(crash.root,), against=(unseen,))
