"""joblib maps its workers' input into /dev/shm, unless it is told another folder; then a disk is full."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

TRACE = (
    "joblib.externals.loky.process_executor._RemoteTraceback:\nTraceback (most recent call last):\n"
    '  File "/v/site-packages/joblib/{file}", line 497, in __call__\n    for name in dump(a, filename):\n'
    '  File "/v/site-packages/joblib/numpy_pickle.py", line 156, in write_array\n    handle.write(chunk)\n'
)
FULL = "OSError: [Errno 28] No space left on device"
OURS = TRACE.format(file="_memmapping_reducer.py")


@pytest.mark.parametrize(
    ("text", "is_shm"),
    [
        (OURS + FULL, True),
        ("export JOBLIB_TEMP_FOLDER=/dev/shm\n" + OURS + FULL, True),
        ("export JOBLIB_TEMP_FOLDER=/scratch/maps\n" + OURS + FULL, False),
        ("os.environ['JOBLIB_TEMP_FOLDER'] = '/tmp'\n" + OURS + FULL, False),
        (OURS + FULL + ": '/scratch/joblib/a.pkl'", False),
        (TRACE.format(file="memory.py") + FULL, False),  # its cache of results, on disk
        (FULL, False),
    ],
)
def test_where_joblib_found_no_room(text: str, is_shm: bool, tmp_path: Path) -> None:
    causes = [one["cause"] for one in body(tmp_path, text)["diagnoses"]]
    assert (causes[:1] == ["shm-too-small"]) is is_shm


def test_its_maps_may_lie_on_disk(tmp_path: Path) -> None:
    first, second, *_ = body(tmp_path, OURS + FULL)["diagnoses"][0]["remedies"]
    assert first["snippet"].startswith("export JOBLIB_TEMP_FOLDER=")
    assert second["knob"] == "bigger-shm"
