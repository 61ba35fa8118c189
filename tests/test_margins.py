"""What stands before every line of a traceback comes off, whatever it is; what is no margin stays."""

from __future__ import annotations

import pytest
from effort import seconds
from hypothesis import example, given
from hypothesis import strategies as st

from oomdoctor.families.event import Frame
from oomdoctor.families.surroundings import Neighbourhood
from oomdoctor.margins import NEAR, WIDEST, margins
from oomdoctor.streams import Page, page

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 31, in <module>',
    "    main()",
    '  File "/app/train.py", line 20, in main',
    "    self.optimizer.step()",
    '  File "/env/torch/optim/adamw.py", line 157, in _init_group',
    '    state["exp_avg"] = torch.zeros_like(',
    OOM,
]
FRAMES = (
    Frame("/app/train.py", 31, "<module>", "main()"),
    Frame("/app/train.py", 20, "main", "self.optimizer.step()"),
    Frame("/env/torch/optim/adamw.py", 157, "_init_group", 'state["exp_avg"] = torch.zeros_like('),
)


def read(lines: list[str]) -> Page:
    return page("a", 1, "\n".join(lines).encode())


def frames(lines: list[str], at: str = OOM) -> tuple[Frame, ...]:
    log = read(lines)
    index = next(i for i, line in enumerate(log.lines) if at in line.text)
    return Neighbourhood(log).around(index).trace


MARGINS = {
    "a logger's level and stream": "2024-04-19 08:31:07 | ERROR | stderr | {}",
    "a pod": "bert-pretrain-worker-11: pytorch | {}",
    "a rank that MPI names otherwise": "[1,mpirank:3,algo-1]<stderr>:{}",
    "a shell": "trainer@gpu-7 >> {}",
    "a launcher": "[launcher/worker:0] stderr: {}",
    "numbers": "{n:>4} | {}",
    "bare numbers": "{n} {}",
    "a search": "train.log:{n}:{}",
    "milliseconds": "17145576{n:05d}\t{}",
    "a clock": "03:07:{n:02d} {}",
    "seconds": "{n}.{n:03d}s   2   {}",
    "a table": "|{n}|{}|",
    "a quotation": ">> {}",
    "a comment": "# {}",
    "a list": "* {}",
    "byte strings": "b'{}'",
    "Airflow": "[2024-03-02, 01:10:{n:02d} UTC] {{subprocess.py:93}} INFO - {}",
    "letters beside digits": "job-a{n}f9 (try b{n}) {}",
}


@pytest.mark.parametrize("margin", MARGINS.values(), ids=MARGINS)
def test_a_margin_comes_off_that_nobody_listed(margin: str) -> None:
    lines = [margin.format(line, n=number) for number, line in enumerate(TRACEBACK, 97)]
    assert frames(lines) == FRAMES
    assert [line.text for line in read(lines).lines] == TRACEBACK


@pytest.mark.parametrize("margin", ["worker 7 | {}", "{n:>3}: {}", "x> {}"])
def test_the_indent_may_be_lost_with_it(margin: str) -> None:
    lines = [margin.format(line.lstrip(), n=number) for number, line in enumerate(TRACEBACK, 97)]
    assert frames(lines) == FRAMES


def escaped(line: str) -> str:
    return line.replace('"', '\\"')


def doubled(line: str) -> str:
    return line.replace('"', '""')


def test_records_come_off_with_their_quotes() -> None:
    record = '{{"log":"{}\\n","stream":"stderr","time":"2024-05-06T07:08:{:02d}.123456789Z"}}'
    assert frames([record.format(escaped(line), n) for n, line in enumerate(TRACEBACK)]) == FRAMES
    record = '{{"insertId":"a{1}z","severity":"ERROR","textPayload":"{0}","timestamp":"2024-05-06T07:08:09.{1:03d}Z"}}'
    assert frames([record.format(escaped(line), n) for n, line in enumerate(TRACEBACK)]) == FRAMES
    assert frames([f'{n},2024-05-01,"{doubled(line)}"' for n, line in enumerate(TRACEBACK)]) == FRAMES
    assert frames(["[", *(f'  "{escaped(line)}",' for line in TRACEBACK), "]"]) == FRAMES


def test_a_box_of_plain_signs_is_a_margin_on_both_sides() -> None:
    box = [
        "+--------- Traceback (most recent call last) ----------+",
        "| /srv/train.py:77 in fit                               |",
        "|                                                       |",
        "|    75         loss.backward()                         |",
        "| >  77         self.optimizer.step()                   |",
        "|                                                       |",
        "| /env/optim/adamw.py:120 in _init_group                |",
        "|                                                       |",
        '| > 120             state["exp_avg"] = zeros_like(p)    |',
        "+-------------------------------------------------------+",
        OOM,
    ]
    assert frames(box) == (
        Frame("/srv/train.py", 77, "fit", "self.optimizer.step()"),
        Frame("/env/optim/adamw.py", 120, "_init_group", 'state["exp_avg"] = zeros_like(p)'),
    )


def test_a_rich_box_may_stand_behind_a_margin() -> None:
    box = [
        "╭───────── Traceback (most recent call last) ──────────╮",
        "│ /srv/train.py:77 in fit                               │",
        "│ ❱  77 │   │   self.optimizer.step()                   │",
        "│ /env/optim/adamw.py:120 in _init_group                │",
        "╰───────────────────────────────────────────────────────╯",
        OOM,
    ]
    assert [frame.function for frame in frames([f"worker-2| {line}" for line in box])] == ["fit", "_init_group"]


def test_who_prints_at_once_comes_apart_by_a_word_that_goes_to_and_fro() -> None:
    other = [line.replace("/app/", "/other/") for line in TRACEBACK[:-1]]
    mixed = [
        f"<w{n}> {line}" for pair in zip(TRACEBACK, other, strict=False) for n, line in zip((3, 1), pair, strict=True)
    ]
    assert frames([*mixed, f"<w3> {OOM}"]) == FRAMES
    assert {line.writer for line in read(mixed).lines} == {"w1", "w3"}


def test_a_time_that_goes_on_is_no_writer() -> None:
    lines = [
        f"unit at 10:59:{58 + n} > {line}" if n < 2 else f"unit at 11:00:0{n} > {line}"
        for n, line in enumerate(TRACEBACK)
    ]
    assert {line.writer for line in read(lines).lines} == {""}


def test_a_margin_with_a_name_is_one_anywhere_in_the_page() -> None:
    above = ["svc > loading", "something else"] + ["other"] * 3 * NEAR
    log = read([*above, *(f"svc > {line}" for line in TRACEBACK)])
    assert [line.text for line in log.lines[:2]] == ["loading", "something else"]


@pytest.mark.parametrize("margin", ["| {} |", "> {}", "{n} {}", "* {}"])
def test_signs_and_numbers_alone_are_one_beside_the_traceback_only(margin: str) -> None:
    far = [margin.format("GPU  Name", n=1), *["between"] * NEAR]
    lines = [margin.format(line, n=n) for n, line in enumerate(TRACEBACK)]
    assert read([*far, *lines]).lines[0].text in (far[0], "GPU  Name")  # known decorations apart
    assert frames([*far, *lines]) == FRAMES
    table = "| 0  NVIDIA H100    81000MiB / 81559MiB |"
    assert read([table, *["between"] * NEAR, *(f"| {line} |" for line in TRACEBACK)]).lines[0].text == table


def test_the_page_keeps_its_numbers_and_what_stands_in_the_log() -> None:
    lines = [f"svc > {line}" for line in TRACEBACK]
    assert [(line.number, line.raw) for line in read(lines).lines] == list(enumerate(lines, 1))


NO_MARGIN = {
    "one head": ['see File "a.py", line 3, in f', "svc > text"],
    "titles with nothing below": [
        "job: Traceback (most recent call last):",
        "text",
        "job: Traceback (most recent call last):",
    ],
    "two that differ": ['here File "a.py", line 3, in f', 'there File "a.py", line 4, in g'],
    "far apart": ['at the File "a.py", line 3, in f', *["text"] * (NEAR + 1), 'at the File "a.py", line 4, in g'],
    "paths": ["/My Data/a.py:3 in f", "/My Data/b.py:4 in g"],
    "too wide": [f'{"x" * (WIDEST + 1)} File "a.py", line {n}, in f' for n in range(3)],
    "a well-formed traceback": TRACEBACK,
}


@pytest.mark.parametrize("lines", NO_MARGIN.values(), ids=NO_MARGIN)
def test_what_is_no_margin_stays(lines: list[str]) -> None:
    assert margins(lines) == {}


def test_a_margin_ends_where_its_word_ends() -> None:
    assert read([*(f"log {line}" for line in TRACEBACK), "logging is on", "log kept"]).lines[-2].text == "logging is on"


@given(st.text(alphabet="aZ. |:>[]()#-*=<$%_,;", min_size=1, max_size=12), st.booleans())
@example("(", False)
@example("[[", True)
def test_any_margin_comes_off(margin: str, blank: bool) -> None:
    margin = margin.strip()
    if not margin or margin[0] in "./~" or margin.startswith(("a:", "Z:")) or margin.endswith("."):
        return
    lines = [f"{margin}{' ' * blank}{line}" for line in TRACEBACK]
    assert [frame.function for frame in frames(lines)] == [frame.function for frame in FRAMES]


@pytest.mark.parametrize(
    "line",
    [
        "!@#$ " * 30 + 'x{} File "a.py", line 3, in f',
        "1 " * 70 + '{} File "a.py", line 3, in f',
        'File \\"' * 40,
        "a/b.py:1 in " * 60,
        '{{"log":"File \\"a.py\\", line {}, in f\\n","t":"1"}}',
    ],
)
def test_hostile_lines_take_time_in_proportion_to_their_number(line: str) -> None:
    def needed(number: int) -> float:
        lines = [line.format(n % 7) for n in range(number)]
        return seconds(lambda: margins(lines))

    assert needed(8000) < 12 * max(needed(2000), 0.02)
