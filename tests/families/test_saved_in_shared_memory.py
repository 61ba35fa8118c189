"""A file that torch.save could not write whole had no room: in /dev/shm that is memory, anywhere else it is a disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

TRACE = (
    'Traceback (most recent call last):\n  File "/x/fit.py", line 31, in <module>\n    torch.save(state, path)\n'
    '  File "/v/site-packages/torch/serialization.py", line 834, in __exit__\n    self.file_like.write_end_of_file()\n'
)
CUT = "RuntimeError: [enforce fail at inline_container.cc:593] . unexpected pos 50331712 vs 50331600"
STREAM = "RuntimeError: PytorchStreamWriter failed writing file data/17: file write failed"
SHM = "saving /dev/shm/runs/step-12.pt\n"


@pytest.mark.parametrize(
    ("text", "is_shm"),
    [
        (SHM + TRACE + CUT, True),
        (SHM + TRACE + STREAM, True),
        ("checkpoint: path=/dev/shm/a.pt\n" + TRACE + CUT, True),
        ("cache /dev/shm/vectors, 0 entries\nsqlite3.OperationalError: database or disk is full\n", True),
        ("cache /scratch/vectors, 0 entries\nsqlite3.OperationalError: database or disk is full\n", False),
        (TRACE + CUT, False),
        ("saving /scratch/runs/step-12.pt\n" + TRACE + CUT, False),
        ("saving /data/dev/shm/step-12.pt\n" + TRACE + CUT, False),
        (SHM + 40 * "epoch 2 goes on\n" + TRACE + CUT, False),
        (
            SHM + TRACE + "RuntimeError: [enforce fail at inline_container.cc:197] . file in archive is not in a sub",
            False,
        ),
        (SHM + TRACE + "ValueError: unexpected pos 3 in the pattern", False),
    ],
)
def test_where_torch_found_no_room_for_a_file(text: str, is_shm: bool, tmp_path: Path) -> None:
    causes = [one["cause"] for one in body(tmp_path, text)["diagnoses"]]
    assert (causes[:1] == ["shm-too-small"]) is is_shm


def test_a_file_is_written_to_a_disk(tmp_path: Path) -> None:
    first, *_ = body(tmp_path, SHM + TRACE + CUT)["diagnoses"][0]["remedies"]
    assert "torch.save(STATE" in first["snippet"]
