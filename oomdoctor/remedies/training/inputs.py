"""Half of what is counted: inputs, tiles, environments and the buffers of simulations; data that stay on the host."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.inputs import SIZE, computes_anything, may_be_anything, of_sound
from oomdoctor.remedies.own_line import of_a_library
from oomdoctor.remedies.own_options import own_option
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip
from oomdoctor.remedies.settings import comes_later
from oomdoctor.remedies.training.batches import halved
from oomdoctor.signs.host_data import data_goes_to_the_card_in_one_piece, kept_in_memory
from oomdoctor.signs.passes import of_a_recording
from oomdoctor.signs.pieces import work_of
from oomdoctor.spellings import title
from oomdoctor.units import show

# keras/engine/data_adapter.py (TensorFlow 2.x): a dataset has its batches, and fit() takes no batch_size beside it
_ON_THE_HOST: Final = "\n".join(
    (
        'with tf.device("CPU:0"):',
        "    data = tf.data.Dataset.from_tensor_slices(({x}, {y})).batch({size})",
        "{model}.fit(data{rest})",
    )
)
_NAME: Final = r"[A-Za-z_]\w{0,40}"
# "model.fit(x, y, batch_size=32, epochs=10)", with names and numbers alone
_FIT: Final = late(
    rf"\b(?P<model>{_NAME}(?:\.{_NAME}){{0,2}})\.fit\((?P<x>{_NAME}), ?(?P<y>{_NAME})"
    rf"(?P<rest>(?:, ?{_NAME} ?= ?(?:\d{{1,9}}|True|False)){{0,8}})\)"
)
_SIZE_OF_BATCHES: Final = late(r", ?batch_size ?= ?(\d{1,6})")
_WORLDS: Final = "fewer-environments"
_CACHE: Final = "--cache"
_OF_AN_ASSIGNER: Final = "gpu_assign_thr"
# open-mmlab/mmdetection#1575 was merged; who trained before that has no such option
_ASSIGNS_SINCE: Final = "2019-12-13"
_IN_PIECES: Final = "for piece in audio.split(30 * sample_rate, dim=-1):"  # torch/_tensor.py


def stream_data(case: Case) -> Answer:
    """tensorflow/python/data/ops/from_tensor_slices_op.py: slices of tensors stay where these are."""
    if case.row is not None and case.row.setting == _CACHE:
        return _no_cache(case)
    if kept_in_memory(case.crash) is not None and (case.row is None or own_option(case.knob, case.crash) is not None):
        return Proposal(action=say("Cache the data on disk, or not at all, instead of in memory"))
    if (work := work_of(case.crash)) is not None:
        return Proposal(
            action=say("Write out or drop what is made of the {what} before the next ones are taken", what=work.what),
            setting="",
            cost=say("results are put together at the end"),
        )
    if data_goes_to_the_card_in_one_piece(case.crash) is None:
        return None
    return Proposal(
        action=say("Keep the arrays in host RAM, and give fit() a dataset that copies one batch at a time"),
        snippet=_on_the_host(case.crash),
        setting="",
        cost=say("each batch is copied to the GPU when it is needed"),
    )


def _on_the_host(crash: Crash) -> str:
    """With the names and numbers of the call, where the log shows it."""
    line = crash.mentions(_FIT.pattern)
    call = _FIT.search(line) if line is not None else None
    if call is None:
        return _ON_THE_HOST.format(x="x", y="y", size="BATCH_SIZE", model="model", rest="")
    size, rest = _SIZE_OF_BATCHES.search(call["rest"]), _SIZE_OF_BATCHES.sub("", call["rest"])
    # 32 is the default of fit()
    return _ON_THE_HOST.format(x=call["x"], y=call["y"], size=size[1] if size else 32, model=call["model"], rest=rest)


def _no_cache(case: Case) -> Proposal:
    """YOLOv5's utils/dataloaders.py, `cache_images_to_disk`: each picture as it was read, uncompressed, in a .npy."""
    root = case.crash.root
    one = root.tried_bytes if isinstance(root, HostAllocation) else None
    cost = say("slower epochs; on disk each picture lies uncompressed")
    if one:
        cost = say(
            "slower epochs; on disk each picture lies uncompressed ({size} for the one that failed)", size=show(one)
        )
    return Proposal(
        action=say("Leave out {option}, or cache on disk where there is room", option=_CACHE),
        snippet=f"{_CACHE} disk",
        suggested="disk",
        cost=cost,
    )


def fewer(case: Case) -> Answer:
    """Half of what is counted; of a factor or a threshold a half is not less memory."""
    row = case.row
    if case.knob == _WORLDS and row is None and case.now is None:
        return Proposal(
            action=say("Simulate half as many environments at once"), derivation=say("current value not in the log")
        )
    if case.knob == SIZE and case.crash.job.task == "simulation" and case.number() is None:
        return Proposal(
            action=say("Compute a smaller system: a coarser grid or mesh, or fewer particles"),
            cost=say("lower resolution"),
        )
    if case.knob == SIZE and case.now is None and _of_no_program(case) and of_a_recording(case.crash) is not None:
        action = say("Hand on the recording in shorter pieces, and join the results")
        return Proposal(
            action=action,
            setting="",
            snippet=_IN_PIECES if case.crash.job.world == "torch" else None,
            cost=say("the ends of the pieces are computed less well"),
        )
    if case.knob == SIZE and case.now is None and _of_no_program(case) and may_be_anything(case.crash):
        return _smaller_by_its_kind(case)
    if case.knob == SIZE and row is None and case.now is not None and case.now.whole is not None:
        return Proposal(
            action=say("Make each input smaller: {name} is {now} now", name=case.now.name, now=case.now.value),
            current=case.now.value,
        )
    if row is None or row.type not in ("int", "size"):
        return None
    if row.value == 0:
        return _nothing_in_advance(row.framework)
    usual, default = row.value, row.smallest_default(None)
    if case.knob == _WORLDS and case.number() is None and default is None:
        return Proposal(action=say("Halve {name} (value not in the log)", name=row.setting))
    counts = not isinstance(usual, int) or default is None or default > usual
    return halved(case) if counts and (usual is None or case.number() is not None) else None


def _smaller_by_its_kind(case: Case) -> Proposal:
    """In words: each kind of input has a line of its own."""
    if of_sound(case.crash):
        return Proposal(action=say("Compute shorter pieces of audio at once"), setting="", cost=say("more steps"))
    if computes_anything(case):
        action = say("Compute a smaller problem, or a part of it at a time (a coarser grid, a smaller volume)")
        return Proposal(action=action, setting="")
    action = say("Make each input smaller (its length, its resolution or its number of elements)")
    return Proposal(action=action, setting="")


def _of_no_program(case: Case) -> bool:
    return case.row is None or of_a_library(case.row)


def _nothing_in_advance(framework: str) -> Proposal:
    """A pool that grows anyway: AMReX's arena, Src/Base/AMReX_Arena.cpp."""
    return Proposal(
        action=say("Let {framework} allocate GPU memory when it needs it, not in advance", framework=title(framework)),
        suggested=0,
        cost=say("slower allocations at first"),
    )


def assign_on_the_host(case: Case) -> Answer:
    """mmdet/models/task_modules/assigners/max_iou_assigner.py: on the CPU for images with more objects than that."""
    if case.row is None and comes_later(case.knob, "torch", case.crash.context):
        return Skip()
    if case.row is None or not case.row.key.endswith(_OF_AN_ASSIGNER):
        return None
    if "" < case.crash.context.day < _ASSIGNS_SINCE:
        return Skip()
    return Proposal(
        action=say("Match boxes on the CPU for images with more than {count} objects", count=case.row.value),
        suggested=case.row.value,
        derivation=say("{value} is a usual start value", value=case.row.value),
        cost=say("slower for these images"),
        assumes=(say("MMDetection >= 1.0 (not printed)"),),
    )


def smaller_tiles(case: Case) -> Answer:
    """Half of them; a tile of no size is the whole picture, as where none is stated."""
    return None if case.number() == 0 else fewer(case)
