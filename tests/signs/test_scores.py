"""The kernel's score of who it killed says which part of the memory he held, where no line prints how much there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

KILL = (
    "[1.0] Out of memory: Kill process 71 (java) score {score} or sacrifice child\n"
    "[1.0] Killed process 71 (java) total-vm:9000000kB, anon-rss:6291456kB, file-rss:0kB{adjusted}\n"
)


@pytest.mark.parametrize(
    ("score", "adjusted", "cause", "words"),
    [
        (750, "", "process-ram-hog", "6.00 GiB when the kernel killed it: 75% of about 8.00 GiB"),
        (174, "", "host-memory-exhausted", ""),
        (100, "", "too-many-workers", "10% of about 60.00 GiB"),  # and nobody held more
        (1000, "", "process-ram-hog", "does not print the machine's memory size"),  # something was added
        (0, "", "process-ram-hog", "does not print the machine's memory size"),
    ],
)
def test_a_share_from_a_score(tmp_path: Path, score: int, adjusted: str, cause: str, words: str) -> None:
    first = body(tmp_path, KILL.format(score=score, adjusted=adjusted))["diagnoses"][0]
    assert first["cause"] == cause
    assert words in " ".join(first["explanation"].split())
