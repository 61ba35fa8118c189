"""A wheel's files compressed anew by zopfli, which takes its time and saves a twentieth: python .ci/tighten.py WHEEL.

What unpacks a wheel does not see a difference. Needs the package zopflipy, whose version decides the bytes.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import zopfli


def tighten(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    before = wheel.stat().st_size
    with zopfli.ZipFile(wheel, "w", iterations=5) as archive:
        for info, content in files:
            archive.writestr(info, content, info.compress_type)
    sys.stdout.write(f"{wheel.name}: {before} bytes, tightened {wheel.stat().st_size}\n")


if __name__ == "__main__":
    tighten(Path(sys.argv[1]))
