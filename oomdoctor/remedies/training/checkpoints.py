"""Checkpoints, loaded and saved in parts."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oomdoctor.families.event import SIDES
from oomdoctor.incident.model import Crash
from oomdoctor.job.verbs import words_of
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.own_options import own_option
from oomdoctor.remedies.parts import weights_are_little
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip
from oomdoctor.signs.checkpoints import saves_run_in_the_background

_PART_OF_A_CHECKPOINT: Final = late(r"\w{1,30}")
_OF_RANKS: Final = r"(?i)torch/distributed|\brank ?\d|LOCAL_RANK|torchrun|accelerate|deepspeed"
_SAVES_WEIGHTS: Final = r"\bsave\(\s?[\w.]{1,60}\.state_dict\(\)\s?,"
_TORCH: Final = "torch"
_OF_TORCH: Final = late(r"\w\.(?:pt|pth|ckpt|pth\.tar)(?![\w.])")
_OF_OTHERS: Final = r"\.safetensors\b|\w\.bin\b"
_MAPPED: Final = "mmap=True"
_MAPPED_LINE: Final = 'state = torch.load(path, map_location="cpu", mmap=True)'
_WAITS: Final = "save.result()  # the future of the last save, before the next one"
_LOADING: Final = ("checkpoint_load", "model_load")  # stages: nothing is saved
_FORMAT: Final = "format"  # a word of an option's name: a pickle is made in memory as a whole
_ON_RANK_0: Final = "rank0_only=True"  # torch/distributed/fsdp/api.py


def load_in_parts(case: Case) -> Answer:
    """A job of one process has no ranks, each with a copy; an engine maps the files that are made for it."""
    crash, row = case.crash, case.row
    if weights_are_little(crash):
        return Skip()
    if SIDES.get(crash.pool) == "device":
        return Skip() if crash.job.in_engine else _load_to_ram(case)
    if not crash.job.in_engine and _has_ranks(crash):
        return None
    if row is not None and row.is_call and _MAPPED in row.write and _reads_a_file_of_torch(crash):
        return Proposal(action=say("Map the checkpoint into memory, on the CPU, instead of reading a full copy of it"))
    if row is None and _reads_a_file_of_torch(crash):
        return _mapped_by_a_line()
    action = say(
        "Load the weights without a second full copy in RAM: memory-mapped (safetensors, not .bin) or shard by shard"
    )
    if row is None or not row.takes_value:
        return Proposal(action=action)
    return Proposal(action=action, suggested=row.value) if crash.job.in_engine else None


def _mapped_by_a_line() -> Proposal:
    """No line names the library, and the file's name does: torch/serialization.py takes mmap since 2.1."""
    return Proposal(
        action=say("Map the checkpoint into memory, on the CPU, instead of reading a full copy of it"),
        snippet=_MAPPED_LINE,
        setting="",
        assumes=(say("PyTorch reads the file, in a release from 2.1 on"),),
    )


def _reads_a_file_of_torch(crash: Crash) -> bool:
    """Whether a setting or a line near the failure names a file of torch.save's, and no other weights."""
    stated = any(_OF_TORCH.search(str(one.value)) for one in crash.context.settings.values())
    return (stated or crash.shows(_OF_TORCH.pattern)) and not crash.shows(_OF_OTHERS)


def _has_ranks(crash: Crash) -> bool:
    return crash.job.spread or crash.root.process.rank is not None or crash.shows(_OF_RANKS)


def _load_to_ram(case: Case) -> Answer:
    """torch.load restores each tensor to where it was saved from, whichever card the process has."""
    if case.row is None or not case.row.is_call:
        return None
    action = say(
        "Load checkpoints to the CPU first: without map_location, torch.load puts them on the GPU that saved them"
    )
    return Proposal(action=action)


def one_save_at_a_time(case: Case) -> Proposal | None:
    """Where saves run in the background, and no option says how many may: what async_save returns is waited for
    (torch/distributed/checkpoint/state_dict_saver.py)."""
    if case.cause != "checkpoint-spike" or case.row is not None or saves_run_in_the_background(case.crash) is None:
        return None
    return Proposal(
        action=say("Let each save end before the next begins, and its copy go: wait for what the save returned"),
        snippet=_WAITS,
        cost=say("a step waits where a save takes longer than the steps between two"),
    )


def shard_checkpoint(case: Case) -> Answer:
    """Options that list what is saved: whole weights come off the list; where the log does not show it, states do."""
    row = case.row
    if case.crash.stage in _LOADING:
        return Skip()
    if row is not None and _ON_RANK_0 in row.write:
        return Proposal(
            action=say("Gather the full state in host RAM, on rank 0 alone"),
            cost=say("rank 0 needs host RAM for the whole state"),
        )
    if (option := own_option(case.knob, case.crash)) is not None:
        if _FORMAT not in words_of(option.setting.name):
            return None
        return Proposal(action=say("Save in a format that is written array by array (.npz, safetensors)"))
    if not _has_ranks(case.crash) and (row is None or (row.is_call and row.framework == _TORCH)):
        return _fewer_states(case.crash)
    if row is None or not row.key.endswith("contents"):
        return None
    saved = _PART_OF_A_CHECKPOINT.findall(str(case.now.value)) if case.now is not None else []
    kept = [part for part in saved if part != "hf_model"]
    if kept and kept != saved:
        value = f"[{','.join(map(repr, kept))}]"
        return Proposal(
            action=say("Save the shards alone, without a copy of the whole weights (hf_model)"),
            suggested=value,
            snippet=row.write.replace("{}", f'"{value}"'),
        )
    return replace(_weights_alone(), suggested=row.value)


def _fewer_states(crash: Crash) -> Answer:
    """One process alone has nobody to share a checkpoint with."""
    if crash.shows(_SAVES_WEIGHTS) or crash.job.world != _TORCH:
        return Skip()
    return replace(_weights_alone(), snippet="torch.save(model.state_dict(), path)", setting="")


def _weights_alone() -> Proposal:
    return Proposal(
        action=say("Save the weights alone, without the optimizer states"),
        cost=say("the checkpoint has no optimizer states: no exact resume"),
    )
