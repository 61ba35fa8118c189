"""Creating or stepping the optimizer's state needs the memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import asked, card, phase, refusal
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say

_FIRST_STEP = r"_init_group|zeros_like\(|\[[\"']exp_avg|initialize_optimizer_states|init_state|get_state_buffer"


def judge(crash: Crash) -> Judgement | None:
    if phase(crash) == "optimizer":
        first = crash.in_trace(_FIRST_STEP) is not None
        refused = asked(card(crash))
        failed = (
            say(
                "It failed while the optimizer made its states, which it does at its first step: {asked}.",
                asked=refused,
            )
            if first
            else say("It failed while the optimizer took its step: {asked}.", asked=refused)
        )
        return Finding(
            weight=0.85 if first else 0.78,
            why=joined(
                (failed, say("Adam keeps two more values per parameter, and they stay for the rest of the run."))
            ),
            evidence=(refusal(crash) or crash.root,),
            stage="optimizer_step" if crash.stage == "unknown" else None,
        )
    if crash.stage == "optimizer_step":
        return Finding(
            weight=0.7,
            why=say("It failed in the optimizer's step: {asked}.", asked=asked(card(crash))),
            evidence=(refusal(crash) or crash.root,),
        )
    if crash.stage in ("forward", "backward", "logprob", "eval", "serving"):
        return RuledOut(say("it failed in {stage}, not in the optimizer's step", stage=crash.stage))
    return None


CAUSE = Cause(
    id="optimizer-states",
    title=mark("The optimizer's states do not fit beside the weights"),
    pools=("gpu",),
    knobs=("shard-states", "offload-optimizer", "low-memory-optimizer", "lora", "mixed-precision", "more-gpus"),
    rule=judge,
)
