"""What the engine takes at once: contexts, sequences, prefill batches and pictures."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oomdoctor.arithmetic import vllm
from oomdoctor.families.llama_cpp import Buffer, BufferRefused
from oomdoctor.families.sglang import PoolExhausted
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.families.vllm_error import ContextDoesNotFit, NoCacheBlocks, SequencesExceedState, WarmupOutOfMemory
from oomdoctor.families.vllm_figures import EncoderProfile
from oomdoctor.incident.engine_facts import facts
from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Setting
from oomdoctor.language import say, semicolons, translated
from oomdoctor.remedies.engine.contexts import LEAST, context, within_room
from oomdoctor.remedies.halves import half
from oomdoctor.remedies.initial import as_default, default_of
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.parts import parts_of_a_buffer
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import Spelling, assumptions, known_versions, of_knob
from oomdoctor.signs.kv_cache import WHOLE_PROMPTS, a_step_takes_a_whole_prompt
from oomdoctor.signs.kv_pool import (
    context_of_all_sequences_is_full,
    evictable_tokens_stayed,
    no_places_although_tokens_are_free,
)
from oomdoctor.signs.logits import OF_PROMPTS
from oomdoctor.signs.passes import generating, sees
from oomdoctor.signs.releases import one_stage_is_asked_for_all_layers
from oomdoctor.units import GIB, in_digits, show

_PARTS: Final = (2, 4, 8, 16)  # of a prefill batch: whole pages, as long as it is
_SPECULATION: Final = "speculative_algorithm"
CHUNKS: Final = "--enable-chunked-prefill"
_MICRO_BATCH: Final = "micro_batch_tokens"  # a particular
# Fewer tokens at once make prompts slow, and a shorter context serves nobody
_LEAST: Final = {"smaller-prefill": 32, "shorter-context": LEAST}
BEAMS: Final = "num_beams"
_RETURNED: Final = "num_return_sequences"
_STATES_CHUNKS: Final = ("enable_chunked_prefill", "no_enable_chunked_prefill")


def shorter_context(case: Case) -> Answer:
    if context_of_all_sequences_is_full(case.crash) is not None:
        return _longer_for_all(case)
    for error in case.crash.every(ContextDoesNotFit):
        if error.kv_tokens:
            return _context(error, error.kv_tokens, _counted(case.crash, error.kv_tokens), ())
        if error.max_model_len and error.needed_bytes and error.kv_bytes is not None:
            longest = vllm.longest_context(
                error.max_model_len, error.needed_bytes, error.kv_bytes, error.estimated_tokens
            )
            if longest is None:
                return Refusal(say("no context fits: no room for a single KV-cache block"))
            if error.estimated_tokens:
                own = say("the engine's own estimate: {tokens}", tokens=longest)
                return _context(error, longest, own, _pipeline(case.crash))
            derivation = say(
                "{length} tokens x {room} / {needed} = {tokens} (a multiple of 16; the worst case of rounded sizes)",
                length=error.max_model_len, tokens=longest,
                room=f"{(error.kv_bytes - vllm.ROUNDING_BYTES) / GIB:.3f} GiB",
                needed=f"{(error.needed_bytes + vllm.ROUNDING_BYTES) / GIB:.3f} GiB",
            )  # fmt: skip
            return _context(error, longest, derivation, (say("every layer attends to the whole context"),))
    if (shorter := within_room(case)) is not None:
        return shorter
    if _gains_nothing(case.crash):
        return Refusal(say("not one KV-cache block fits: a shorter context alone does not help"))
    cache, answer = cache_beside(case.crash), half(case)
    if not isinstance(answer, Refusal) and (shorter := _part_of_a_buffer(case)) is not None:
        return shorter
    return answer if cache is None or case.now is not None else _half_of_the_cache(case.name, cache)


def _counted(crash: Crash, tokens: int) -> str:
    """What the engine says that its cache holds: the least, where a shorter context leaves more for it."""
    if a_step_takes_a_whole_prompt(crash) is None:
        return say("the KV cache holds {tokens} tokens", tokens=tokens)
    return say("the KV cache holds {tokens} tokens, and more once the profiling run is shorter", tokens=tokens)


def _longer_for_all(case: Case) -> Answer:
    """llama.cpp's cache has as many cells as the context, for all sequences together: a shorter one is full sooner."""
    now = case.number()
    launched = next((one for one in case.crash.context.settings.values() if _states_it(one, now)), None)
    name = case.name if launched is None else launched.flag
    action = say("Give all sequences together a longer context ({name})", name=name)
    cost = say("more memory for the KV cache")
    if now is None:
        return Proposal(action=action, cost=cost)
    then = 2 * int(now)
    return Proposal(
        action=semicolons((action, f"{int(now)} -> {then}")),
        current=int(now),
        suggested=then,
        setting=name if launched is not None else None,
        snippet=f"{launched.written}{then}" if launched is not None else None,
        derivation=f"2 x {int(now)} = {then}",
        assumes=(say("double is a guess: the need is unknown"),),
        cost=cost,
    )


def _states_it(setting: Setting, cells: float | None) -> bool:
    """Whether it is the launch line's option for the context."""
    return (
        cells is not None
        and setting.is_launched
        and setting.whole == cells
        and setting.name in KNOBS["shorter-context"].settings
    )


def cache_beside(crash: Crash) -> int | None:
    """The KV cache beside a compute buffer of ggml's that was refused, where half of it is as much as that buffer: of
    the same device, else of all."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what != "compute" or not root.tried_bytes:
        return None
    caches = [one for one in crash.every(Buffer) if one.what == "kv" and one.held_bytes and one.pool == root.pool]
    beside = [one for one in caches if one.device == root.device] or [one for one in caches if one.device is None]
    held = beside[-1].held_bytes if beside else None
    return held if held is not None and held >= 2 * root.tried_bytes else None


def _half_of_the_cache(name: str, cache: int) -> Proposal:
    return Proposal(
        action=say("Halve {name} (value not in the log): the KV cache grows with it", name=name),
        derivation=say("{cache} / 2 = {half} of KV cache", cache=show(cache), half=show(cache / 2)),
    )


def _gains_nothing(crash: Crash) -> bool:
    """Without a single block of cache a shorter context helps only where the engine's steps shrink with it."""
    known = facts(crash)
    if crash.first(NoCacheBlocks) is None and (known.kv_bytes is None or known.kv_bytes > 0):
        return False
    steps = crash.setting("max_num_batched_tokens")
    return known.engine == "V1" or steps is not None or (known.max_model_len or 0) > WHOLE_PROMPTS


def _context(error: ContextDoesNotFit, longest: int, derivation: str, assumes: tuple[str, ...]) -> Proposal:
    was = error.max_model_len
    return Proposal(
        action=say("Lower the engine's context length: {was} -> {tokens} tokens", was=was, tokens=longest)
        if was
        else say("Lower the engine's context length to {tokens} tokens", tokens=longest),
        current=error.max_model_len,
        suggested=longest,
        derivation=derivation,
        assumes=assumes,
    )


def _pipeline(crash: Crash) -> tuple[str, ...]:
    if one_stage_is_asked_for_all_layers(crash) is None:
        return ()
    return (say("vLLM 0.14 to 0.16 compares all layers with one pipeline stage's cache: more may fit"),)


def fewer_sequences(case: Case) -> Answer:
    if case.row is not None and case.row.key == BEAMS:
        beams = beams_of(case.crash)
        return Skip() if beams is None else _fewer_beams(case, beams)
    return _fewer_requests(case)


def _fewer_requests(case: Case) -> Answer:
    if case.row is not None and case.row.type == "float":
        return None  # a factor of what the framework counts itself
    state = case.crash.first(SequencesExceedState)
    if state is not None and state.state_blocks:
        return Proposal(
            action=say("Serve at most {count} sequences concurrently", count=state.state_blocks),
            current=state.max_num_seqs,
            suggested=state.state_blocks,
            derivation=say("{count} blocks for sequence states", count=state.state_blocks),
        )
    warmup = case.crash.first(WarmupOutOfMemory)
    if warmup is not None and warmup.requests and case.number() is None:
        then = warmup.requests // 2
        return Proposal(
            action=say("Halve the concurrent sequences to {count}", count=then),
            current=warmup.requests,
            suggested=then,
            derivation=say("{count} dummy requests of the warm-up / 2", count=warmup.requests),
        )
    if no_places_although_tokens_are_free(case.crash) is not None:
        return _more_places(case)
    decoded = decoded_at_once(case.crash)
    if decoded is not None and decoded > 1 and (case.now is None or decoded < (case.now.whole or 0)):
        return Proposal(
            action=say("Halve the concurrent sequences to {count}", count=decoded // 2),
            current=case.now.value if case.now is not None else None,
            suggested=decoded // 2,
            derivation=say("{count} requests in the batch that failed / 2", count=decoded),
        )
    if case.now is None and context_of_all_sequences_is_full(case.crash) is not None:
        return Skip()  # --parallel is 1 by default, or as many as share the cells: common/arg.cpp of llama.cpp
    short = case.crash.root
    if isinstance(short, BufferRefused) and short.what == "kv":
        return Skip()  # llama.cpp's slots share a cache of the context (-c): tools/server/README.md
    if isinstance(short, WarmupShort) and short.total_tokens is None:
        return Skip()  # of prefill tokens alone: flash_causal_lm.py of Text Generation Inference 1.0 and 1.1
    if isinstance(short, WarmupShort) and short.total_tokens and case.now is None and case.row is not None:
        return _half_of_the_warm_up(case.row, short.total_tokens)
    return _back_to_the_few(case) or half(case)


def beams_of(crash: Crash) -> int | None:
    """How many sequences generate() of transformers keeps of each prompt, where the log states several and it runs."""
    stated = crash.setting(BEAMS) if generating(crash) is not None else None
    count = stated.whole if stated is not None else None
    return count if count is not None and count > 1 else None


def _fewer_beams(case: Case, beams: int) -> Answer:
    """Each beam is a sequence with keys and values of its own; of all beams so many are returned at most
    (generation/configuration_utils.py, `num_return_sequences`)."""
    returned, prompts = case.crash.setting(_RETURNED), case.crash.setting(*KNOBS["smaller-microbatch"].settings)
    then = max(beams // 2, (returned.whole if returned is not None else None) or 1)
    if then >= beams:
        return Refusal(say("as many sequences as beams are returned ({returned})", returned=then))
    answer = half(case)
    count = prompts.whole if prompts is not None else None
    if not isinstance(answer, Proposal):
        return answer
    formula = f"max({beams} / 2, {_RETURNED}) = {then}" if then != beams // 2 else f"{beams} / 2 = {then}"
    if count:
        formula = say(
            "{prompts} prompts x {beams} beams = {sequences} sequences; {formula}",
            prompts=count, beams=beams, sequences=count * beams, formula=formula,
        )  # fmt: skip
    return replace(
        answer,
        action=say("Search with fewer beams: {name} {beams} -> {then}", name=case.name, beams=beams, then=then),
        suggested=then,
        derivation=formula,
        snippet=case.as_launched(then) or case.snippet(then),
        cost=say("other answers: the search is narrower"),
    )


def _back_to_the_few(case: Case) -> Proposal | None:
    """V1 began with four times as many sequences as V0 had, and took that back."""
    usual = default_of(case)
    if usual is None or case.row is None or case.row.framework != vllm.NAME or usual[0] != vllm.MANY_SEQUENCES:
        return None
    if vllm.BY_THE_CARD.overlaps(known_versions(vllm.NAME, case.crash.context)):
        return None
    now, assumed = usual
    few = vllm.FEW_SEQUENCES
    return Proposal(
        action=say("Lower {name}: {now} -> {then}", name=case.row.setting, now=as_default(in_digits(now)), then=few),
        suggested=few,
        derivation=say(
            "{few} is the default of V0, and again of vLLM {releases} on most GPUs", few=few, releases=vllm.BY_THE_CARD
        ),
        assumes=assumed,
    )


def _more_places(case: Case) -> Proposal:
    """The option is the size of the pool, too: who lowers it, as the message asks, has fewer slots."""
    now = case.now.whole if case.now is not None else None
    action = say("Raise {name}, or leave it out: fewer, as the message advises, makes fewer slots", name=case.name)
    if not now:
        return Proposal(action=action, cost="")
    return Proposal(
        action=action, current=now, suggested=2 * now, derivation=f"2 x {now} = {2 * now}",
        assumes=(say("double is a guess: the need is unknown"),), cost="",
    )  # fmt: skip


def decoded_at_once(crash: Crash) -> int | None:
    """The requests of SGLang's batch that found no room: each decodes one token, without speculation."""
    root = crash.root
    if not isinstance(root, PoolExhausted) or root.batch != "decode":
        return None
    if root.left_requests is not None or crash.setting(_SPECULATION) is not None:
        return root.left_requests
    return root.tried_tokens


def _half_of_the_warm_up(row: Spelling, now: int) -> Proposal:
    """Of a batch whose size TGI prints and no option states."""
    return Proposal(
        action=say("Halve {name}: {now} -> {then}", name=row.setting, now=now, then=now // 2),
        current=now,
        suggested=now // 2,
        derivation=f"{now} / 2 = {now // 2}",
    )


def smaller_prefill(case: Case) -> Answer:
    """Half of the batch; of a compute buffer that has to be smaller, what that comes to."""
    if _is_smaller_than_a_prompt(case):
        return _in_chunks(case) or Refusal(
            say("prompts are not prefilled in chunks: the engine refuses a batch smaller than its context")
        )
    answer, root = half(case), case.crash.root
    if isinstance(root, PoolExhausted) and root.batch == "decode":
        return Skip()
    if isinstance(root, PoolExhausted) and case.row is not None and evictable_tokens_stayed(case.crash) is not None:
        return _within_the_free_tokens(root, case.row.setting)
    if isinstance(root, WarmupShort) and root.of_prefill and case.now is None and case.row is not None:
        return _half_of_the_warm_up(case.row, root.of_prefill)
    if isinstance(answer, Proposal) and case.crash.in_trace(OF_PROMPTS) is not None:
        halved = answer.action or translated(KNOBS[case.knob].action)
        return replace(answer, action=say("{halved}, or request no log-probabilities of the prompt", halved=halved))
    if not isinstance(answer, Proposal) or not isinstance(root, BufferRefused) or root.what != "compute":
        return answer
    if not root.tried_bytes:
        return answer
    if (smaller := _part_of_a_buffer(case)) is not None:
        return smaller
    return replace(
        answer,
        derivation=say(
            "at best {tried} / 2 = {half} of compute buffer",
            tried=show(root.tried_bytes),
            half=show(root.tried_bytes / 2),
        ),
    )


def _part_of_a_buffer(case: Case) -> Proposal | None:
    """Of a compute buffer whose half is still more than there is room for the part that is not."""
    found, now, root = parts_of_a_buffer(case.crash), _stated_or_printed(case), case.crash.root
    if found is None or now is None or not isinstance(root, BufferRefused):
        return None
    count, room = found
    then = now // count
    if then < _LEAST[case.knob]:
        return None
    tried, name = root.tried_bytes or 0, case.now.name if case.now is not None else case.name
    return Proposal(
        action=say("Lower {name} from {now} to {then}", name=name, now=in_digits(now), then=then),
        current=now,
        suggested=then,
        derivation=say(
            "at best {tried} / {count} = {part} of compute buffer; half of it is more than {room} ({formula})",
            tried=show(tried), count=count, part=show(tried / count), room=show(room.bytes), formula=room.formula,
        ),
        setting=case.own_name(),
        snippet=case.own_spelling(then) if case.own_name() is not None else None,
    )  # fmt: skip


def _stated_or_printed(case: Case) -> int | None:
    """By an option, else as llama.cpp prints what it was made with."""
    if (stated := case.number()) is not None:
        return int(stated)
    if case.knob == "shorter-context":
        return context(case.crash)
    printed = case.crash.context.particulars.get(_MICRO_BATCH, ())
    return next((one for one in reversed(printed) if isinstance(one, int)), None)


def _is_smaller_than_a_prompt(case: Case) -> bool:
    """Half of the batch, where a whole prompt has to fit into it."""
    length, now = facts(case.crash).max_model_len, case.number()
    if a_step_takes_a_whole_prompt(case.crash) is None:
        return False
    return now is None or length is None or now // 2 < length


def _in_chunks(case: Case) -> Proposal | None:
    """Of an engine that nobody told not to, and a model that it can do so with: vllm/engine/arg_utils.py 0.8 prefills
    none in chunks that sees."""
    crash, length = case.crash, facts(case.crash).max_model_len
    known = known_versions(vllm.NAME, crash.context)
    row = next((one for one in of_knob(case.knob, vllm.NAME) if one.write.startswith(CHUNKS)), None)
    if row is None or not row.versions.overlaps(known) or crash.setting(*_STATES_CHUNKS) is not None or sees(crash):
        return None
    stated = case.number()
    if length is None or not isinstance(row.value, int) or length <= row.value:
        return None
    return Proposal(
        action=say(
            "Prefill in chunks of {chunk} tokens instead of {length} at once: the profiling run then leaves more for "
            "the KV cache",
            chunk=row.value, length=length,
        ),
        setting=CHUNKS,
        suggested=row.value,
        derivation=f"max_num_batched_tokens: {in_digits(stated) if stated else f'max({length}, 2048)'} -> {row.value}",
        assumes=assumptions(row, crash.context),
        snippet=row.snippet(row.value),
    )  # fmt: skip


def _within_the_free_tokens(pool: PoolExhausted, option: str) -> Answer:
    """A prefill batch that fits in what is free before anything is evicted."""
    tried, free = pool.tried_tokens or 0, pool.available_tokens or 0
    parts = next((count for count in _PARTS if tried // count <= free), None)
    if pool.batch is None or parts is None:
        return None
    then = tried // parts
    return Proposal(
        action=say("Let a prefill batch take {then} tokens at most ({option})", then=then, option=option),
        suggested=then,
        derivation=say(
            "{tried} requested / {parts} = {then} <= {free} free without eviction",
            tried=tried,
            parts=parts,
            then=then,
            free=free,
        ),
    )


# common/arg.cpp of llama.cpp; later builds warm up with no more, too: tools/mtmd/clip-model.h, `set_warmup_n_tokens`
_TOKENS_OF_AN_IMAGE: Final = "--image-max-tokens"


def limit_multimodal(case: Case) -> Answer:
    """By the engine's own profile, where it prints one."""
    profiled = case.crash.first(EncoderProfile)
    if profiled is not None and profiled.items and profiled.items > 1 and profiled.modality:
        return Proposal(
            action=say(
                "Allow one {modality} per prompt: the engine profiles {count} of the largest size",
                modality=profiled.modality, count=profiled.items,
            ),
            current=profiled.items,
            suggested=1,
            derivation=say("1 is the minimum that still serves a {modality}", modality=profiled.modality),
            snippet=f"--limit-mm-per-prompt '{{\"{profiled.modality}\": 1}}'" if profiled.modality.isalpha() else None,
        )  # fmt: skip
    if case.row is not None and case.row.setting == _TOKENS_OF_AN_IMAGE and case.now is None:
        return Proposal(
            action=say("Allow fewer tokens per image: lower {name}", name=_TOKENS_OF_AN_IMAGE),
            assumes=(say("a build whose warm-up keeps to it (not printed)"),),
        )
    return Proposal()
