"""vLLM's own sentences in the spacing in which they are quoted."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

SHORT = "Free memory on device{device} ({free}/23.64{gap}GiB) on startup is less than desired GPU memory utilization"


@pytest.mark.parametrize("device", ["", " cuda:0"])
@pytest.mark.parametrize("tail", [" (0.7, 16.55 GiB).", "(0.7,16.55GiB).", " (0.7,16.55 GiB)", "(0.7, 16.55GiB"])
def test_the_share_is_read_with_and_without_blanks(tail: str, device: str, tmp_path: Path) -> None:
    text = SHORT.format(device=device, free="1.32", gap=" " if " GiB" in tail else "") + tail
    (event,) = body(tmp_path, f"ValueError: {text}")["events"]
    assert event["kind"] == "not-enough-free"
    assert event["threshold"] == {"utilization": 0.7, "requested_bytes": round(16.55 * 1024**3)}
    assert event["usage"]["total_bytes"] == round(23.64 * 1024**3)


@pytest.mark.parametrize(
    "text",
    [
        "Free memory on device (21.32/23.64 GiB) on startup.",
        "Free memory on device(21.32/23.64GiB) on startup. Desired GPU memory utilization is (0.7, 16.55 GiB).",
        "the desired GPU memory utilization (0.7, 16.55 GiB) is met",
    ],
)
def test_what_is_only_stated_is_no_complaint(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, f"INFO worker.py:7 {text}")["verdict"] == "no-oom"
