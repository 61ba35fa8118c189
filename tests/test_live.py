"""A log that is still being written: when a failure in it is told, and how often. Time is the tests' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor.live import LONGEST_S, NEXT_FAILURE_S, SILENCE_S, Live
from oomdoctor.report.contract import Report
from oomdoctor.street import diagnose

FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}.00 GiB. GPU 0 has a total capacity of "
    "79.15 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.02 GiB memory in use. Of "
    "the allocated memory 75.50 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.\n"
)
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/srv/job/fit.py", line 31, in <module>\n    loss.backward()\n'
    '  File "/opt/env/lib/python3.11/site-packages/torch/_tensor.py", line 581, in backward\n'
    "    torch.autograd.backward(\n" + FULL.format(size=4)
)
HEALTHY = "".join(f"step {n}: loss 1.25 tokens 8192\n" for n in range(400))


def looked(log: Live, start: float, end: float) -> list[Report]:
    """What it says while nothing comes."""
    times = (start + n / 4 for n in range(int((end - start) * 4) + 1))
    return [report for now in times if (report := log.look(now))]


def cause(report: Report) -> tuple[str, str]:
    return report.verdict, report.incidents[0].diagnoses[0].cause


def test_a_failure_is_told_once_when_nothing_follows() -> None:
    log = Live("fit.log")
    assert log.take((HEALTHY + TRACE).encode(), 100.0) is None
    assert looked(log, 100.0, 100.0 + SILENCE_S - 0.25) == []
    (report,) = looked(log, 100.0 + SILENCE_S, 110.0)
    assert report.verdict == "oom"
    assert report.events[0].line == HEALTHY.count("\n") + TRACE.count("\n")
    assert looked(log, 110.0, 130.0) == []
    assert log.end(130.0, ends=True) is None


def test_the_answer_is_that_of_the_whole_log(tmp_path: Path) -> None:
    whole = tmp_path / "fit.log"
    whole.write_text(HEALTHY + TRACE)
    log = Live("fit.log")
    log.take(whole.read_bytes(), 0.0)
    told = log.end(1.0, ends=True)
    assert told is not None
    expected = diagnose(whole)
    assert [i.fingerprint for i in told.incidents] == [i.fingerprint for i in expected.incidents]
    assert cause(told) == cause(expected)


def test_a_failure_is_told_although_others_go_on_writing() -> None:
    log = Live("fit.log")
    log.take(TRACE.encode(), 0.0)
    reports = []
    for second in range(1, 30):
        log.take(b"(Loader pid=7) fetched a batch\n", second)
        if report := log.look(second):
            reports.append((second, report.verdict))
    assert reports == [(1 + LONGEST_S, "oom")]


def test_a_failure_far_behind_is_told_without_a_pause() -> None:
    log = Live("fit.log")
    found = [log.take(block.encode(), 0.0) for block in (TRACE, *[HEALTHY * 10] * 12)]
    assert [report.verdict for report in found if report] == ["oom"]


def test_the_next_failure_is_told_of_its_own() -> None:
    log = Live("fit.log")
    log.take(TRACE.encode(), 0.0)
    assert len(looked(log, 0.0, 5.0)) == 1
    later = NEXT_FAILURE_S + 10
    log.take(HEALTHY.encode(), later)
    assert looked(log, later, later + 5) == []  # the old one, still at hand, is not told again
    log.take(TRACE.encode(), later + 10)
    (report,) = looked(log, later + 10, later + 20)
    assert len(report.incidents) == 1
    assert report.events[0].line > HEALTHY.count("\n")


def test_the_next_failure_is_told_with_what_the_job_said_before_the_first() -> None:
    profile = (
        "INFO 03-02 17:40:55 [worker.py:287] the current vLLM instance can use total_gpu_memory (79.15GiB) x "
        "gpu_memory_utilization (0.60) = 47.49GiB\n"
    )
    log = Live("fit.log")
    log.take((profile + TRACE).encode(), 0.0)
    assert len(looked(log, 0.0, 5.0)) == 1
    later = NEXT_FAILURE_S + 10
    log.take((HEALTHY * 200).encode(), later)
    looked(log, later, later + 5)
    log.take(TRACE.encode(), later + 10)
    (report,) = looked(log, later + 10, later + 20)
    assert [event.role for event in report.events] == ["context", "root"]
    assert report.events[0].line == 1


def test_a_pause_in_the_middle_of_the_training_is_no_death() -> None:
    log = Live("fit.log")
    log.take(HEALTHY.encode() + b" 45%|####      | 450/1000 [03:10<03:52,  2.37it/s]", 0.0)
    assert looked(log, 0.0, 60.0) == []


def test_a_message_in_two_pieces_is_read_whole() -> None:
    log = Live("fit.log")
    text = TRACE.encode()
    log.take(text[:-300], 0.0)
    log.look(0.5)
    log.take(text[-300:], 1.0)
    (report,) = looked(log, 1.0, 10.0)
    assert report.events[0].usage["allocated_bytes"] == round(75.5 * 1024**3)


def test_line_numbers_hold_over_megabytes_and_each_failure_is_counted_once() -> None:
    log = Live("fit.log")
    before = HEALTHY * 300  # some 3.6 MB
    for start in range(0, len(before), 100_000):
        log.take(before[start : start + 100_000].encode(), 0.0)
    log.take(TRACE.encode(), 0.0)
    log.take((HEALTHY * 10).encode(), 0.0)
    report = log.end(1.0, ends=True)
    assert report is not None
    assert [(event.line, event.repeats) for event in report.events if event.role == "root"] == [
        (before.count("\n") + TRACE.count("\n"), 1)
    ]


def test_after_a_rotation_lines_are_counted_anew_under_another_name() -> None:
    log = Live("fit.log")
    log.take(HEALTHY.encode(), 0.0)
    assert log.rotated(1.0) is None
    log.take(TRACE.encode(), 2.0)
    (report,) = looked(log, 2.0, 10.0)
    assert (report.events[0].file, report.events[0].line) == ("fit.log@2", TRACE.count("\n"))


def test_room_for_less_than_a_step_is_no_step_of_nothing() -> None:
    said = climbing(100, 8, 18, "MemTotal:       251658240 kB\n")
    assert said[-1].endswith(
        " to 236.00 GiB (line 19), about 8.00 GiB per step; the limit of 240.00 GiB will be reached in about one step"
    )


def test_room_for_one_print_is_not_that_of_several() -> None:
    log, said = Live("fit.log"), []
    for minute in range(20):
        log.take(a_card(42_000 + 2000 * minute).encode(), 60.0 * minute)
        log.look(60.0 * minute + 3)
        said += log.climbs(60.0 * minute + 6)
    assert said[-1].endswith("the limit of 79.65 GiB will be reached at about the next print")


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_what_climbs_in_a_log_that_comes_at_once_is_told_at_its_end(end: bytes) -> None:
    log = Live("fit.log")
    steps = b"".join(a_step(step, 100 + 8 * step) for step in range(7))
    log.take(b"MemTotal:       251658240 kB\n" + steps.removesuffix(b"\n") + end, 0.1)
    assert log.climbs(0.2) == []
    assert log.end(0.3, ends=True) is None
    (said,) = log.climbs(0.3, at_the_end=True)
    assert (
        " to 148.00 GiB (line 8), about 8.00 GiB per step; the limit of 240.00 GiB will be reached in about 11 steps"
        in said
    )
    assert log.climbs(0.4, at_the_end=True) == []  # once


def test_of_a_line_that_is_still_written_no_figure_is_taken() -> None:
    log = Live("fit.log")
    log.take(b"".join(a_step(step, 100 + 8 * step) for step in range(7))[:-20], 0.1)
    log.end(0.3, ends=False)
    (said,) = log.climbs(0.3, at_the_end=True)
    assert " to 140.00 GiB (line 6), " in said


def test_figures_go_on_after_a_rotation() -> None:
    log, said = Live("fit.log"), []
    for step in range(40):
        now = 10.0 * (step + 1)
        if step and step % 10 == 0:
            log.rotated(now)
        log.take(a_step(step, 100 + 8 * step), now)
        log.look(now)
        said += log.climbs(now)
    assert "from 100.00 GiB (line 1) to " in said[-1]
    assert float(said[-1].partition(" to ")[2].partition(" ")[0]) > 100 + 8 * 25


def test_a_failure_at_the_end_of_a_rotated_file_is_told() -> None:
    log = Live("fit.log")
    log.take(TRACE.encode(), 0.0)
    report = log.rotated(1.0)
    assert report is not None
    assert report.verdict == "oom"


def test_what_is_held_is_bounded() -> None:
    log = Live("fit.log")
    for _ in range(60):
        log.take((HEALTHY * 20).encode(), 0.0)
    assert len(log._held) < 1_500_000


def test_one_line_of_megabytes_is_let_go() -> None:
    log = Live("fit.log")
    for _ in range(50):
        log.take(b"x" * 100_000, 0.0)
    assert len(log._held) < 1_500_000
    log.take(b"\n" + TRACE.encode(), 0.0)
    (report,) = looked(log, 0.0, 5.0)
    assert report.events[0].line == 1 + TRACE.count("\n")


def a_step(number: int, used: float, ram: str = "") -> bytes:
    return f"{ram}step:{number} - perf/cpu_memory_used_gb:{used:.2f} - timing:3.1\n".encode()


def climbing(first: float, per_step: float, steps: int, ram: str = "") -> list[str]:
    log, said = Live("fit.log"), []
    log.take(ram.encode(), 0.0)
    for step in range(steps):
        now = 10.0 * (step + 1)
        log.take(a_step(step, first + per_step * step), now)
        log.look(now)
        said += log.climbs(now)
    return said


def test_memory_that_climbs_is_told_before_the_kill() -> None:
    said = climbing(100, 8, 40)
    assert said[0] == (
        "memory climbs: node memory in use grew from 100.00 GiB (line 1) to 132.00 GiB (line 5), about 8.00 GiB "
        "per step"
    )
    assert len(said) < 8  # again where it has become worse, not at every step


def test_where_the_room_is_known_the_steps_left_are_told() -> None:
    said = climbing(100, 8, 12, "MemTotal:       251658240 kB\n")
    assert said[0].endswith("about 8.00 GiB per step; the limit of 240.00 GiB will be reached in about 12 steps")


def test_a_node_that_is_nearly_full_is_spoken_of_however_slowly_it_fills() -> None:
    ram = "MemTotal:       251658240 kB\n"
    assert climbing(150, 0.5, 12, ram) == []  # 155.5 of 240 GiB
    (said,) = climbing(189, 0.5, 12, ram)
    assert said.endswith("about 512 MiB per step; the limit of 240.00 GiB will be reached in about 92 steps")


def test_a_total_printed_beside_the_figure_is_the_room() -> None:
    log, said = Live("fit.log"), []
    for minute in range(20):
        log.take(a_card(30_000 + 2000 * minute).encode(), 60.0 * minute)
        log.look(60.0 * minute + 3)
        said += log.climbs(60.0 * minute + 6)
    assert said[0].endswith("about 1.95 GiB per print; the limit of 79.65 GiB will be reached in about 17 prints")


def printed(line: str) -> list[str]:
    """What is said of figures behind this line's start that grow by eight GiB per print."""
    log, said = Live("fit.log"), []
    for n in range(20):
        log.take(f"{line.format(used=100 + 8 * n, percent=25 + 2 * n)}\n".encode(), 10.0 * n)
        log.look(10.0 * n + 3)
        said += log.climbs(10.0 * n + 6)
    return said


def test_the_share_that_deepspeed_prints_tells_the_room() -> None:
    said = printed(
        "[INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = {used}.0 GB, percent = {percent}.0%"
    )
    assert said[0].endswith("about 8.00 GiB per print; the limit of 400.00 GiB will be reached in about 25 prints")


def test_where_no_room_is_known_none_is_told() -> None:
    assert printed("after a batch: RSS: {used}.0 GiB")[0].endswith("about 8.00 GiB per print")


def a_card(used: int) -> str:
    return (
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |\n"
        f"| N/A   41C    P0            120W /  700W |   {used}MiB /  81559MiB |     95%      Default |\n"
    )


@pytest.mark.parametrize(("first", "per_step"), [(100, 0), (100, 0.01), (100, -1)])
def test_memory_that_does_not_climb_is_not_spoken_of(first: float, per_step: float) -> None:
    assert climbing(first, per_step, 40) == []


def test_figures_are_not_counted_twice() -> None:
    log = Live("fit.log")
    for step in range(10):
        log.take(a_step(step, 100), float(step))
        log.look(float(step))
    log.take((HEALTHY * 120).encode(), 20.0)
    log.take(FULL.format(size=4).encode(), 21.0)
    report = log.end(22.0, ends=True)
    assert report is not None
    (figure,) = report.context["memory"]
    assert [point["step"] for point in figure["points"]] == list(range(10))
