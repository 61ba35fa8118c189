"""Logs inside tar and zip archives: which are read, in which order, and what hostile ones cannot do."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def tar(path: Path, files: dict[str, bytes], mode: str = "w", **others: int) -> Path:
    with tarfile.open(path, mode, **others) as archive:  # type: ignore[call-overload]
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
    "xz": lambda path, files: tar(path, files, "w:xz", preset=0),
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

    def test_a_log_that_is_cut_or_spoilt_is_read_up_to_there(self, packer: str, tmp_path: Path) -> None:
        text = os.urandom(1_000_000).hex().encode()
        path = PACKERS[packer](tmp_path / "logs.bin", {"a.log": text})
        data = bytearray(path.read_bytes())
        if packer in ("zip", "stored"):
            data[len(data) * 3 // 4] ^= 1
        else:
            del data[len(data) * 3 // 4 :]
        path.write_bytes(data)
        found = look([str(path)])
        got = read(found)["logs.bin/a.log"]
        assert got[:800_000] == text[:800_000]
        assert [(t.file, t.why.split()[0]) for source in found.sources for t in source.troubles] in (
            [("logs.bin/a.log", "damaged")],
            [("logs.bin/a.log", "truncated")],
        )

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


def mended(header: bytearray) -> bytes:
    """A tar header that sums up again."""
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


@pytest.mark.parametrize("size", [2**63, 2**80, -1, -512])
def test_a_tar_ends_where_a_member_is_larger_than_any_file(size: int, tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("b.log").tobuf())
    header[124:136] = (size % 256**12 if size < 0 else 2**95 + size).to_bytes(12, "big")  # GNU's base-256
    good = tarfile.TarInfo("a.log")
    good.size = 2
    path = tmp_path / "logs.tar"
    path.write_bytes(good.tobuf() + b"x\n" + bytes(510) + mended(header) + b"y\n" * 5000)
    found = look([str(path)])
    assert read(found)["logs.tar/a.log"] == b"x\n"
    assert [(t.file, t.why) for t in found.troubles] == [("logs.tar", "damaged tar file: read up to the damage")]


def with_records(path: Path, records: dict[str, str]) -> Path:
    """A tar whose second member has these attributes."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, attributes in (("a.log", {}), ("b.log", records)):
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = 2, attributes
            archive.addfile(member, io.BytesIO(b"x\n"))
    with path.open("ab") as file:
        file.write(bytes(10_240))
    return path


@pytest.mark.parametrize(
    "records",
    [
        {"size": "9" * 30},
        {"size": "-99999"},
        {"GNU.sparse.map": "1,x", "GNU.sparse.size": "5"},
        {"GNU.sparse.size": "x"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
    ],
)
def test_attributes_that_say_nonsense_end_the_tar_only(records: dict[str, str], tmp_path: Path) -> None:
    found = look([str(with_records(tmp_path / "logs.tar", records))])
    assert read(found)["logs.tar/a.log"] == b"x\n"
    assert [(t.file, t.why) for t in found.troubles] == [("logs.tar", "damaged tar file: read up to the damage")]


def test_an_attribute_that_is_no_text_ends_the_tar_only(tmp_path: Path) -> None:
    path = with_records(tmp_path / "logs.tar", {"hdrcharset": "y"})
    path.write_bytes(path.read_bytes().replace(b"hdrcharset=y", b"hdrcharset=\xff"))
    found = look([str(path)])
    assert read(found) == {"logs.tar/a.log": b"x\n"}
    assert whys(found) == ["damaged tar file: read up to the damage"]


def test_long_names_of_long_names_end_the_tar_only(tmp_path: Path) -> None:
    good = tarfile.TarInfo("a.log")
    good.size = 2
    long = tarfile.TarInfo("././@LongLink")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 1
    nested = (long.tobuf(tarfile.GNU_FORMAT) + b"n" + bytes(511)) * 2000
    (tmp_path / "logs.tar").write_bytes(good.tobuf() + b"x\n" + bytes(510) + nested + bytes(10_240))
    found = look([str(tmp_path / "logs.tar")])
    assert read(found) == {"logs.tar/a.log": b"x\n"}
    assert whys(found) == ["damaged tar file: read up to the damage"]


def test_a_zip_member_of_another_name_in_its_header_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    path = zipped(tmp_path / "logs.zip", {"b\xe9.log": b"y\n", "a.log": b"x\n"})  # marked as UTF-8
    path.write_bytes(path.read_bytes().replace("b\xe9".encode(), b"b\xff\xfe", 1))
    found = look([str(path)])
    assert read(found) == {"logs.zip/a.log": b"x\n"}
    assert [(t.file, t.why) for t in found.troubles] == [
        ("logs.zip/b\xe9.log", "damaged zip file: read up to the damage")
    ]


@pytest.mark.parametrize("offset", [2**64 - 1, 2**63 + 5])
def test_a_zip_member_beyond_any_file_is_told_and_the_rest_is_read(offset: int, tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.log", b"x\n")
        archive.writestr("b.log", b"y\n")
        archive.getinfo("b.log").header_offset = offset
    found = look([str(path)])
    assert read(found) == {"logs.zip/a.log": b"x\n"}
    assert [(t.file, t.why) for t in found.troubles] == [("logs.zip/b.log", "damaged zip file: read up to the damage")]


def test_a_zip_member_without_a_name_is_a_log_as_it_is_in_a_tar(tmp_path: Path) -> None:
    tar(tmp_path / "logs.tar", {"": b"x\n", "a.log": b"y\n"})
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        with archive.open(zipfile.ZipInfo(""), "w") as nameless:
            nameless.write(b"x\n")
        archive.writestr("a.log", b"y\n")
    for kind in ("tar", "zip"):
        found = look([str(tmp_path / f"logs.{kind}")])
        assert read(found) == {f"logs.{kind}/.": b"x\n", f"logs.{kind}/a.log": b"y\n"}


def test_the_directory_of_a_zip_is_read_once_for_all_of_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []

    class Counted(zipfile.ZipFile):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            opened.append(args[0])

    files = {f"{n}.log": LINE % n for n in range(20)}
    path = zipped(tmp_path / "logs.zip", files)
    monkeypatch.setattr(zipfile, "ZipFile", Counted)
    found = look([str(path)])
    assert read(found) == read(found) == {f"logs.zip/{name}": data for name, data in files.items()}
    assert len(opened) == 1


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="open files cannot be counted here")
@pytest.mark.parametrize("packer", PACKERS)
def test_no_archive_stays_open(packer: str, tmp_path: Path) -> None:
    paths = [PACKERS[packer](tmp_path / f"{n}.bin", {"a.log": LINE % n, "b.log": LINE % n}) for n in range(10)]
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    found = look([str(path) for path in paths])
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208
    half_read = [next(source.blocks()) for source in found.sources if "zip" in source.name]
    assert len(read(found)) == 20
    del half_read


def test_logs_in_a_zip_can_be_given_to_another_process(tmp_path: Path) -> None:
    files = {f"{n}.log": LINE % n for n in range(3)}
    found = look([str(zipped(tmp_path / "logs.zip", files))])
    again: Found = pickle.loads(pickle.dumps(found))
    assert read(again) == {f"logs.zip/{name}": data for name, data in files.items()}
    assert len({id(source.part.archive) for source in again.sources}) == 1  # type: ignore[union-attr]


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
