"""Print a command of README.md: the fenced block behind the comment `<!-- NAME -->`."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def command(name: str) -> str:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    block = re.search(rf"<!-- {re.escape(name)} -->\n+```\w*\n(.*?)```", readme, re.DOTALL)
    if block is None:
        sys.exit(f"README.md has no block behind <!-- {name} -->")
    return block[1].rstrip("\n")


if __name__ == "__main__":
    sys.stdout.write(command(sys.argv[1]) + "\n")
