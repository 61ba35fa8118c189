"""The batch of an evaluation, which is not that of the training, whose option changes nothing there."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Context, Setting
from oomdoctor.patterns import late
from oomdoctor.remedies.settings import Spelling, known_versions, of_knob

_KNOB: Final = "smaller-microbatch"
_STAGE: Final = "eval"
_EVALUATES: Final = late(r"(?i)(?:^|[._-])(?:eval|evaluation|val|valid|validation|test|predict|inference)(?:[._-]|$)")
_BATCH: Final = late(r"(?i)batch_?-?size|bsz|batchsize")
_TRAINS: Final = late(r"(?i)train|micro|ppo|update")


def concerns(knob: str, crash: Crash) -> bool:
    return knob == _KNOB and crash.stage == _STAGE


def row_of(row: Spelling | None, context: Context) -> Spelling | None:
    """The framework's own option for it; none where it only knows that of the training."""
    if row is None or _EVALUATES.search(row.key):
        return row
    known = known_versions(row.framework, context)
    own = (one for one in of_knob(_KNOB, row.framework) if _EVALUATES.search(one.key) and one.versions.overlaps(known))
    return next(own, None if _TRAINS.search(row.key) else row)


def now_of(row: Spelling | None, context: Context) -> Setting | None:
    """What the log states of it: under the option's name, under another that speaks of evaluation, or of no step."""
    stated = {name: one for name, one in context.settings.items() if _BATCH.search(name)}
    if row is not None and (exact := context.setting(row.key)) is not None:
        return exact
    if row is not None and _EVALUATES.search(row.key):
        return None
    own = (one for name, one in stated.items() if _EVALUATES.search(name))
    return next(own, next((one for name, one in stated.items() if not _TRAINS.search(name)), None))


__all__ = ["concerns", "now_of", "row_of"]
