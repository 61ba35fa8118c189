"""The grammars: islands in any text, what stands before a cut is kept, and what is wrong with a grammar shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor import grammars

NAMES = grammars.names()

SENTENCE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.25 GiB is "
    "free. Process 8805 has 31.50 GiB memory in use. Including non-PyTorch memory, this process has 46.40 GiB memory "
    "in use. Of the allocated memory 44.10 GiB is allocated by PyTorch, and 812.25 MiB is "
    "reserved by PyTorch but unallocated."
)


def clauses_of(text: str) -> list[grammars.Clause]:
    return list(grammars.clauses("cuda", text))


def test_clauses_come_in_the_order_of_the_text_with_their_values() -> None:
    assert clauses_of(SENTENCE) == [
        ("tried", ("2.00 GiB",)),
        ("gpu", ("3",)),
        ("total", ("79.15 GiB",)),
        ("free", ("1.25 GiB",)),
        ("process", ("8805", "31.50 GiB")),
        ("own", ("46.40 GiB",)),
        ("allocated", ("44.10 GiB",)),
        ("unallocated", ("812.25 MiB",)),
    ]


def test_a_sentence_that_is_cut_anywhere_gives_what_stands_before_the_cut() -> None:
    whole = clauses_of(SENTENCE)
    for cut in range(len(SENTENCE)):
        found = clauses_of(SENTENCE[:cut])
        complete = found[:-1]  # the last one may lack its value
        assert complete == whole[: len(complete)], SENTENCE[:cut]
        assert [name for name, _ in found] == [name for name, _ in whole[: len(found)]]


# Those whose families tell an error's number from others
NAME_DIGITS = {"data_loader", "host_alloc"}
QUANTIFIER = re.compile(r"\{\d*,?\d*\}")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NAME_DIGITS])
def test_a_text_is_parsed_once_for_all_its_figures_only_where_no_terminal_names_a_digit(name: str) -> None:
    for terminal in grammars.build(name).terminals:
        pattern = QUANTIFIER.sub("", terminal.pattern.to_regexp()).replace("0-9", "")
        assert re.search(r"\d", pattern) is None, terminal


def test_figures_of_the_same_shape_are_each_texts_own() -> None:
    other = SENTENCE.translate(str.maketrans("0123456789", "9876543210"))
    grammars._places.cache_clear()
    assert grammars.said("cuda", SENTENCE) == clauses_of(SENTENCE)
    assert grammars.said("cuda", other) == clauses_of(other)
    assert grammars._places.cache_info().misses == 1


def test_repeated_and_reordered_clauses_are_all_there() -> None:
    found = clauses_of(
        "1.00 GiB is reserved by PyTorch but unallocated. Process 7 has 2.00 GiB. Process 8 has 3.00 GiB."
    )
    assert found == [("unallocated", ("1.00 GiB",)), ("process", ("7", "2.00 GiB")), ("process", ("8", "3.00 GiB"))]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=200) | st.text("GPU 0.9iB()[]{}'\":,=/\\\n\t\x1b%killedMEM", max_size=200))
def test_any_text_is_an_answer_and_no_failure(name: str, text: str) -> None:
    found = grammars.clauses(name, text)
    assert all(isinstance(value, str) for _, values in found for value in values)
    if name not in NAME_DIGITS:
        assert grammars.said(name, text) == list(found)


def test_a_text_outside_the_language_gives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "strict.lark").write_text('start: "yes"', encoding="utf-8")
    (tmp_path / "wrong.lark").write_text("start: missing", encoding="utf-8")
    monkeypatch.setattr(grammars, "FOLDER", tmp_path)
    assert grammars.parse("strict", "yes") is not None
    assert grammars.parse("strict", "no") is None
    with pytest.raises(Exception, match="missing"):
        grammars.parse("wrong", "yes")


def test_a_grammar_is_built_once() -> None:
    grammars.parse("cuda", "a")
    built = grammars._parser.cache_info().misses
    grammars.parse("cuda", "b")
    assert grammars._parser.cache_info().misses == built
