"""Stages that a server's own words, a data set's transforms and a loader's worker tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.98 GiB. GPU 0 has a total capacity of 22.07 GiB"
TRACE = 'Traceback (most recent call last):\n  File "/srv/{}", line 7, in {}\n    out = work(x)\n' + OOM
NUMPY = (
    'Traceback (most recent call last):\n  File "/opt/monai/{}", line 99, in __call__\n    y = np.zeros(shape)\n'
    "numpy.core._exceptions.MemoryError: Unable to allocate 502. MiB for an array with shape (512, 512, 251)"
)

STAGES = (
    (f"xinference.core.model 21 ERROR    Model actor is out of memory, model id: rr-0, error: {OOM}", "serving"),
    (TRACE.format("rank.py", "rerank"), "serving"),
    (TRACE.format("tts.py", "inference_speech_batch"), "serving"),
    (TRACE.format("rank.py", "rank_all"), "unknown"),
    (TRACE.format("tts.py", "inference_config"), "unknown"),
    (NUMPY.format("apps/transforms.py"), "data_load"),
    (NUMPY.format("transforms/spatial.py"), "data_load"),
    (NUMPY.format("apps/grids.py"), "unknown"),
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "data_load",
    ),
    (
        'level=ERROR msg="error loading llama server" error="llama runner process has terminated: signal: killed"',
        "model_load",
    ),
    (
        'level=ERROR msg="error stopping llama server" error="llama runner process has terminated: signal: killed"',
        "unknown",
    ),
)


@pytest.mark.parametrize(("text", "stage"), STAGES)
def test_stage(text: str, stage: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["stage"] == stage
