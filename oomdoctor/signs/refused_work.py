"""A refusal at a limit on address space: what the job did, as the traceback shows it, says more than the limit."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE
from oomdoctor.signs import Seen, held_data, sign
from oomdoctor.signs.address_space import ARRAYS
from oomdoctor.signs.generation import cache_of_a_generation_was_refused
from oomdoctor.signs.host_data import (
    a_data_library_was_refused,
    a_wide_table_was_refused,
    arrow_was_refused,
    memory_ran_out_while_reading_data,
    refused_while_reading_data,
    strings_of_one_width,
)
from oomdoctor.signs.host_engines import a_pass_computes_on_the_host
from oomdoctor.signs.host_loading import refused_while_loading_weights
from oomdoctor.signs.set_limits import address_limit, beyond_a_printed_limit, host_refusal

_WORK: Final = (
    a_pass_computes_on_the_host,
    held_data.a_hash_table_was_to_grow,
    held_data.a_table_was_made_whole,
    cache_of_a_generation_was_refused,
    refused_while_loading_weights,
    refused_while_reading_data,
    memory_ran_out_while_reading_data,
    a_data_library_was_refused,
    a_wide_table_was_refused,
    arrow_was_refused,
    strings_of_one_width,
    held_data.the_data_fill_the_address_space,
    held_data.things_were_collected,
)
LARGE_PART: Final = 0.25
_OF_THE_SYSTEM: Final = ("os", "windows")  # a fork, a thread or a mapping was refused, and no memory for data


@sign
def the_refused_work_is_shown(crash: Crash) -> Seen | None:
    """Address space is limited, and the traceback shows what filled it: reading data, loading weights, a pass of the
    model or its cache. Whoever set the limit meant the job to need less."""
    refused = host_refusal(crash)
    if refused is None or refused.allocator in _OF_THE_SYSTEM or address_limit(crash) is None:
        return None
    if beyond_a_printed_limit(crash, refused):
        return None
    return Seen(words="") if any(work(crash) is not None for work in _WORK) else None


@sign
def the_refused_array_is_shown(crash: Crash) -> Seen | None:
    """Address space is limited, and one array that NumPy or PyTorch could not make takes a quarter of it to all."""
    refused, limit = host_refusal(crash), address_limit(crash)
    if refused is None or limit is None or refused.allocator not in ARRAYS:
        return None
    return Seen(words="") if max(LARGE_PART * limit, LARGE) <= (refused.tried_bytes or 0) <= limit else None


__all__ = ["the_refused_array_is_shown", "the_refused_work_is_shown"]
