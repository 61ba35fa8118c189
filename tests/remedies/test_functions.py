"""The functions of the knobs, each in the module that the table names."""

from __future__ import annotations

import pytest

from oomdoctor.remedies.functions import COMPUTE, OF_THE_ENGINE, compute
from oomdoctor.remedies.knobs import KNOBS


@pytest.mark.parametrize("knob", COMPUTE)
def test_each_is_a_function_of_its_module(knob: str) -> None:
    found = compute(knob)
    assert found is not None
    assert f"{found.__module__}.{found.__qualname__}" == f"oomdoctor.remedies.{COMPUTE[knob]}"


def test_only_knobs_have_one() -> None:
    assert COMPUTE.keys() <= KNOBS.keys()
    assert OF_THE_ENGINE.keys() <= COMPUTE.keys()
    assert compute("a-knob-that-is-not-there") is None
    assert [knob for knob in KNOBS if compute(knob) is None] == [knob for knob in KNOBS if knob not in COMPUTE]
