"""A loss over two shapes that PyTorch spreads to a value for every pair, and near misses."""

from __future__ import annotations

from pathlib import Path

import pytest

import oomdoctor

WARNED = (
    "fit.py:58: UserWarning: Using a target size (torch.Size([{target}])) that is different to the input size "
    "(torch.Size([{input}])). This will likely lead to incorrect results due to broadcasting. Please ensure they have "
    "the same size.\n"
)
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "fit.py", line 58, in check\n    return mse_loss(given, wanted)\n'
    '  File "/env/torch/nn/functional.py", line 4315, in mse_loss\n    return torch._C._nn.mse_loss(\n'
)
REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {tried} bytes. Error code 12 (Cannot allocate memory)\n"
)


def first(tmp_path: Path, target: str, given: str, tried: int) -> dict[str, object]:
    log = WARNED.format(target=target, input=given) + TRACE + REFUSED.format(tried=tried)
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    found: dict[str, object] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    return found


@pytest.mark.parametrize(
    ("target", "given", "tried", "found"),
    [
        ("90000", "90000, 1", 90000 * 90000 * 4, "absurd-size"),
        ("90000, 1", "90000", 90000 * 90000 * 8, "absurd-size"),
        ("90000", "90000, 1", 90000 * 90000 * 2, "absurd-size"),
        ("90000", "90000, 1", 90000 * 30000 * 4, None),  # something else was refused
        ("90000, 1", "90000, 1", 90000 * 90000 * 4, None),
        ("90000, 3", "90000, 1", 90000 * 90000 * 4, None),
    ],
)
def test_what_is_as_large_as_both_shapes_spread(
    tmp_path: Path, target: str, given: str, tried: int, found: str | None
) -> None:
    diagnosis = first(tmp_path, target, given, tried)
    assert (diagnosis["cause"] == "absurd-size") is (found is not None)
    assert ("both are spread" in str(diagnosis["explanation"])) is (found is not None)


def test_the_target_is_given_the_shape_of_the_input(tmp_path: Path) -> None:
    diagnosis = first(tmp_path, "90000", "90000, 1", 90000 * 90000 * 4)
    remedies = diagnosis["remedies"]
    assert isinstance(remedies, list)
    assert (remedies[0]["knob"], remedies[0]["snippet"]) == ("fix-shape", "target = target.view_as(input)")
    assert "90,000 x 90,000 x 4 bytes = 30.17 GiB" in str(diagnosis["explanation"])


def test_of_two_lengths_nobody_knows_which_is_right(tmp_path: Path) -> None:
    diagnosis = first(tmp_path, "60000", "90000, 1", 90000 * 60000 * 4)
    remedies = diagnosis["remedies"]
    assert isinstance(remedies, list)
    assert (remedies[0]["knob"], remedies[0]["snippet"]) == ("fix-shape", None)
