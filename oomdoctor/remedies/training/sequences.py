"""Shorter or split sequences, and their logits in chunks."""

from __future__ import annotations

import math
from itertools import product
from typing import Final

from msgspec.structs import replace

from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies import models
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import done
from oomdoctor.remedies.training.batches import halved
from oomdoctor.remedies.training.states import set_already
from oomdoctor.signs.arrays import paired_length
from oomdoctor.units import GIB, MIB, show

AS_PRINTED: Final = 2 * MIB + GIB // 200  # the allocator rounds up to 2 MiB, the message to two decimals
_A_PAGE: Final = 512  # tokens: 0.5 GiB of inputs of 64 layers with 8192 features in 16 bits
_PROMPTS_ALONE: Final = late(r"(?i)prompt")  # in the name of an option: it cuts no answer


def shorter_sequences(case: Case) -> Answer:
    """In a loop that generates these are prompts and answers; elsewhere they are what one example is cut to."""
    if _are_few(case.crash):
        return Skip()
    answer = halved(case)
    if isinstance(answer, Proposal) and case.crash.job.task == "rl" and _PROMPTS_ALONE.search(case.name):
        return replace(answer, cost=say("longer prompts are cut or left out"))
    if case.crash.job.task == "rl" or isinstance(answer, Refusal):
        return answer
    if not isinstance(answer, Proposal) and (shown := _by_the_square(case.crash)) is not None:
        return shown
    proposal = answer if isinstance(answer, Proposal) else Proposal(action=say("Shorten the sequences"))
    return replace(proposal, cost=say("longer sequences are truncated"))


def _are_few(crash: Crash) -> bool:
    """One sequence at a time, all of it no longer than a page, and recomputed: what it holds is small beside states."""
    batches, lengths = (_stated(crash, KNOBS[knob].settings) for knob in ("smaller-microbatch", "shorter-sequences"))
    if set(batches) != {1} or not 0 < sum(lengths) <= _A_PAGE:
        return False
    return done("gradient-checkpointing", crash.context) is not None


def _by_the_square(crash: Crash) -> Proposal | None:
    """One piece larger than the GPU is a tensor over all pairs of tokens or pixels."""
    root = crash.root
    if (pairs := paired_length(root)) is not None:
        return _of_half_the_length(pairs)
    if not isinstance(root, DeviceOutOfMemory) or not root.tried_bytes or not root.total_bytes:
        return None
    room = root.free_bytes or root.total_bytes
    if root.tried_bytes <= root.total_bytes or room < 0:
        return None
    share = math.floor(100 * math.sqrt(room / root.tried_bytes)) / 100
    return Proposal(
        action=say(
            "Cut the number of tokens or pixels to {share} of it (shorter text, smaller images): this tensor grows "
            "with its square",
            share=f"{share:.0%}",
        ),
        setting="",
        derivation=say(
            "sqrt({room} free / {tried} requested) = {share}",
            room=show(room),
            tried=show(root.tried_bytes),
            share=f"{share:g}",
        ),
        assumes=(say("it grows with the square"),),
        cost=say("longer inputs are cut"),
    )


def _of_half_the_length(pairs: int) -> Proposal:
    """Of what goes in, where the largest array of the program is over all pairs of it."""
    return Proposal(
        action=say(
            "Shorten what goes in, or cut it: {now} -> {then} of it take a quarter of the largest array",
            now=pairs,
            then=pairs // 2,
        ),
        setting="",
        derivation=f"({pairs // 2} / {pairs})^2 = 1/4",
        assumes=(say("the two equal axes are its length"),),
        cost=say("longer inputs are cut"),
    )


def chunk_logits(case: Case) -> Answer:
    """Whether what was refused is the logits of a whole number of tokens."""
    if set_already(case):
        return None
    root = case.crash.root
    model = models.known(case.crash.context.models)
    tried = root.tried_bytes if isinstance(root, DeviceOutOfMemory) else None
    if model is None or not tried:
        return None
    found = _tokens_in_words(case.crash, tried, model.vocabulary)
    if found is None:
        return None
    words, assumed = found
    return Proposal(
        suggested=case.row.value if case.row is not None and isinstance(case.row.value, bool | str) else None,
        derivation=say(
            "{tried} requested = {tokens} ({vocabulary} vocabulary entries of {model})",
            tried=show(tried),
            tokens=words,
            vocabulary=model.vocabulary,
            model=model.name,
        ),
        assumes=(say("vocabulary of {model}", model=model.name), *assumed),
    )


def _tokens_in_words(crash: Crash, tried: int, vocabulary: int) -> tuple[str, tuple[str, ...]] | None:
    """The batch of the settings where it gives this size as it is printed, else about how many tokens do in 32 bit."""
    batches, lengths = (_stated(crash, KNOBS[knob].settings) for knob in ("smaller-microbatch", "shorter-sequences"))
    for each, batch, length in product((4, 2), batches, lengths):
        if abs(arithmetic.logits(batch * length, vocabulary, each) - tried) <= AS_PRINTED:
            told = say(
                "{batch} x {length} = {tokens} tokens x {vocabulary} x {each} bytes",
                batch=batch,
                length=length,
                tokens=batch * length,
                vocabulary=vocabulary,
                each=each,
            )
            return told, ()
    tokens = arithmetic.tokens_of_logits(tried, vocabulary)
    if tokens is None:
        return None
    about, each = f"{float(f'{tokens:.3g}'):.0f}", arithmetic.FULL_PRECISION_BYTES
    told = say("about {tokens} tokens x {vocabulary} x {each} bytes", tokens=about, vocabulary=vocabulary, each=each)
    return told, (say("32-bit logits"),)


def _stated(crash: Crash, names: tuple[str, ...]) -> list[int]:
    stated = (crash.setting(name) for name in names)
    return [one.whole for one in stated if one is not None and one.whole is not None]


def split_sequences(case: Case) -> Answer:
    now = case.number()
    then = 2 * int(now) if now else 2
    return Proposal(
        action=say("Split each sequence over {count} GPUs", count=then),
        suggested=then,
        derivation=f"2 x {now:g} = {then}" if now else say("2 is the minimum"),
        assumes=() if now else (say("not split now (no size in the log)"),),
    )
