"""What is packed in the wheel is read as the files that stand in a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import catalogues, grammars, packed, pages

in_a_checkout = pytest.mark.skipif(grammars.PACKED.is_file(), reason="a wheel has nothing but what is packed")


@pytest.mark.slow
@in_a_checkout
def test_every_packed_file_is_written_where_its_reader_looks(tmp_path: Path) -> None:
    packed.write(tmp_path)
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {packed.PACKAGE / path.relative_to(tmp_path) for path in written} == {
        *(module.PACKED for module in (grammars, pages)),
        packed.PACKAGE / "locale" / "zh_CN" / catalogues.PACKED,
    }


def test_a_packed_catalogue_is_known_by_checksums_only_where_they_differ(tmp_path: Path) -> None:
    # both have the CRC-32 4ddb0c25
    (tmp_path / "one.po").write_text(
        'msgid "plumless"\nmsgstr "一"\n\nmsgid "buckeroo"\nmsgstr "二"\n', encoding="utf-8"
    )
    with pytest.raises(ValueError, match="checksum"):
        catalogues.packed(tmp_path)
