"""Slots about the job: what it was doing."""

from __future__ import annotations

from oomdoctor.incident.engine_facts import takes_its_pool
from oomdoctor.incident.model import Crash
from oomdoctor.language import say, translated
from oomdoctor.report.vocabulary import STAGES, WAKING
from oomdoctor.signs.engine import its_pool_was_refused
from oomdoctor.signs.engine_steps import killed_by_ray
from oomdoctor.signs.logits import in_a_sampler
from oomdoctor.signs.trace import in_a_whole_step


def doing(crash: Crash) -> str | None:
    """What the job was doing, behind any sentence: "in the backward pass"."""
    if crash.stage == "weight_sync" and its_pool_was_refused(crash) is not None:
        return None if takes_its_pool(crash) else translated(WAKING)
    if crash.stage == "weight_sync" and killed_by_ray(crash):
        return None  # the function that failed is a victim: somebody else ran out of memory
    if crash.stage == "serving" and in_a_sampler(crash):
        return say("in the sampler")  # warm-up runs go through it as well
    if in_a_whole_step(crash):
        return say("in a training step")
    return translated(STAGES.get(crash.stage, "")) or None
