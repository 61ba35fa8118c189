"""What is packed in the wheel is read as the files that stand in a checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oomdoctor import catalogues, grammars, packed, pages, spellings
from oomdoctor.remedies import settings

in_a_checkout = pytest.mark.skipif(spellings.PACKED.is_file(), reason="a wheel has nothing but what is packed")


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What was read before and during the test is read anew."""
    for known in (spellings._unpacked, spellings.title, settings.rows, settings._dated):
        known.cache_clear()
    yield
    for known in (spellings._unpacked, spellings.title, settings.rows, settings._dated):
        known.cache_clear()


@pytest.mark.slow
@in_a_checkout
def test_every_packed_file_is_written_where_its_reader_looks(tmp_path: Path) -> None:
    packed.write(tmp_path)
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {packed.PACKAGE / path.relative_to(tmp_path) for path in written} == {
        *(module.PACKED for module in (grammars, pages, spellings)),
        packed.PACKAGE / "locale" / "zh_CN" / catalogues.PACKED,
    }


@in_a_checkout
def test_the_packed_settings_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgetful: None
) -> None:
    before = {name: (spellings.title(name), settings.rows(name)) for name in spellings.frameworks()}
    file = tmp_path / "settings.txt"
    file.write_text(spellings.packed(), encoding="utf-8", newline="\n")
    monkeypatch.setattr(spellings, "PACKED", file)
    monkeypatch.setattr(spellings, "FOLDER", tmp_path)
    settings.rows.cache_clear()
    spellings.title.cache_clear()
    assert {name: (spellings.title(name), settings.rows(name)) for name in spellings.frameworks()} == before
    assert len(before) > 30
    assert sum(len(rows) for _, rows in before.values()) > 500
    assert spellings.packed() == file.read_text(encoding="utf-8")  # what is packed already stays as it is


@pytest.mark.parametrize("name", ["no-framework", "", "..", "../settings/verl", "settings"])
def test_a_framework_without_a_file_has_no_rows(name: str) -> None:
    assert settings.rows(name) == ()
    assert spellings.title(name) == name


def test_a_packed_catalogue_is_known_by_checksums_only_where_they_differ(tmp_path: Path) -> None:
    # both have the CRC-32 4ddb0c25
    (tmp_path / "one.po").write_text(
        'msgid "plumless"\nmsgstr "一"\n\nmsgid "buckeroo"\nmsgstr "二"\n', encoding="utf-8"
    )
    with pytest.raises(ValueError, match="checksum"):
        catalogues.packed(tmp_path)
