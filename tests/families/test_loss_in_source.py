"""A loss that is printed shows that training goes on; one in a source line does not."""

from __future__ import annotations

import pytest

from oomdoctor.families.lines import PROGRESS


@pytest.mark.parametrize(
    ("text", "is_progress"),
    [
        ("epoch done, loss 2.31", True),
        ("loss: 0.52 acc: 0.91", True),
        ("avg loss = 0.4", True),
        ("loss = nan", True),
        ("{'loss': 0.61, 'lr': 1e-05}", True),
        ("loss=tensor(0.3)", True),
        ("    loss.backward()", False),
        ("    loss = criterion(out, y)", False),
        ("    return loss, out", False),
        ("    scaler.scale(loss).backward()", False),
    ],
)
def test_which_loss_is_progress(text: str, is_progress: bool) -> None:
    assert (PROGRESS.search(text) is not None) is is_progress
