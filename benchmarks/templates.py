"""What a miner of log templates makes of a log: `python -m benchmarks.templates LOG`. Needs drain3."""

import sys
from pathlib import Path

from drain3 import TemplateMiner
from drain3.template_miner_config import TemplateMinerConfig

miner = TemplateMiner(config=TemplateMinerConfig())
with Path(sys.argv[1]).open(encoding="utf-8", errors="replace") as log:
    for line in log:
        miner.add_log_message(line)
print(len(miner.drain.clusters))
