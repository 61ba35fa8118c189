"""Parameters that a sharded trainer puts together outside its passes."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.trace import STRAW, asked, card, innermost, refusal

# deepspeed/runtime/zero/partition_parameters.py 0.17.5. A pass gathers its modules by all_gather_coalesced, and a
# parameter of another module alone (_allgather_params). Several at once are GatheredParameters', or the persistent ones
# behind a step (stage3.py), none of which is large.
_GATHERS: Final = r"\bpartition_parameters\.py (?:__enter__|_?all_gather|_allgather_params(?:_coalesced)?)(?!\w)"
_ENTERED: Final = r"\bGatheredParameters\(|\bpartition_parameters\.py __enter__(?!\w)"
_SEVERAL: Final = r"\b_allgather_params_coalesced\b"
_ALL_OF_A_MODEL: Final = r"\bGatheredParameters\((?:list\()?(?:\w{1,40}\.){1,4}parameters\(\)"
_BY_A_HOOK: Final = r"\bfetch_sub_module\b|\bpre_sub_module_\w|\bparameter_offload\.py|\bpersistent_parameters\b"


def by_hand(crash: Crash) -> bool:
    """Whether the program itself had DeepSpeed put parameters together, and no pass."""
    if not crash.root.around.trace or not innermost(crash, _GATHERS) or crash.in_trace(_BY_A_HOOK) is not None:
        return False
    large = (card(crash).tried_bytes or 0) > STRAW
    return crash.in_trace(_ENTERED) is not None or (large and crash.in_trace(_SEVERAL) is not None)


@sign
def parameters_gathered_by_hand(crash: Crash) -> Seen | None:
    """The program had whole parameters put together, and neither loads nor saves a model."""
    if not by_hand(crash) or crash.stage not in ("unknown", "rollout", "weight_sync"):
        return None
    words = say(
        "While the program gathered whole ZeRO-3 parameters (GatheredParameters), {asked}. Programs do that to hand "
        "weights to an engine or to generate; the batch size does not matter.",
        asked=asked(card(crash)),
    )
    doubt = say("the traceback does not show what the parameters were for")
    return Seen(
        words=joined((words, whole_model_at_once(crash))),
        evidence=(refusal(crash) or crash.root,),
        against=(doubt,),
    )


def whole_model_at_once(crash: Crash) -> str:
    """Said where the source line shows that nothing less is gathered."""
    if crash.in_trace(_ALL_OF_A_MODEL) is None:
        return ""
    return say("It gathers all parameters at once: every GPU has to hold the full model.")


__all__ = ["by_hand", "parameters_gathered_by_hand", "whole_model_at_once"]
