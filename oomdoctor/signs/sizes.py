"""Sizes that were asked for in one piece: those that no machine has, and those that machines have."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import BEYOND_COUNTING, BEYOND_NUMPY, HostAllocation
from oomdoctor.families.jax_tf import AllocationProbe, ArrayOutOfMemory
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.broadcasts import loss_over_every_pair
from oomdoctor.signs.calendar import range_since_1970
from oomdoctor.signs.made import as_large_as_all_pairs, of_two_models
from oomdoctor.signs.trace import innermost, refusal
from oomdoctor.units import GIB, NO_MACHINE, TIB, show

_OnADevice = DeviceOutOfMemory | ArrayOutOfMemory | LibraryOutOfMemory | Shortage

MANY_ELEMENTS: Final = 10**15  # of one byte each: no machine has room for them
NO_CARD: Final = TIB  # where the card's size is not printed
LARGEST_HOST: Final = 2 * TIB  # what a node with eight cards has
_OF_64_BITS: Final = 1 << 64
_OF_32_BITS: Final = 1 << 32
MANY_HOSTS: Final = 3 * TIB // 4
USUAL_HOST: Final = 64 * GIB
FEW_HOSTS: Final = 256 * GIB
MANY_CARDS: Final = 4  # times the card: possible for a tensor over all pairs of tokens
_BEYOND_BYTES: Final = late(r"\b\d{8,12}(?:\.\d)? Tb\b")  # of 1024^4 bytes: src/main/memory.c of R
_BEYOND_COUNTING = late(
    rf"{BEYOND_COUNTING}|MemoryError: capacity too large"  # also Arrow's, since 0.1
    rf"|\b{BEYOND_NUMPY}\b"
    r"|\barray is too big\b"  # numpy/core/src/multiarray/ctors.c: more bytes than npy_intp counts
)
LONGEST_SIDE: Final = 0xFFFF  # pixels: what a JPEG has room for (ITU-T T.81, B.2.2)
_SIDES: Final = late(r"\((\d{1,12}), ?(\d{1,12})(?:, ?[1-4])?\)")  # and its channels
_OF_A_PICTURE: Final = r"(?i)crop|resiz|rescal|letter_?box|copyMakeBorder|warp_?(?:affine|perspective)"
_OF_A_SLIDE: Final = r"(?i)slide|\bwsi|tifffile|rasterio|gdal|geotiff"  # whose pictures are that large
ODD_CARDS: Final = 16  # times the card: for such a tensor, too, the inputs would have to be very long


@sign
def device_size_that_no_machine_has(crash: Crash) -> Seen | None:
    """8 TiB or more (or a negative size) was requested on a GPU."""
    event, tried = _on_a_device(crash)
    if event is None or 0 <= tried < NO_MACHINE:
        return None
    words = say("{words} was requested, which no machine has: a shape is wrong.", words=_words(event, tried))
    return Seen(words=words, evidence=(event,))


@sign
def device_size_beyond_printing(crash: Crash) -> Seen | None:
    """So much was requested on a GPU that the framework prints only how much it exceeds."""
    event = refusal(crash) or crash.root
    if not isinstance(event, DeviceOutOfMemory) or event.beyond_bytes is None:
        return None
    words = say(
        "More than {size} was requested, which no machine has: a shape is wrong.", size=show(event.beyond_bytes)
    )
    return Seen(words=words, evidence=(event,))


@sign
def device_size_of_many_cards(crash: Crash) -> Seen | None:
    """Sixteen times the GPU's memory was requested, or 1 TiB."""
    event, tried = _on_a_device(crash)
    total = _total(event)
    least = min(ODD_CARDS * total, NO_CARD) if total else NO_CARD
    return _of_several_cards(event, tried) if event is not None and tried >= least else None


@sign
def device_size_of_several_cards(crash: Crash) -> Seen | None:
    """Four times the GPU's memory was requested."""
    event, tried = _on_a_device(crash)
    total = _total(event)
    if event is None or not total or tried < MANY_CARDS * total:
        return None
    return _of_several_cards(event, tried)


def _of_several_cards(event: _OnADevice, tried: int) -> Seen:
    total = _total(event)
    words = (
        say(
            "{words} was requested, {times} times the GPU's memory: a shape may be wrong.",
            words=_words(event, tried),
            times=f"{tried / total:.0f}",
        )
        if total
        else say("{words} was requested: a shape may be wrong.", words=_words(event, tried))
    )
    against = (say("with very long inputs, a tensor over all pairs of tokens can be as large"),)
    return Seen(words=words, evidence=(event,), against=against)


@sign
def device_size_that_cards_have(crash: Crash) -> Seen | None:
    """A quarter of the GPU or more was requested, but less than the whole."""
    event, tried = _on_a_device(crash)
    total = _total(event)
    if event is None or not total or not total // 4 <= tried < total or loss_over_every_pair(crash) is not None:
        return None
    return Seen(words=say("{tried} of {total} is a plausible size for a GPU", tried=show(tried), total=show(total)))


def _total(event: _OnADevice | None) -> int | None:
    """What the card has, where the message says so."""
    return None if event is None or isinstance(event, LibraryOutOfMemory) else event.total_bytes


def _on_a_device(crash: Crash) -> tuple[_OnADevice | None, int]:
    """The refused request with its size; none where the host refused it, or without one."""
    event = refusal(crash) or crash.root
    if isinstance(crash.root, HostAllocation) or not isinstance(event, _OnADevice) or event.pool != "gpu":
        return None, 0
    tried = event.array_bytes if isinstance(event, ArrayOutOfMemory) else event.tried_bytes
    return (event, tried) if tried is not None else (None, 0)


def _words(event: _OnADevice, tried: int) -> str | None:
    return event.array_words if isinstance(event, ArrayOutOfMemory) else show(tried)


@sign
def probe_for_what_no_card_has(crash: Crash) -> Seen | None:
    """A framework requested 8 TiB or more at its start: the size that it counted as free."""
    probe = crash.root
    if not isinstance(probe, AllocationProbe) or (probe.tried_bytes or 0) < NO_MACHINE:
        return None
    words = say(
        "The framework counted {tried} as free and requested it; no GPU has as much.",
        tried=show(probe.tried_bytes or 0),
    )
    return Seen(words=words, evidence=(probe,))


@sign
def host_size_that_no_machine_has(crash: Crash) -> Seen | None:
    """8 TiB or more (or a negative size) was requested in host memory."""
    event, tried = _on_the_host(crash)
    return _in_one_piece(crash, event, tried) if event is not None and not 0 <= tried < NO_MACHINE else None


@sign
def size_of_all_pairs(crash: Crash) -> Seen | None:
    """A value for every pair takes as much, up to what some machine has."""
    impossible = device_size_that_no_machine_has(crash) or host_size_that_no_machine_has(crash)
    impossible = impossible or loss_over_every_pair(crash)
    return as_large_as_all_pairs(crash) if impossible is None else None


@sign
def host_size_beyond_counting(crash: Crash) -> Seen | None:
    """A container was asked to hold more than it can count."""
    root = crash.root
    if not isinstance(root, HostAllocation):
        return None
    if asked := _BEYOND_BYTES.search(root.at.text):
        words = say("{asked} were requested, more than bytes can be counted: a length is wrong.", asked=asked[0])
        return Seen(words=words, evidence=(root,))
    if _BEYOND_COUNTING.search(root.at.text) is None:
        return None
    words = say("A container was asked to hold more elements than it can count: a length is wrong.")
    return Seen(words=words, evidence=(root,))


@sign
def count_that_has_overflowed(crash: Crash) -> Seen | None:
    """A program was about to take a negative number of elements, one of sixteen digits, or an overflowed product."""
    root = crash.root
    if not isinstance(root, Shortage) or root.unit is not None:
        return None
    if not root.factors and (root.needed is None or 0 <= root.needed < MANY_ELEMENTS):
        return None
    count = " × ".join(map(str, root.factors)) or str(root.needed)
    words = say("The program was about to take {count} elements: a shape or a count is wrong.", count=count)
    return Seen(words=words, evidence=(root,))


@sign
def host_size_beyond_the_largest(crash: Crash) -> Seen | None:
    """2 to 8 TiB was requested in host memory: a node with eight GPUs has 2 TiB."""
    event, tried = _on_the_host(crash)
    return _in_one_piece(crash, event, tried) if event is not None and LARGEST_HOST <= tried < NO_MACHINE else None


@sign
def host_size_of_the_largest(crash: Crash) -> Seen | None:
    """768 GiB to 2 TiB was requested in host memory."""
    event, tried = _on_the_host(crash)
    if event is None or not MANY_HOSTS <= tried < LARGEST_HOST:
        return None
    return _in_one_piece(crash, event, tried, against=(say("the largest machines have as much"),))


@sign
def host_size_that_few_machines_have(crash: Crash) -> Seen | None:
    """256 to 768 GiB was requested, and the log does not print the machine's memory size."""
    event, tried = _on_the_host(crash)
    if event is None or not FEW_HOSTS <= tried < MANY_HOSTS or _memory(crash) is not None:
        return None
    words = say(
        "A single allocation requested {tried}, which few machines have: a shape or a count may be wrong.",
        tried=show(tried),
    )
    against = (say("the log does not print the machine's memory size"),)
    return Seen(words=words, evidence=(event,), against=against)


@sign
def picture_beyond_any_format(crash: Crash) -> Seen | None:
    """A line that crops or scales pictures asked for one with both sides longer than a JPEG's may be, and nothing
    speaks of slides or maps."""
    event, tried = _on_the_host(crash)
    sides = _SIDES.fullmatch(event.shape or "") if isinstance(event, HostAllocation) else None
    if event is None or sides is None or min(int(sides[1]), int(sides[2])) <= LONGEST_SIDE:
        return None
    if innermost(crash, _OF_A_PICTURE) is None or crash.shows(_OF_A_SLIDE):
        return None
    words = say(
        "The code that crops or scales a picture requested one of {shape} ({tried}); both sides are longer than the "
        "longest of a JPEG. A box, a padding or a scale is wrong.",
        shape=sides[0],
        tried=show(tried),
    )
    return Seen(words=words, evidence=(event,), stage="data_load" if crash.stage == "unknown" else None)


_WRONG_AT_ANY_SIZE: Final = (picture_beyond_any_format, of_two_models, loss_over_every_pair, range_since_1970)


@sign
def host_size_that_machines_have(crash: Crash) -> Seen | None:
    """Less than 64 GiB was requested in host memory, for nothing that is wrong at any size."""
    event, tried = _on_the_host(crash)
    if event is None or not 0 <= tried < USUAL_HOST:
        return None
    if any(wrong(crash) is not None for wrong in _WRONG_AT_ANY_SIZE):
        return None
    return Seen(words=say("{tried} is a plausible size for a machine", tried=show(tried)))


def _on_the_host(crash: Crash) -> tuple[HostAllocation | Shortage | None, int]:
    root = crash.root
    if not isinstance(root, HostAllocation | Shortage) or root.pool != "host_ram" or root.tried_bytes is None:
        return None, 0
    return (None, 0) if _there_is_half_of_it(root, root.tried_bytes) else (root, root.tried_bytes)


def _there_is_half_of_it(root: HostAllocation | Shortage, tried: int) -> bool:
    """Whether the program itself printed that its machine has as much, or nearly."""
    return any(there is not None and 2 * there >= tried > 0 for there in (root.free_bytes, root.total_bytes))


def _memory(crash: Crash) -> int | None:
    total = crash.context.hardware.get("ram_bytes")
    return total if isinstance(total, int) else None


def overflowed(tried: int) -> int | None:
    """What a size was before it overflowed a signed number of 32 bits and was widened to 64 with its sign."""
    negative = tried - _OF_64_BITS if tried >= 0 else tried
    return negative + _OF_32_BITS if -_OF_32_BITS // 2 <= negative < 0 else None


def overflowed_request(crash: Crash) -> tuple[int, int] | None:
    """What the host was asked for, read with its sign, and what it probably was."""
    event, tried = _on_the_host(crash)
    meant = overflowed(tried) if event is not None else None
    return None if meant is None else (meant - _OF_32_BITS, meant)


@sign
def size_that_has_overflowed(crash: Crash) -> Seen | None:
    """A negative size, as a count of 32 bits makes it beyond 2 GiB."""
    found = overflowed_request(crash)
    if found is None:
        return None
    words = say(
        "{negative} bytes were requested, which a signed number of 32 bits holds for {meant}: a size beyond 2 GiB has "
        "overflowed in the program.",
        negative=found[0],
        meant=show(found[1]),
    )
    return Seen(words=words, evidence=(crash.root,))


def _in_one_piece(crash: Crash, event: HostAllocation | Shortage, tried: int, against: tuple[str, ...] = ()) -> Seen:
    total = _memory(crash)
    shape = event.shape if isinstance(event, HostAllocation) else None
    words = _of_a_shape(shape, tried, total) if shape else _of_no_shape(tried, total)
    return Seen(words=words, evidence=(event,), against=against)


def _of_a_shape(shape: str, tried: int, total: int | None) -> str:
    if total:
        return say(
            "An array of shape {shape} requested {tried}, {times} times the machine's memory: a shape or a "
            "count is wrong.",
            tried=show(tried),
            shape=shape,
            times=f"{tried / total:.0f}",
        )
    return say(
        "An array of shape {shape} requested {tried}: a shape or a count is wrong.",
        tried=show(tried),
        shape=shape,
    )


def _of_no_shape(tried: int, total: int | None) -> str:
    if total:
        return say(
            "A single allocation requested {tried}, {times} times the machine's memory: a shape or a count is wrong.",
            tried=show(tried),
            times=f"{tried / total:.0f}",
        )
    return say("A single allocation requested {tried}: a shape or a count is wrong.", tried=show(tried))
