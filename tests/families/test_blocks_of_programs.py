"""Messages of several lines: a routine and what it failed at, collected warnings, what a build came to."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

FRAME = " " + "%" * 78
FAILED = (
    (f"{FRAME}\n     Error in routine  gridfft  (5014):\n      allocating aux2\n{FRAME}\n     stopping", "host_ram"),
    (f"{FRAME}\n     Error in routine  waves_to_card  (2):\n      allocating on GPU\n{FRAME}", "gpu"),
    ("     Error in routine  waves  (2):\n      cannot allocate psi_d", "gpu"),
    ("     from read_rho : error #        12\n      allocating rho\n     stopping ...", "host_ram"),
    (" *** ERROR in subroutine setup_grid\n *** allocation of rho(ng,nspin)", "host_ram"),
    ("Error in f(x) :\n  Out-of-memory error in matching of element 18\nExecution halted", "host_ram"),
    ("Warning message:\nIn f(x) : NAs introduced\nError: cannot allocate vector of size 4.0 Gb", "host_ram"),
    ("Expiring Daemon because JVM heap space is exhausted\n\nFAILURE: Build failed with an exception.", "host_ram"),
    ("Expiring Daemon because JVM Metaspace is exhausted\n> Task :a\nBUILD FAILED in 4m 2s", "host_ram"),
    ("[h264 @ 0x55] No decoder surfaces left\nConversion failed!", "gpu"),
    ("[av1 @ 0x55] No decoder surfaces left\nError submitting packet to decoder: Cannot allocate memory", "gpu"),
)  # fmt: skip
WENT_ON = (
    f"{FRAME}\n     Error in routine  c_bands  (1):\n      too many bands are not converged\n{FRAME}",
    "     Error in routine  open_buf  (1):\n      allocating unit 21",
    "     Error in routine  close_buf  (1):\n      deallocating aux2",
    "Error in function spawn (3):\n      allocating device id",
    "     Message from routine gridfft:\n      allocating aux2",
    "      allocating aux2\n     Error in routine  c_bands  (1):\n      too many bands are not converged",
    "     Error in routine  waves  (2):\n      allocating psi\n     second try succeeded, JOB DONE, finished",
    "Warning message:\nIn f(x) :\n  Out-of-memory error in matching of element 18",
    "Warning messages:\n1: In f(x) : NAs introduced\n2: In g(y) :\n  Out-of-memory error in matching of element 18",
    "In addition: Warning message:\nIn f(x) : Out of memory error in element 3",
    "Warning message:\nOut of memory error in element 3, result truncated",
    "> Task :a\nExpiring Daemon because JVM heap space is exhausted\nBUILD SUCCESSFUL in 4m 2s",
    "The Daemon will expire after the build after running out of JVM heap space.\n> Task :b",
    "[h264 @ 0x55] No decoder surfaces left\nframe=  812 fps= 91 q=21.0 size=  12032kB",
    "[h264 @ 0x55] No decoder surfaces left\nError while decoding\nfalling back to software decoding, done",
)


@pytest.mark.parametrize(("text", "pool"), FAILED)
def test_it_failed_for_memory(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == pool


@pytest.mark.parametrize("text", WENT_ON)
def test_it_went_on_or_failed_at_something_else(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] != "oom"


def test_the_number_that_allocate_gave_back_is_kept(tmp_path: Path) -> None:
    report = body(tmp_path, "     Error in routine  gridfft  (5014):\n      allocating aux2\n     stopping ...")
    assert [event["fields"]["code"] for event in report["events"]] == [5014]


def test_the_numbers_whose_product_overflowed_are_shown(tmp_path: Path) -> None:
    report = body(tmp_path, "ERROR 2: mosaic.cpp: 91: Multiplication overflow : 4294967295 * 8589934592")
    first = report["diagnoses"][0]
    assert first["cause"] == "absurd-size"
    assert "4294967295 × 8589934592" in str(first)
