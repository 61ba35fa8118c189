"""Parameters that the program itself has DeepSpeed put together, beside those that a pass, a load or a save gathers."""

from __future__ import annotations

import pytest
from gpu_logs import BACKWARD, crash, ranking, refused, trace

from oomdoctor.incident.model import Crash
from oomdoctor.signs.gathering import parameters_gathered_by_hand
from oomdoctor.signs.passes import while_parameters_are_gathered

SHARDS = "deepspeed/runtime/zero/partition_parameters.py"
SEVERAL = (SHARDS, "_allgather_params_coalesced", "flat_tensor = torch.empty(tensor_size, dtype=dtype,")
ALL = (SHARDS, "_all_gather", "self._allgather_params_coalesced(plain, hierarchy, quantize=False)")
ALONE = (SHARDS, "_all_gather", "ret_value = self._allgather_params(all_gather_list, hierarchy=hierarchy)")
ONE = (SHARDS, "_allgather_params", "flat_tensor = torch.empty(tensor_size, dtype=param_list[0].dtype,")
ENTERS = (SHARDS, "__enter__", "self.params[0].all_gather(param_list=self.params)")
WHOLE = ("job/loop.py", "shared_out", "with deepspeed.zero.GatheredParameters(policy.module.parameters()):")
PART = ("job/loop.py", "shared_out", "with deepspeed.zero.GatheredParameters([weight], enabled=True):")
OF_A_PASS = (SHARDS, "all_gather_coalesced", "param_buffer = torch.empty(")
FETCHES = ("deepspeed/runtime/zero/partitioned_param_coordinator.py", "fetch_sub_module", "self.__all_gather_params(")
OUTSIDE = ("deepspeed/runtime/zero/parameter_offload.py", "__getitem__", "param.all_gather()")
AFTER = ("deepspeed/runtime/zero/stage3.py", "_post_step", "self.persistent_parameters[0].all_gather(group)")
SAVES = ("deepspeed/runtime/engine.py", "_zero3_consolidated_16bit_state_dict", "with GatheredParameters(params):")
RESIZES = ("transformers/modeling_utils.py", "_get_resized_embeddings", "with deepspeed.zero.GatheredParameters(old):")
LOADS = ("job/weights.py", "_load_pretrained", "with deepspeed.zero.GatheredParameters(params, modifier_rank=0):")


def failed(*frames: tuple[str, str, str], tried: str = "448.00 MiB") -> Crash:
    return crash(*trace(*frames), refused(tried=tried))


@pytest.mark.parametrize(
    "frames",
    [(ALL, SEVERAL), (SEVERAL,), (ENTERS, ALL, SEVERAL), (WHOLE, ENTERS, ALL, SEVERAL), (PART, ENTERS, ALONE, ONE)],
)
def test_by_hand(frames: tuple[tuple[str, str, str], ...]) -> None:
    assert parameters_gathered_by_hand(failed(*frames)) is not None
    assert while_parameters_are_gathered(failed(*frames)) is None


@pytest.mark.parametrize(
    "frames",
    [
        (ONE,),  # perhaps a parameter of another module, in a pass
        (ALONE, ONE),
        (OF_A_PASS,),
        (FETCHES, OF_A_PASS),
        (OUTSIDE, ALL, SEVERAL),
        (AFTER, ALL, SEVERAL),
        (SAVES, ENTERS, ALL, SEVERAL),
        (RESIZES, ENTERS, ALL, SEVERAL),
        (LOADS, ENTERS, ALL, SEVERAL),
        (BACKWARD, FETCHES, OF_A_PASS),
    ],
)
def test_for_another_reason(frames: tuple[tuple[str, str, str], ...]) -> None:
    assert parameters_gathered_by_hand(failed(*frames)) is None


@pytest.mark.parametrize(("tried", "is_seen"), [("2.00 MiB", False), ("20.00 MiB", False), ("24.00 MiB", True)])
def test_small_ones_are_gathered_behind_each_step(tried: str, is_seen: bool) -> None:
    assert (parameters_gathered_by_hand(failed(ALL, SEVERAL, tried=tried)) is not None) is is_seen


@pytest.mark.parametrize(("frame", "told"), [(WHOLE, True), (PART, False)])
def test_the_full_model_is_told_of_where_the_line_names_it(frame: tuple[str, str, str], told: bool) -> None:
    seen = parameters_gathered_by_hand(failed(frame, ENTERS, ALL, SEVERAL))
    assert seen is not None
    assert ("every GPU has to hold the full model" in seen.words) is told


def test_the_batch_is_not_the_remedy() -> None:
    lines = (*trace(ALL, SEVERAL), refused(tried="448.00 MiB"))
    assert ranking(*lines)[0] == "weight-sync-spike"
    assert ranking(*trace(FETCHES, OF_A_PASS), refused(tried="448.00 MiB"))[0] != "weight-sync-spike"
