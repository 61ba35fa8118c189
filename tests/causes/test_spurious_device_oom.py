from __future__ import annotations

from gpu_logs import FORWARD, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.spurious_device_oom import CAUSE
from oomdoctor.signs import Grade


def test_not_when_less_is_free_than_asked_for() -> None:
    assert "310 MiB was free and 512 MiB requested" in ruled_out(CAUSE, refused())


def test_not_when_a_limit_of_the_process_is_hit() -> None:
    line = refused(tried="20.00 MiB", free="31.40 GiB", own="47.70 GiB", allocated="47.40 GiB", allowed="47.46 GiB")
    assert "may use only 47.46 GiB" in ruled_out(CAUSE, line)


def test_a_little_more_free_than_asked_for_is_a_late_reading() -> None:
    found = finding(CAUSE, refused(tried="258.00 MiB", free="572.50 MiB", total="10.00 GiB"))
    assert found.grade == Grade.LEFT
    assert found.against


def test_a_little_free_of_a_large_card_is_a_full_card() -> None:
    assert says(CAUSE, refused(tried="258.00 MiB", free="572.50 MiB", total="24.00 GiB")) is None


def test_not_a_bare_refusal() -> None:
    assert says(CAUSE, "RuntimeError: CUDA error: out of memory") is None


def test_two_mebibytes_refused_with_most_of_the_card_free() -> None:
    line = refused(
        tried="2.00 MiB",
        free="203.10 GiB",
        total="287.98 GiB",
        own=None,
        allocated="69.40 GiB",
        unallocated="12.00 GiB",
        device="HIP",
    )
    assert finding(CAUSE, line).grade == Grade.PROVES
    assert ranking(*trace(FORWARD), line)[0] == "spurious-device-oom"


def test_a_platform_with_known_quirks_is_a_hint() -> None:
    found = finding(
        CAUSE, "Linux dev 6.6.87.2-microsoft-standard-WSL2 x86_64", "RuntimeError: CUDA driver error: out of memory"
    )
    assert found.grade == Grade.HINTS


def test_free_to_the_printed_digit_is_no_quirk_of_the_driver() -> None:
    line = refused(tried="2.30 GiB", free="2.31 GiB", total="15.77 GiB", own="11.20 GiB", allocated="10.90 GiB")
    assert says(CAUSE, line) is None


def test_a_board_is_named_by_a_word_of_its_own() -> None:
    bare = "RuntimeError: CUDA driver error: out of memory"
    assert finding(CAUSE, "Linux 5.15.148-tegra aarch64", bare).grade == Grade.HINTS
    for line in ("step 4: integrator set up", "an integrated GPU", "storage and disintegration"):
        assert says(CAUSE, line, bare) is None
