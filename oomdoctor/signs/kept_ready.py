"""What a pipeline of data keeps ready: as many batches or examples as an option says, of a size that the job prints."""

from __future__ import annotations

from math import prod
from typing import Final

from msgspec import Struct

from oomdoctor.families.event import RAM
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE
from oomdoctor.incident.prints import own_lines, type_of_numbers
from oomdoctor.job.model import Setting
from oomdoctor.job.verbs import words_of
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import HALF, memory_in_all
from oomdoctor.units import percent, show

# TensorFlow prints a batch of any size so: "TensorSpec(shape=(None, 320, 320, 3), dtype=tf.float32, name=None)"
_EXAMPLE: Final = late(
    r"\(None(?P<shape>(?:, ?\d{1,9}){1,4})\)[^\n]{0,30}?dtype=(?:tf\.|torch\.|np\.|<dtype: ')?(?P<type>\w{4,10})"
)
_LENGTH: Final = late(r"\d{1,9}")
_BATCHES: Final = frozenset({"batches", "prefetch"})  # words of an option that counts batches
_EXAMPLES: Final = frozenset({"shuffle", "buffer"})  # and of one that counts what batches are made of
_NEVER: Final = frozenset({"mb", "mib", "gb", "bytes", "replay", "factor", "seed", "log"})
_KNOBS: Final = ("smaller-buffers", "smaller-microbatch", "smaller-input", "narrow-dtypes", "more-host-memory")
_PART: Final = 0.3  # of the memory there is: what reads the data, the model and its passes take some, too


class Ready(Struct, frozen=True):
    """What an option has kept ready when it is all there."""

    option: Setting
    each_bytes: int  # of what the option counts
    formula: str  # of one of these

    @property
    def count(self) -> int:
        return self.option.whole or 0

    @property
    def bytes(self) -> int:
        return self.count * self.each_bytes


@sign
def more_is_kept_ready_than_there_is(crash: Crash) -> Seen | None:
    """The job was killed, and what it is told to keep ready of its data takes half of the memory there is, or 1 GiB
    where nobody knows how much that is."""
    ready, whole = kept_ready(crash), memory_in_all(crash)
    if ready is None or ready.bytes < (HALF * whole if whole else LARGE):
        return None
    words = say(
        "{name} keeps {count} ready: {count} x {each} = {size} ({formula}).",
        name=ready.option.flag, count=ready.count, each=show(ready.each_bytes), size=show(ready.bytes),
        formula=ready.formula,
    )  # fmt: skip
    beside = (
        say("That is {share} of the {whole} there are.", share=percent(ready.bytes / whole), whole=show(whole))
        if whole
        else ""
    )
    return Seen(words=joined((words, beside)), evidence=(crash.root,), stage="data_load", knobs=_KNOBS)


def kept_ready(crash: Crash) -> Ready | None:
    """By the job's options and the shape of a batch that it prints."""
    if not isinstance(crash.root, KernelKill | Kill) or crash.pool not in RAM:
        return None
    example = next((match for line in own_lines(crash) if (match := _EXAMPLE.search(line)) is not None), None)
    numbers = type_of_numbers(example["type"]) if example is not None else None
    if example is None or numbers is None:
        return None
    lengths = [int(length) for length in _LENGTH.findall(example["shape"])]
    size, formula = prod(lengths) * numbers[0], f"{' x '.join(map(str, lengths))} x {numbers[0]}"
    batch = crash.setting("batch_size", "train_batch_size", "batch")
    for one in crash.context.settings.values():
        words = frozenset(words_of(one.name))
        if not one.written or (one.whole or 0) < 1 or not words.isdisjoint(_NEVER):
            continue
        if words & _BATCHES and batch is not None and batch.whole:
            return Ready(one, batch.whole * size, f"{batch.whole} x {formula}")
        if words & _EXAMPLES:
            return Ready(one, size, formula)
    return None


def as_many_as_fit(ready: Ready, whole: int | None) -> int:
    """Of what is kept ready; a quarter where nobody knows how much memory there is."""
    return max(1, int(_PART * whole) // ready.each_bytes if whole else ready.count // 4)


__all__ = ["Ready", "as_many_as_fit", "kept_ready", "more_is_kept_ready_than_there_is"]
