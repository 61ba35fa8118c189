"""What is said of a log that ends with an error which is none of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.text import rendered

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'


def ended(folder: Path, text: str) -> str | None:
    log = folder / "train.log"
    log.write_text(text, encoding="utf-8")
    error = diagnose(log).last_error
    return error.text if error is not None else None


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: length 900 is more than 800",
        "my.package.BrokenThingError: no",
        "KeyboardInterruptException",
        "kernel.cu:40: void gather(...): Assertion `index < size` failed.",
        "Segmentation fault (core dumped)",
        "panic: runtime error: index out of range",
        "Fatal error: no such table",
        "Failed: reduce.cu:40 invalid argument",
        "Error executing job with overrides: [a=1]",
    ],
)
def test_the_error_at_the_end_is_quoted(tmp_path: Path, line: str) -> None:
    assert ended(tmp_path, f"step 1 loss 0.5\n{TRACE}{line}\n") == line


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 0.5\nstep 2 loss 0.4\n",
        "UserWarning: the value is deprecated\nstep 2\n",
        f"{TRACE}ValueError: no\n" + "".join(f"step {step} loss 0.4\n" for step in range(90)),
        "errors are counted: Errors: 0\nstep 2\n",
        "assert all(sizes)\nstep 3\n",
    ],
)
def test_what_is_no_error_or_was_survived_is_not(tmp_path: Path, text: str) -> None:
    assert ended(tmp_path, text) is None


def test_the_first_of_the_last_errors_is_the_one(tmp_path: Path) -> None:
    text = f"{TRACE}ValueError: bad label\n{TRACE}RuntimeError: worker 3 is gone\n"
    assert ended(tmp_path, text) == "ValueError: bad label"


def test_a_memory_failure_has_its_own_report(tmp_path: Path) -> None:
    refused = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert ended(tmp_path, f"{TRACE}{refused}ValueError: no\n") is None


def test_the_text_names_the_line(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{TRACE}ValueError: length 900 is more than 800\n", encoding="utf-8")
    text = rendered(diagnose(log), width=100, color=False, unicode=False, verbose=False)
    assert "It ends with another error: train.log:4: ValueError: length 900 is more than 800\n" in text
