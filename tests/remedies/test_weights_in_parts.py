"""How weights are sent or gathered in parts: by the option of who gathers them, or in the program's own loop."""

from __future__ import annotations

import pytest
from remedy_logs import advise, cuda

SHARDS = "/opt/env/lib/python3.11/site-packages/deepspeed/runtime/zero/partition_parameters.py"
ENTERS = f'  File "{SHARDS}", line 2317, in __enter__\n    self.params[0].all_gather(param_list=self.params)\n'
SEVERAL = f'  File "{SHARDS}", line 1811, in _allgather_params_coalesced\n    flat_tensor = torch.empty(tensor_size,\n'
OWN = '  File "/w/loop.py", line 9, in share\n    with deepspeed.zero.GatheredParameters({}):\n'
TRL = (
    '  File "/opt/env/lib/python3.11/site-packages/trl/models/utils.py", line 201, in unwrap_model_for_generation\n'
    "    with deepspeed.zero.GatheredParameters(model.parameters()):\n"
)
COPIED = (
    '  File "/w/utils.py", line 201, in unwrap_model_for_generation\n'
    "    with deepspeed.zero.GatheredParameters(model.parameters()):\n"
)
OPEN_INSTRUCT = (
    '  File "/w/open_instruct/grpo_fast.py", line 700, in broadcast_to_vllm\n'
    "    with deepspeed.zero.GatheredParameters(model.parameters(), enabled=True):\n"
)


@pytest.mark.parametrize(
    ("frames", "snippet"),
    [
        (SEVERAL, "deepspeed.zero.GatheredParameters([param])"),
        (OWN.format("model.parameters()") + ENTERS + SEVERAL, "deepspeed.zero.GatheredParameters([param])"),
        (OWN.format("[weight]") + ENTERS, None),
        (TRL + ENTERS + SEVERAL, "--ds3_gather_for_generation False"),
        (COPIED + ENTERS + SEVERAL, None),
        (OPEN_INSTRUCT + ENTERS + SEVERAL, "--gather_whole_model False"),
    ],
)
def test_who_gathers_is_told_to_gather_less(frames: str, snippet: str | None) -> None:
    log = f"Traceback (most recent call last):\n{frames}{cuda(tried='448.00 MiB')}"
    chosen = advise(log, "sync-in-parts", cause="weight-sync-spike")[0]
    written = chosen["sync-in-parts"].snippet or ""
    assert written.startswith(snippet) if snippet is not None else not written
