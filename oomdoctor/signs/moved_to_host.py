"""What a job's own last lines say that it moves to host memory or keeps there."""

from __future__ import annotations

from itertools import islice
from typing import Final

from oomdoctor.families.event import RAM
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import own_lines
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign

_LAST: Final = 3  # lines: where the job still did it
_VERB: Final = r"\b(?:offload|mov|plac|keep|stag|park|swap|spill|evict|put)\w{0,4}\b|\bkept\b|\bheld\b"
_OF_A_MODEL: Final = (
    r"\b(?:experts?|weights?|layers?|param(?:eter)?s|blocks?|optimi[sz]er(?: states?)?|moments?|states|activations"
    r"|hidden states|kv(?: cache| blocks)?|embeddings)\b"
)
_TO_THE_HOST: Final = (
    r"\b(?:on|to|in|into|onto)\b(?: the| a)?(?: pinned)? (?:(?:main|system) (?:memory|ram)|host|cpu|d?ram)\b"
)
_OTHERWISE: Final = late(r"(?i)\b(?:from|sav(?:e|ed|ing)|checkpoint|snapshot|not|no|without|fail\w*|back)\b")
_MOVED: Final = late(rf"(?i)^(?=.{{0,200}}?(?:{_VERB}))(?=.{{0,200}}?{_OF_A_MODEL}).{{0,200}}?{_TO_THE_HOST}")
# "experts on the host: 5.8 GiB", "kv blocks in host memory = 4.1 GB"
_COUNTED: Final = late(rf"(?i){_OF_A_MODEL}.{{0,60}}?{_TO_THE_HOST}.{{0,20}}?\d[\d.,]{{0,12}} ?[kmgt]i?b\b")


@sign
def its_lines_move_to_the_host(crash: Crash) -> Seen | None:
    """A last line of the job says that parts of the model or its states go to host memory, or how large they are
    there."""
    if crash.pool not in RAM:
        return None
    line = next((line for line in islice(own_lines(crash), _LAST) if _says_so(line)), None)
    if line is None:
        return None
    words = say("The job's last lines say that it keeps parts of the model or its states in host memory.")
    return Seen(words=words, evidence=(crash.root,))


def _says_so(line: str) -> bool:
    said = _MOVED.search(line) or _COUNTED.search(line)
    return said is not None and _OTHERWISE.search(line) is None
