"""R's own limit on Windows, and what R is refused without one: near misses first."""

from __future__ import annotations

import pytest
from gpu_logs import crash, ranking
from reports import body

from oomdoctor.signs.address_space import limit_of_r_is_hit, the_program_is_of_32_bits
from oomdoctor.signs.host_data import an_array_of_data_was_refused

ERROR = "Error: cannot allocate vector of size {}"
WARNED = ("In addition: Warning messages:", "1: In rbind(deparse.level, ...) :",
          "  Reached total allocation of {}Mb: see help(memory.size)")  # fmt: skip


def log(size: str, limit: str) -> list[str]:
    return [ERROR.format(size), *(line.format(limit) for line in WARNED)]


@pytest.mark.parametrize(
    "lines",
    [
        [ERROR.format("1.9 Gb")],
        [ERROR.format("1.9 Gb"), "  Reached total elapsed time limit: see help(setTimeLimit)"],
        # no limit is 0, nor as large as that vector
        log("0.0 Kb", "0"),
        log("97.2 Gb", "8062"),
    ],
)
def test_no_limit_that_could_be_raised(lines: list[str]) -> None:
    assert limit_of_r_is_hit(crash(*lines)) is None


@pytest.mark.parametrize("lines", [log("1.9 Gb", "8062"), [*log("64.0 Mb", "3583")[2:], ERROR.format("64.0 Mb")]])
def test_the_limit_that_its_warning_prints(lines: list[str]) -> None:
    assert limit_of_r_is_hit(crash(*lines)) is not None
    assert ranking(*lines)[0] == "allocator-cap"


def test_how_it_is_raised(tmp_path) -> None:  # type: ignore[no-untyped-def]
    first = body(tmp_path, "\n".join(log("1.9 Gb", "8062")))["diagnoses"][0]
    assert first["headline"] == "The R heap is full at 7.87 GiB"
    assert first["remedies"][0]["knob"] == "raise-allocator-cap"
    assert first["remedies"][0]["snippet"] == "memory.limit(size = 16124)"


@pytest.mark.parametrize(
    ("size", "of_data"), [("825 Kb", False), ("20.0 Mb", False), ("20.1 Mb", True), ("3.1 Gb", True)]
)
def test_a_small_vector_is_no_data_set(size: str, *, of_data: bool) -> None:
    assert (an_array_of_data_was_refused(crash(ERROR.format(size))) is not None) == of_data


def test_a_process_that_addresses_4_gigabytes_is_of_32_bits() -> None:
    told = ("Error in memory.limit(size = 8000) :", "  don't be silly!: your machine has a 4Gb address limit")
    refused = "Error: cannot allocate vector of size 290.9 Mb"
    assert the_program_is_of_32_bits(crash(*told, refused)) is not None
    assert the_program_is_of_32_bits(crash(told[0], refused)) is None
