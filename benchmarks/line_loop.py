"""What one writes in a minute: every line, one pattern. `python -m benchmarks.line_loop LOG LITERALS`."""

import re
import sys
from pathlib import Path

literals = Path(sys.argv[2]).read_bytes().splitlines()
pattern = re.compile(b"|".join(map(re.escape, literals)))
with Path(sys.argv[1]).open("rb") as log:
    print(sum(pattern.search(line) is not None for line in log))
