from __future__ import annotations

import pytest

from oomdoctor.versions import ALL, Versions, version_of, versions


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=0.10.2", ["0.10.2", "0.10.2.post1", "1.0"], ["0.10.1", "0.10.1.post2", "0.9.9"]),
        ("<0.10.2", ["0.1", "0.10.1.post2"], ["0.10.2", "1.0"]),
        ("<=0.7.1", ["0.7.1", "0.7.1.post1"], ["0.7.2"]),
        (">0.7.1", ["0.7.2"], ["0.7.1"]),
        ("==0.6.3", ["0.6.3", "0.6.3.post1"], ["0.6.4", "0.6.2"]),
        (">=0.5.8 <0.8.1", ["0.5.8", "0.8.0.post1"], ["0.5.7", "0.8.1"]),
        ("", ["0.0.1", "99.1"], []),
        (">=b2771 <b6325", ["b2771", "6324"], ["b880", "b6325", "10105"]),
    ],
)
def test_a_range_holds_its_releases(text: str, inside: list[str], outside: list[str]) -> None:
    known = versions(text)
    for release in inside:
        number = version_of(release)
        assert number is not None
        assert known.holds(number), release
    for release in outside:
        number = version_of(release)
        assert number is not None
        assert not known.holds(number), release


def test_two_ranges_together() -> None:
    old, new, middle = versions("<0.10.2"), versions(">=0.10.2"), versions(">=0.6 <0.11")
    assert old.both(new) is None
    assert not old.overlaps(new)
    both = old.both(middle)
    assert both is not None
    assert (both.since, both.before) == ((0, 6), (0, 10, 2))
    assert old.either(new) == ALL
    assert str(versions(">=0.4 <0.8").either(versions(">=0.8"))) == ">=0.4"
    assert str(versions(">=0.4 <0.8").either(versions(">=0.6 <0.9"))) == ">=0.4 <0.9"


def test_what_is_certain_needs_no_assumption() -> None:
    printed = Versions.exactly("0.8.5.post1")
    assert printed is not None
    assert versions(">=0.5.8 <0.10.2").covers(printed)
    assert not versions(">=0.10.2").covers(printed)
    assert not versions("<0.10.2").covers(ALL)
    assert Versions.exactly(None) is None
    assert Versions.exactly("main") is None
    assert Versions.exactly("45") is None
    assert Versions.exactly("4500 more") is None
