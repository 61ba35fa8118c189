"""What to look at after an error that is none of memory, where its own words do not say enough."""

from __future__ import annotations

import shlex
from typing import Final

from msgspec import Struct

from oomdoctor.language import mark, translated
from oomdoctor.patterns import late
from oomdoctor.reading.ending import ABORTED, FAILED_BUILD
from oomdoctor.report.contract import Report
from oomdoctor.signs.commands import FIRST_ERRORS

OF_A_BUILD: Final = "grep -n -m 5 -i -E 'error:|fatal|killed|not found' <the whole log>"
DISKS: Final = "df -h; df -i; quota -s"
# In KiB, as Levanter sets it for v5e and v5p (and 98304 for v6e), whose cores have 128 MiB; XLA's own limit is 16 MiB
MORE_VMEM: Final = "export LIBTPU_INIT_ARGS=--xla_tpu_scoped_vmem_limit_kib=50000"


class NextStep(Struct, frozen=True):
    words: str
    command: str


_STEPS: Final = (
    (
        FAILED_BUILD,
        mark("The compiler's own message is not in the log; if it says Killed, RAM ran out:"),
        OF_A_BUILD,
    ),
    (
        late(rf"(?:.{{0,200}}: )?{ABORTED}"),
        mark("The log does not say why it aborted; the first error of the whole log would:"),
        FIRST_ERRORS,
    ),
    (  # caffe2/serialize/inline_container.cc: what the file system took was less than was to be written
        late(
            r"\bPytorchStreamWriter failed writing file\b|\bunexpected pos \d{1,15} vs \d"
            r"|\bNo space left on device\b|\bDisk quota exceeded\b"
        ),
        mark("A file could not be written: see whether the disk or your quota is full"),
        DISKS,
    ),
    (
        late(r"\bof 16\.00M vmem\b|\blimit 16\.00M exceeded scoped vmem limit\b"),
        mark(
            "Make the kernel's blocks smaller; on v5e, v5p, v6e XLA may use more vmem, too (Levanter sets 50000 KiB):"
        ),
        MORE_VMEM,
    ),
)
# A build that ninja was told to do in a folder of its own can be done again from everywhere; only plain words of its
# command are taken over.
_OF_NINJA: Final = late(r"Command '\[(?P<words>'ninja'(?:, '[\w./+=@:,~-]{1,300}'){1,20})\]' returned")


def next_step(report: Report) -> NextStep | None:
    """What would tell more of the error that a log without a memory failure ends with."""
    error = report.last_error
    if error is None:
        return None
    step = next((row for row in _STEPS if row[0].search(error.text)), None)
    if step is None:
        return None
    _, words, command = step
    return NextStep(translated(words), _build_again(error.text) or command)


def _build_again(text: str) -> str | None:
    ninja = _OF_NINJA.search(text)
    if ninja is None or "'-C'" not in ninja["words"]:
        return None
    return shlex.join(word.strip("'") for word in ninja["words"].split(", "))


__all__ = ["NextStep", "next_step"]
