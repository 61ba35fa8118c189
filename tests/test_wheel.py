"""What a wheel brings along ready-made is what a checkout works out."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from oomdoctor import catalogues, families, grammars, needed, wheel
from oomdoctor.families import likeness
from oomdoctor.streams import page

in_a_checkout = pytest.mark.skipif(families.HEADS.is_file(), reason="a wheel has it already")
in_a_wheel = pytest.mark.skipif(not families.HEADS.is_file(), reason="only in a wheel")

CHINESE = Path("locale", "zh_CN")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    wheel.write(folder)
    return folder


@in_a_checkout
def test_all_is_written_where_its_reader_looks(built: Path) -> None:
    found = {path.relative_to(built) for path in built.rglob("*") if path.is_file()}
    inside = grammars.INSIDE.relative_to(wheel.PACKAGE)
    assert found == {
        families.HEADS.relative_to(wheel.PACKAGE),
        likeness.TABLE.relative_to(wheel.PACKAGE),
        needed.TABLE.relative_to(wheel.PACKAGE),
        *(inside / f"{name}.json" for name in grammars.names()),
        *(inside / f"{name}.lark" for name in [*grammars.names(), "common"]),
        *(CHINESE / f"{name}.mo" for name in ("causes", "remedies", "report")),
    }


@in_a_checkout
def test_every_table_is_read_and_is_of_the_text_beside_it(built: Path) -> None:
    for name in grammars.names():
        inside = built / grammars.INSIDE.name
        assert (inside / f"{name}.json").read_bytes() == grammars.written(name)
        assert (inside / f"{name}.lark").read_bytes() == (grammars.FOLDER / f"{name}.lark").read_bytes()


@in_a_wheel
def test_the_wheel_has_the_tables_and_heads_that_its_sources_give() -> None:
    assert families.HEADS.read_text(encoding="utf-8") == families.heads()
    assert likeness.TABLE.read_bytes() == likeness.written()
    # what draws a report may be loaded here, too: of its patterns the wheel's table has none
    known = [it for it in wheel._patterns() if needed.needed(*it) is not None]
    assert len(known) > 500
    for it in known:
        assert needed.needed(*it) == needed.worked_out(*it)
    for name in grammars.names():
        assert grammars.table(name).read_bytes() == grammars.written(name)


@in_a_checkout
def test_the_heads_are_those_of_the_families(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = families.whole()
    monkeypatch.setattr(families, "HEADS", built / families.HEADS.relative_to(wheel.PACKAGE))
    headed = tuple(families._headed())
    assert len(headed) > 30
    for one, other in zip(headed, loaded, strict=True):
        parts = ("name", "anchors", "triggers", "last", "otherwise")
        assert [getattr(one, part) for part in parts] == [getattr(other, part) for part in parts]


def test_a_family_bears_its_modules_name_by_which_a_wheel_loads_it() -> None:
    for family in families.whole():
        assert family == importlib.import_module(f"oomdoctor.families.{family.name}").FAMILY


def test_a_family_is_read_by_its_module_when_it_is_asked() -> None:
    line = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    (event,) = families._reader("cuda")(page("a.log", 1, line, ends=True), 0)
    assert isinstance(event, families.Event)
    assert event.family == "cuda"


@in_a_checkout
def test_the_compiled_catalogues_say_what_the_written_ones_say(built: Path) -> None:
    compiled, written = catalogues.reader(built / CHINESE), catalogues.reader(wheel.PACKAGE / CHINESE)
    texts = [text for path in (wheel.PACKAGE / CHINESE).glob("*.po") for text, _ in catalogues._entries(path) if text]
    assert len(texts) > 1000
    assert [text for text in texts if compiled(text) != written(text)] == []
    assert compiled("nobody says it") == "nobody says it"
    assert compiled("half a character: \udcff") == "half a character: \udcff"


def test_a_catalogue_is_compiled_as_it_is_read_and_always_the_same(tmp_path: Path) -> None:
    written = tmp_path / "one.po"
    written.write_text(
        'msgid "one"\nmsgstr "一"\n\n#, fuzzy\nmsgid "two"\nmsgstr "二"\n\nmsgid "three"\nmsgstr ""\n', encoding="utf-8"
    )
    before = catalogues.reader(tmp_path)
    compiled = tmp_path / "compiled" / "one.mo"
    compiled.parent.mkdir()
    wheel._compile(written, compiled)
    after = catalogues.reader(compiled.parent)
    for text in ("one", "two", "three", "four"):
        assert after(text) == before(text)
    assert b"1970-01-01 00:00+0000" in compiled.read_bytes()
