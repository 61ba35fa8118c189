"""What an inference engine was doing when it was refused: profiling an encoder, capturing graphs, warming its sampler
up, taking weights; or measuring, while a neighbour gave memory back."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.sglang import CaptureFailed
from oomdoctor.families.vllm_error import ProfilingDisturbed, WarmupOutOfMemory
from oomdoctor.families.vllm_figures import EncoderProfile, GraphCapture, WeightsLoaded
from oomdoctor.incident.engine_facts import cache_that_fits, facts, phase, takes_its_pool
from oomdoctor.incident.model import Crash
from oomdoctor.language import counted, joined, mark, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import on_the_devices
from oomdoctor.signs.trace import innermost
from oomdoctor.units import show

_ENCODER: Final = (
    r"(?i)\b(?:embed_multimodal|get_multimodal_embeddings|_?merge_multimodal_embeddings|_execute_mm_encoder"
    r"|_process_(?:image|video|audio)_\w{1,20}"
    r"|_?get_?image_features|encode_images?|general_mm_embed_routine|run_encoder|image_embeds|pixel_values)\b"
    r"|(?<!re)(?<!di)(?<!per)(?<!pro)vision|visual|siglip|[/_]clip\b|\bvit\.py|whisper|audio_tower|mm_encoder|enc_dec_model_runner"
)
# vllm/model_executor/models/qwen2_5_vl.py, sglang/srt/models/qwen2_vl.py, ...
_OWN_ENCODER: Final = rf"{_ENCODER}|/models/\w{{1,30}}_vl(?:_moe)?\.py (?!__init__|load_weights)"
_OF_AN_ENCODER: Final = r"(?i)multi-?modal|pixel_values|vision encoder|image tokens"
_CAPTURE: Final = r"captur|cuda/graphs\.py|cuda_?graph"
# The sampler's arguments in the warm-up's source: what a traceback that is cut above shows of it
_DUMMIES: Final = r"\bsampling_metadata=dummy_metadata\b|_dummy_sampler_run"
# Functions in which RL frameworks hand weights to their engine.
_SYNC: Final = (
    r"\b(?:_?broadcast_to_vllm|broadcast_weights?_to_vllm|update_weights?(?:_\w{1,30})?|sync_weights|_sync_\w{0,20}weights?"
    r"|sync_policy_\w{1,20}|_move_model_to_vllm|transfer_and_update_weights|refit_policy_generation"
    r"|step_model_update|model_update|sync_model_weights|prepare_weights_for_ipc_refit)\b"
)
_CALLED: Final = (
    r"\b(?:method|function) '?_?(?:sync_|broadcast_|update_)(?:model|weight|policy)"
    r"|\bray::\w{1,80}\.(?:sync|broadcast|update|refit)_\w{0,40}(?:model|weight|policy|engine)"
)
# The counterpart stands in the name: RLinf's sync_model_from_actor beside sync_model_to_rollout
_RECEIVES: Final = r"\b_?(?:sync|update|recv|receive|load|pull)_\w{0,40}_from_(?:actor|trainer|learner|policy)"
_BY_RAY: Final = r"killed by `?ray\.kill"
# Frameworks' ways to run the engine with the trainer's weights
_FOR_GENERATION: Final = (
    r"unwrap_model_for_generation|ShardingManager|rollout_mode|prepare_for_generation|per_tensor_generator"
)


@sign
def profiling_an_encoder(crash: Crash) -> Seen | None:
    """The traceback of an engine's profiling run goes through a vision or audio encoder."""
    return _of_an_encoder(crash) if _profiles(crash) and crash.in_trace(_ENCODER) is not None else None


@sign
def profiling_behind_an_encoders_announcement(crash: Crash) -> Seen | None:
    """An engine was in its profiling run, and the log says before with which items it profiles its encoder."""
    return _of_an_encoder(crash) if _profiles(crash) and announcement(crash) is not None else None


@sign
def profiling_beside_words_of_an_encoder(crash: Crash) -> Seen | None:
    """An engine was in its profiling run, and the lines around mention an encoder."""
    return _of_an_encoder(crash) if _profiles(crash) and crash.mentions(_OF_AN_ENCODER) is not None else None


@sign
def encoder_profiled_before(crash: Crash) -> Seen | None:
    """The engine had said how it profiles its encoder, and an allocation failed after that."""
    if not crash.job.in_reserving_engine or phase(crash) in (None, "profiling") or announcement(crash) is None:
        return None
    if serving_an_encoder(crash) is not None:
        return None
    return Seen(words=say("the encoder had already been profiled"))


@sign
def serving_an_encoder(crash: Crash) -> Seen | None:
    """The traceback of a serving engine goes through a vision or audio encoder."""
    if not crash.job.in_reserving_engine or phase(crash) != "serving" or crash.in_trace(_ENCODER) is None:
        return None
    words = say("The vision or audio encoder ran out of GPU memory while it served a request.")
    return Seen(words=words, evidence=(crash.root,), stage="serving")


@sign
def in_an_encoder_of_an_engine(crash: Crash) -> Seen | None:
    """The innermost stack frames belong to an encoder in an engine, and nothing shows whether it was profiling or
    serving. An engine's source file of a vision model holds the encoder alone; the text layers are in another file."""
    if not crash.job.in_reserving_engine or phase(crash) is not None or not innermost(crash, _OWN_ENCODER, 2):
        return None
    return Seen(
        words=say("The vision or audio encoder of an inference engine ran out of GPU memory."), evidence=(crash.root,)
    )


@sign
def capture_in_the_traceback(crash: Crash) -> Seen | None:
    """An engine was capturing CUDA graphs: SGLang says so, or functions in the traceback show it."""
    shown = crash.first(CaptureFailed) is not None or crash.in_trace(_CAPTURE) is not None
    return _capturing(crash) if shown else None


@sign
def capture_by_its_stage(crash: Crash) -> Seen | None:
    """An engine was capturing CUDA graphs: its last message was about them."""
    return _capturing(crash)


@sign
def graphs_captured_before(crash: Crash) -> Seen | None:
    """The engine had printed how much memory its CUDA graphs took, and an allocation failed after that."""
    root = crash.root.at
    before = (e for e in crash.every(GraphCapture) if e.at.file == root.file and e.at.line < root.line)
    finished = next((event for event in before if event.phase == "finished"), None)
    if finished is None or finished.graph_bytes is None or phase(crash) == "capturing":
        return None
    graph = show(finished.graph_bytes)
    return Seen(words=say("the CUDA graphs had already been captured; they took {graph}", graph=graph))


@sign
def eager_mode(crash: Crash) -> Seen | None:
    """enforce_eager is set, although the traceback seems to show an engine capturing CUDA graphs."""
    eager = crash.setting("enforce_eager")
    if eager is None or eager.value is not True or phase(crash) != "capturing":
        return None
    return Seen(words=say("enforce_eager is set: the engine captures no CUDA graphs"))


@sign
def warming_the_sampler(crash: Crash) -> Seen | None:
    """vLLM says that the warm-up of its sampler failed, or the traceback shows the sampler's dummy run."""
    if crash.job.world == "ggml" or isinstance(crash.root, BufferRefused):
        return None  # llama.cpp warms up with an empty run
    warmup = crash.first(WarmupOutOfMemory)
    dummies = phase(crash) == "warming" or (crash.job.in_reserving_engine and crash.mentions(_DUMMIES) is not None)
    if warmup is None and not dummies:
        return None
    rows = say(
        "Each request needs several copies of its row of logits over the whole vocabulary, on top of that share."
    )
    tried = next((event.tried_bytes for event in crash.every(DeviceOutOfMemory) if event.tried_bytes is not None), None)
    request = say("An allocation of {tried} failed.", tried=show(tried)) if tried is not None else ""
    return Seen(words=joined((_warm_up(warmup), rows, request)), evidence=(warmup or crash.root,), stage="engine_init")


@sign
def a_neighbour_freed_memory(crash: Crash) -> Seen | None:
    """vLLM profiled its memory use, and its figures show more free memory afterwards."""
    disturbed = crash.first(ProfilingDisturbed)
    return _disturbance(crash, disturbed) if disturbed is not None and freed_bytes(disturbed) else None


@sign
def a_measurement_was_disturbed(crash: Crash) -> Seen | None:
    """vLLM's memory profiling does not add up; its figures are equal or missing."""
    disturbed = crash.first(ProfilingDisturbed)
    return _disturbance(crash, disturbed) if disturbed is not None else None


@sign
def weights_on_another_card(crash: Crash) -> Seen | None:
    """The engine says that its weights took no memory."""
    if all(loaded.weights_bytes != 0 for loaded in crash.every(WeightsLoaded)):
        return None
    loaded = next(each for each in crash.every(WeightsLoaded) if each.weights_bytes == 0)
    words = say("the weights took no memory on this GPU: the model may be on another one")
    return Seen(words=words, evidence=(loaded,))


@sign
def a_check_failed_without_weights(crash: Crash) -> Seen | None:
    """The same, and no allocation failed: the engine's memory profiling did not add up, without weights to measure."""
    disturbed, elsewhere = crash.first(ProfilingDisturbed), weights_on_another_card(crash)
    if disturbed is None or elsewhere is None:
        return None
    return replace(elsewhere, evidence=(*elsewhere.evidence, disturbed))


@sign
def waking_only(crash: Crash) -> Seen | None:
    """The engine was waking up."""
    if phase(crash) != "waking":
        return None
    if takes_its_pool(crash):
        return Seen(words=say("the memory was for the pool of the engine's sleep mode, not for weights on their way"))
    return Seen(words=say("the engine was only waking up: no weights had been gathered or sent"))


@sign
def the_engine_says_what_fits(crash: Crash) -> Seen | None:
    """vLLM names a size of the KV cache that fits, smaller than the one in use."""
    return Seen(words="") if cache_that_fits(crash) is not None else None


# The actor that asked is not named: what relieves the GPU in whichever step it was
OF_AN_UNSEEN_STEP: Final = ("offload-parameters", "offload-optimizer", "smaller-microbatch", "separate-placement")


@sign
def handing_weights_over(crash: Crash) -> Seen | None:
    """The traceback goes through a function in which a framework sends weights to its engine."""
    if crash.in_trace(_SYNC) is None and crash.in_trace(_FOR_GENERATION) is None:
        return None
    return _on_their_way(crash)


@sign
def handing_weights_over_by_its_stage(crash: Crash) -> Seen | None:
    """The log says that weights are being sent: the job runs an engine, or a worker names the failed function."""
    return _on_their_way(crash) if _says_that_weights_are_sent(crash) and not killed_by_ray(crash) else None


@sign
def killed_while_weights_were_handed_over(crash: Crash) -> Seen | None:
    """A function that sends or receives weights failed because `ray.kill` ended its actor."""
    return _killed_on_their_way(crash) if _says_that_weights_are_sent(crash) and killed_by_ray(crash) else None


def _says_that_weights_are_sent(crash: Crash) -> bool:
    return crash.stage == "weight_sync" and bool(crash.job.runs_engine or crash.mentions(_CALLED))


def _profiles(crash: Crash) -> bool:
    return crash.job.in_reserving_engine and phase(crash) == "profiling"


def announcement(crash: Crash) -> EncoderProfile | None:
    """The last announcement before the failure."""
    root = crash.root.at
    before = [e for e in crash.every(EncoderProfile) if e.at.file == root.file and e.at.line <= root.line]
    return before[-1] if before else None


def _of_an_encoder(crash: Crash) -> Seen:
    profile = announcement(crash)
    ran = say("The engine ran out of GPU memory while it profiled its vision or audio encoder.")
    large = say("It profiles with the largest items that the model allows, not with yours.")
    return Seen(
        words=joined((ran, large, _items(profile) if profile is not None else "")),
        evidence=(crash.root,) if profile is None else (crash.root, profile),
        stage="memory_profiling",
    )


def _items(profile: EncoderProfile) -> str:
    if profile.items is not None and profile.modality:
        return counted(
            profile.items,
            mark("It used {count} {modality} item of the largest size."),
            mark("It used {count} {modality} items of the largest size."),
            modality=profile.modality,
        )
    if profile.items is not None:
        return counted(
            profile.items,
            mark("It used {count} item of the largest size."),
            mark("It used {count} items of the largest size."),
        )
    if profile.embedding_tokens is not None:
        return say("In the worst case they make {tokens:,} tokens.", tokens=profile.embedding_tokens)
    return ""


def _capturing(crash: Crash) -> Seen | None:
    if phase(crash) != "capturing":
        return None
    full = say("GPU memory ran out while CUDA graphs were captured.")
    words = joined((full, _where_graphs_count(crash), _request(crash)))
    return Seen(words=words, evidence=(crash.root,), stage="cuda_graph_capture")


def _where_graphs_count(crash: Crash) -> str:
    era = facts(crash).era
    if era is None:
        return say("CUDA graphs and their private pools come on top of the KV cache, which already has its full size.")
    if era.graphs_inside:
        return say(
            "This version estimates the size of the graphs and shrinks the KV cache by it; the estimate was too low."
        )
    return say("In this version the graphs come on top of the engine's share of GPU memory.")


def _warm_up(warmup: WarmupOutOfMemory | None) -> str:
    what = warmup.what if warmup is not None else "sampler"
    if warmup is not None and warmup.requests is not None:
        return counted(
            warmup.requests,
            mark("The engine had taken its share and was warming up the {what} with {count} dummy request."),
            mark("The engine had taken its share and was warming up the {what} with {count} dummy requests."),
            what=what,
        )
    return say(
        "The engine had taken its share and was warming up the {what} with the maximum number of dummy requests.",
        what=what,
    )


def _disturbance(crash: Crash, disturbed: ProfilingDisturbed) -> Seen:
    freed = freed_bytes(disturbed)
    if freed == 0:
        return _unchanged(crash, disturbed)
    gift = say(
        "Another process on the GPU released memory in the meantime, so the measurement is useless. No memory"
        " was missing."
    )
    return Seen(words=joined((_grew(disturbed, freed), gift)), evidence=(disturbed,))


def _unchanged(crash: Crash, disturbed: ProfilingDisturbed) -> Seen:
    """vllm/v1/worker/gpu_worker.py asserts that less is free than before: equal figures fail, too."""
    words = say(
        "The engine stops unless less GPU memory is free after its profiling than before. It found no change, which "
        "is enough to fail. No memory was missing."
    )
    doubt = say("equal figures do not show another process: the device may also report its free memory late")
    look = (on_the_devices(crash),)
    knobs = ("lower-engine-reservation", "pin-version", "start-in-sequence")
    return Seen(words=words, evidence=(disturbed,), against=(doubt,), unsure=True, knobs=knobs, next_evidence=look)


def freed_bytes(disturbed: ProfilingDisturbed) -> int | None:
    """What others gave back at least; the engine's own use hides the rest of it."""
    if disturbed.current_free_bytes is not None and disturbed.initial_free_bytes is not None:
        return max(0, disturbed.current_free_bytes - disturbed.initial_free_bytes)
    if disturbed.current_used_bytes is not None and disturbed.initial_used_bytes is not None:
        return max(0, disturbed.initial_used_bytes - disturbed.current_used_bytes)
    return None


def _grew(disturbed: ProfilingDisturbed, freed: int | None) -> str:
    if freed is None:
        return say("While the engine profiled its memory use, free memory grew instead of shrinking.")
    if disturbed.current_free_bytes is not None and disturbed.initial_free_bytes is not None:
        return say(
            "While the engine profiled its memory use, free memory went from {before} to {after} instead of down.",
            before=show(disturbed.initial_free_bytes),
            after=show(disturbed.current_free_bytes),
        )
    before, after = disturbed.initial_used_bytes or 0, disturbed.current_used_bytes or 0
    return say(
        "While the engine profiled its memory use, the memory in use went down by {freed}, from {before} to "
        "{after}, instead of up.",
        freed=show(freed),
        before=show(before),
        after=show(after),
    )


def _on_their_way(crash: Crash) -> Seen:
    on_their_way = say(
        "The trainer was sending its weights to the engine. This step gathers whole parameters, in addition "
        "to the trainer's shards and the engine's own copy."
    )
    return Seen(words=joined((on_their_way, _request(crash))), evidence=(crash.root,), stage="weight_sync")


def _killed_on_their_way(crash: Crash) -> Seen:
    """Whom Ray killed is a victim: somebody else ran out of memory, perhaps in another step."""
    words = (
        say("A worker's function that receives weights failed next: `ray.kill` ended its actor.")
        if crash.mentions(_RECEIVES) is not None
        else say("A function that sends weights to the engine failed next: `ray.kill` ended its actor.")
    )
    return Seen(
        words=joined((words, _request(crash))),
        evidence=(crash.root,),
        stage="weight_sync",
        knobs=OF_AN_UNSEEN_STEP,
        against=(say("which function asked for the memory is not in the log"),),
    )


def killed_by_ray(crash: Crash) -> bool:
    """Whether the function that failed beside the message was ended by `ray.kill`."""
    return not crash.root.around.trace and crash.mentions(_BY_RAY) is not None


def _request(crash: Crash) -> str:
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or root.tried_bytes is None:
        return ""
    if root.free_bytes is None:
        return say("An allocation of {tried} failed.", tried=show(root.tried_bytes))
    return say(
        "An allocation of {tried} failed with {free} free.", tried=show(root.tried_bytes), free=show(root.free_bytes)
    )
