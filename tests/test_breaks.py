"""A traceback that lost its line breaks falls apart into its lines; what holds less of one stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from effort import seconds

from oomdoctor import diagnose
from oomdoctor.breaks import lost, of_writers, parts, records
from oomdoctor.streams import page

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TITLE = "Traceback (most recent call last):"
TRACEBACK = [
    TITLE,
    'File "/app/train.py", line 31, in <module>',
    "    main()",
    'File "/app/train.py", line 20, in main',
    "    self.optimizer.step()",
    OOM,
]


def lines(text: str) -> list[str]:
    return [line.text for line in page("a", 1, text.encode()).lines]


@pytest.mark.parametrize("between", [" ", "  ", "; ", ", "])
def test_blanks_instead_of_breaks(between: str) -> None:
    assert lines(between.join(line.strip() for line in TRACEBACK)) == TRACEBACK


def test_breaks_that_are_written_out() -> None:
    text = "\\n".join(TRACEBACK)
    assert lines(text) == TRACEBACK
    assert lines(text.replace("\\n", "\\\\n")) == TRACEBACK
    assert lines(text.replace("\\n", "\\r\\n")) == TRACEBACK
    record = lines('{"level":"error","exc":"' + text.replace('"', '\\"') + '"}')
    assert record[0].endswith(TITLE)
    assert record[1:-1] == TRACEBACK[1:-1]


def test_a_list_of_lines_as_python_shows_it() -> None:
    shown = lines(repr([f"{line}\n" for line in TRACEBACK]))
    assert shown[: len(TRACEBACK)] == TRACEBACK


def test_a_chain_keeps_what_joins_it() -> None:
    chain = "During handling of the above exception, another exception occurred:"
    inner = [TITLE, 'File "/app/a.py", line 1, in inner', "KeyError: 'x'"]
    assert lines(" ".join(line.strip() for line in (*inner, chain, *TRACEBACK))) == [*inner, chain, *TRACEBACK]


def test_each_record_keeps_its_writer() -> None:
    head = "(EngineCore_0 pid=913) ERROR 08-11 04:11:09 [core.py:700] "
    found = page("a", 1, " ".join(head + line.strip() for line in TRACEBACK).encode()).lines
    assert [line.text.strip() for line in found] == [line.strip() for line in TRACEBACK]
    assert {(line.writer, line.mark.pid, line.mark.level) for line in found} == {("EngineCore_0 913", 913, "ERROR")}


def test_they_stand_in_the_line_of_the_log_and_are_quoted_apart() -> None:
    found = page("a", 7, ("above\n" + " ".join(line.strip() for line in TRACEBACK)).encode()).lines
    assert [line.number for line in found] == [7, *[8] * len(TRACEBACK)]
    assert found[-1].raw == OOM


WHOLE = (
    '  File "/app/train.py", line 31, in <module>',
    'Please look at File "/app/train.py", line 31, in <module> of it',
    f"OutOfMemoryError                          {TITLE}",
    r'  File "C:\new\name.py", line 3, in f',
    r'    print("done\n")',
    "of page 3, line 4, and of page 5, line 6",
    f"{TITLE} is what Python prints, line by line",
)


@pytest.mark.parametrize("text", WHOLE)
def test_a_line_that_holds_less_stays(text: str) -> None:
    assert lines(text) == [text]


def test_a_path_of_windows_is_no_break() -> None:
    text = r'File "C:\new\a.py", line 1, in f x() File "C:\names\b.py", line 2, in g y()'
    assert lines(text) == [
        r'File "C:\new\a.py", line 1, in f',
        "    x()",
        r'File "C:\names\b.py", line 2, in g',
        "    y()",
    ]


@pytest.mark.parametrize(
    "piece",
    [
        'File "' + "a" * 390,
        'File "a", line 1, in f x() ',
        r"\n" + "A.A.A",
        "A." * 6 + "ErrorException",
        "x (a pid=1) b",
        "\\",
        "recent call last), line 1",
    ],
)
def test_hostile_lines_take_time_in_proportion_to_their_length(piece: str) -> None:
    def needed(size: int) -> float:
        text = ", line 1 recent call last" + piece * (size // len(piece))
        assert lost(text)
        return seconds(lambda: lost(text) and [parts(record) for record in records(text)])

    assert needed(60000) < 12 * max(needed(15000), 0.02)


def test_a_carriage_return_in_such_a_line_is_no_part_of_a_report(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    line = (
        'Traceback (most recent call last): File "a.py", line 8\r, in main step\r() File "b.py", line 9, in step x() '
    )
    log.write_text(line + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", newline="")
    assert "\r" not in json.dumps(diagnose(log).as_json(), ensure_ascii=False)
    assert "\\r" not in json.dumps(diagnose(log).as_json())


SAID = (
    "(Roller pid=7) step 1",
    "(Roller pid=8, ip=10.0.0.2) Sampling:  50%|#####     | 4/8 [00:37<00:37, 9.1s/it]",
    "(Learner pid=9, ip=10.0.0.3) [rank2]: RuntimeError: CUDA error: out of memory",
)


def test_what_several_writers_say_on_one_line_is_theirs() -> None:
    found = page("a", 1, " ".join(SAID).encode()).lines
    assert "out of memory" in found[-1].text
    assert found[-1].number == 1
    assert "Learner" in found[-1].writer
    assert "pid=9" in found[-1].raw
    assert "Sampling" not in found[-1].raw


@pytest.mark.parametrize(
    "line",
    [
        " ".join(SAID[:2]),  # one may name another
        "(Roller pid=7) waits for (Learner pid=9) and others",
        "actors: (Roller pid=7) (Roller pid=8) (Learner pid=9) are there",
        "step: (Roller pid=7) ends, (Roller pid=8) ends, (Learner pid=9) ends",
    ],
)
def test_writers_that_are_only_named_part_no_line(line: str) -> None:
    assert of_writers(line) == [line]
