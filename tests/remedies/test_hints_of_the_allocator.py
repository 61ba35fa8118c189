"""PyTorch's hint is printed always: it is refuted where what lies idle could not close the gap."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.remedies.printed import rejected_advice

FORWARD = 'Traceback (most recent call last):\n  File "/x/fit.py", line 3, in forward\n    y = self.mlp(x)\n'


def refuted(tried: str, free: str, unused: str, total: str = "80.00 GiB") -> str | None:
    crash = crashes_of(FORWARD + cuda(tried, total, free, unused=unused))[0]
    return next((why for _, why in rejected_advice(crash)), None)


@pytest.mark.parametrize(
    ("tried", "free", "unused", "why"),
    [
        (
            "5.00 GiB",
            "300.00 MiB",
            "2.00 GiB",
            "it can give back at most 2.00 GiB (2.5% of the GPU); 4.71 GiB were missing",
        ),
        (
            "300.00 MiB",
            "40.00 MiB",
            "90.00 MiB",
            "it can give back at most 90 MiB (0.1% of the GPU); 260 MiB were missing",
        ),
        ("5.00 GiB", "300.00 MiB", "0 bytes", "nothing is reserved but unused; 5.00 GiB was requested"),
        ("24.00 MiB", "61.00 GiB", "700.00 MiB", "61.00 GiB were free and 24 MiB requested: room was not missing"),
    ],
)
def test_it_is_refuted_where_it_could_not_do(tried: str, free: str, unused: str, why: str) -> None:
    assert refuted(tried, free, unused) == why


@pytest.mark.parametrize(
    ("tried", "free", "unused"),
    [
        ("500.00 MiB", "300.00 MiB", "2.00 GiB"),  # more than was requested
        ("5.00 GiB", "3.50 GiB", "2.00 GiB"),  # less than was requested, more than were missing
        ("5.00 GiB", "3.00 GiB", "2.00 GiB"),  # as much
        ("24.00 MiB", "24.30 MiB", "96.00 MiB"),  # as much was free, in pieces or for a moment
        ("12.00 GiB", "300.00 MiB", "8.10 GiB"),  # a tenth of the GPU
    ],
)
def test_it_stands_where_it_might(tried: str, free: str, unused: str) -> None:
    assert refuted(tried, free, unused) is None


@pytest.mark.parametrize(
    ("unused", "free", "offered", "refused"),
    [
        ("2.00 GiB", "300.00 MiB", True, False),
        ("205.00 MiB", "300.00 MiB", True, False),
        ("100.00 MiB", "420.00 MiB", False, False),
        ("100.00 MiB", "300.00 MiB", False, True),
    ],
)
def test_what_might_do_is_offered_and_a_crumb_is_not(unused: str, free: str, offered: bool, refused: bool) -> None:
    log = FORWARD + cuda("500.00 MiB", "80.00 GiB", free, unused=unused)
    chosen, rejected = advise(log, "allocator-config", cause="activations")
    assert ("allocator-config" in chosen, "allocator-config" in rejected) == (offered, refused)
