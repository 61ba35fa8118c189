from __future__ import annotations

import pytest
from gpu_logs import FORWARD, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.absurd_size import CAUSE
from oomdoctor.decision.judgement import Finding
from oomdoctor.signs import Grade


def test_not_a_size_that_cards_have() -> None:
    assert "61.34 GiB of 79.15 GiB" in ruled_out(CAUSE, refused(tried="61.34 GiB"))


def test_an_ordinary_request_is_not_worth_a_word() -> None:
    assert says(CAUSE, refused()) is None


def test_not_a_little_more_than_the_card() -> None:
    assert says(CAUSE, refused(tried="96.00 GiB")) is None


def test_not_a_refusal_without_figures() -> None:
    assert says(CAUSE, "RuntimeError: CUDA error: out of memory") is None


def test_several_cards_worth_may_be_meant() -> None:
    found = finding(CAUSE, refused(tried="1141.05 GiB"))
    assert found.grade == Grade.POINTS
    assert found.against


def test_more_than_any_machine_has() -> None:
    lines = (*trace(FORWARD), refused(tried="3355443.20 GiB", free="70.00 GiB", own="9.00 GiB", allocated="8.00 GiB"))
    assert finding(CAUSE, *lines).grade == Grade.PROVES
    assert ranking(*lines)[0] == "absurd-size"


TORCH = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate {} bytes."


def test_hundreds_of_gibibytes_in_one_piece_on_the_host() -> None:
    assert ranking(TORCH.format(412316860416))[0] == "absurd-size"
    assert "absurd-size" not in ranking(TORCH.format(12884901888))


def test_not_where_the_machine_is_known_to_be_large() -> None:
    assert "absurd-size" not in ranking("MemTotal:       2113000000 kB", TORCH.format(412316860416))


def test_a_framework_that_counts_more_than_any_card_as_free() -> None:
    line = "E rocm_driver.cc:606] failed to allocate {} from device: HIP_ERROR_OutOfMemory"
    assert finding(CAUSE, line.format("96.00TiB (105553116266496 bytes)")).grade == Grade.NAMES
    assert not isinstance(says(CAUSE, line.format("14.00GiB (15032385536 bytes)")), Finding)


NUMPY = "numpy.core._exceptions.MemoryError: Unable to allocate {} TiB for an array with shape {} and data type float64"


def test_the_shape_and_how_often_the_machine_it_is() -> None:
    square = NUMPY.format("8.50", "(1048576, 1114112)")
    assert "An array of shape (1048576, 1114112) requested 8.50 TiB: a shape" in finding(CAUSE, square).why
    machine = "MemTotal:       263000000 kB"
    assert "requested 8.50 TiB, 35 times the machine's memory" in finding(CAUSE, machine, square).why
    assert "GiB, 15 times the machine's" in finding(CAUSE, machine, TORCH.format(4123168604160)).why


GIVEN = (
    "2025-06-02 09:10:11.120000: E external/xla/xla/service/gpu/gpu_hlo_schedule.cc:654] The byte size of input/output "
    "arguments ({}) exceeds the base limit (68719476736). This indicates an error in the calculation!"
)
FULL = (
    "2025-06-02 09:10:13.130000: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out "
    "of memory trying to allocate {}GiB (rounded to {})requested by op"
)


def test_arguments_of_many_devices() -> None:
    lines = (GIVEN.format(687194767360), FULL.format("640.00", 687194767360))
    assert "10 times its limit on this device (64.00 GiB)" in finding(CAUSE, *lines).why
    assert ranking(*lines)[0] == "absurd-size"


@pytest.mark.parametrize("size", [85899345920, 481036337152])
def test_arguments_of_a_few_devices_may_be_meant(size: int) -> None:
    assert ranking(GIVEN.format(size), FULL.format("448.00", 481036337152))[0] != "absurd-size"


def test_no_arguments_without_xlas_line() -> None:
    assert ranking(FULL.format("640.00", 687194767360))[0] != "absurd-size"
