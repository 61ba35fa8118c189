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


OF_A_MAC = '  File "/Users/ada/lab/run.py", line 12, in <module>'
DIED = "A worker died or was killed while executing a task by an unexpected system error.{where}"
ON_A_NODE = " Worker ID: c4 Node ID: 9d Worker IP address: 10.1.2.3 Worker port: 10004"


@pytest.mark.parametrize(
    ("lines", "mac"),
    [
        ((OF_A_MAC, KILLED), True),
        (('  File "/opt/homebrew/lib/python3.12/site-packages/ray/_private/worker.py", line 9, in get', KILLED), True),
        ((OF_A_MAC, DIED.format(where="")), True),
        ((OF_A_MAC, DIED.format(where=ON_A_NODE)), False),  # the program runs here, its workers elsewhere
        ((OF_A_MAC, '  File "/usr/lib/python3/dist-packages/ray/worker.py", line 9, in get', KILLED), False),
        (('  File "/Workspace/Users/ada/run.py", line 12, in <module>', KILLED), False),
        (("saved under s3://lab/Users/ada/run", KILLED), False),
        (('  File "/Users/ada@lab.example/run.py", line 12, in <module>', KILLED), False),
        (('  File "/home/ada/Users/run.py", line 12, in <module>', KILLED), False),
    ],
)
def test_a_home_of_macos_tells_a_mac(lines: tuple[str, ...], mac: bool) -> None:
    died = crash(*lines)
    assert machine.is_on_a_mac(died) is mac
    asked = machine.useful((commands.JOURNAL, commands.DMESG, commands.SHM, commands.WHO_HOLDS_IT_NOW), died)
    assert (asked == (commands.KILLS_ON_A_MAC, commands.ON_A_MAC)) is mac
    assert (commands.JOURNAL in asked) is not mac


def test_windows_keeps_the_raylets_log_in_the_users_own_folder() -> None:
    died = crash(r'  File "C:\jobs\run.py", line 54, in <module>', DIED.format(where=""))
    told = machine.useful(commands.settling(died), died)
    assert told == (commands.RAYLETS_ON_WINDOWS,)
    elsewhere = crash(DIED.format(where=""))
    assert commands.RAYLETS_OWN in machine.useful(commands.settling(elsewhere), elsewhere)


@pytest.mark.parametrize(
    ("line", "asked", "node"),
    [
        (DIED.format(where=ON_A_NODE), (commands.DMESG,), "10.1.2.3"),
        (DIED.format(where=ON_A_NODE), (commands.WHOLE_LOG, commands.FREE), "10.1.2.3"),
        (DIED.format(where=ON_A_NODE), (commands.WHOLE_LOG, commands.POD), None),
        (DIED.format(where=ON_A_NODE.replace("10.1.2.3", "0.0.0.0")), (commands.DMESG,), None),
        (DIED.format(where=""), (commands.DMESG,), None),
        (KILLED, (commands.DMESG,), None),
    ],
)
def test_the_node_is_said_where_a_command_shows_what_only_it_can(
    line: str, asked: tuple[str, ...], node: str | None
) -> None:
    assert commands.where_to_look(asked, crash(line)) == node
