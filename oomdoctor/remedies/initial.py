"""What to begin with where the log does not print what an option is now: its default, or the least that there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from oomdoctor.arithmetic import vllm
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.engine_facts import facts
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import framework
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies import cells
from oomdoctor.remedies.engine.known import card_total
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal
from oomdoctor.remedies.settings import Spelling, assumed_releases, known_versions
from oomdoctor.signs.placement import parent
from oomdoctor.signs.trace import card
from oomdoctor.units import in_digits
from oomdoctor.versions import version_of

# The least with which a program still works, where least.txt has no other one for the option
LEAST: Final[Mapping[str, int]] = {
    "smaller-microbatch": 1,
    "fewer-workers": 1,
    "fewer-environments": 1,
}
# Half of a context that nobody printed cuts off what the job needs, and half of a budget may be less than one request
_OF_TOKENS: Final = ("shorter-context", "shorter-sequences", "smaller-prefill", "token-budget-batching")
_BY_THE_CARD: Final = (vllm.NAME, "fewer-sequences")  # an option whose default hangs on it
BESIDE_ITS_SHARE: Final = 0.25  # of the GPU: CUDA graphs and what a step works with take less
# Where a worker process is seen, the default of none is not what holds
_LOADS_WITH_WORKERS: Final = r"DataLoader worker|utils/data/_utils/worker|\bpt_data_worker\b"
_TOKENS: Final = late(r"(?i)token|(?:^|[._-])(?:max|seq\w{0,6})_?len(?:gth)?\b")


def default_of(case: Case) -> tuple[float, tuple[str, ...]] | None:
    """What the option is where nobody sets it, and that this was assumed; of several releases the smallest."""
    row = case.row
    if row is None or case.now is not None:
        return None
    value, releases = _usual(row, case)
    if value is None or _is_another(value, case) or _is_named_with_a_value(row.key, case.crash):
        return None
    told = say("{name} is {value} (its default, not in the log)", name=row.setting, value=in_digits(value))
    return value, (told, *releases)


def _usual(row: Spelling, case: Case) -> tuple[float | None, tuple[str, ...]]:
    """The default of the table; of vLLM's sequences by its engine and the card, and of which releases it is."""
    context = case.crash.context
    known = known_versions(row.framework, context)
    if (row.framework, row.knob) != _BY_THE_CARD:
        return row.smallest_default(version_of(context.frameworks.get(row.framework)), known), ()
    engine, card = facts(case.crash).engine, context.hardware.get("gpu_name")
    value = vllm.default_sequences(known, engine, card_total(case.crash), card if isinstance(card, str) else "")
    later = engine == "V1" and value == vllm.FEW_SEQUENCES and not vllm.BY_THE_CARD.covers(known)
    return value, (assumed_releases(row.framework, vllm.BY_THE_CARD, context),) if later else ()


def _is_named_with_a_value(key: str, crash: Crash) -> bool:
    """What the log gives a value is not at its default, even where the value was not read; a quotient is no value."""
    name = re.escape(key.rsplit(".", 1)[-1]).replace("_", "[-_]")
    return crash.mentions(rf"(?<![\w.-])(?<!/ ){name}['\"`]?\s?[=:]\s?['\"]?\d") is not None


def _is_another(value: float, case: Case) -> bool:
    """A batch of 32 makes no array of (64, 52, 52), and an engine's process no 70 % of the GPU with a share of 0.4."""
    root = case.crash.root
    if case.knob == "lower-engine-reservation":
        it = card(case.crash)
        return _of_an_engine(case.crash) and (it.share(it.own_bytes) or 0) > value + BESIDE_ITS_SHARE
    lengths = root.lengths if isinstance(root, ArrayOutOfMemory) and case.knob == "smaller-microbatch" else []
    return len(lengths) > 1 and value not in lengths


def _of_an_engine(crash: Crash) -> bool:
    """The process that asked is the engine's: by its own words, or a child of the trainer that runs one."""
    return crash.job.in_engine or (crash.job.runs_engine and parent(crash) is not None)


def as_default(value: str) -> str:
    """A value of today that nobody printed."""
    return say("{value} (default)", value=value)


def counts_tokens(case: Case) -> bool:
    """A length or a budget of tokens: no number is right for every job."""
    return case.knob in _OF_TOKENS or (case.row is not None and _TOKENS.search(case.row.setting) is not None)


def begin(case: Case) -> Answer:
    """Half of the default; the least where there is none, and the table has no usual value. Of tokens no number."""
    row = case.row
    if row is None or not row.takes_value or row.type not in ("int", "size"):
        return None
    if counts_tokens(case):
        return None if case.knob == "shorter-context" else _half_of_what_it_is(row.setting)
    known = default_of(case)
    if known is not None and known[0] >= 2:
        now, assumed = known
        then = int(now) // 2
        return Proposal(
            action=say("Halve {name}: {now} -> {then}", name=row.setting, now=as_default(in_digits(now)), then=then),
            suggested=then,
            derivation=f"{in_digits(now)} / 2 = {then}",
            assumes=assumed,
        )
    if row.value is not None:
        return None
    least = least_of(case)
    if least is None:
        return _half_of_what_it_is(row.setting)
    if least == 0:
        if known is not None and known[0] == 0 and not case.crash.shows(_LOADS_WITH_WORKERS):
            return Refusal(say("{name} is already {value} by default", name=row.setting, value=0))
        return Proposal(
            action=say(
                "Start with {name} 0, which loads in the main process, and add workers while they fit", name=row.setting
            ),
            suggested=least,
            derivation=say("{least} is the minimum; current value not in the log", least=least),
        )
    if known is not None and known[0] <= least and _is_typed(row):
        return Proposal(
            action=say("Set {name} back to {least}, its default, where it is more", name=row.setting, least=least),
            suggested=least,
            derivation=of_the_default(least),
        )
    return Proposal(
        action=say("Start with {name} {least} and double it while it fits", name=row.setting, least=least),
        suggested=least,
        derivation=say("{least} is the minimum; current value not in the log", least=least),
    )


def of_the_default(least: object) -> str:
    """The derivation of what is so already, unless somebody changed it."""
    return say("{least} is the minimum and the default; current value not in the log", least=least)


def _is_typed(row: Spelling) -> bool:
    """Who trains by flags types those that he wants otherwise; a file holds all of them, whatever the default."""
    own = framework(row.framework)
    return own is not None and own.task == "training" and own.style == "flags"


def least_of(case: Case) -> int | None:
    """The least that the option may be set to: the table's, else that of all options of the knob."""
    row = case.row
    known = (least for name, key, least in _table() if row is not None and (name, key) == (row.framework, row.key))
    return next(known, LEAST.get(case.knob))


def may_be_none(case: Case) -> bool:
    """Whether the option that the log states is one that may be 0."""
    if case.row is None or case.now is None or least_of(case) != 0:
        return False
    return case.now.name.rsplit(".", 1)[-1] == case.row.key.rsplit(".", 1)[-1]


@cache
def _table() -> tuple[tuple[str, str, int], ...]:
    rows = cells.rows(Path(__file__).with_name("least.txt"))
    return tuple((framework, option, int(least)) for framework, option, least, _ in rows)


def _half_of_what_it_is(name: str) -> Proposal:
    return Proposal(action=say("Halve {name} (value not in the log)", name=name))
