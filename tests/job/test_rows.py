"""doing.txt is a table that people write: every row is whole, and says nothing that another place does not know."""

from __future__ import annotations

import re

import pytest

from oomdoctor.job import rows
from oomdoctor.job.rows import GENERATION, INFERENCE, STEPS, TABLE, TRAINING, Names, Row
from oomdoctor.report.vocabulary import STAGES

WHERE = (
    "noun", "verb", "kernel", "lie", "function", "file", "code", "operation", "other operation", "worker", "progress",
    "finished", "aftermath", "start", "kind",
)  # fmt: skip
NOBODYS = ("noun", "verb", "kernel")
LINES = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")][1:]
COLUMNS = [[*line.split("|", 3)[:3], *line.split("|", 3)[3].rsplit("|", 2)] for line in LINES]
ALL = [row for where in WHERE for row in rows.about(where)]


def test_every_row_is_of_a_known_place_and_none_is_lost() -> None:
    assert len(ALL) == len(LINES) > 400
    assert {row.where for row in ALL} == set(WHERE)


def test_every_stage_is_one_of_the_contract_and_has_a_verb() -> None:
    assert {row.stage for row in ALL} - {GENERATION, INFERENCE, TRAINING, ""} <= set(STAGES)
    assert set(STAGES) - {"unknown"} <= set(STEPS)
    assert {row.step for row in ALL} - {""} <= {
        *STEPS.values(),
        "move",
        "wake",
        "warm",
        "tokenize",
        "train",
        "convert",
        "quantize",
        "build",
    }
    assert all(row.step != STEPS[row.stage] for row in ALL if row.step), "the stage's own verb needs no word"


@pytest.mark.parametrize("columns", COLUMNS, ids=[columns[3].strip()[:40] for columns in COLUMNS])
def test_every_row_has_a_pattern_and_says_where_it_is_from(columns: list[str]) -> None:
    weight, _, where, pattern, framework, source = (column.strip() for column in columns)
    assert float(weight) in (0, 0.5, 0.9, 1, 1.5, 2, 3, 4)
    assert pattern
    assert (framework, source) == ("any", "any") if where in NOBODYS else framework != "any" != source
    assert "  " not in pattern
    if where in ("verb", "kernel"):
        assert re.fullmatch(r"[a-z ]+ ::?(?: [\w .]+)?", pattern)
    if where in ("file", "worker", "noun"):
        assert pattern.count(" : ") == 1
    if where in ("progress", "aftermath", "start", "operation", "other operation"):
        assert pattern == pattern.lower() and max(map(len, pattern.split("*"))) >= 4


def test_no_name_stands_twice() -> None:
    for where in ("function", "code", "progress", "aftermath"):
        names = [
            name
            for row in rows.about(where)
            for name in ([row.pattern] if where != "function" else row.pattern.split())
        ]
        assert len(names) == len(set(names)), where


def test_a_class_of_words_is_used_and_a_word_of_a_verb_is_none_that_silences() -> None:
    nouns = {row.pattern.partition(" : ")[0]: row.pattern.partition(" : ")[2].split() for row in rows.about("noun")}
    used = {word for row in rows.about("verb") for word in row.pattern.split() if word.isupper()}
    assert used - {"BAR"} == nouns.keys() - {"OTHER", "FILLER"}
    verbs = {word for row in rows.about("verb") for word in row.pattern.partition(":")[0].split()}
    assert verbs.isdisjoint(nouns["OTHER"])


def test_a_row_has_its_own_verb_or_its_stages() -> None:
    assert Row(3, "weight_sync", "wake", "function", "x").verb == "wake"
    assert Row(3, "weight_sync", "", "function", "x").verb == "sync"
    assert Row(0, "", "", "", "").verb == ""


@pytest.mark.parametrize(
    ("names", "function", "held"),
    [
        ("step", "step", True),
        ("step", "_step", True),
        ("step", "stepper", False),
        ("load_*", "_load_x", True),
        ("load_*", "load", False),
        ("*_state", "make_state", True),
        ("*_state", "state", False),
        ("*", "anything", True),
        ("__init__", "__init__", True),
        ("__init__", "init", False),
    ],
)
def test_names_hold_with_stars_and_whatever_underscores_stand_in_front(names: str, function: str, held: bool) -> None:
    assert Names(names).hold(function) is held


def test_within_a_line_the_first_row_counts_and_its_pieces_stand_behind_one_another() -> None:
    held = rows.of_line("progress", "Loading safetensors checkpoint shards:  50%")
    assert held is not None and held.pattern == "loading * checkpoint shards"
    assert rows.of_line("progress", "checkpoint shards are loading ") is None
    assert rows.of_line("progress", "x" * 400 + "memory profiling takes") is None
    assert rows.of_line("progress", "nothing of the kind") is None
