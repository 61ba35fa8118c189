"""Ray's one warning of a nearly full disk: what failed below may be what Ray makes there, or anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

FULL = (
    "(raylet) [2031-01-02 03:04:05,678 E 70 81] (raylet) file_system_monitor.cc:116: /scratch/ray/session_7 is over "
    "95% full, available space: 2.41 GB; capacity: 61.2 GB. Object creation will fail if spilling is required."
)
FAILED = "RuntimeEnvSetupError: Failed to set up runtime environment.\nTraceback (most recent call last):"
MAKES = (
    '  File "/opt/venv/lib/python3.12/site-packages/ray/_private/runtime_env/plugin.py", line 250, in '
    "create_for_plugin_if_needed\n    size_bytes = await plugin.create(uri, runtime_env, context, logger=logger)"
)
READS = (
    '  File "/opt/venv/lib/python3.12/site-packages/ray/_private/runtime_env/plugin.py", line 90, in validate\n'
    "    plugin.validate(runtime_env)"
)
STEPS = "\n".join(f"step {n}: loss 0.{n}" for n in range(1, 9))


@pytest.mark.parametrize(
    "text",
    [
        f"{FULL}\n{FAILED}\n{MAKES}",
        f"{FULL}\nINFO start\n(raylet) Failed to create runtime env for the job\nTraceback:\n{MAKES}\n",
    ],
)
def test_the_environment_was_not_made_on_the_full_disk(text: str, tmp_path: Path) -> None:
    told = body(tmp_path, text)
    assert told["verdict"] == "oom"
    assert told["diagnoses"][0]["cause"] == "spill-disk-full"


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        f"{FULL}\n{STEPS}",
        # nothing is made, there was another reason, the disk had room then
        f"{FULL}\n{FAILED}\n{READS}",
        f"{FULL}\n{FAILED}\n{MAKES}\nRuntimeError: No matching distribution found for veda==9",
        f"{FAILED}\n{MAKES}\nINFO start again\n{FULL}\n{STEPS}",
        f"{FULL}\n" + "INFO served\n" * 300 + f"{FAILED}\n{MAKES}",
        f"{FULL.replace('over 95%', 'over 80%').replace('% full', '% in use')}\n{FAILED}\n{MAKES}",
    ],
)
def test_the_disk_is_only_warned_of(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] != "oom"


IN_MEMORY = (
    "(raylet) file_system_monitor.cc:105: /dev/shm/objects is over 95% full, available space: {}; capacity: "
    "68719476736. Object creation will fail if spilling is required."
)


def test_a_folder_in_memory_that_is_full(tmp_path: Path) -> None:
    """With nothing left it stays so; a warning alone is none, and no shortage in words that nobody knows."""
    told = body(tmp_path, IN_MEMORY.format("0"))
    assert told["diagnoses"][0]["cause"] == "spill-disk-full"
    assert "0 bytes free" in told["diagnoses"][0]["headline"]
    assert "spill to a disk" in told["diagnoses"][0]["remedies"][0]["action"]
    assert body(tmp_path, IN_MEMORY.format("1717986918"))["verdict"] == "no-oom"
    on_a_disk = body(tmp_path, IN_MEMORY.format("0").replace("/dev/shm/objects", "/mnt/objects"))
    assert "Free the disk" in on_a_disk["diagnoses"][0]["remedies"][0]["action"]
