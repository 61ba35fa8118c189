"""Logs inside tar and zip archives: which are read, in which order, and what hostile ones cannot do."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from oomdoctor.sources import Found, gather, look
from oomdoctor.sources.archives import LONGEST_HEADER

LINE = b"(raylet) ray::Worker step %d: CUDA out of memory\n"
FILES = {
    "session_1/logs/worker-0a-01000000-3.out": LINE % 3 * 4000,
    "session_1/logs/raylet.out": LINE % 2 * 9000,
    "session_1/driver.log": LINE % 1 * 50,
    "session_1/logs/worker-0b-01000000-4.out": b"",
    "session_1/code/train.py": b"print('CUDA out of memory')\n",
    "session_1/runtime_resources/pip/out.log": b"hello\n",
    "session_1/core": b"\x7fELF" + bytes(2000),
}
IN_ORDER = ["session_1/driver.log", "session_1/logs/raylet.out", "session_1/logs/worker-0a-01000000-3.out"]


def tar(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def zipped(path: Path, files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


PACKERS: dict[str, Callable[[Path, dict[str, bytes]], Path]] = {
    "plain": tar,
    "gz": lambda path, files: tar(path, files, "w:gz"),
    "bz2": lambda path, files: tar(path, files, "w:bz2"),
    "xz": lambda path, files: tar(path, files, "w:xz"),
    "zip": zipped,
    "stored": lambda path, files: zipped(path, files, zipfile.ZIP_STORED),
}


def read(found: Found) -> dict[str, bytes]:
    return {source.name: b"".join(source.blocks()) for source in found.sources}


def whys(found: Found) -> list[str]:
    return [t.why for t in (*found.troubles, *(t for source in found.sources for t in source.troubles))]


@pytest.mark.parametrize("packer", PACKERS)
class TestEveryKind:
    def test_its_logs_are_read_in_their_order(self, packer: str, tmp_path: Path) -> None:
        found = look([str(PACKERS[packer](tmp_path / "logs.bin", FILES))])
        assert [source.name for source in found.sources] == [f"logs.bin/{name}" for name in IN_ORDER]
        assert read(found) == {f"logs.bin/{name}": FILES[name] for name in IN_ORDER}
        assert read(found) == {f"logs.bin/{name}": FILES[name] for name in IN_ORDER}, "they can be read again"
        assert whys(found) == []
        assert found.left_out == {
            "empty": 1,
            "no log by the name": 2,
            "no text": 1,
        }

    def test_they_can_be_read_in_any_order(self, packer: str, tmp_path: Path) -> None:
        found = look([str(PACKERS[packer](tmp_path / "logs.bin", FILES))])
        found.sources.reverse()
        assert read(found) == {f"logs.bin/{name}": FILES[name] for name in IN_ORDER}

    def test_two_of_them_half_read_do_not_mix(self, packer: str, tmp_path: Path) -> None:
        found = look([str(PACKERS[packer](tmp_path / "logs.bin", FILES))])
        first, second = found.sources[1:]
        begun = first.blocks()
        head = next(begun)
        assert b"".join(second.blocks()) == FILES[IN_ORDER[2]]
        assert head + b"".join(begun) == FILES[IN_ORDER[1]]

    def test_names_that_lead_out_are_ignored(self, packer: str, tmp_path: Path) -> None:
        files = {"../up.log": b"x\n", "a/../../up.log": b"x\n", "/etc/top.log": b"x\n", "C:\\x.log": b"x\n"}
        inside = {"./a/in..side.log": b"y\n"}
        found = look([str(PACKERS[packer](tmp_path / "logs.bin", {**files, **inside}))])
        assert read(found) == {"logs.bin/a/in..side.log": b"y\n"}
        assert found.left_out == {"names that lead out of the archive": 4}

    def test_an_archive_in_it_is_not_opened(self, packer: str, tmp_path: Path) -> None:
        inner = PACKERS[packer](tmp_path / "inner", {"a.log": b"x\n"}).read_bytes()
        found = look([str(PACKERS[packer](tmp_path / "o.bin", {"i.tar.gz": inner, "i": inner, "b.log": b"y\n"}))])
        assert read(found) == {"o.bin/b.log": b"y\n"}
        assert found.left_out == {
            "archives (read when they are named)": 1,
            "no text": 1,
        }

    def test_a_packed_log_in_it_is_unpacked(self, packer: str, tmp_path: Path) -> None:
        found = look([str(PACKERS[packer](tmp_path / "o.bin", {"raylet.out.1.gz": gzip.compress(LINE * 99)}))])
        assert read(found) == {"o.bin/raylet.out.1.gz": LINE * 99}

    def test_what_is_cut_short_gives_what_could_be_read(self, packer: str, tmp_path: Path) -> None:
        noise = {f"{n}.log": os.urandom(400_000).hex().encode() for n in range(4)}
        path = PACKERS[packer](tmp_path / "logs.bin", noise)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        found = look([str(path)])
        got = read(found)
        assert whys(found)
        assert all(noise[name.partition("/")[2]].startswith(data) for name, data in got.items())
        if packer == "plain":
            assert path.stat().st_size - sum(map(len, got.values())) < 8 * tarfile.BLOCKSIZE, "all but headers"
        assert got or packer in ("zip", "stored")

    def test_one_without_logs_says_so(self, packer: str, tmp_path: Path) -> None:
        found = look([str(PACKERS[packer](tmp_path / "logs.bin", {"train.py": b"x\n"}))])
        assert set(read(found).values()) == {b""}
        assert "archive without logs" in whys(found)[0]


def test_links_and_devices_in_a_tar_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_bytes(b"secret\n")
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        for kind, name in ((tarfile.SYMTYPE, "soft.log"), (tarfile.LNKTYPE, "hard.log"), (tarfile.CHRTYPE, "dev.log")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(tmp_path / "secret.log")
            archive.addfile(member)
        member = tarfile.TarInfo("a.log")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"x\n"))
    found = look([str(tmp_path / "logs.tar")])
    assert read(found) == {"logs.tar/a.log": b"x\n"}
    assert found.left_out == {"links": 2}


def test_links_in_a_zip_are_ignored(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        link = zipfile.ZipInfo("soft.log")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("a.log", "x\n")
    found = look([str(tmp_path / "logs.zip")])
    assert read(found) == {"logs.zip/a.log": b"x\n"}
    assert found.left_out == {"links": 1}


def test_a_bomb_in_a_zip_is_not_unpacked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oomdoctor.sources.unpack.FREE_OF_RATIO", 8 * 1024**2)
    path = zipped(tmp_path / "logs.zip", {f"{n}.log": b"=" * 20 * 1024**2 for n in range(4)})
    found = look([str(path)])
    sizes = [len(block) for source in found.sources for block in source.blocks()]
    assert sum(sizes) < 46 * 1024**2
    assert max(sizes) <= 2 * 1024**2
    assert all("unpacks to more than" in why for why in whys(found))
    assert whys(found)


def test_a_bomb_in_a_packed_tar_is_not_unpacked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oomdoctor.sources.unpack.FREE_OF_RATIO", 8 * 1024**2)
    path = tar(tmp_path / "logs.tar.gz", {f"{n}.log": b"=" * 20 * 1024**2 for n in range(4)}, "w:gz")
    found = look([str(path)])
    assert sum(map(len, read(found).values())) < 45 * 1024**2
    assert any("times its size" in why for why in whys(found))


def member(data: bytes, kind: bytes = tarfile.REGTYPE, name: str = "head") -> bytes:
    head = tarfile.TarInfo(name)
    head.type, head.size = kind, len(data)
    return head.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % tarfile.BLOCKSIZE)


def record(size: int) -> bytes:
    """An attribute of a member, as long as this in all."""
    begin = b"%d comment=" % size
    return begin + b"x" * (size - len(begin) - 1) + b"\n"


def long_name(size: int) -> bytes:
    return b"n.log".ljust(size, b"\0")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (tarfile.XHDTYPE, record),
        (tarfile.XGLTYPE, record),
        (tarfile.SOLARIS_XHDTYPE, record),
        (tarfile.GNUTYPE_LONGNAME, long_name),
        (tarfile.GNUTYPE_LONGLINK, long_name),
    ],
)
def test_a_huge_header_is_not_read_into_memory(kind: bytes, said: Callable[[int], bytes], tmp_path: Path) -> None:
    logs = member(b"x\n", name="a.log"), member(b"y\n", name="b.log") + bytes(2 * tarfile.BLOCKSIZE)
    small, huge = tmp_path / "small.tar", tmp_path / "huge.tar"
    small.write_bytes(member(said(LONGEST_HEADER), kind).join(logs))
    huge.write_bytes(member(said(LONGEST_HEADER + 1), kind).join(logs))
    found = look([str(small)])
    assert list(read(found).values()) == [b"x\n", b"y\n"]
    assert whys(found) == []
    found = look([str(huge)])
    assert list(read(found).values()) == [b"x\n"]
    assert whys(found) == ["damaged tar file: read up to the damage"]


def test_an_encrypted_member_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    path = zipped(tmp_path / "logs.zip", {"a.log": b"x\n", "b.log": b"y\n"}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + at] |= 1
    path.write_bytes(data)
    found = look([str(path)])
    assert read(found) == {"logs.zip/b.log": b"y\n"}
    assert [(t.file, t.why) for t in found.troubles] == [("logs.zip/a.log", "it is encrypted")]


@pytest.mark.parametrize("packer", ["plain", "gz", "zip"])
def test_of_too_many_files_the_first_are_read(packer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oomdoctor.sources.archives.MOST_MEMBERS", 2)
    found = look([str(PACKERS[packer](tmp_path / "logs.bin", {f"{n}.log": b"x\n" for n in range(3)}))])
    assert list(read(found)) == ["logs.bin/0.log", "logs.bin/1.log"]
    assert whys(found) == ["it holds more than 2 files: read only those"]
    found = look([str(PACKERS[packer](tmp_path / "logs.bin", {f"{n}.log": b"x\n" for n in range(2)}))])
    assert whys(found) == []


def test_a_method_that_unpacks_without_a_bound_is_not_tried(tmp_path: Path) -> None:
    path = zipped(tmp_path / "logs.zip", {"a.log": LINE % 1 * 99}, zipfile.ZIP_BZIP2)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("session/", b"")
        archive.writestr("session/b.log", b"y\n")
    found = look([str(path)])
    assert read(found) == {"logs.zip/session/b.log": b"y\n"}
    assert [t.file for t in found.troubles] == ["logs.zip/a.log"]
    assert "unpack it first" in found.troubles[0].why


def test_damage_inside_a_member_gives_what_stands_before_it(tmp_path: Path) -> None:
    noise = os.urandom(2_000_000).hex().encode()
    path = zipped(tmp_path / "logs.zip", {"a.log": noise, "b.log": b"y\n"})
    data = bytearray(path.read_bytes())
    data[1_500_000:1_500_100] = bytes(100)
    path.write_bytes(data)
    found = look([str(path)])
    got = read(found)
    assert got["logs.zip/a.log"][:2_000_000] == noise[:2_000_000]
    assert got["logs.zip/b.log"] == b"y\n"
    assert whys(found) == ["damaged zip file: read up to the damage"]


def test_an_archive_that_shrinks_once_it_is_listed(tmp_path: Path) -> None:
    path = tar(tmp_path / "logs.tar", {"a.log": b"x\n" * 900_000, "b.log": b"y\n"})
    found = look([str(path)])
    with path.open("r+b") as file:
        file.truncate(1_000_000)
    got = read(found)
    assert got["logs.tar/a.log"] == (b"x\n" * 900_000)[: 1_000_000 - tarfile.BLOCKSIZE]
    assert set(whys(found)) == {"truncated tar file: read up to where it ends"}


def test_the_same_name_twice_is_two_logs(tmp_path: Path) -> None:
    path = tar(tmp_path / "logs.tar", {"a.log": b"x\n"})
    with tarfile.open(path, "a") as archive:
        member = tarfile.TarInfo("a.log")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"y\n"))
    assert read(look([str(path)])) == {"logs.tar/a.log": b"x\n", "logs.tar/a.log (2)": b"y\n"}


def test_an_archive_in_a_folder_is_left_out_and_one_beside_it_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    folder.mkdir()
    tar(folder / "old.tar.gz", {"a.log": b"x\n"}, "w:gz")
    zipped(folder / "old.zip", {"a.log": b"x\n"})
    (folder / "b.log").write_bytes(b"y\n")
    found = look([str(folder)])
    assert read(found) == {"b.log": b"y\n"}
    assert found.left_out == {"archives (read when they are named)": 2}
    assert [source.name for source in gather([str(folder), str(folder / "old.zip")])[0]] == ["b.log", "old.zip/a.log"]


def test_a_single_log_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x\n")
    assert look([str(tmp_path / "a.log")]).left_out is None
