"""What a source gives of real files: packed, in any encoding, broken, binary, pipes and devices."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from oomdoctor.sources import Source, Trouble, gather
from oomdoctor.sources.source import BLOCK

LOG = b"".join(b"(RolloutWorker pid=%d) step %d: CUDA out of memory\n" % (n, n) for n in range(3000))


def zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd as module

        return module.compress(data)
    zstandard = pytest.importorskip("zstandard")
    packed: bytes = zstandard.ZstdCompressor().compress(data)
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    "zstd": zstd,
}


def source(folder: Path, data: bytes, name: str = "job.log") -> Source:
    path = folder / name
    path.write_bytes(data)
    (found,), troubles = gather([str(path)])
    assert not troubles
    return found


def read(log: Source) -> bytes:
    return b"".join(log.blocks())


def whys(log: Source) -> list[str]:
    return [trouble.why for trouble in log.troubles]


def test_a_plain_file(tmp_path: Path) -> None:
    log = source(tmp_path, LOG)
    assert read(log) == LOG
    assert (log.name, log.size, log.troubles, log.notes) == ("job.log", len(LOG), [], [])
    assert read(log) == LOG, "it can be read again"
    assert log.size == len(LOG)


def test_a_plain_file_comes_in_the_blocks_that_are_searched(tmp_path: Path) -> None:
    text = LOG * 24
    blocks = list(source(tmp_path, text).blocks())
    assert [len(block) for block in blocks if block] == [BLOCK, BLOCK, BLOCK, len(text) - 3 * BLOCK]
    assert b"".join(blocks) == text


@pytest.mark.parametrize("packer", PACKERS)
class TestPacked:
    def test_it_is_known_by_its_content(self, packer: str, tmp_path: Path) -> None:
        log = source(tmp_path, PACKERS[packer](LOG), name="job.log")
        assert read(log) == LOG
        assert log.troubles == []

    def test_members_one_after_the_other_are_one_log(self, packer: str, tmp_path: Path) -> None:
        log = source(tmp_path, PACKERS[packer](LOG) + PACKERS[packer](b"second\n"))
        assert read(log) == LOG + b"second\n"

    def test_a_truncated_one_gives_what_could_be_read(self, packer: str, tmp_path: Path) -> None:
        random.seed(1)  # bytes that do not pack, so that there is more than one packed block
        noise = b"\n".join(b"%x" % random.getrandbits(400) for _ in range(20_000))
        packed = PACKERS[packer](noise)
        log = source(tmp_path, packed[: len(packed) * 3 // 4])
        text = read(log)
        assert noise.startswith(text)
        assert len(text) > len(noise) // 3
        assert whys(log) == [f"truncated {packer} file: read up to where it ends"]

    def test_a_damaged_one_says_so(self, packer: str, tmp_path: Path) -> None:
        packed = bytearray(PACKERS[packer](LOG * 10))
        packed[len(packed) // 2 : len(packed) // 2 + 40] = b"\xa5" * 40
        log = source(tmp_path, bytes(packed))
        read(log)
        assert whys(log) == [f"damaged {packer} file: read up to the damage"]

    def test_a_bomb_is_not_unpacked_to_its_end(
        self, packer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oomdoctor.sources.unpack.FREE_OF_RATIO", 8 * 1024**2)
        log = source(tmp_path, PACKERS[packer](b"=" * 40 * 1024**2))
        sizes = [len(block) for block in log.blocks()]
        assert sum(sizes) < 30 * 1024**2
        assert max(sizes) <= 17 * 1024**2
        assert "times its size" in whys(log)[0]

    def test_an_archive_inside_is_named(self, packer: str, tmp_path: Path) -> None:
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("raylet.out"), io.BytesIO(b""))
        log = source(tmp_path, PACKERS[packer](tar.getvalue()))
        assert read(log) == b""
        assert whys(log) == ["no log but a tar archive without logs or in a pipe: logs in it are read from a file"]


def test_text_that_only_begins_like_a_packed_file_is_text(tmp_path: Path) -> None:
    assert read(source(tmp_path, b"BZh9 is how bzip2 begins\n")) == b"BZh9 is how bzip2 begins\n"


TEXT = "训练 step 17\r\nCUDA out of memory. 🔥\r\n" * 500


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_comes_as_utf8(encoding: str, tmp_path: Path) -> None:
    text = TEXT + "x" * 3_000_001 + "\n" + TEXT  # several blocks, none of which ends between characters
    log = source(tmp_path, text.encode(encoding))
    assert read(log).decode() == text
    assert log.troubles == []


def test_utf16_big_endian_with_its_mark(tmp_path: Path) -> None:
    log = source(tmp_path, b"\xfe\xff" + TEXT.encode("utf-16-be"))
    assert read(log).decode() == TEXT


def test_an_odd_byte_at_the_end_of_utf16_is_no_failure(tmp_path: Path) -> None:
    log = source(tmp_path, "Killed\n".encode("utf-16") + b"K")
    assert read(log).decode() == "Killed\n\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("encoding", ["gbk", "gb18030", "latin-1"])
def test_other_supersets_of_ascii_pass_as_they_are(encoding: str, tmp_path: Path) -> None:
    data = "mémoire: CUDA out of memory\n".encode("latin-1") if encoding == "latin-1" else "内存不足\n".encode(encoding)
    assert read(source(tmp_path, data * 100)) == data * 100


def test_blocks_of_nuls_are_left_out_and_told(tmp_path: Path) -> None:
    log = source(tmp_path, b"\0" * 100_000 + b"one\n" + b"\0" * 5000 + b"two\n")
    assert read(log) == b"one\ntwo\n"
    assert log.notes == ["job.log: 105,000 NUL bytes left out (a crash or a rotation cut a write short)"]
    assert log.troubles == []


@pytest.mark.parametrize(
    ("data", "why"), [(b"", "empty"), (b"\0" * 5000, "nothing but NUL bytes"), (b"\xef\xbb\xbf", "empty")]
)
def test_nothing_to_read_is_said(data: bytes, why: str, tmp_path: Path) -> None:
    log = source(tmp_path, data)
    assert read(log) == b""
    assert whys(log) == [why]


def checkpoint() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", b"out of memory")
    return archive.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(checkpoint(), id="zip"),
        pytest.param(pickle.dumps({"out of memory": list(range(1000))}), id="pickle"),
        pytest.param(Path(sys.executable).resolve().read_bytes()[:200_000], id="program"),
        pytest.param(random.Random(0).randbytes(50_000), id="noise"),
        pytest.param(b"".join(n.to_bytes(4, "little") for n in range(20_000)), id="integers"),
        pytest.param((40).to_bytes(8, "little") + b'{"w":{"dtype":"BF16","shape":[1,2]}}' + b"ab" * 90, id="tensors"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + b"x" * 300, id="image"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    log = source(tmp_path, data, name="model")
    assert read(log) == b""
    (trouble,) = log.troubles
    assert trouble.file == "model"
    assert trouble.why.startswith("no log but ")
    assert "\n" not in trouble.why


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x1b[36m(Actor pid=1)\x1b[0m ok\x1b[K\n" * 50, id="colours"),
        pytest.param(b"\x08\x08\x08\x0812/50 [==>...] - ETA: 3s\r" * 500, id="progress bar"),
        pytest.param(b"Killed\n", id="short"),
        pytest.param(b"log\x00with\x00some\x00NULs and words enough\n" * 30, id="some NULs"),
        pytest.param("显存不足，进程已被杀死\n".encode("gbk") * 40, id="gbk"),
        pytest.param(b"PKG: installed\nMZ\n%PDF is a word here\n", id="words"),
    ],
)
def test_text_with_odd_bytes_is_read(data: bytes, tmp_path: Path) -> None:
    log = source(tmp_path, data)
    assert read(log) == data.replace(b"\0", b"")
    assert log.troubles == []


CUT = (
    b"--- Log has been truncated to last 1000 lines. Use `--tail` flag to toggle."
    b" Set to -1 for getting the entire file. ---\n\n"
)


def test_a_log_that_ray_has_cut_is_told(tmp_path: Path) -> None:
    log = source(tmp_path, CUT + LOG, "raylet.txt")
    assert read(log) == CUT + LOG
    assert log.notes == [
        "raylet.txt: `ray logs` cut this to its last 1,000 lines; run it again with `--tail -1` for the whole log"
    ]


@pytest.mark.parametrize("data", [LOG, b"he said: " + CUT, LOG + CUT])
def test_a_log_that_is_not_cut_is_not_told_of(data: bytes, tmp_path: Path) -> None:
    log = source(tmp_path, data)
    read(log)
    assert log.notes == []


def test_a_file_that_vanishes_before_it_is_read(tmp_path: Path) -> None:
    log = source(tmp_path, LOG)
    (tmp_path / "job.log").unlink()
    assert read(log) == b""
    assert log.troubles == [Trouble("job.log", "no such file")]


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    log = source(tmp_path, LOG * 40)
    blocks = log.blocks()
    first = next(blocks)
    os.truncate(tmp_path / "job.log", len(first) + 10)
    got = first + b"".join(blocks)
    assert got == (LOG * 40)[: log.size]
    assert log.size < len(LOG * 40)
    assert log.troubles == []


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are others there")
def test_a_file_that_may_not_be_read_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes(b"hello\n")
    (tmp_path / "b.log").chmod(0)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    script = (
        "import os, sys; from oomdoctor.sources import gather\n"
        "for s in gather(sys.argv[1:])[0]: b''.join(s.blocks())\n"  # late imports, where only root reads
        "if os.geteuid() == 0: os.setuid(65534)\n"  # root may read everything
        "sources, troubles = gather(sys.argv[1:])\n"
        "for s in sources: print(s.name, b''.join(s.blocks()), [t.why for t in s.troubles])\n"
        "print([t.why for t in troubles])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.splitlines() == [
        "a.log b'hello\\n' []",
        "b.log b'' ['permission denied']",
        "c.log b'hello\\n' []",
        "['permission denied']",
    ]


def in_a_process(*arguments: str, feed: bytes | None = None) -> list[str]:
    script = (
        "import sys; from oomdoctor.sources import gather\n"
        "sources, troubles = gather(sys.argv[1:])\n"
        "for s in sources: print(s.name, len(b''.join(s.blocks())), [t.why for t in s.troubles], s.notes)\n"
        "print(troubles)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], input=feed or b"", capture_output=True, timeout=20, check=True
    )
    return done.stdout.decode().splitlines()


def test_a_pipe_is_read_to_its_end() -> None:
    assert in_a_process("-", feed=LOG * 30) == [f"<stdin> {30 * len(LOG)} [] []", "[]"]


def test_a_pipe_may_be_packed_and_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"hello\n")
    lines = in_a_process("-", str(tmp_path / "a.log"), "-", feed=gzip.compress(LOG))
    assert lines == [f"<stdin> {len(LOG)} [] []", "a.log 6 [] []", "[]"]


def test_a_pipe_that_dribbles_is_recognised() -> None:
    """The first write is too short to tell the encoding."""
    script = "import os, sys\nfor byte in sys.argv[1].encode('utf-16'): os.write(1, bytes([byte]))"
    reader = "import sys\nfrom oomdoctor.sources import gather\nprint(b''.join(gather(['-'])[0][0].blocks()))"
    with subprocess.Popen([sys.executable, "-c", script, "Killed\n" * 30], stdout=subprocess.PIPE) as writer:
        done = subprocess.run(
            [sys.executable, "-c", reader], stdin=writer.stdout, capture_output=True, timeout=20, check=True
        )
    assert eval(done.stdout) == b"Killed\n" * 30


def test_an_empty_pipe_is_told() -> None:
    assert in_a_process("-") == ["<stdin> 0 ['empty'] []", "[]"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
class TestNoFiles:
    def test_a_fifo_that_nobody_writes_to_does_not_hang(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert in_a_process(str(tmp_path / "pipe")) == ["pipe 0 ['empty'] []", "[]"]

    def test_a_fifo_in_a_folder_is_left_alone(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.log")
        (tmp_path / "job.log").write_bytes(b"hello\n")
        assert in_a_process(str(tmp_path)) == ["job.log 6 [] []", "[]"]

    def test_the_output_of_another_command_is_read(self) -> None:
        """`oomdoctor diagnose <(kubectl logs pod)`: the shell gives a pipe under a file's name."""
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(b"CUDA out of memory\n")
        (log,), troubles = gather([f"/dev/fd/{reading}"])
        assert read(log) == b"CUDA out of memory\n"
        assert (log.troubles, troubles) == ([], [])
        os.close(reading)

    def test_a_device_is_refused(self) -> None:
        (log,), _ = gather(["/dev/zero"])
        assert read(log) == b""
        assert whys(log) == ["not a file"]
