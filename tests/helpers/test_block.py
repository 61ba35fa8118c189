"""`oomdoctor draft`: the diagnosis in a Markdown draft, put in once, renewed in place, and nothing else touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash_logs import CRASH, HEALTHY, TOKEN
from typer.testing import CliRunner, Result

from oomdoctor.cli.app import app
from oomdoctor.helpers.block import BEGIN, END, BrokenMarkersError, read, refreshed

BEFORE = "# It died\n\nLast night:\n\n"
AFTER = "\nAny idea?   \n"
FENCED = f"`````text\n{CRASH}`````\n"
DRAFT = BEFORE + FENCED + AFTER


def test_the_block_stands_behind_the_log_and_the_rest_as_it_was() -> None:
    text = refreshed(DRAFT)
    assert text.startswith(BEFORE + FENCED + f"\n{BEGIN}\n**")
    assert text.endswith(f"{END}\n{AFTER}")
    block = text[len(BEFORE + FENCED) : -len(AFTER)]
    assert "Cause: `vllm-utilization-too-high`" in block
    assert "Fingerprint: `v1:" in block
    assert text.replace(block, "") == DRAFT


def test_twice_is_once() -> None:
    once = refreshed(DRAFT)
    assert refreshed(once) == once


def test_the_block_stays_where_somebody_moved_it() -> None:
    once = refreshed(DRAFT)
    block = once[once.index(BEGIN) : once.index(f"\n{END}\n") + len(END) + 2]
    moved = block + "\n" + once.replace(block, "")
    assert refreshed(moved) == moved


def test_an_old_block_is_renewed_in_place() -> None:
    old = f"{BEGIN}\nwhat an older version said\n\n```text\n{CRASH}```\n{END}\n\n" + DRAFT
    text = refreshed(old)
    assert "older version" not in text
    assert text.count(BEGIN) == text.count(END + "\n") - CRASH.count(END)
    assert text.startswith(f"{BEGIN}\n**")
    assert text.endswith(DRAFT)
    assert refreshed(text) == text


def test_windows_lines_and_odd_bytes_stay(tmp_path: Path) -> None:
    path = tmp_path / "issue.md"
    data = b"caf\xe9 \x0c\x1c \xe2\x80\xa8 x\r\n" + DRAFT.replace("\n", "\r\n").encode()
    path.write_bytes(data)
    assert draft(path).exit_code == 1
    written = path.read_bytes()
    at, end = written.index(f"\r\n{BEGIN}\r\n".encode()), written.rindex(END.encode()) + len(END) + 2
    assert written[:at] + written[end:] == data
    assert b"\n" not in written.replace(b"\r\n", b"")
    assert draft(path).exit_code == 0
    assert path.read_bytes() == written


def test_a_file_that_ends_with_the_fence() -> None:
    text = refreshed(BEFORE + FENCED.rstrip("\n"))
    assert text.startswith(BEFORE + FENCED + f"\n{BEGIN}\n")
    assert refreshed(text) == text


def test_secrets_are_taken_out_of_the_block() -> None:
    crash = CRASH.replace("org/small-7b", "/home/margarethe/small-7b")
    added = refreshed(f"```\n{crash}```\n".replace("````", "")).split(BEGIN)[1]
    assert "margarethe" not in added
    assert TOKEN not in added


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no fence, but CUDA out of memory. Tried to allocate 3.50 GiB\n",
        f"```\n{HEALTHY}```\n",
        f"```diff\n{CRASH.replace('````', '')}```\n",
        f"`````text\n{CRASH}",  # a fence that is never closed: what stands behind it would be code
        "``` CUDA out of memory. Tried to allocate 3.50 GiB ```\n",
    ],
)
def test_without_a_log_of_a_crash_nothing_happens(text: str) -> None:
    assert refreshed(text) == text


def test_a_marker_in_a_log_is_part_of_the_log() -> None:
    document = read(f"`````\n{BEGIN}\n{END}\n{END}\n`````\n")
    assert document.block is None
    assert len(document.fences) == 1


@pytest.mark.parametrize("text", [f"{BEGIN}\n", f"{END}\n", f"{BEGIN}\n{BEGIN}\n{END}\n", f"{BEGIN}\n{END}\n" * 2])
def test_markers_that_are_no_pair_are_said_and_left_alone(text: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenMarkersError, match=r"line [1-4]: <!-- oomdoctor"):
        read(text)
    path = tmp_path / "issue.md"
    path.write_text(text + DRAFT, encoding="utf-8")
    done = draft(path)
    assert done.exit_code == 2
    assert f"{path}: line " in done.stderr
    assert path.read_text(encoding="utf-8") == text + DRAFT


def test_fences_as_markdown_has_them() -> None:
    text = "1. step\n   ```sh\n   run\n     it\n   ```\n~~~ text\n```\na\n~~~~\n````\n```\nb\n````\n"
    assert [fence.text for fence in read(text).fences] == ["run\n  it\n", "```\na\n", "```\nb\n"]


def test_a_draft_of_our_own_has_its_diagnosis_already(tmp_path: Path) -> None:
    log, target = tmp_path / "serve.log", tmp_path / "issue.md"
    log.write_text(CRASH, encoding="utf-8")
    assert CliRunner().invoke(app, ["issue", str(log), "-o", str(target)]).exit_code == 0
    assert draft(target).exit_code == 0
    in_a_log = DRAFT.replace("Traceback", "v1:0123456789abcdef\nTraceback")
    assert BEGIN in refreshed(in_a_log)


def test_several_fences_are_of_one_crash() -> None:
    text = f"```text\n{HEALTHY}```\n\n" + FENCED + "\n```yaml\ngpu_memory_utilization: 0.9\n```\n"
    done = refreshed(text)
    assert done.index(BEGIN) > done.index("CUDA out of memory")
    assert done.index(BEGIN) < done.index("```yaml")


def draft(*paths: Path) -> Result:
    return CliRunner().invoke(app, ["draft", *map(str, paths)])


def test_the_command_says_which_file_it_changed(tmp_path: Path) -> None:
    crash, healthy = tmp_path / "crash.md", tmp_path / "notes.md"
    crash.write_text(DRAFT, encoding="utf-8")
    healthy.write_text(AFTER, encoding="utf-8")
    first = draft(crash, healthy)
    assert first.exit_code == 1
    assert first.stderr.count("\n") == 1
    assert f"{crash}: diagnosis updated" in first.stderr
    second = draft(crash, healthy)
    assert (second.exit_code, second.stderr) == (0, "")


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    done = draft(tmp_path / "gone.md")
    assert done.exit_code == 2
    assert "gone.md: no such file" in done.stderr
