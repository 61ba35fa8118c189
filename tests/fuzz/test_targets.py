"""What the harnesses hold against any bytes, on some that need no fuzzer."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import mutations, targets
from oomdoctor import grammars, scan
from oomdoctor.redaction import Redactor

FEW = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", targets.TARGETS)
@FEW
@given(dice=st.randoms(use_true_random=False), more=st.binary(max_size=700))
def test_mutated_fixtures_and_any_bytes(name: str, dice: random.Random, more: bytes) -> None:
    targets.TARGETS[name](mutations.mutated(dice))
    targets.TARGETS[name](more)


@pytest.mark.parametrize("name", grammars.names())
@settings(FEW, max_examples=10)
@given(dice=st.randoms(use_true_random=False))
def test_every_grammar_on_mutated_fixtures(name: str, dice: random.Random) -> None:
    targets.run_grammar(name)(mutations.mutated(dice))


def test_a_slice_that_is_not_where_it_says_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scan.slices

    def moved(blocks: Iterable[bytes], anchors: tuple[bytes, ...]) -> list[scan.Slice]:
        return [scan.Slice(piece.first_line + 1, piece.data) for piece in real(blocks, anchors)]

    monkeypatch.setattr(scan, "slices", moved)
    with pytest.raises(AssertionError, match="does not stand where it says"):
        targets.run_scan(b"one\nCUDA out of memory\n")


def test_a_token_that_is_shown_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redactor, "text", lambda _self, text: text)
    with pytest.raises(AssertionError, match="token is shown"):
        targets.run_redactor(b"step 1\n")
