from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from sample_reports import CRASH, GROWTH, HEALTHY, HOG, INCONCLUSIVE, KILL, MORE, NODE, OOM, UNREADABLE

from oomdoctor.remedies import Gap, Rejected
from oomdoctor.report import words
from oomdoctor.report.contract import LedgerRow, Moment, Report
from oomdoctor.report.text import _shortened, _up_to, rendered
from oomdoctor.units import GIB

OOM_100 = """\
OUT OF MEMORY: The reward server (PID 230) fills node 10.3.0.8: 88.00 of 128.00 GiB
  reward-model-ram-hog (93% sure): The reward server (PID 230) held 88.00 GiB of the 121.60 GiB in
  use, 72 %; the killed PolicyActor held 6.40 GiB. Ray kills the newest worker, not the largest
  process.
  driver.log:412: Memory on the node (IP: 10.3.0.8, ID: 7f1c) was 121.60GB / 128.00GB (0.950000),...
Where the memory was: 128.00 GiB of node 10.3.0.8
  # reward server (PID 230)    88.00 GiB   69%
  = everything else in use     27.20 GiB   21%  derived
  + PolicyActor (PID 4471)      6.40 GiB    5%
  . free                        6.40 GiB    5%  derived
What to change
  1. Start the reward server (PID 230) on another node, or cap its memory
     --remote_rm_url http://<other-node>:5000/get_reward
     121.60 GiB in use - 88.00 GiB of PID 230 = 33.60 GiB, under 0.95 x 128.00 GiB = 121.60 GiB
     Cost: another node's memory, and a network hop per batch of rewards
     Assumes: the server answers over HTTP, as its flag says
  2. Restart the reward server between epochs while its growth is looked for
  3. Lower the number of reward workers from 8 to 5
     --workers 5
Ignore this hint in the log: driver.log:424 a higher threshold only delays the kill
More: oomdoctor explain reward-model-ram-hog; 1 more remedy and all the rest: -v
(v1:0123456789abcdef)
"""

OOM_VERBOSE = """\
OUT OF MEMORY: The reward server (PID 230) fills node 10.3.0.8: 88.00 of 128.00 GiB
  reward-model-ram-hog (93% sure): The reward server (PID 230) held 88.00 GiB of the 121.60 GiB in
  use, 72 %; the killed PolicyActor held 6.40 GiB. Ray kills the newest worker, not the largest
  process.
  driver.log:412: Memory on the node (IP: 10.3.0.8, ID: 7f1c) was 121.60GB / 128.00GB (0.950000), which exceeds the threshold
  ▅█
  reward server: 1.00 GiB at line 12, 2.00 GiB at line 40

Where the memory was: 128.00 GiB of node 10.3.0.8
  █████████████████████████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▒▒▒···
  █ reward server (PID 230)    88.00 GiB   69%  line 415
  ▓ everything else in use     27.20 GiB   21%  derived  line 412
  ▒ PolicyActor (PID 4471)      6.40 GiB    5%  line 416
    Ray object store             unknown
  · free                        6.40 GiB    5%  derived  line 412

What to change
  1. Start the reward server (PID 230) on another node, or cap its memory
     --remote_rm_url http://<other-node>:5000/get_reward
     121.60 GiB in use - 88.00 GiB of PID 230 = 33.60 GiB, under 0.95 x 128.00 GiB = 121.60 GiB
     Cost: another node's memory, and a network hop per batch of rewards
     Assumes: the server answers over HTTP, as its flag says
     https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html
  2. Restart the reward server between epochs while its growth is looked for
     Cost: a pause per restart
  3. Lower the number of reward workers from 8 to 5
     --workers 5
     8 workers hold 88.00 GiB, 11.00 GiB each; 5 x 11.00 = 55.00 GiB
     Cost: slower rewards
  4. Give the node more memory
     Cost: money
This would tell more:
  ray memory --stats-only

Also possible: The reward server (PID 230) leaks about 30 MiB of RAM per step
  host-memory-leak (21% sure): Two prints of the same process stand 40 steps apart and 1.20 GiB.
  Against it: only two prints
  driver.log:412, as above

Ruled out: object-store-full: nothing spilled and no store message stands in the log
Ruled out: container-limit: 128.00 GiB is the node's own memory
Not advised: Let the engine free its GPU memory while the trainer works [engine-sleep]: it keeps a
copy of the weights in the memory that ran out
In the order of the log
  2025-04-02 11:20:31  driver.log:412  root: memory-kill, PolicyActor, PID 4471, node 10.3.0.8
                       driver.log:431  cascade: actor-death, PolicyActor, PID 4471, node 10.3.0.8
Ignore this hint in the log
  driver.log:424: To adjust the kill threshold, set the environment variable `RAY_memory_usage_threshold`
    a higher threshold only delays the kill

Software: openrlhf, ray 2.40.0
Models: my-org/policy-7b
Settings: remote_rm_url=http://10.3.0.8:5000/get_reward, zero_stage=3
More: oomdoctor explain reward-model-ram-hog
Fingerprint: v1:0123456789abcdef
"""

OOM_36 = """\
OUT OF MEMORY: The reward server
(PID 230) fills node 10.3.0.8: 88.00
of 128.00 GiB
  reward-model-ram-hog (93% sure):
  The reward server (PID 230) held
  88.00 GiB of the 121.60 GiB in ...
  driver.log:412: Memory on the n...
Where the memory was: 128.00 GiB of
node 10.3.0.8
  # reward server (P...    88.00 GiB
  = everything else ...    27.20 GiB
  + PolicyActor (PID...     6.40 GiB
  . free                    6.40 GiB
What to change
  1. Start the reward server (PID
     230) on another node, or cap
     its memory
     --remote_rm_url http://<other-node>:5000/get_reward
     121.60 GiB in use - 88.00 GiB
     of PID 230 = 33.60 GiB, unde...
     Cost: another node's memory,...
     Assumes: the server answers
     over HTTP, as its flag says
  2. Restart the reward server
     between epochs while its growth
     is looked for
Ignore this hint in the log:
driver.log:424 a higher threshold
only delays the kill
More: oomdoctor explain
reward-model-ram-hog; 2 more
remedies and all the rest: -v
(v1:0123456789abcdef)
"""

INCONCLUSIVE_100 = """\
CANNOT TELL: Something was killed (SIGKILL), and the log does not say why
  killed-without-evidence (likely): The shell reports a SIGKILL; nothing says who sent it.
  <stdin>:9: Killed
First find out whether it was memory. This would tell:
  dmesg -T | grep -i -E 'killed process|oom'
  journalctl -k --since '1 hour ago'
Read: 9 KiB.
More: oomdoctor explain killed-without-evidence; all of it: -v  (v1:0123456789abcdef)
"""

HEALTHY_100 = """\
NO MEMORY FAILURE FOUND (9 KiB read)
Not a memory failure
  train.log:77 on-chip shared memory, not VRAM
  train.log:90 a hardware error, not a lack of memory
  and 1 more
Note: `ray logs` cut this log to its last 1000 lines; --tail -1 gives all of it
"""


@pytest.mark.parametrize(
    ("report", "width", "unicode", "verbose", "expected"),
    [
        (OOM, 100, False, False, OOM_100),
        (OOM, 100, True, True, OOM_VERBOSE),
        (OOM, 36, False, False, OOM_36),
        (INCONCLUSIVE, 100, False, False, INCONCLUSIVE_100),
        (HEALTHY, 100, False, False, HEALTHY_100),
        (UNREADABLE, 100, False, False, "NOTHING READ\n"),
    ],
)
def test_the_whole_report(report: Report, width: int, unicode: bool, verbose: bool, expected: str) -> None:
    assert rendered(report, width=width, color=False, unicode=unicode, verbose=verbose) == expected


def plain(report: Report, width: int = 100, verbose: bool = False) -> str:
    return rendered(report, width=width, color=False, unicode=False, verbose=verbose)


SCREEN = 24
BARE = replace(CRASH, diagnoses=(replace(HOG, remedies=()),))  # there is room for the ledger


def with_best(**changes: object) -> Report:
    best, *others = CRASH.diagnoses
    return replace(OOM, incidents=(replace(CRASH, diagnoses=(replace(best, **changes), *others)),))


def test_one_screen_is_one_screen() -> None:
    assert len(plain(OOM).splitlines()) <= SCREEN
    remedies = tuple(replace(remedy, derivation="because " * 18) for remedy in HOG.remedies)
    text = plain(with_best(remedies=remedies))
    assert len(text.splitlines()) <= SCREEN
    assert text.count("because") == 18, "only the first remedy says how it is computed"
    assert "  3. Lower" in text
    assert "Ignore this hint in the log: driver.log:424" in text
    assert "  4. Give the node" in plain(with_best(remedies=remedies), verbose=True)


def test_a_long_explanation_is_cut_and_whole_with_v() -> None:
    wordy = with_best(explanation="It grew. " * 70)
    assert plain(wordy).count("It grew.") < 40
    assert "..." in plain(wordy)
    assert " ".join(plain(wordy, verbose=True).split()).count("It grew.") == 70


def test_ruled_out_and_also_possible_belong_to_the_long_form() -> None:
    assert "Ruled out" not in plain(OOM)
    assert "Also possible" not in plain(OOM)
    assert "Ruled out: object-store-full" in plain(OOM, verbose=True)
    assert f"Also possible: {GROWTH.headline}" in plain(OOM, verbose=True)


def test_what_is_narrow_does_not_say_more() -> None:
    shown = [len(re.findall(r"(?m)^  \d\. ", plain(OOM, width))) for width in (40, 79, 100)]
    assert shown == sorted(shown)


def test_an_open_cause_is_likely_and_names_the_others() -> None:
    best, behind = CRASH.diagnoses
    other = replace(behind, remedies=(replace(MORE, knob="clear-references"),))
    text = plain(replace(OOM, incidents=(replace(CRASH, cause_open=True, diagnoses=(best, other)),)))
    assert "reward-model-ram-hog (likely):" in text
    assert "%" not in text.splitlines()[1]
    assert "it may also be host-memory-leak. This would tell:\n  ray memory --stats-only\n" in text
    assert "it may also be" not in plain(OOM)


def test_a_cause_with_the_same_cure_is_no_other_answer() -> None:
    best, behind = CRASH.diagnoses
    same = replace(behind, remedies=best.remedies[:1])
    text = plain(replace(OOM, incidents=(replace(CRASH, cause_open=True, diagnoses=(best, same)),)))
    assert "it may also be" not in text


def test_of_a_death_the_question_stands_before_the_guesses() -> None:
    (crash,) = INCONCLUSIVE.incidents
    guesses = replace(crash, diagnoses=(replace(crash.diagnoses[0], remedies=HOG.remedies),))
    text = plain(replace(INCONCLUSIVE, incidents=(guesses,)))
    assert text.index("First find out whether it was memory") < text.index("If it was memory")
    assert "What to change" not in text
    assert "  3. " not in text


def test_the_node_stands_before_the_commands_that_are_about_it() -> None:
    died = replace(CRASH, verdict="inconclusive", evidence_node="10.24.0.17")
    text = plain(replace(OOM, incidents=(died,)))
    assert "First find out whether it was memory. Look on node 10.24.0.17. This would tell:" in text
    assert "Look on node" not in plain(replace(OOM, incidents=(replace(died, evidence_node=None),)))
    assert "Look on node" not in plain(replace(OOM, incidents=(replace(died, verdict="oom"),)))


def test_a_ledger_that_explains_little_is_left_to_the_long_form() -> None:
    rows = (LedgerRow("worker", 10 * GIB, "printed", 1),)
    little = replace(OOM, incidents=(replace(CRASH, ledger=(replace(NODE, rows=rows),)),))
    assert "Where the memory was" not in plain(little)
    assert "Where the memory was" in plain(little, verbose=True)
    assert "Where the memory was" in plain(OOM)


def test_a_fallback_is_no_other_answer() -> None:
    best, behind = CRASH.diagnoses
    only = replace(CRASH, cause_open=True, diagnoses=(best, replace(behind, cause="host-memory-exhausted")))
    text = plain(replace(OOM, incidents=(only,)))
    assert "Open: the log does not prove the cause. This would tell:" in text


def test_what_is_copied_is_never_broken() -> None:
    snippet = "  --remote_rm_url http://<other-node>:5000/get_reward"
    assert all(snippet in plain(OOM, width) for width in (20, 36, 100))


@pytest.mark.parametrize("width", [20, 27, 36, 59, 60, 80])
def test_only_what_is_copied_is_wider_than_the_terminal(width: int) -> None:
    wide = [line for line in plain(OOM, width).splitlines() if len(line) > width]
    assert [line.strip() for line in wide if "--remote_rm_url" not in line] == []


def test_each_crash_has_its_block_and_the_first_line_counts_them() -> None:
    began = (Moment("e2", "cascade", None), Moment("e3", "root", None))
    again = replace(CRASH, id="i2", events=("e2", "e3"), timeline=began)
    root = replace(KILL, id="e3", line=977)
    report = replace(OOM, incidents=(CRASH, again), events=(*OOM.events, root))
    assert plain(report).startswith("2 crashes in these logs.\nOUT OF MEMORY: ")
    assert plain(report).count(HOG.headline) == 2
    assert "crashes in" not in plain(OOM)
    assert plain(report, verbose=True).count(HOG.explanation[:40]) == 2


def test_a_crash_without_a_cause_says_what_would_tell() -> None:
    report = replace(OOM, incidents=(replace(CRASH, diagnoses=()),))
    assert plain(report).startswith(f"OUT OF MEMORY: {CRASH.headline}\n  driver.log:412: Memory on the node")
    assert "This would tell more:\n  ray memory --stats-only\n" in plain(report)


def test_a_sure_answer_leaves_the_next_commands_to_the_long_form() -> None:
    assert "ray memory" not in plain(OOM)
    assert "ray memory" in plain(OOM, verbose=True)


def test_many_rows_become_one_line() -> None:
    rows = tuple(LedgerRow(f"worker {n}", (n + 1) * 1024**3, "printed", n + 1) for n in range(10))
    report = replace(OOM, incidents=(replace(BARE, ledger=(replace(NODE, rows=rows, total_bytes=100 * GIB),)),))
    text = plain(report)
    assert "worker 9 " in text
    assert "worker 5 " in text
    assert "worker 4 " not in text
    assert re.search(r"^  o 5 smaller ones together {2,}15\.00 GiB   15%  derived$", text, re.MULTILINE)
    assert "worker 0 " in plain(report, verbose=True)


def test_the_rest_of_the_table_is_counted_among_the_smaller_ones() -> None:
    rows = (
        *(LedgerRow(f"worker {n}", (n + 1) * 1024**3, "printed", n + 1) for n in range(6)),
        LedgerRow("4 smaller processes of the table", 30 * 1024**3, "derived", 9),
        LedgerRow("free", 1024**2, "derived", 9),
    )
    text = plain(replace(OOM, incidents=(replace(BARE, ledger=(replace(NODE, rows=rows, total_bytes=100 * GIB),)),)))
    assert "4 smaller processes" not in text
    assert re.search(r"^  % 6 smaller ones together {2,}33\.00 GiB   33%  derived$", text, re.MULTILINE)
    assert "free" in text


def test_every_row_with_a_sign_is_in_the_bar_largest_first() -> None:
    sizes = {"tiny": 1, "huge": 126 * 1024**3, "none": 0, "small": 1024**3}
    rows = (*(LedgerRow(what, size, "printed", 1) for what, size in sizes.items()), LedgerRow("free", 5, "derived", 1))
    text = plain(replace(OOM, incidents=(replace(BARE, ledger=(replace(NODE, rows=rows),)),)))
    (bar,) = re.findall(r"\[(.*)\]\n  # huge", text)
    assert bar == "#" * 57 + "=+."
    names = re.findall(r"^  (.) (huge|small|tiny|none|free) ", text, re.MULTILINE)
    assert names == [("#", "huge"), ("=", "small"), ("+", "tiny"), (" ", "none"), (".", "free")]


def test_rows_that_are_more_than_the_total_stay_inside_the_bar() -> None:
    rows = tuple(LedgerRow(f"worker {n}", 100 * 1024**3, "printed", 1) for n in range(3))
    text = plain(replace(OOM, incidents=(replace(CRASH, ledger=(replace(NODE, rows=rows),)),)))
    assert f"  [{'#' * 20}{'=' * 20}{'+' * 20}]\n" in text


def test_names_that_are_cut_show_it() -> None:
    rows = (LedgerRow("a worker with a long name " * 4, 1024**3, "printed", 1),)
    report = replace(OOM, incidents=(replace(CRASH, ledger=(replace(NODE, rows=rows, total_bytes=2 * GIB),)),))
    assert "  # a worker wi...     1.00 GiB\n" in plain(report, 31)
    assert "  █ a worker with…     1.00 GiB\n" in rendered(report, width=31, color=False, unicode=True, verbose=False)


def test_no_command_stands_there_twice() -> None:
    (crash,) = INCONCLUSIVE.incidents
    asked = replace(MORE, current=8, snippet="dmesg -T | grep -i -E 'killed process|oom'; free -h")
    report = replace(
        INCONCLUSIVE, incidents=(replace(crash, diagnoses=(replace(crash.diagnoses[0], remedies=(asked,)),)),)
    )
    text = plain(report)
    assert text.count("dmesg") == 1
    assert "This would tell:\n  journalctl" in text


def test_what_is_not_advised_belongs_to_the_long_form() -> None:
    spends = (Rejected("tune-ray-monitor", "it spends host RAM"),)
    report = replace(OOM, incidents=(replace(CRASH, remedies_rejected=spends),))
    assert "Not advised" not in plain(report)
    assert "[tune-ray-monitor]: it spends host RAM" in " ".join(plain(report, 200, True).split())


def test_rows_that_do_not_add_up_say_so() -> None:
    short = replace(CRASH, ledger=(replace(NODE, unexplained_bytes=3 * 1024**3),))
    over = replace(CRASH, ledger=(replace(NODE, unexplained_bytes=-(1024**3)),))
    assert "not explained 3.00 GiB\n" in plain(replace(OOM, incidents=(short,)))
    told = "together 1.00 GiB more than there is: shared memory counts in each process\n"
    assert told in plain(replace(OOM, incidents=(over,)))
    card = replace(CRASH, ledger=(replace(NODE, pool="gpu", unexplained_bytes=-(1024**3)),))
    assert "more than there is, by 1.00 GiB\n" in plain(replace(OOM, incidents=(card,)))


def test_rows_that_overlap_have_no_sum_and_no_bar() -> None:
    rows = tuple(LedgerRow(f"w{n} (pid {n})", (40 - n) * 1024**3, "printed", 1) for n in range(8))
    over = replace(CRASH, ledger=(replace(NODE, rows=rows, unexplained_bytes=-(200 * 1024**3)),))
    text = plain(replace(OOM, incidents=(over,)))
    assert "  [" not in text
    assert "smaller ones, each at most" in text
    assert "smaller ones together" not in text


def test_a_ledger_without_a_total_has_no_bar() -> None:
    open_end = replace(CRASH, ledger=(replace(NODE, total_bytes=None, unexplained_bytes=None),))
    text = plain(replace(OOM, incidents=(open_end,)))
    assert "Where the memory was: node 10.3.0.8\n  # reward server (PID 230)" in text
    assert "69%" not in text


def test_log_text_is_text() -> None:
    hostile = "[red]x[/red] \x1b[31mred\x1b[0m \x1b]8;;http://a/\x07link\x1b]8;;\x07 \u202egnp.exe\u202c {0} :smile: %s"
    report = replace(
        OOM,
        incidents=(replace(CRASH, diagnoses=(replace(HOG, title=hostile, explanation=hostile, against=(hostile,)),)),),
        events=(replace(KILL, file=hostile),),
        notes=(hostile,),
    )
    for verbose in (False, True):
        text = plain(report, verbose=verbose)
        assert "[red]x[/red]" in text
        assert ":smile:" in text
        assert not [c for c in text if not c.isprintable() and c != "\n"]
    colored = rendered(report, width=100, color=True, unicode=True, verbose=True)
    assert "\x1b]8" not in colored
    assert "\u202e" not in colored


def test_colours_are_the_eight_of_every_terminal() -> None:
    colored = rendered(OOM, width=100, color=True, unicode=True, verbose=False)
    assert "\x1b[1;31mOUT OF MEMORY\x1b[0m" in colored
    assert "\x1b[38" not in colored


# in words


@pytest.mark.parametrize(
    ("files", "lines", "raylets", "read"),
    [
        (1, None, 0, "9 KiB"),
        (1, 1, 0, "1 line"),
        (1, 12_345, 0, "12,345 lines"),
        (3, 40, 0, "40 lines of 3 files"),
        (3, 40, 1, "40 lines of 3 files with the raylet's log"),
    ],
)
def test_what_was_read(files: int, lines: int | None, raylets: int, read: str) -> None:
    stats = replace(HEALTHY.stats, bytes=9 * 1024, files=files, lines=lines, raylet_logs=raylets)
    told = words.nothing_found(replace(HEALTHY, stats=stats))
    assert words.verdict(told) == f"NO MEMORY FAILURE FOUND: ({read} read)"


@pytest.mark.parametrize(
    ("course", "told"),
    [
        ({"shape": "plateau", "growth_bytes": GIB, "growth_low_bytes": 0, "growth_high_bytes": GIB},
         "it rises at first and then stays"),
        ({"shape": "level"}, "it does not grow"),
        ({"growth_bytes": None, "growth_low_bytes": -GIB, "growth_high_bytes": 2 * GIB},
         "open whether it grows: -1.00 GiB to 2.00 GiB per step"),
        ({"growth_bytes": GIB, "growth_low_bytes": GIB // 2, "growth_high_bytes": 2 * GIB},
         "about 1.00 GiB per step (512 MiB to 2.00 GiB)"),
        ({"growth_bytes": GIB, "growth_low_bytes": GIB, "growth_high_bytes": GIB + 1}, "about 1.00 GiB per step"),
        ({"growth_bytes": GIB}, "about 1.00 GiB per step"),
        ({"growth_bytes": GIB, "per": "print", "full": {"count": 7, "derivation": "(9 - 2) / 1 = 7"}},
         "about 1.00 GiB per print; about 7 more prints at that rate would fill it: (9 - 2) / 1 = 7"),
        ({"growth_bytes": GIB, "full": {"count": 7, "derivation": "(9 - 2) / 1 = 7"}},
         "about 1.00 GiB per step; about 7 more steps at that rate would fill it: (9 - 2) / 1 = 7"),
    ],
)  # fmt: skip
def test_how_a_figure_went_on(course: dict[str, object], told: str) -> None:
    points = [{"bytes": GIB, "line": 3}, {"bytes": 2 * GIB, "line": 9}]
    trajectory = {"what": "memory used", "per": "step", "points": points, **course}
    assert words.growth(trajectory) == f"memory used: 1.00 GiB at line 3, 2.00 GiB at line 9; {told}"


HUNDREDTH = round(6.48 * GIB) - round(6.47 * GIB)  # as a log prints them
ROUGH = Gap(pool="kv_cache", missing_low_bytes=HUNDREDTH, missing_high_bytes=HUNDREDTH, derivation="")
SHORT = Gap(pool="kv_cache", missing_low_bytes=2 * GIB, missing_high_bytes=3 * GIB, derivation="")


@pytest.mark.parametrize(
    ("gap", "told"),
    [
        (replace(SHORT, alone=("restart-periodically",)),
         "Enough for the 2.00 GiB to 3.00 GiB that were missing: 2 alone"),
        (replace(SHORT, together=("move-process", "fewer-workers")),
         "Enough for the 2.00 GiB to 3.00 GiB that were missing: 1 and 3 together"),
        (replace(SHORT, together=("move-process", "restart-periodically", "more-host-memory"), pool="gpu"),
         "Enough for this request (2.00 GiB to 3.00 GiB short): 1, 2 and 4 together"),
        (replace(ROUGH, alone=("move-process",), pool="gpu"),
         "Enough for this request (about 0.01 GiB short): 1 alone"),
        (replace(ROUGH, alone=("move-process",)), "Enough for the 0.01 GiB that were missing: 1 alone"),
        (replace(SHORT, still_missing_bytes=GIB),
         "Not enough: with all of these 1.00 GiB of 2.00 GiB to 3.00 GiB would still be missing"),
        (replace(SHORT, missing_high_bytes=2 * GIB, still_missing_bytes=GIB),
         "Not enough: with all of these 1.00 GiB of 2.00 GiB would still be missing"),
        (SHORT, None),
        (None, None),
    ],
)  # fmt: skip
def test_what_of_it_is_enough(gap: Gap | None, told: str | None) -> None:
    found = words.enough(gap, HOG.remedies)
    assert (found and words.verdict(found)) == told


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "the step of the job ended and its tasks have been OOM Killed.",
            "...ended and its tasks have been OOM Killed.",
        ),
        ("[2026-01-01 10:00:00] [worker 7] MyError: no room is left", "...MyError: no room is left"),
        ("short: MyError: no room for all of the things", "short: MyError: no room for all of the th..."),
        ("[rank3]: MyError: out of memory, asked 2.50 GiB of 80", "...MyError: out of memory, asked 2.50 GiB..."),
        (
            "[2026-01-01 10:00:00] [worker 7] out of memory in the pool of batches",
            "...out of memory in the pool of batches",
        ),
        (
            "pool_of_buffers: allocating 2.00 MiB on device 2: grow failed: out of memory",
            "...on device 2: grow failed: out of memory",
        ),
        (
            "MyError: in worker 7: out of memory. Tried to allocate 3.50 GiB and got none",
            "...of memory. Tried to allocate 3.50 GiB ...",
        ),
        # within no figure, as a part of it is another one
        ("the pool of buffers has not enough rows 123456 of", "the pool of buffers has not enough rows ..."),
        ("the pool of buffers has not enough rows 1.5 and so", "the pool of buffers has not enough rows ..."),
        ("the pool of buffers has no room for d41d8cd98f00b2", "the pool of buffers has no room for d41d8..."),
        # up to what proves it
        (
            "W0301 kiln/elastic/api.py:908] all failed (exitcode: -11) of the binary",
            "...all failed (exitcode: -11) of the binary",
        ),
        (
            "kiln.OutOfKiln: out of resource: Required: 900001, Hardware limit: 80. Smaller blocks help",
            "...Required: 900001, Hardware limit: 80. ...",
        ),
        (
            "kiln[7]: error: Step 12.0 exceeded memory limit (91234567 > 81234567)",
            "...memory limit (91234567 > 81234567)",
        ),
        (
            "MyException: the third kiln for the cups failed with error no glaze is left. Ask the potter",
            "...failed with error no glaze is left. As...",
        ),
        ("the kiln in the cellar has exited with code 139 today", "...in the cellar has exited with code 139..."),
        ("Memory on the kiln's node was 121.60GB / 128.00GB (0.95)", "...kiln's node was 121.60GB / 128.00GB (..."),
        ("the kilns on this node are 121.60 of / 128.00 or so", "the kilns on this node are 121.60 of / ..."),
    ],
)
def test_a_line_that_is_cut_keeps_what_leads_to_a_few_words(line: str, shown: str) -> None:
    assert _shortened(line, 44) == shown


BAR = "Epoch 2:  40%|####      | 4/10 [00:12<00:18,  3.1s/it, loss=2.1]"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"{BAR}ERROR: a worker met an unexpected end of its file", "...ERROR: a worker met an unexpected end ..."),
        (f"{BAR} {BAR} Killed by a signal", "...Killed by a signal"),
        (BAR, "Epoch 2:  40%|####      | 4/10 [00:12<00:..."),  # the bar is all that it says
        ("loss 40%|4 of [10] steps were worth to be told here", "loss 40%|4 of [10] steps were worth to be..."),
    ],
)
def test_a_line_behind_a_progress_bar_begins_with_its_own_words(line: str, shown: str) -> None:
    assert _shortened(line, 44) == shown


@pytest.mark.parametrize(
    ("room", "begins"), [(90, "torch.OutOfMemoryError"), (50, "torch.OutOfMemoryError"), (30, "CUDA ran")]
)
def test_a_cut_line_begins_at_an_errors_name_and_not_at_other_words_for_it(room: int, begins: str) -> None:
    line = "a rank went out of memory while others waited: torch.OutOfMemoryError: CUDA ran short, 2.00 GiB"
    assert line[_up_to(line, len(line), room) :].startswith(begins)
