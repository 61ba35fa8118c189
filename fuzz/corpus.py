"""A first corpus for the harnesses: the fixtures, of one family or of all.

python -m fuzz.corpus FOLDER [ray_kill]
"""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz.mutations import FIXTURES


def main() -> None:
    folder, family = Path(sys.argv[1]), (sys.argv[2:] or ["*"])[0]
    folder.mkdir(parents=True, exist_ok=True)
    for log in FIXTURES.glob(f"{family}/*.log"):
        (folder / f"{log.parent.name}-{log.stem}").write_bytes(log.read_bytes())


if __name__ == "__main__":
    main()
