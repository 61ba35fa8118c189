"""On which machine a log was written, and whether a traceback elsewhere in it would tell."""

from __future__ import annotations

import pytest
from gpu_logs import crash, refused

from oomdoctor.signs import commands, machine

KILLED = "run.sh: line 3:  71 Killed                  python train.py"
SHORT = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: not enough memory: you tried to allocate 9 B"
)
ALL = (commands.WHOLE_LOG, commands.ADDRESS_LIMIT, commands.FREE, commands.CARDS_NOW)


@pytest.mark.parametrize(
    ("line", "windows"),
    [
        (r'  File "C:\jobs\run.py", line 54, in <module>', True),
        (r"[W ..\aten\src\ATen\Context.cpp:48] a warning", True),
        ("error: failed to load model '/D/models/m.gguf'", True),
        ("error: failed to load model '/mnt/D/models/m.gguf'", False),
        ("error: failed to load model '/d/models/m.gguf'", False),
        ("read N/A/D/F of the table", False),
        ('  File "/mnt/c/jobs/run.py", line 54, in <module>', False),
        ('  File "/home/user/run.py", line 54, in <module>', False),
        (r"the pattern ^\w+\.\d is not used", False),
    ],
)
def test_paths_tell_windows(line: str, windows: bool) -> None:
    told = crash(line, SHORT)
    assert machine.is_on_windows(told) is windows
    asked = machine.useful(ALL, told)
    assert (commands.MEMORY_ON_WINDOWS in asked) is windows
    assert (commands.ADDRESS_LIMIT in asked) is not windows
    assert len(asked) == len(set(asked))
    assert commands.CARDS_NOW in asked


@pytest.mark.parametrize(
    ("lines", "tells"),
    [
        ((refused(),), True),
        ((SHORT,), True),
        (("Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "    main()", refused()), False),
        ((KILLED,), False),
        (("Waiting for creating a placement group of specs for 640 seconds.",), False),
        (("[sim] DeviceHeap.cpp:88: failed to allocate 339738624 bytes of GPU memory",), False),
    ],
)
def test_a_traceback_is_looked_for_where_python_raised_and_it_is_not_there(lines: tuple[str, ...], tells: bool) -> None:
    assert machine.a_traceback_may_tell(crash(*lines)) is tells
    assert (commands.WHOLE_LOG in machine.useful(ALL, crash(*lines))) is tells
