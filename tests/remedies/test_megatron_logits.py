"""Megatron's copy of the logits in float32: what its releases have against it, and what autocast does not undo."""

from __future__ import annotations

import pytest
from remedy_logs import advise, cuda

KNOBS = ("mixed-precision", "chunked-logits", "smaller-microbatch")
OLD = (
    '  File "/srv/megatron/model/bert_model.py", line 31, in post_process\n    args.fp16_lm_cross_entropy)\n'
    '  File "/srv/megatron/model/bert_model.py", line 52, in lm_loss\n    return entropy(logits.float(), labels)\n'
)
CORE = (
    '  File "/srv/megatron/core/models/gpt/gpt_model.py", line 8, in forward\n    loss = self.entropy(labels, logits)\n'
)
OWN = '  File "/srv/fit.py", line 12, in step\n    loss = entropy(out{}, labels)\n'


def snippets(trace: str) -> dict[str, str | None]:
    found = advise(f"{trace}torch.OutOfMemoryError: {cuda()}", *KNOBS, cause="logits-spike")[0]
    return {knob: one.snippet for knob, one in found.items()}


def test_before_the_core_it_keeps_them_in_16_bits() -> None:
    found = snippets(OLD)
    assert found["mixed-precision"] == "--fp16-lm-cross-entropy"
    assert found["chunked-logits"] is None
    assert "--micro-batch-size" in (found["smaller-microbatch"] or "")


def test_the_core_fuses_the_loss() -> None:
    found = snippets(CORE)
    assert found["chunked-logits"] == "--cross-entropy-loss-fusion"
    assert "fp16-lm" not in (found["mixed-precision"] or "")


@pytest.mark.parametrize(
    ("copy", "helps"),
    [
        (".float()", False),
        (".to(torch.float32)", False),
        (".to(dtype=torch.float32)", False),
        (".type(torch.float)", False),
        ("", True),
        (".to(torch.float16)", True),
        (".floats()", True),
        (".to(device)", True),
    ],
)
def test_autocast_undoes_no_copy_that_is_written_out(copy: str, *, helps: bool) -> None:
    assert ("mixed-precision" in snippets(OWN.format(copy))) is helps


def test_the_copy_of_an_outer_line_was_made_already() -> None:
    inner = '  File "/srv/net.py", line 40, in entropy\n    return (x.exp() / total).log()\n'
    assert "mixed-precision" in snippets(OWN.format(".float()") + inner)
