"""What to look at after an error that is none of memory, and what an error that only sounds like memory is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report import as_markdown, html
from oomdoctor.report.next_step import next_step
from oomdoctor.report.text import rendered

VMEM = "RuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem. Used {}M of {}M vmem."
REFUSED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free."
BUILD = "subprocess.CalledProcessError: Command '{}' returned non-zero exit status 1."


def step(folder: Path, *lines: str) -> str | None:
    log = folder / "job.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = next_step(diagnose(log))
    return found.command if found is not None else None


def page(folder: Path, *lines: str) -> str:
    log = folder / "job.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return rendered(diagnose(log), width=160, color=False, unicode=False, verbose=False)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (BUILD.format("['ninja', '-v', '-C', '/home/ann/ops']"), "ninja -v -C /home/ann/ops"),
        (BUILD.format("['ninja', '-v', '-j', '8']"), "grep -n"),  # in which folder, it does not say
        (BUILD.format("['ninja', '-C', '/home/ann/my ops; reboot']"), "grep -n"),
        (BUILD.format("['cmake', '--build', '.']"), "grep -n"),
        ("RuntimeError: Error compiling objects for extension", "grep -n"),
        ("Fatal Python error: Aborted", "grep -n"),
        ("RuntimeError: PytorchStreamWriter failed writing file data/31: file write failed", "df -h"),
        ("OSError: [Errno 28] No space left on device: '/data/ckpt'", "df -h"),
        (VMEM.format("19.50", "16.00"), "export LIBTPU_INIT_ARGS="),
    ],
)
def test_what_would_tell_more(tmp_path: Path, line: str, command: str) -> None:
    assert str(step(tmp_path, "step 1", line)).startswith(command)


@pytest.mark.parametrize(
    "lines",
    [
        ("ValueError: length 900 is more than 800",),
        ("/src/scan.cu(8): error: no such type: half9", BUILD.format("['ninja', '-v']")),
        (BUILD.format("['python', 'fit.py']"),),
        (VMEM.format("79.50", "64.00"),),  # that limit was raised already
        ("Fatal Python error: Segmentation fault",),
        ("OSError: the device has no free slot",),
        ("RuntimeError: PytorchStreamWriter failed writing file data/31: file write failed", REFUSED),
    ],
)
def test_nothing_where_the_error_says_enough_or_memory_ran_out(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert step(tmp_path, *lines) is None


def test_every_form_has_it(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("Fatal Python error: Aborted\n", encoding="utf-8")
    report = diagnose(tmp_path / "job.log")
    for form in (as_markdown.document(report), html.document(report)):
        assert "does not say why it aborted" in form
        assert "grep -n -m 5" in form


SOUNDS = "It failed with an error that only sounds like memory: "
OTHER = "It failed with another error: "


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.",
        VMEM.format("19.50", "16.00"),
        "RuntimeError: Triton Error [CUDA]: out of resource: shared memory, Required: 122880",
    ],
)
def test_an_error_that_speaks_of_memory_is_not_called_another(tmp_path: Path, line: str) -> None:
    assert f"{SOUNDS}job.log:1: " in page(tmp_path, line)
    assert SOUNDS in as_markdown.document(diagnose(tmp_path / "job.log"))
    assert SOUNDS in html.document(diagnose(tmp_path / "job.log"))


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "ValueError: length 900 is more than 800",
        "ValueError: the allocation of seats is wrong",  # nothing takes it for memory
    ],
)
def test_other_errors_are(tmp_path: Path, line: str) -> None:
    assert f"{OTHER}job.log:1: " in page(tmp_path, line)


PRINT = "after step {}: allocated memory: {:.1f} MiB"


def test_memory_that_grows_without_a_failure_is_told(tmp_path: Path) -> None:
    lines = [PRINT.format(step, 900 + 25 * step) for step in range(1, 9)]
    assert "No failure of memory, but it grows: " in page(tmp_path, *lines)
    assert "but it grows" in as_markdown.document(diagnose(tmp_path / "job.log"))


@pytest.mark.parametrize(
    "lines",
    [
        [PRINT.format(step, 900 + 25 * step) for step in range(1, 5)],  # four prints
        [PRINT.format(step, 900) for step in range(1, 20)],
        [PRINT.format(step, min(600 + 100 * step, 900)) for step in range(1, 20)],  # while it warms up
        [PRINT.format(step, 900 + 25 * (step % 3)) for step in range(1, 20)],
        [*(PRINT.format(step, 900 + 25 * step) for step in range(1, 9)), REFUSED],
    ],
)
def test_what_does_not_grow_or_fails_is_not(tmp_path: Path, lines: list[str]) -> None:
    assert "but it grows" not in page(tmp_path, *lines)
