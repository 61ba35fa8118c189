"""Logs of nodes that are gone: from this machine, and from wherever fsspec reaches."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from oomdoctor.cluster.archived import archived


def kept(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / f"{name}.out"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(*paths: Path | str) -> list[str]:
    with archived([str(path) for path in paths]) as found:
        assert found.troubles == []
        return [source.name for source in found.sources]


def test_a_folder_s_name_stands_before_its_logs(tmp_path: Path) -> None:
    one = kept(tmp_path / "a" / "10.0.0.7", raylet="a line\n")
    two = kept(tmp_path / "b" / "10.0.0.7", raylet="a line\n")
    assert names(one, two) == ["10.0.0.7/raylet.out", "10.0.0.7-2/raylet.out"]


def test_a_single_log_keeps_its_name(tmp_path: Path) -> None:
    log = kept(tmp_path, driver="a line\n") / "driver.out"
    assert names(log) == ["driver.out"]


def test_nothing_there_is_a_trouble_and_the_rest_is_read(tmp_path: Path) -> None:
    log = kept(tmp_path, driver="a line\n") / "driver.out"
    with archived([str(tmp_path / "none"), str(log)]) as found:
        assert [trouble.why for trouble in found.troubles] == ["no such file"]
        assert [source.name for source in found.sources] == ["driver.out"]


def test_an_address_needs_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oomdoctor.cluster.archived.find_spec", lambda _: None)
    with archived(["s3://logs/10.0.0.7"]) as found:
        (trouble,) = found.troubles
    assert trouble.file == "s3://logs/10.0.0.7"
    assert "pip install 'oomdoctor[remote]'" in trouble.why


@pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec")
class TestRemote:
    def store(self, files: dict[str, str]) -> None:
        import fsspec

        there = fsspec.filesystem("memory")
        there.store.clear()
        for name, text in files.items():
            there.pipe(name, text.encode())

    def test_a_folder_s_logs_are_copied_and_read(self) -> None:
        self.store({"/ray/10.0.0.7/logs/raylet.out": "a line\n", "/ray/10.0.0.7/logs/worker-1.out": "a line\n"})
        with archived(["memory://ray/10.0.0.7"]) as found:
            assert [source.name for source in found.sources] == [
                "10.0.0.7/logs/raylet.out",
                "10.0.0.7/logs/worker-1.out",
            ]
            assert b"".join(found.sources[0].blocks()) == b"a line\n"
            copies = [source.path for source in found.sources if source.path is not None]
        assert len(copies) == 2
        assert not any(path.exists() for path in copies)

    def test_what_is_no_log_is_not_copied(self) -> None:
        self.store(
            {"/ray/n/raylet.out": "a line\n", "/ray/n/model.safetensors": "x", "/ray/n/runtime_resources/a.out": "x"}
        )
        with archived(["memory://ray/n"]) as found:
            (source,) = found.sources
            assert source.path is not None
            assert sum(path.is_file() for path in source.path.parent.rglob("*")) == 1

    def test_a_single_log(self) -> None:
        self.store({"/ray/driver.log": "a line\n"})
        assert names("memory://ray/driver.log") == ["driver.log"]

    def test_nothing_there(self) -> None:
        self.store({})
        with archived(["memory://ray/none"]) as found:
            assert [trouble.why for trouble in found.troubles] == ["no such file"]

    def test_a_scheme_that_nothing_reads(self) -> None:
        with archived(["nonsense://a/b"]) as found:
            (trouble,) = found.troubles
        assert trouble.file == "nonsense://a/b"
        assert found.sources == []
