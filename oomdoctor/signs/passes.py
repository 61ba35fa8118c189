"""Which pass of the model failed, as traceback and stage say: backward, forward, an engine's; and what of it."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import Event
from oomdoctor.families.gpu_library import LibraryOutOfMemory, LibraryTrouble
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.job.frames import ends_in_building
from oomdoctor.job.frameworks import framework, some
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.arrays import array_of_a_step_on_the_host, what_passes_grow_with
from oomdoctor.signs.first_step import killed_at_a_limit_while_computing, killed_bare, killed_bare_at_a_step
from oomdoctor.signs.gathering import by_hand
from oomdoctor.signs.ggml import compute_buffer_refused
from oomdoctor.signs.library import a_program_found_no_room_to_be_loaded, refused_at_the_drivers_start
from oomdoctor.signs.other_words import library_by_the_message, weights_by_the_message
from oomdoctor.signs.snapshot import passes_hold_most
from oomdoctor.signs.trace import (
    ATTENTION,
    GENERATES,
    GRAPHS,
    LOGITS,
    MOVE,
    SAMPLER,
    STRAW,
    VISION,
    asked,
    card,
    checked,
    in_a_whole_step,
    innermost,
    late_collective,
    phase,
    refusal,
)
from oomdoctor.signs.warm_up import no_room_for_the_largest_batch, warm_up_short
from oomdoctor.units import GIB, percent, show

COMPUTING: Final = frozenset({"memory_profiling", "serving", "logprob", "reward", "eval", "rollout"})
# A driver that only hears of the failure, a wait for what the card does, the frames that every program starts with, and
# moves: no computation.
_NOT_ITS_OWN = (
    rf"{MOVE}|\bsynchronize\b|\bray/|asyncio/|multiprocessing/|concurrent/| <module> |_run_code|\bmain\("
    r"|distributed_c10d|_symmetric_memory|\b(?:nvshmem|mpi4py|cupyx?/cuda|cudadrv)/"
)
# deepspeed/runtime/zero/partition_parameters.py, torch/distributed/fsdp/_flat_param.py and _fully_shard
_GATHERING = (
    r"\b_?all_?gather_params\w*|\b_all_gather\b|\bfetch_sub_module\b|_alloc_padded_unsharded_flat_param"
    r"|\b_all_gather_flat_param\b|\bforeach_all_gather\w*|\binit_all_gather_outputs\b"
)
# deepspeed/runtime/zero/stage_1_and_2.py and stage3.py: one allocation of that many elements
BUCKET: Final = r"\bempty\([^\n]{0,60}\breduce_bucket_size\b"
# torch/_inductor/codegen/wrapper.py, make_allocation: "buf7 = empty_strided_cuda((64, 32), (32, 1), torch.float32)",
# up to 2.2 "empty_strided((64, 32), (32, 1), device='cuda', dtype=torch.float32)"
_OF_INDUCTOR: Final = late(
    r"= empty_strided(?:_\w{2,8})?\(\((\d{1,18}(?:, ?\d{1,18}){0,8},? ?)\), "
    r"\(\d[\d, ]{0,80}\),[^()\n]{0,40}?\btorch\.(\w{3,12})\)"
)
_CALIBRATES: Final = (
    r"\bmodel\.quantize\(|\.quantize_(?:model|and_save)\(|\boneshot\("
    r"|/(?:awq/quantize|auto_gptq|gptqmodel|llmcompressor|auto_round)/"
)
_STARTS: Final = frozenset({"engine_init", "memory_profiling"})
_MADE_UP: Final = r"\b_?(?:dummy_run|(?:run_)?warm_?up)(?: |$|\()"
_AT_ITS_START: Final = late(r"\b0%(?:\||\s)[^\n]{0,80}?\b0/\d{1,9} \[")
_IN_A_FIRST_STEP: Final = (
    "smaller-microbatch", "low-memory-optimizer", "gradient-checkpointing", "mixed-precision", "smaller-input",
    "shorter-sequences", "collect-evidence",
)  # fmt: skip
OF_A_GUESS: Final = ("smaller-microbatch", "smaller-input", "shorter-sequences", "free-the-gpu", "collect-evidence")
MODEL_SHARE: Final = 0.05  # of the card: more than a context and a few buffers
LARGE: Final = GIB
# graphdeco-inria/gaussian-splatting, scene/gaussian_model.py; nerfstudio-project/gsplat, gsplat/strategy
_GROWS_PRIMITIVES: Final = r"\bdensif\w{1,30}|\bgsplat/strategy/|\b_grow_gs\b"
OF_THE_CARD: Final = 0.25  # in one tensor: of a model that sees, the scores of all pairs of its patches
_SEEING: Final = late(r"(?i)(?:^|[-_/])(?:vl|vision|omni|llava|internvl)")  # in names of models
_OF_LARGE_PICTURES: Final = (
    "smaller-input", "memory-efficient-attention", "smaller-microbatch", "shorter-sequences", "collect-evidence",
)  # fmt: skip
# diffusers/models/attention_processor.py 0.40, comfy/ldm/modules/attention.py 0.3, ldm/modules/attention.py of CompVis
_SCORES: Final = (
    r"\bget_attention_scores\b|\battention_basic\b|\bbaddbmm\("
    r"|\b(?:attn|attention|scores?|sim|dots?)\w{0,20}\.softmax\(|softmax\((?:attn|attention|scores?|sim|dots?)"
    r"|\b(?:bmm|matmul|einsum)\([^\n]{0,60}\bq(?:uery)?\w{0,20}, ?k|\bq(?:uery)?\w{0,20} @ k"
)
_OF_A_MODEL: Final = r"(?:^|/)torch/nn/|keras/(?:src/)?layers|/modeling_\w{1,40}\.py"
# mmdet/core/bbox/assigners up to 2, mmdet/models/task_modules/assigners since 3
_ASSIGNERS: Final = r"\bassigners?[/\\]\w+\.py"
# What all environments hold at once, as Brax, gymnax and MuJoCo Playground name it: brax/training/agents/ppo/train.py
_STATES_OF_WORLDS: Final = r"\benv_states?\b|\bnum_envs\b"
_ON_A_FULL_HOST: Final = (
    "smaller-microbatch", "shorter-sequences", "smaller-input", "more-host-memory", "gradient-checkpointing",
)  # fmt: skip
OF_DRAWING: Final = (
    "tiled-processing", "smaller-input", "offload-parameters", "quantize-weights", "smaller-microbatch",
)  # fmt: skip
OF_SCORES: Final = ("memory-efficient-attention", *OF_DRAWING)
OF_SOUND: Final = ("tiled-processing", "smaller-input", "mixed-precision", "smaller-microbatch", "free-the-gpu")
_ON_THE_CPU: Final = ("torch", "torch7", "c++", "onnx")  # TensorFlow's is C++'s
# torch/functional.py, torchaudio, librosa; names that programs give what they read with these
_SOUND: Final = (
    r"(?i)(?:\b|_)i?stft\b|\b(?:mel_?specs?|(?:mel_?)?spectrograms?)\b|\bwaveforms?\b|\b(?:audio|wav|song)s?\b(?=[,)])"
)
_IN_WINDOWS: Final = r"(?i)whisper|ctranslate2"  # of half a minute, however long the recording is
_TRAINS: Final = r"(?i)\b(?:train|fit|training_step|loss|criterion|backward)\b|_loss\b"
# What calls the passes: a trace that ends there is cut
_TRAINER: Final = late(
    r"(?:^|/)(?:(?:py)?torch_lightning|pytorch_lightning|lightning(?:/pytorch|/fabric)?|transformers/trainer\.py|ignite/engine"
    r"|fastai/(?:learner|basic_train)\.py|catalyst/|skorch/|mmcv/runner/|mmengine/runner/|poutyne/|flair/trainers/)"
)
_PASSES: Final = {"forward": mark("In the forward pass"), "backward": mark("In the backward pass")}
_NO_LOAD: Final = late(r"(?i)\b(?:insufficient|not enough|cannot|failed|unable)\b[^\n]{0,60}\bload\b")
BESIDE: Final = 2  # lines
A_NEIGHBOUR: Final = 0.1  # of the card, in a process that the message lists: it may be who fills it
OWN_SHARE: Final = 0.5  # of the card: where this process holds less, others fill it


@sign
def bucket_was_refused(crash: Crash) -> Seen | None:
    """The backward pass was refused the buffer in which DeepSpeed gathers gradients before it reduces them."""
    if _own_pass(crash) != "backward" or not innermost(crash, BUCKET, depth=1):
        return None
    fixed = say("This is DeepSpeed's buffer for gradients (reduce_bucket_size): its size does not depend on the batch.")
    return Seen(words=joined((_failed(crash, "backward"), fixed)), evidence=(refusal(crash) or crash.root,))


@sign
def in_a_backward_pass(crash: Crash) -> Seen | None:
    """The job failed in the backward pass, or in a forward pass that the backward pass recomputes."""
    return _in_a_pass(crash, "backward")


@sign
def in_a_forward_pass(crash: Crash) -> Seen | None:
    """The job failed in a forward pass, outside an inference engine."""
    return _in_a_pass(crash, "forward")


def _in_a_pass(crash: Crash, which: str) -> Seen | None:
    if _own_pass(crash) != which or weights_by_the_message(crash) is not None or killed_bare(crash):
        return None  # of a kill nobody says what was refused
    return Seen(
        words=joined((_failed(crash, which), what_passes_grow_with(crash))),
        evidence=(refusal(crash) or crash.root,),
        stage=which if crash.stage == "unknown" else None,
    )


def _failed(crash: Crash, which: str) -> str:
    it, where = card(crash), say("In a training step") if in_a_whole_step(crash) else translated(_PASSES[which])
    return _beside_others(crash, it, where) or _beside_its_own(it, where)


def _beside_its_own(it: Card, where: str) -> str:
    """The pass that failed, and what its process held."""
    mine = it.own_bytes or it.reserved_bytes or it.allocated_bytes
    if mine is None:
        return say("{where}, {asked}.", where=where, asked=asked(it))
    return say("{where}, {asked}; this process held {mine}.", where=where, asked=asked(it), mine=show(mine))


def _beside_others(crash: Crash, it: Card, where: str) -> str | None:
    """The pass that failed on a Mac, where what others hold counts against PyTorch's limit, too."""
    event = refusal(crash)
    others = event.other_allocations_bytes if event is not None else None
    if others is None or it.allocated_bytes is None or it.allowed_bytes is None:
        return None
    return say(
        "{where}, {asked}: of the {allowed} allowed, PyTorch held {mine} and other allocations {others}.",
        where=where,
        asked=asked(it),
        allowed=show(it.allowed_bytes),
        mine=show(it.allocated_bytes),
        others=show(others),
    )


@sign
def measuring_its_need(crash: Crash) -> Seen | None:
    """The job failed while an inference engine profiled its largest batch."""
    if crash.stage != "memory_profiling" or _failed_pass(crash) is None:
        return None
    failed = say("While the engine profiled its memory use, {asked}.", asked=asked(card(crash)))
    return Seen(words=_with_what_it_computes(failed), evidence=(refusal(crash) or crash.root,))


@sign
def in_an_engines_pass(crash: Crash) -> Seen | None:
    """The job failed in a pass of an inference engine that had taken its share."""
    where = _failed_pass(crash)
    if where is None or not crash.job.in_engine or crash.stage == "memory_profiling":
        return None
    failed = say("In the {where} pass of an inference engine, {asked}.", where=where, asked=asked(card(crash)))
    return Seen(
        words=_with_what_it_computes(failed),
        evidence=(refusal(crash) or crash.root,),
        against=(say("an engine leaves little memory outside its own share"),),
    )


def _with_what_it_computes(failed: str) -> str:
    return joined((failed, say("The engine's settings limit how much it computes at once.")))


@sign
def in_an_engines_special_step(crash: Crash) -> Seen | None:
    """The engine was sampling, capturing CUDA graphs or encoding images, which have causes of their own."""
    special = crash.job.in_engine and _failed_pass(crash) and crash.in_trace(f"{SAMPLER}|{GRAPHS}|{VISION}")
    return Seen(words="") if special else None


@sign
def while_loading_or_updating(crash: Crash) -> Seen | None:
    """The job failed while loading weights or in the optimizer step."""
    if _says_what_for(crash) or _failed_pass(crash) is not None or passes_hold_most(crash) is not None:
        return None
    if crash.stage not in ("model_load", "optimizer_step") and phase(crash) not in ("load", "optimizer"):
        return None
    return Seen(words=say("the job failed while loading or in the optimizer step, when it holds no activations"))


@sign
def one_piece_beside_a_model(crash: Crash) -> Seen | None:
    """A single request exceeds the whole GPU, and at least 5 % of the GPU is already in use: a model is loaded."""
    it = card(crash)
    held = it.share(it.own_bytes or it.reserved_bytes or it.allocated_bytes or it.used_bytes) or 0
    if not _beyond_the_card(it) or held < MODEL_SHARE or not _nothing_tells(crash):
        return None
    return Seen(
        words=say(
            "A single allocation of {tried} failed; the GPU has only {total}. Attention without its own "
            "kernel creates tensors of this size, over all pairs of tokens or pixels.",
            tried=show(it.tried_bytes or 0),
            total=show(it.total_bytes or 0),
        ),
        evidence=(refusal(crash) or crash.root,),
        against=(say("the traceback does not show which pass failed"),),
    )


@sign
def one_piece_beyond_the_card(crash: Crash) -> Seen | None:
    """A single request exceeds the whole GPU: no share of it, however small, leaves so much room."""
    it = card(crash)
    if not _beyond_the_card(it):
        return None
    tried, total = show(it.tried_bytes or 0), show(it.total_bytes or 0)
    return Seen(words=say("{tried} requested, more than the whole GPU has ({total})", tried=tried, total=total))


def _beyond_the_card(it: Card) -> bool:
    return it.tried_bytes is not None and it.total_bytes is not None and it.tried_bytes > it.total_bytes


@sign
def in_a_dummy_pass(crash: Crash) -> Seen | None:
    """A starting engine computes made-up inputs, and the traceback ends where it raises again what its worker met."""
    if crash.pool != "gpu" or crash.stage not in _STARTS or not crash.root.around.trace:
        return None
    if not innermost(crash, _MADE_UP, 2):
        return None
    words = say(
        "While a starting engine computed made-up inputs, as large as its settings say, {asked}. Its weights were "
        "loaded by then.",
        asked=asked(card(crash)),
    )
    doubt = say("the traceback does not show where in that pass")
    return Seen(words=words, evidence=(refusal(crash) or crash.root,), against=(doubt,))


@sign
def while_parameters_are_gathered(crash: Crash) -> Seen | None:
    """The innermost frames gather sharded parameters (ZeRO-3, FSDP), and nothing tells for which pass."""
    if not crash.root.around.trace or not innermost(crash, _GATHERING) or not _nothing_tells(crash):
        return None
    if by_hand(crash):
        return None
    return Seen(
        words=joined(
            (
                say("While sharded parameters were gathered (ZeRO-3 or FSDP), {asked}.", asked=asked(card(crash))),
                say("Each module's parameters are whole while it computes, beside the activations so far."),
            )
        ),
        evidence=(refusal(crash) or crash.root,),
        against=(say("the traceback does not show which pass failed"),),
    )


@sign
def in_its_own_computation(crash: Crash) -> Seen | None:
    """The traceback ends in the program's own code, which neither builds, moves nor waits."""
    around = crash.root.around
    if not any(frame.file and frame.function for frame in around.trace) or around.cut or not _nothing_tells(crash):
        return None
    if _only_checked(crash):
        return None
    if ends_in_building(around.trace) or innermost(crash, _NOT_ITS_OWN) or crash.job.in_engine:
        return None
    if refused_at_the_drivers_start(crash) is not None:
        return None
    buffer = compiled_buffer(crash)
    words = (
        say("In the program's own computation, {asked}.", asked=asked(card(crash)))
        if buffer is None
        else say("For {array} in a program compiled by torch.compile, {asked}.", array=buffer, asked=asked(card(crash)))
    )
    return Seen(
        words=words,
        evidence=(refusal(crash) or crash.root,),
        against=(say("the traceback does not show which pass failed"),),
    )


def compiled_buffer(crash: Crash) -> str | None:
    """The buffer that a program of Inductor's asked for, where the innermost line has its shape."""
    frame = next(crash.frames(), None)
    made = _OF_INDUCTOR.search(frame.code) if frame is not None else None
    if made is None:
        return None
    lengths = " x ".join(f"{int(length):,}" for length in made[1].split(",") if length.strip())
    return say("a buffer of {lengths} ({dtype})", lengths=lengths, dtype=made[2])


@sign
def others_waited_in_a_late_collective(crash: Crash) -> Seen | None:
    """The other ranks waited in a collective whose number setup does not reach."""
    late = late_collective(crash)
    if late is None or crash.root.around.trace or not _nothing_tells(crash):
        return None
    number, waited = late
    return Seen(
        words=say(
            "The other ranks waited in collective {number:,}, more than setup takes: the job was already "
            "running steps. From step to step, the batch changes.",
            number=number,
        ),
        evidence=(refusal(crash) or crash.root, waited),
        against=(say("the log does not show what the job was doing"),),
    )


@sign
def a_piece_larger_than_a_card(crash: Crash) -> Seen | None:
    """The failed buffer has at least 1 GiB, ten times the memory in use and twice the free memory: weights are never
    so large next to the rest of their model."""
    root = crash.root
    if not isinstance(root, Shortage) or root.tried_bytes is None or not _nothing_tells(crash):
        return None
    used, free = root.used_bytes or 0, root.free_bytes or 0
    if not used or root.tried_bytes < max(LARGE, 10 * used, 2 * free):
        return None
    words = say(
        "A single allocation of {tried} failed with {used} in use. Next to the model, tensors of this size "
        "come from its passes, not from its weights.",
        tried=show(root.tried_bytes),
        used=show(used),
    )
    return Seen(words=words, evidence=(root,), against=(say("the traceback does not show which pass failed"),))


@sign
def tensor_of_a_running_job(crash: Crash) -> Seen | None:
    """A framework of neural networks was refused a tensor that the GPU could hold, others hold little of it, and
    nothing shows what the job was doing, nor that it was loading."""
    it, event = card(crash), refusal(crash) or _refused_without_figures(crash)
    if event is None or crash.pool != "gpu" or crash.job.in_engine or not _nothing_tells(crash):
        return None
    if any(_NO_LOAD.search(line) for line in crash.root.around.before[-BESIDE:]):
        return None
    if _beyond_the_card(it) or ends_in_building(crash.root.around.trace) or innermost(crash, _NOT_ITS_OWN):
        return None
    if (it.share(it.others_bytes) or 0) >= A_NEIGHBOUR or (it.share(it.beyond_bytes) or 0) >= OWN_SHARE:
        return None
    return Seen(
        words=joined(
            (
                say(
                    "The log does not show what held the memory when {asked}; activations are the likeliest.",
                    asked=asked(it),
                ),
                what_passes_grow_with(crash),
            )
        ),
        evidence=(event,),
        against=(say("the log does not show what the job was doing"),),
        unsure=True,
        knobs=_IN_A_FIRST_STEP if _no_step_is_done(crash) else _OF_LARGE_PICTURES if _of_pictures(crash) else (),
    )


def _of_pictures(crash: Crash) -> bool:
    """One tensor takes much of the card, and the model sees."""
    it = card(crash)
    return sees(crash) and (it.share(it.tried_bytes) or 0) >= OF_THE_CARD


def sees(crash: Crash) -> bool:
    """Whether a model of the job is given pictures, by its name."""
    return any(_SEEING.search(name) for name in crash.context.models)


def _no_step_is_done(crash: Crash) -> bool:
    """The bar of a training stands at its start: the optimizer's states are made in the first step."""
    around = crash.root.around
    return crash.job.trains and any(map(_AT_ITS_START.search, (*around.before[-BESIDE:], *around.below[:BESIDE])))


def _refused_without_figures(crash: Crash) -> Event | None:
    """The refusal of a framework that trains networks, and has no allocator that says more."""
    refused = crash.job.world == "own" and crash.job.trains and isinstance(crash.root, DeviceRefusal | Shortage)
    return crash.root if refused else None


@sign
def a_piece_of_a_training_on_the_cpu(crash: Crash) -> Seen | None:
    """PyTorch could not allocate 1 GiB or more of host memory for a training that has done steps by its count, so that
    its weights were there, and nothing shows another stage."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.allocator != "torch" or not (root.tried_bytes or 0) >= LARGE:
        return None
    if crash.job.in_engine or crash.stage not in ("unknown", "forward", "backward", "eval"):
        return None
    last = next(crash.frames(), None)
    progress = crash.context.progress
    if not progress.get("step", progress.get("done")) or not (crash.job.trains or crash.job.task == "training"):
        return None
    if last is not None and _TRAINER.search(last.path) is None:
        return None
    words = say(
        "The training was under way on the CPU and needed {tried} in one allocation.",
        tried=show(root.tried_bytes or 0),
    )
    against = (say("the log does not show which line requested it"),)
    return Seen(words=words, evidence=(root,), against=against, knobs=_ON_A_FULL_HOST)


@sign
def host_memory_of_no_pass(crash: Crash) -> Seen | None:
    """Host memory ran out, neither in a pass that a framework computes on the CPU nor in an engine's compute buffer."""
    root = crash.root
    if compute_buffer_refused(crash) is not None:
        return None
    if crash.pool == "gpu" or (isinstance(root, ArrayOutOfMemory) and root.shape and crash.stage != "data_load"):
        return None
    if array_of_a_step_on_the_host(crash) or killed_at_a_limit_while_computing(crash):
        return None
    if killed_bare_at_a_step(crash) is not None or a_piece_of_a_training_on_the_cpu(crash) is not None:
        return None
    computed = isinstance(root, HostAllocation) and root.allocator in _ON_THE_CPU
    return None if computed and (crash.stage in ("forward", "backward") or _in_a_model(crash)) else Seen(words="")


def _in_a_model(crash: Crash) -> bool:
    """Whether a pass in the traceback is one of a model: a stage alone may be any program's loop."""
    return _own_pass(crash) is not None and crash.in_trace(_OF_A_MODEL) is not None


@sign
def at_the_logits(crash: Crash) -> Seen | None:
    """The innermost stack frames of the job's own pass work on the logits."""
    if _own_pass(crash) is None or not innermost(crash, LOGITS):
        return None
    return Seen(words=say("the innermost stack frames work on the logits"))


@sign
def library_was_refused(crash: Crash) -> Seen | None:
    """In the job's own pass, an allocation of a library failed, or of the driver that loads what was compiled."""
    if _own_pass(crash) is None:
        return None
    if a_program_found_no_room_to_be_loaded(crash):
        return Seen(words=say("the driver had no memory to load the compiled program"))
    if not (isinstance(crash.root, LibraryOutOfMemory | LibraryTrouble) or library_by_the_message(crash)):
        return None
    if some(crash.job.frameworks, "takes its arrays from a library"):
        return None
    return Seen(words=say("the failed allocation belongs to a library, not to the framework"))


@sign
def evaluation_without_the_model(crash: Crash) -> Seen | None:
    """The job failed in an evaluation, and no stack frame belongs to the model."""
    if crash.stage != "eval" or not crash.root.around.trace or phase(crash) or not _own_pass(crash):
        return None
    return Seen(words=say("the traceback has no frame of the model"))


@sign
def holds_less_than_half(crash: Crash) -> Seen | None:
    """The process whose pass failed holds less than half of the GPU, where others could have left it no room: a
    request beyond the whole GPU needs nobody else."""
    it = card(crash)
    share = it.share(it.own_bytes or it.reserved_bytes or it.allocated_bytes)
    if share is None or share >= OWN_SHARE or _own_pass(crash) is None or _beyond_the_card(it):
        return None
    return Seen(words=say("this process holds only {share} of the GPU", share=percent(share)))


@sign
def a_straw_on_the_host(crash: Crash) -> Seen | None:
    """A piece of host memory was refused that is no load: what filled it before, a pass need not have been."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.tried_bytes is None or root.tried_bytes > STRAW:
        return None
    return Seen(words=say("only {size} was requested", size=show(root.tried_bytes)))


@sign
def most_is_outside_pytorch(crash: Crash) -> Seen | None:
    """Half of the GPU and more is of this process, and of no tensor of PyTorch's, which are less than a quarter: what a
    pass adds to them is not what fills it."""
    it = card(crash)
    outside, tensors = it.share(it.non_torch_bytes), it.share(it.allocated_bytes)
    if outside is None or tensors is None or outside < OWN_SHARE or tensors >= OWN_SHARE / 2 or _beyond_the_card(it):
        return None
    words = say(
        "PyTorch's tensors take {tensors} of the GPU, and {outside} are of this process outside PyTorch",
        tensors=percent(tensors),
        outside=percent(outside),
    )
    return Seen(words=words)


@sign
def with_an_engines_settings(crash: Crash) -> Seen | None:
    """An inference engine failed whose settings limit how much it computes at once; a plain serving program has
    none."""
    return (
        Seen(words="") if crash.job.in_engine and (crash.job.engine is not None or crash.stage != "serving") else None
    )


@sign
def generating(crash: Crash) -> Seen | None:
    """The job serves or generates: it keeps nothing for a backward pass."""
    generates = crash.stage in ("serving", "rollout") or crash.job.task == "serving" or crash.in_trace(GENERATES)
    return Seen(words="") if generates else None


@sign
def serving(crash: Crash) -> Seen | None:
    """The job serves a model: its weights and what it keeps of each request fill the GPU."""
    return Seen(words="") if crash.job.task == "serving" else None


@sign
def calibrating(crash: Crash) -> Seen | None:
    """Samples run through the layers of a model that is quantized: nothing is kept for a backward pass."""
    forward = crash.stage == "forward" and crash.in_trace(_CALIBRATES) is not None
    return Seen(words="") if forward else None


@sign
def drawing(crash: Crash) -> Seen | None:
    """The program works on images or videos and trains nothing."""
    draws = crash.job.task == "inference" and some(crash.job.frameworks, "has no sequences")
    return Seen(words="") if draws else None


@sign
def computes_scores(crash: Crash) -> Seen | None:
    """The line that failed computes a score for each pair of tokens, or a softmax over these."""
    return Seen(words="") if innermost(crash, _SCORES, 2) else None


@sign
def drawing_by_plain_attention(crash: Crash) -> Seen | None:
    """It draws, and fails at the scores of attention without a kernel of its own."""
    return drawing(crash) if computes_scores(crash) is not None else None


@sign
def of_a_recording(crash: Crash) -> Seen | None:
    """The model was given sound, and nothing trains: a program that separates, cleans or transcribes hands on what the
    user gave it, a whole song."""
    if crash.job.trains or crash.stage not in ("forward", "unknown", "serving"):
        return None
    if crash.in_trace(_TRAINS) is not None or crash.in_trace(_IN_WINDOWS) is not None:
        return None
    return Seen(words="") if crash.in_trace(_SOUND) is not None else None


@sign
def simulating(crash: Crash) -> Seen | None:
    """The program computes a system of nature, or worlds of bodies: it has no batches, and no model."""
    return Seen(words="") if crash.job.task == "simulation" else None


@sign
def works_on_data(crash: Crash) -> Seen | None:
    """The program works on tables or arrays and has no model."""
    return Seen(words="") if crash.job.task == "data" else None


@sign
def while_primitives_grow(crash: Crash) -> Seen | None:
    """The stack frames split, clone or prune the Gaussians of a scene."""
    return Seen(words="") if crash.in_trace(_GROWS_PRIMITIVES) is not None else None


@sign
def in_attention(crash: Crash) -> Seen | None:
    """The innermost stack frames compute attention."""
    return Seen(words="") if innermost(crash, ATTENTION) else None


def _own_pass(crash: Crash) -> str | None:
    """The pass of the job's own model that failed, "forward" or "backward"; None in an inference engine."""
    return None if crash.job.in_engine else _failed_pass(crash)


def _failed_pass(crash: Crash) -> str | None:
    """The pass that failed, or None where another part of the job did."""
    if _says_what_for(crash) or _only_checked(crash):
        return None
    busy = phase(crash)
    if busy is not None:
        return busy if busy in ("backward", "forward") else None
    if crash.stage in ("forward", "backward"):
        return crash.stage
    computing = crash.stage in COMPUTING and not crash.doing.weak
    return "forward" if computing or innermost(crash, ATTENTION, 2) else None


def _only_checked(crash: Crash) -> bool:
    """Whether a program refused by itself: PyTorch's allocator failed in an allocation, whoever raises it again."""
    return refusal(crash) is None and checked(crash)


def _nothing_tells(crash: Crash) -> bool:
    """Whether neither the message nor a frame nor the stage says what the job was doing."""
    if crash.stage != "unknown" or simulating(crash) is not None or _says_what_for(crash):
        return False
    return phase(crash) is None and _failed_pass(crash) is None


def _says_what_for(crash: Crash) -> bool:
    """Whether the message itself says what the memory was for."""
    asking = (compute_buffer_refused, warm_up_short, no_room_for_the_largest_batch)
    if isinstance(crash.root, Shortage) and crash.root.limited:
        return True
    return isinstance(crash.root, ArrayOutOfMemory) or any(said(crash) for said in asking)


@sign
def while_boxes_are_matched(crash: Crash) -> Seen | None:
    """Each box of an image is compared with each object in it: the batch does not matter."""
    return Seen(words="") if crash.in_trace(_ASSIGNERS) is not None else None


@sign
def beside_states_of_a_trainer(crash: Crash) -> Seen | None:
    """DeepSpeed or FSDP hold states on the card, which may lie in RAM instead."""
    states = any(one is not None and one.layer == "states" for one in map(framework, crash.job.frameworks))
    return Seen(words="") if crash.job.trains and states else None


def simulates_worlds(crash: Crash) -> bool:
    """Whether the job computes its environments itself: by its framework, or by what its lines hand on."""
    return some(crash.job.frameworks, "simulates worlds") or crash.in_trace(_STATES_OF_WORLDS) is not None
