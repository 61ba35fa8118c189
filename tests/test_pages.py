"""The pages of the causes are found."""

from __future__ import annotations

from oomdoctor import pages


def test_a_page_is_found_by_its_cause_and_language() -> None:
    assert (pages.page("container-limit") or "").startswith("# ")
    assert pages.page("container-limit", "zh") not in (None, pages.page("container-limit"))
    assert pages.page("container-limit", "xx") is None
    assert pages.page("no-cause") is None
