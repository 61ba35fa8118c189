"""What an option is said to do: what it does, not what others of its knob do."""

from __future__ import annotations

import pytest
from remedy_logs import advise

from oomdoctor.remedies.captions import caption, table
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.settings import Spelling, rows
from oomdoctor.spellings import frameworks

ROWS = [row for name in frameworks() for row in rows(name)]
# Knobs whose own words name some of their options and not others
OF_ANYTHING = ("raise-allocator-cap", "smaller-buffers")
# What the remedy's own arithmetic says better than any caption
COMPUTED = {
    ("transformers", "--eval_accumulation_steps"), ("transformers", "--prediction_loss_only"),
    ("trl", "--eval_accumulation_steps"), ("trl", "--prediction_loss_only"),
    ("llamafactory", "eval_accumulation_steps"), ("duckdb", "preserve_insertion_order"),
    ("easyr1", "data.mini_rollout_batch_size"), ("slime", "--over-sampling-batch-size"),
    ("opennmt-py", "-bucket_size"), ("openvino", "GPU_ENABLE_LARGE_ALLOCATIONS"),
}  # fmt: skip


@pytest.mark.parametrize("key", table(), ids="/".join)
def test_a_caption_is_of_an_option_that_there_is(key: tuple[str, str]) -> None:
    assert key in {(row.framework, row.setting) for row in ROWS}
    said = table()[key]
    assert said.action
    assert said.action[0].isupper()
    assert said.action not in {knob.action for knob in KNOBS.values()}


def _is_told(row: Spelling) -> bool:
    return bool(caption(row).action) or row.type in ("line", "command") or (row.framework, row.setting) in COMPUTED


def test_knobs_of_many_kinds_of_options_say_what_each_does() -> None:
    untold = [(row.framework, row.setting) for row in ROWS if row.knob in OF_ANYTHING and not _is_told(row)]
    assert not untold


@pytest.mark.parametrize(
    ("write", "setting"),
    [
        ("sudo sysctl vm.max_map_count={}   # and in /etc/sysctl.d/, to keep it", "vm.max_map_count"),
        ("redis-cli CONFIG SET maxmemory {}", "maxmemory"),
        ("ALTER SYSTEM SET max_locks_per_transaction = {};", "max_locks_per_transaction"),
        ("spark-submit --driver-memory={}", "--driver-memory"),
        ("SETTINGS={}", "SETTINGS"),
    ],
)
def test_a_command_sets_what_is_named_behind_it(write: str, setting: str) -> None:
    spelled = Spelling("raise-map-count", "linux", write, "int", "", (), ROWS[0].versions, (), (), None)
    assert spelled.setting == setting


NODE = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"
MAPS = "java.lang.OutOfMemoryError: Map failed\n"


@pytest.mark.parametrize(
    ("text", "knob", "word", "never"),
    [
        (NODE, "raise-allocator-cap", "Node.js", "watermark"),
        (MAPS, "raise-map-count", "memory maps", "watermark"),
    ],
)
def test_the_caption_is_the_action(text: str, knob: str, word: str, never: str) -> None:
    remedy = advise(text, knob)[0][knob]
    assert word in remedy.action
    assert never not in remedy.action


def test_unified_memory_needs_a_larger_fraction_beside_it() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/fold/alphafold/model/model.py", line 9, in predict\n'
        "    result = self.apply(self.params, key, feat)\n"
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9031036208 "
        "bytes.\n"
    )
    remedy = advise(text, "offload-parameters", cause="activations")[0]["offload-parameters"]
    assert remedy.snippet == "export TF_FORCE_UNIFIED_MEMORY=1 XLA_PYTHON_CLIENT_MEM_FRACTION=4.0"
    assert "parameter" not in remedy.action + remedy.cost
    assert "start value" not in (remedy.derivation or "")


def test_a_merge_of_unsloth_keeps_less_on_the_card_and_gathers_no_ranks() -> None:
    log = (
        "Unsloth: Saving model... This might take 5 minutes ...\n"
        'Traceback (most recent call last):\n  File "/env/site-packages/unsloth/save.py", line 171, in {}\n'
        "    peak = weight.max()\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 14.57 "
        "GiB of which 40.00 MiB is free.\n"
    )
    for function, merged in (("_merge_lora", True), ("save_to_gguf", False)):
        chosen, _ = advise(log.format(function), "sharded-checkpoint", cause="checkpoint-spike")
        one = chosen.get("sharded-checkpoint")
        assert (one is not None and one.snippet == "maximum_memory_usage=0.5") == merged
