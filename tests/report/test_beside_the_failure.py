"""What stands beside a failure comes into the headline; what only looks like it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose


def head(tmp_path: Path, log: str) -> str:
    path = tmp_path / "job.log"
    path.write_text(log)
    return diagnose(path).incidents[0].headline


@pytest.mark.parametrize(
    ("log", "place"),
    [
        # near misses: a library's own allocator, a Python logger, no line, a version
        ("Cuda error out of memory\n[launch.py:321] ended\n", None),
        ("Cuda error out of memory\nin pool_alloc.cpp:88\n", None),
        ("Cuda error out of memory\nsee field.cu for it\n", None),
        ("Cuda error out of memory\nfield.cu-11.2\n", None),
        ("Cuda error out of memory\nsolver/field.cuh:83: void step()\n", "field.cuh:83"),
        ("Cuda error out of memory\nFile /src/grid/Local_sum.h Line 71\n", "Local_sum.h:71"),
        ("CUDA Error:\nFile:   utils/field.cuh   \nLine:   41   \nError text: out of memory\n", "field.cuh:41"),
    ],
)
def test_the_line_of_a_program_in_another_language(tmp_path: Path, log: str, place: str | None) -> None:
    told = head(tmp_path, log)
    assert (f"({place})" in told) if place else ("(" not in told)


@pytest.mark.parametrize(
    ("below", "dimensions"),
    [
        ("Error: Failed to allocate 640x300x512 GPU buffer", "640x300x512"),
        ("could not allocate a volume of 64 x 64 x 32", "64 x 64 x 32"),
        ("Failed to allocate 640 MB", None),
        ("window of 640x480", None),
        ("allocated at 0x7f3a", None),
    ],
)
def test_what_was_to_be_allocated_by_its_dimensions(tmp_path: Path, below: str, dimensions: str | None) -> None:
    told = head(tmp_path, f"Error: CUDA error 2: out of memory.\n{below}\n")
    assert (f"An allocation of {dimensions} failed" in told) if dimensions else ("allocation of" not in told)


WARNS = "n4:{pid}:5204 [{gpu}] include/alloc.h:206 NCCL WARN Failed to CUDA calloc async {size} bytes\n"


def test_each_gpu_of_the_same_failure_is_named(tmp_path: Path) -> None:
    one = WARNS.format(pid=4711, gpu=1, size=40)
    other = WARNS.format(pid=4712, gpu=3, size=8)
    assert "GPU 1" in head(tmp_path, one)
    assert "GPUs 1, 3" in head(tmp_path, one + other)


@pytest.mark.parametrize(
    ("below", "gpu"),
    [
        ("  current device: 2, in function make_handle at g.cu:93\n", "GPU 2"),
        ("  the current device is 2\n", "the GPU"),
        ("  current devices: 2\n", "the GPU"),
        ("a\nb\n  current device: 2\n", "the GPU"),
    ],
)
def test_ggml_names_the_device_in_the_next_line(tmp_path: Path, below: str, gpu: str) -> None:
    assert gpu in head(tmp_path, f"CUDA error: out of memory\n{below}")


XLA = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 40.25M. That was not possible. "
    "There are 61.50M free.{more}\n"
)


@pytest.mark.parametrize(
    ("more", "piece"),
    [
        ("; due to fragmentation, the largest contiguous region of free memory is 39.50M.", True),
        ("; the largest region is unknown.", False),
        ("", False),
    ],
)
def test_the_largest_piece_says_why_free_memory_is_not_enough(tmp_path: Path, more: str, piece: bool) -> None:
    assert ("(at most 39.50M in one piece)" in head(tmp_path, XLA.format(more=more))) is piece


WORDS = "['/env/bin/python', '-u', '/srv/kiln/fire.py', '--local_rank=5', '--lr', '1e-4'] exits with return code = -9\n"
AT = "[2026-02-06 06:31:12,510] [ERROR] [launch.py:321:sigkill_handler] "


@pytest.mark.parametrize(
    ("log", "who"),
    [
        (AT + WORDS, "Local rank 5 of fire.py"),
        (AT + WORDS[:60] + "\n" + WORDS[60:], "Local rank 5 of fire.py"),
        (AT + WORDS.replace("'--local_rank=5', ", ""), "fire.py"),
        (AT + WORDS.replace("/srv/kiln/fire.py", "kiln.module"), "A process that DeepSpeed started"),
    ],
)
def test_who_deepspeed_started_by_its_words(tmp_path: Path, log: str, who: str) -> None:
    assert head(tmp_path, log).startswith(who)
