"""The pages are the same in the wheel, where all are one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import pages


def test_a_page_is_found_by_its_cause_and_language() -> None:
    assert (pages.page("container-limit") or "").startswith("# ")
    assert pages.page("container-limit", "zh") not in (None, pages.page("container-limit"))
    assert pages.page("container-limit", "xx") is None
    assert pages.page("no-cause") is None


def test_what_is_packed_is_what_stands_beside_the_causes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pages.pages()
    packed = tmp_path / "pages.txt"
    packed.write_bytes(pages.packed())
    monkeypatch.setattr(pages, "PACKED", packed)
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    assert pages.pages() == before
    assert len(before) > 80
