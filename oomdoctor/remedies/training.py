"""The knobs of training: halved batches, sharded states, logits in chunks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Final

from msgspec.structs import replace

from oomdoctor.arithmetic import host as ram
from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.container import LimitKill
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import RAM, SIDES
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.ray_store import StoreFull
from oomdoctor.incident.engine_facts import phase
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import largest_kill, node_memory, total_bytes
from oomdoctor.incident.prints import several_batches_went_by
from oomdoctor.job.frameworks import driven, some
from oomdoctor.job.model import Value
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import engine, held, models, own_line, own_options
from oomdoctor.remedies.initial import as_default
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.layers import fewer_layers
from oomdoctor.remedies.own_options import own_option
from oomdoctor.remedies.proposal import Answer, Case, Compute, Proposal, Refusal, Skip, already
from oomdoctor.remedies.settings import Spelling, done, spelling
from oomdoctor.remedies.sizes import size_of_trained, zero_stage
from oomdoctor.remedies.whatif.states import OPTIMIZER, STARTING, is_on
from oomdoctor.signs import limits
from oomdoctor.signs.arrays import far_beyond_a_machine
from oomdoctor.signs.ggml import copies_of_inputs
from oomdoctor.signs.host_data import cached_data
from oomdoctor.signs.offload import refused_for_parameters_on_the_host
from oomdoctor.signs.passes import in_attention
from oomdoctor.signs.set_limits import address_limit
from oomdoctor.signs.shm import it_filled_steadily
from oomdoctor.units import GIB, MIB, show

_PART_OF_A_CHECKPOINT: Final = late(r"\w{1,30}")
AS_PRINTED: Final = 2 * MIB + GIB // 200  # the allocator rounds up to 2 MiB, the message to two decimals

SMALLER_BATCHES: Final = mark("the starting engine reserves a share of the GPU, whatever the training batch size")
_OF_RANKS: Final = r"(?i)torch/distributed|\brank ?\d|LOCAL_RANK|torchrun|accelerate|deepspeed"
_AUTOCAST: Final = "autocast"
_TO_32_BITS: Final = late(r"\.float\(\)|\.(?:to|type)\((?:dtype=)?torch\.float(?:32)?\)")
_TOO_LARGE: Final = "model-does-not-fit"
_OF_WEIGHTS: Final = (_TOO_LARGE, "optimizer-states")  # causes
_WITH_WEIGHTS: Final = ("model_load", "optimizer_step")  # stages
_PICTURES: Final = 4  # dimensions of an array: batch, height, width and channels
_OF_A_FILTER: Final = r"(?i)variable|assign|initiali[sz]er|filter_?grad|backprop_?filter"
_MIXED: Final = frozenset({"bf16", "fp16", "amp", "use_amp", "mixed_precision"})
_RUNS_MIXED: Final = (
    r"grad_scaler|GradScaler|autocast_mode|\bscaler\.(?:scale|step)\(|with (?:torch\.)?(?:cuda\.amp\.)?autocast"
)
# model.to: torch/nn/modules/module.py; tree_map: jax/_src/tree_util.py
_TO_16_BITS: Final[Mapping[str, str]] = {
    "torch": "model = model.to(torch.bfloat16)",
    "jax": "params = jax.tree_util.tree_map(lambda p: p.astype(jax.numpy.bfloat16), params)",
}
_FULL_PRECISION: Final = ("float32", "float", "fp32")
_A_GOOD_PART: Final = 2  # half of what could be replaced
_TRAINER: Final = r"transformers/trainer"
_FUSED: Final = r"\bscaled_dot_product_attention\(|\bflash_attn_(?:varlen_)?func\b|\bmemory_efficient_attention\("
# Where the call is not causal, a mask is one of padding, and with a causal one in its place the model is another
_BOTH_WAYS: Final = r"\b(?:is_)?causal ?= ?False\b"
_FUSED_CALL: Final = "out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"
_UNMASKED_CALL: Final = _FUSED_CALL.replace("is_causal=True", "attn_mask=None")
_OF_SEVERAL_LENGTHS: Final = "flash_attn_varlen_func"  # flash_attn/flash_attn_interface.py
_MOVES_PREDICTIONS: Final = "eval_accumulation_steps"
# transformers/trainer.py before #7767 (2020-10) kept them under another name, and had no such option
_BEFORE_THE_OPTION: Final = r"\bpreds = logits if preds is None else\b"
_WITH_THE_OPTION: Final = "3.5"
_QUARTER: Final = 4
ACCUMULATION: Final = "gradient_accumulation_steps"
# The input of an operation, its result, and what the one before it has left
_DATA: Final = "dataset-in-ram"  # of which a smaller batch brings as much, only later
_AT_ONCE: Final = 3
_MOST_PARTS: Final = 16
_WITHOUT_UPDATES: Final = ("serving", "rollout", "eval", "data_load")
_TRAINING: Final = ("training", "rl")  # tasks
WITHOUT_TRAINING: Final = ("serving", "inference", "data")
_CALLED_TRAINING: Final = r"(?i)\b(?:train(?:ing|er|_|\b)|fine_?tun)|\bepochs?\b"
_BY_BATCHES: Final = ("activations", "eval-accumulation", "logits-spike")  # causes
_OUTSIDE: Final = "non-torch-memory"
_BARE: Final = ("gpu-memory-exhausted", "non-torch-memory")
_WITHOUT_GRADIENTS: Final = ("rollout", "logprob", "reward")
_FORWARD_BATCHES: Final = (
    "micro_rollout_batch_size", "rollout.micro_batch_size", "log_prob_micro_batch_size_per_gpu",
    "log_prob_micro_batch_size", "micro_forward_batch_size", "micro_forward_batch_size_per_gpu", "logprob_batch_size",
    "forward_micro_batch_size_per_gpu", "infer_batch_size",
)  # fmt: skip
_PROMPTS_ALONE: Final = late(r"(?i)prompt")  # in the name of an option: it cuts no answer


def halved(case: Case) -> Answer:
    """Batches and lengths of training matter once it trains."""
    if case.crash.stage in STARTING and engine.share(case.crash) is not None:
        return Refusal(translated(SMALLER_BATCHES))
    return engine.half(case)


def smaller_microbatch(case: Case) -> Answer:
    """Half the batch; the global one stays only where the steps are accumulated, by the framework or by its option."""
    case = _of_the_stage(case)
    if case.cause == _DATA and (several_batches_went_by(case.crash) or _fills_a_cache(case.crash)):
        return Skip()
    answer = halved(case)
    share = 2
    if isinstance(answer, Proposal) and _at_its_first_step(case):
        answer, share = _quarter(case, answer), _QUARTER
    elif isinstance(answer, Proposal) and (parts := _parts_that_fit(case)) is not None:
        answer, share = _part(case, answer, parts), parts
    if some(case.crash.context.frameworks, "keeps its global batch") or isinstance(answer, Refusal):
        return answer
    proposal = answer if isinstance(answer, Proposal) else _half_a_batch(case)
    accumulation = _accumulation(case)
    if _updates_nothing(case.crash):
        return replace(proposal, cost=say("lower throughput"))
    if accumulation is None or proposal.suggested is None:
        return replace(proposal, cost=say("smaller global batch without more accumulation"))
    now, assumed = accumulation
    shown = as_default(str(now)) if assumed else now
    line = _accumulated(proposal.snippet or case.snippet(proposal.suggested), case.crash, share * now)
    return replace(
        proposal,
        action=say(
            "{action}, and {option} {now} -> {then}",
            action=proposal.action,
            option=ACCUMULATION,
            now=shown,
            then=share * now,
        ),
        derivation=say(
            "{formula}; {now} x {share} = {then} for the same global batch",
            formula=proposal.derivation,
            now=now,
            share=share,
            then=share * now,
        ),
        assumes=(*proposal.assumes, *assumed),
        snippet=line,
    )


def _fills_a_cache(crash: Crash) -> bool:
    """Whether the data were still being cached: there was no batch of them yet."""
    cached = cached_data(crash)
    return cached is not None and cached.is_filling


def _half_a_batch(case: Case) -> Proposal:
    """Without an option, that the program may not have: first where it trains, or where batches are the cause."""
    task = own_line.task_of(case.crash)
    counts = task != "serving" if case.cause in _BY_BATCHES else case.cause in _BARE and task in _TRAINING
    first = counts and not some(case.crash.job.frameworks, "simulates worlds")
    if first and (shown := _of_the_array(case.crash) or _of_a_huge_array(case.crash)) is not None:
        return shown
    if case.cause == _OUTSIDE and (library := _refused_library(case.crash)) is not None:
        return library
    return Proposal(
        action=say("Halve the batch size"), derivation=say("current value not in the log") if first else None
    )


def _refused_library(crash: Crash) -> Proposal | None:
    """A library beside the framework needs room that the framework has to leave."""
    root = crash.root
    if not isinstance(root, LibraryOutOfMemory):
        return None
    return Proposal(
        action=say("Leave {library} room on the GPU: halve the batch size", library=root.library),
        subject=root.library,
        derivation=say("{library} requested {tried}", library=root.library, tried=show(root.tried_bytes))
        if root.tried_bytes
        else None,
    )


def _of_a_huge_array(crash: Crash) -> Proposal | None:
    """Of one array that is larger than the device a half does not fit, either."""
    root = crash.root
    if not isinstance(root, ArrayOutOfMemory) or not root.tried_bytes or not root.total_bytes:
        return None
    room = root.free_bytes or root.total_bytes
    if root.tried_bytes <= 2 * root.total_bytes:
        return None
    count = math.ceil(root.tried_bytes / room)
    return Proposal(
        action=say("Find what makes this one array so large; if the batch does, lower it to 1/{count}", count=count),
        derivation=say(
            "{tried} / {room} free, rounded up = {count}", tried=show(root.tried_bytes), room=show(room), count=count
        ),
    )


def _of_the_array(crash: Crash) -> Proposal | None:
    """TensorFlow's arrays of pictures begin with the batch (NHWC and NCHW alike)."""
    shape = crash.root.shape if isinstance(crash.root, ArrayOutOfMemory) and crash.job.world == "tensorflow" else None
    sizes = [int(one) for one in (shape or "").strip("[] ").split(",") if one.strip().isdigit()]
    of_a_filter = sizes[:1] == sizes[1:2] or crash.in_trace(_OF_A_FILTER) is not None
    if len(sizes) != _PICTURES or sizes[0] < 2 or of_a_filter:
        return None
    then = sizes[0] // 2
    is_the_batch = say("the first dimension of {shape} is the batch", shape=f"[{','.join(map(str, sizes))}]")
    if isinstance(crash.root, ArrayOutOfMemory) and far_beyond_a_machine(crash):
        return _of_far_fewer(crash.root, is_the_batch)
    return Proposal(
        action=say("Halve the batch size: {now} -> {then}", now=sizes[0], then=then),
        current=sizes[0],
        suggested=then,
        setting="",
        derivation=f"{sizes[0]} / 2 = {then}",
        assumes=(is_the_batch,),
    )


def _of_far_fewer(array: ArrayOutOfMemory, is_the_batch: str) -> Proposal:
    """Beside such an array there are others, so that a half of it is too much as well."""
    inputs, *each = array.lengths
    bytes_each = (array.usual_bytes or 0) // inputs
    half = inputs // 2
    of_the_type = () if array.dtype else (say("numbers of 4 bytes (type not in the log)"),)
    return Proposal(
        action=say(
            "Compute far fewer than {inputs} inputs at once: half of them still take {half} in this one array",
            inputs=inputs, half=show(bytes_each * half),
        ),
        current=inputs,
        setting="",
        derivation=say(
            "{half} x {each} x {width} bytes = {size}",
            half=half, each=" x ".join(map(str, each)), width=bytes_each // math.prod(each),
            size=show(bytes_each * half),
        ),
        assumes=(is_the_batch, *of_the_type),
    )  # fmt: skip


def _at_its_first_step(case: Case) -> bool:
    """Host memory ran out before a step was done: how much is missing nobody knows, and half is often too little."""
    crash, now = case.crash, case.number()
    progress = crash.context.progress
    steps = progress.get("done") or progress.get("step") or 0
    if crash.stage in _WITHOUT_UPDATES or (case.now is not None and "eval" in case.now.name):
        return False
    fails = isinstance(crash.root, KernelKill | LimitKill | ArrayOutOfMemory)
    return fails and crash.pool in RAM and not steps and now is not None and now >= 2 * _QUARTER


def _parts_that_fit(case: Case) -> int | None:
    """Into how many parts the batch goes where the piece that was refused is large beside all that there is: of so
    many pieces at once, each as large as its part of the batch, half the memory has to be enough."""
    crash, now = case.crash, case.number()
    root = crash.root
    limit = address_limit(crash) or total_bytes(crash)
    if not isinstance(root, HostAllocation) or not root.tried_bytes or not limit or now is None:
        return None
    parts = 2
    while parts * limit < 2 * _AT_ONCE * root.tried_bytes:
        parts *= 2
    return min(parts, _MOST_PARTS) if parts > 2 and now >= 2 * parts else None


def _part(case: Case, answer: Proposal, parts: int) -> Proposal:
    assert case.now is not None
    now, tried = case.number() or 0, case.crash.root.tried_bytes if isinstance(case.crash.root, HostAllocation) else 0
    limit = address_limit(case.crash) or total_bytes(case.crash) or 0
    then = int(now) // parts
    return replace(
        answer,
        action=say("Lower {name} from {now} to {then}", name=case.now.name, now=f"{now:g}", then=then),
        suggested=then,
        derivation=say(
            "{now:g} / {parts} = {then}: {count} pieces of {tried} / {parts} in half of {limit}",
            now=now, parts=parts, then=then, count=_AT_ONCE, tried=show(tried or 0), limit=show(limit),
        ),
        snippet=case.own_spelling(then) if case.own_name() is not None else None,
        assumes=(*answer.assumes, say("{count} such pieces at once (a guess)", count=_AT_ONCE)),
    )  # fmt: skip


def _quarter(case: Case, answer: Proposal) -> Proposal:
    assert case.now is not None
    now = case.number() or 0
    then = int(now) // _QUARTER
    own = case.own_name()
    return replace(
        answer,
        action=say("Lower {name} from {now} to {then}", name=case.now.name, now=f"{now:g}", then=then),
        suggested=then,
        derivation=f"{now:g} / {_QUARTER} = {then}",
        snippet=case.own_spelling(then) if own is not None else None,
        assumes=(*answer.assumes, say("a quarter is a guess: no step was done")),
    )


def _updates_nothing(crash: Crash) -> bool:
    """Whether no step of training is in sight, whose batches a sum of gradients could make up for."""
    passes = crash.stage in _WITHOUT_UPDATES or crash.in_trace(r"\bgenerate\b") is not None
    task = own_line.task_of(crash)
    return passes or not (task in _TRAINING or (task == "unknown" and crash.shows(_CALLED_TRAINING)))


def lower_precision(case: Case) -> Answer:
    """Where nothing is trained, the weights alone; an engine has an option for it, and no code. On the CPU autocast
    keeps the weights as they are."""
    crash, row = case.crash, case.row
    in_code = row is None or row.is_call
    if refused_for_parameters_on_the_host(crash) is not None:
        return _half_while_they_load(crash)
    if crash.job.in_engine and in_code:
        stated = crash.setting("dtype")
        if stated is None or stated.value not in _FULL_PRECISION:
            return Skip()
        return Proposal(suggested="bfloat16", setting="--dtype", current=stated.value, snippet="--dtype bfloat16")
    on_the_host = crash.pool in RAM and crash.job.world == "torch"
    if case.cause in _OF_WEIGHTS or crash.stage in _WITH_WEIGHTS or on_the_host:
        weights = _half_the_weights(case)
        if weights is not None:
            return weights
    elif (on := _mixed_already(crash)) is not None:
        return Refusal(say("mixed precision is on already ({place})", place=on))
    elif row is not None and row.is_call and _AUTOCAST in row.write:
        if _asks_for_32_bits(crash):
            return Skip()  # what is written out is done under autocast, too
        return Proposal(action=say("Compute in bf16 where that is safe (autocast; the weights stay as they are)"))
    if crash.job.task not in WITHOUT_TRAINING or row is not None:
        return None
    return Proposal(action=say("Load the weights in bf16 instead of fp32"))


def _asks_for_32_bits(crash: Crash) -> bool:
    """The innermost line itself makes a copy in float32."""
    return crash.root.around.trace[-1:] != () and _TO_32_BITS.search(crash.root.around.trace[-1].code or "") is not None


def _half_while_they_load(crash: Crash) -> Proposal:
    """All parameters in one piece: a copy in 16 bits is half of it."""
    root = crash.root
    tried = root.tried_bytes if isinstance(root, HostAllocation) else None
    return Proposal(
        action=say("Load the weights in bf16 instead of fp32"),
        snippet="from_pretrained(..., torch_dtype=torch.bfloat16)",
        setting="",
        derivation=say("{tried} / 2 = {half}", tried=show(tried), half=show(tried // 2)) if tried else None,
        assumes=(say("the weights are in float32 now"),),
    )


def _half_the_weights(case: Case) -> Answer:
    """Mixed precision keeps the weights and the optimizer's states in 32 bits: they have to be converted themselves."""
    crash, row = case.crash, case.row
    if (shown := engine.quantized(crash)) is not None:
        return Refusal(say("weights already quantized ({shown})", shown=shown))
    if own_option(case.knob, crash) is not None:
        own = own_options.proposal(case.knob, KNOBS[case.knob].action, crash)
        slow = say("lower precision; slow on CPUs without bf16 instructions")
        return replace(own, cost=slow) if own is not None and crash.pool in RAM else own
    if row is not None and not row.is_call and not is_mixed(row):
        return None
    line = _TO_16_BITS.get(crash.job.world)
    if line is None or driven(crash.job.frameworks):
        of_any_library = row is None and case.cause == _TOO_LARGE
        return Proposal(action=say("Load the weights in bf16 instead of fp32")) if of_any_library else Skip()
    of_states = case.cause != _TOO_LARGE and crash.job.task not in WITHOUT_TRAINING and crash.job.world == "torch"
    if row is not None and of_states:
        action = say(
            "Convert the weights to bf16 before the optimizer is created: autocast leaves them and Adam in fp32"
        )
        return Proposal(action=action, snippet=line, setting="")
    return Proposal(action=say("Load the weights in bf16 instead of fp32"), snippet=line, setting="")


def is_mixed(row: Spelling) -> bool:
    """Whether the option lets the library choose the type of each operation, and not that of the weights."""
    return "mixed" in row.shown or row.key.rsplit(".", 1)[-1].lower() in _MIXED or ".AMP." in row.write


def _mixed_already(crash: Crash) -> str | None:
    """Where the traceback shows that the passes run in 16 bits."""
    frame = crash.in_trace(_RUNS_MIXED)
    return f"{frame.file.rpartition('/')[2]}:{frame.line}" if frame is not None else None


# The loop over whole lists of tensors, PyTorch's default since 2.0, makes temporary copies as large as the parameters:
# torch/optim/adamw.py, "foreach"
_COPIES: Final = r"\b_foreach_\w+"


# transformers/training_args.py, OptimizerNames: bitsandbytes has 8-bit optimizers for accelerators only
_OF_A_CARD: Final = "adamw_bnb_8bit"
_ON_THE_HOST: Final = "adafactor"


# transformers/modeling_utils.py, "attn_implementation"
_ATTENTION_OPTION: Final = "attn_implementation"
_PLAIN: Final = "eager"
_FUSED_ONE: Final = "sdpa"


def low_memory_optimizer(case: Case) -> Answer:
    """bitsandbytes' 8-bit states are a card's; PyTorch has Adafactor for both. Some options keep 16 bits, and no 8."""
    if (case.row is None or case.row.is_call) and case.crash.in_trace(_COPIES) is not None:
        return Proposal(
            action=say("Let the optimizer update the parameters in place (fused), without copies of its states"),
            snippet="optimizer = torch.optim.AdamW(model.parameters(), fused=True)",
            assumes=(say("PyTorch >= 2.0 (not printed)"),),
            cost=say("none"),
        )
    if case.row is None and case.crash.job.world == "tensorflow":
        return Proposal(action=say("Use an optimizer with smaller states (Adafactor, SGD)"))
    line = case.row.shown if case.row is not None else ""
    if "bf16" in line and "8bit" not in line:
        return Proposal(action=say("Keep the optimizer states in bf16"), suggested=_as_spelled(case))
    if case.crash.pool in RAM and case.row is not None and case.row.value == _OF_A_CARD:
        return Proposal(
            action=say("Use an optimizer with smaller states (Adafactor)"),
            current=case.now.value if case.now is not None else None,
            suggested=_ON_THE_HOST,
        )
    if case.crash.pool not in RAM or case.crash.job.world != "torch" or (case.row is not None and not case.row.is_call):
        return None
    return Proposal(
        action=say("Use an optimizer with smaller states (Adafactor)"),
        snippet="optimizer = torch.optim.Adafactor(model.parameters())",
        assumes=(say("PyTorch >= 2.5 (not printed)"),),
    )


def _as_spelled(case: Case) -> Value:
    return None if case.row is None else True if case.row.is_switch else case.row.value


def load_in_parts(case: Case) -> Answer:
    """A job of one process has no ranks, each with a copy; an engine maps the files that are made for it."""
    crash, row = case.crash, case.row
    if SIDES.get(crash.pool) == "device":
        return Skip() if crash.job.in_engine else _load_to_ram(case)
    if not crash.job.in_engine and (crash.job.spread or crash.shows(_OF_RANKS)):
        return None
    action = say(
        "Load the weights without a second full copy in RAM: memory-mapped (safetensors, not .bin) or shard by shard"
    )
    if row is None or not row.takes_value:
        return Proposal(action=action)
    return Proposal(action=action, suggested=row.value) if crash.job.in_engine else None


def _load_to_ram(case: Case) -> Answer:
    """torch.load restores each tensor to where it was saved from, whichever card the process has."""
    if case.row is None or not case.row.is_call:
        return None
    action = say(
        "Load checkpoints to the CPU first: without map_location, torch.load puts them on the GPU that saved them"
    )
    return Proposal(action=action)


def shard_checkpoint(case: Case) -> Answer:
    """Options that list what is saved: whole weights come off the list; where the log does not show it, states do."""
    row = case.row
    if row is not None and _ON_RANK_0 in row.write:
        return Proposal(
            action=say("Gather the full state in host RAM, on rank 0 alone"),
            cost=say("rank 0 needs host RAM for the whole state"),
        )
    if row is None or not row.key.endswith("contents"):
        return None
    saved = _PART_OF_A_CHECKPOINT.findall(str(case.now.value)) if case.now is not None else []
    kept = [part for part in saved if part != "hf_model"]
    if kept and kept != saved:
        value = f"[{','.join(map(repr, kept))}]"
        return Proposal(
            action=say("Save the shards alone, without a copy of the whole weights (hf_model)"),
            suggested=value,
            snippet=row.write.replace("{}", f'"{value}"'),
        )
    return Proposal(
        action=say("Save the weights alone, without the optimizer states"),
        suggested=row.value,
        cost=say("the checkpoint has no optimizer states: no exact resume"),
    )


def keeps_predictions(cause: str, crash: Crash) -> bool:
    """An evaluation keeps its predictions in host memory, where Trainer's eval_accumulation_steps puts them as well."""
    return cause == "eval-accumulation" and crash.pool in RAM


def _on_the_host(case: Case) -> Answer:
    """transformers' Trainer: training_args.py"""
    if case.now is not None and case.number() == 1:
        return already(case.now, 1)
    if case.crash.in_trace(_BEFORE_THE_OPTION) is not None:
        return Proposal(
            action=say(
                "Upgrade transformers to {release} or later, then run with --eval_accumulation_steps 1: the line in "
                "the traceback is of a release without this option",
                release=_WITH_THE_OPTION,
            ),
            snippet=f'pip install "transformers>={_WITH_THE_OPTION}"',
            setting="",
            cost=say("slower evaluation; host RAM for the predictions"),
        )
    return Proposal(
        action=say("Move the predictions to host RAM after every step"),
        suggested=1,
        derivation=say("1 is the minimum"),
        cost=say("slower evaluation; host RAM for the predictions"),
    )


def fewer_predictions(case: Case) -> Answer:
    """On the host nothing is gained by moving predictions there: only what a metric needs of them is smaller."""
    crash, root = case.crash, case.crash.root
    if isinstance(root, ArrayOutOfMemory) and root.outputs_hold_most:
        return _fewer_outputs(root)
    if (of_its_own := held.smaller_stacks(case) or held.smaller_buffer(case)) is not None:
        return of_its_own
    if case.cause == "eval-accumulation" and case.row is not None and _MOVES_PREDICTIONS in case.row.setting:
        return _on_the_host(case)
    if (copies := copies_of_inputs(crash)) is not None:
        return Proposal(
            action=say("Build with one copy of the inputs for pipeline parallelism instead of {copies}", copies=copies),
            snippet="cmake -B build -DGGML_SCHED_MAX_COPIES=1",
            setting="",
            cost=say("slower prompts on several GPUs"),
        )
    if not keeps_predictions(case.cause, crash):
        return None
    kept = say("Keep what the metrics need of each batch: the argmax instead of all logits")
    if crash.in_trace(_TRAINER) is None:
        return Proposal(action=kept, snippet="predictions.append(logits.argmax(dim=-1))")
    option = "preprocess_logits_for_metrics"
    return Proposal(
        action=kept,
        setting=option,
        snippet=f"Trainer(..., {option}=lambda logits, labels: logits.argmax(dim=-1))",
    )


def _fewer_outputs(program: ArrayOutOfMemory) -> Proposal:
    """jax/_src/api.py, "donate_argnums": an output takes the place of the argument that it replaces, so that donating
    saves no more than the arguments take."""
    arguments, outputs = program.arguments_bytes, program.outputs_bytes or 0
    if arguments is not None and arguments * _A_GOOD_PART < outputs:
        return Proposal(
            action=say(
                "Return less from the compiled function, or call it on parts and fetch each result ({outputs} of "
                "outputs, {arguments} of arguments)",
                outputs=show(outputs),
                arguments=show(arguments),
            ),
            snippet="results = [jax.device_get(step(part)) for part in parts]",
            cost=say("host RAM for the results"),
        )
    return Proposal(
        action=say(
            "Return less from the compiled function, or donate the arguments that its outputs replace ({outputs})",
            outputs=show(program.outputs_bytes or 0),
        ),
        snippet="step = jax.jit(step, donate_argnums=(0,))",
        cost=say("none"),
    )


_SCORES_AT_ONCE: Final = "-amb"  # an option of ik_llama.cpp, for what is not fused


def fused_attention(case: Case) -> Answer:
    """Who calls one already falls back to the plain one by an explicit mask or float32. On a CPU only PyTorch's own
    kernel is one, and it is what transformers takes where nobody asks for another."""
    if case.crash.pool in RAM:
        return _attention_of_the_cpu(case)
    if case.row is not None and case.row.setting == _SCORES_AT_ONCE:
        return Proposal(
            action=say("Where flash attention (-fa) is off, bound the attention scores of one computation (MiB)"),
            snippet=f"{case.row.setting} {case.row.set}",
            cost=say("slower prompts"),
        )
    if not case.crash.shows(_FUSED):
        return None
    if case.crash.in_trace(_BOTH_WAYS) is not None:
        return Proposal(
            action=say("Let attention take a fused kernel: bf16 or fp16, and no mask where no sequence is padded"),
            snippet=_UNMASKED_CALL,
            cost=say("batches of one length, or a kernel for several ({name})", name=_OF_SEVERAL_LENGTHS),
        )
    action = say("Let attention take a fused kernel: bf16 or fp16, and is_causal in place of a causal mask")
    return Proposal(action=action, snippet=_FUSED_CALL)


def _attention_of_the_cpu(case: Case) -> Answer:
    """torch.nn.functional.scaled_dot_product_attention has a fused kernel for CPUs since 2.1."""
    row, now = case.row, case.now
    if row is not None and _ATTENTION_OPTION in row.key and now is not None and now.value == _PLAIN:
        return Proposal(
            action=say("Set {name} from {now} to {then}", name=case.name, now=_PLAIN, then=_FUSED_ONE),
            current=_PLAIN,
            suggested=_FUSED_ONE,
            snippet=case.own_spelling(_FUSED_ONE) or f"{now.written or ''}{_FUSED_ONE}",
        )
    shown = in_attention(case.crash) is not None or own_line.shows(case.knob, case.crash)
    return None if shown and row is not None and row.is_call else Skip()


# Processes of other languages, as the kernel's table and Ray's name them: comm of proc(5)
_OTHER_LANGUAGES: Final = late(
    r"(?i)(?:perl|java|node|ruby|php(?:-fpm)?|mono|dotnet|rsession|julia|matlab|beam\.smp|mysqld|mariadbd|postgres"
    r"|mongod|redis-server|clickhouse-serv|prometheus|dockerd|containerd|chrome|firefox|xorg|gnome-shell|llama-server)\b"
)

# --sort-by: python/ray/scripts/scripts.py since 1.2
_OBJECTS: Final = "ray memory --sort-by OBJECT_SIZE | head -40"


def _not_in_python(crash: Crash) -> bool:
    """Whether the process that held it runs another language, or an engine whose code is not the job's."""
    killed, memory = largest_kill(crash), node_memory(crash)
    name = killed.process.name if killed is not None else None
    name = name or (memory.heaviest.name if memory is not None and memory.heaviest is not None else None)
    return _OTHER_LANGUAGES.match(name or "") is not None


_TRAINING_PROCESS: Final = "trainer"
_TRAINER_SLEEPS: Final = mark("Offload the trainer and empty its cache before the engine wakes up")
_SLEEP: Final = "enable_sleep"  # of the trainer's options: deepspeed_enable_sleep, ds.enable_sleep


def clear_references(case: Case) -> Answer:
    """What keeps arrays alive has other names outside of PyTorch and of training."""
    job = case.crash.job
    if phase(case.crash) == "waking":
        if _puts_the_trainer_to_sleep(spelling("offload-optimizer", case.crash.context)):
            return Skip()  # the option does it
        action = translated(_TRAINER_SLEEPS)
        return Proposal(action=action, subject=_TRAINING_PROCESS)
    if it_filled_steadily(case.crash) is not None:
        return Proposal(
            action=say("Look for batches that are kept: copy what outlives its step, and remove old files"),
            snippet="ls -laS /dev/shm | head; kept.append(batch.clone())",
        )
    if case.crash.pool == "object_store":
        full = case.crash.first(StoreFull)
        if full is not None and full.used_fraction == 0:
            return Refusal(say("Ray's object store was empty"))
        return Proposal(action=say("Find who holds references to the largest objects, and drop them"), snippet=_OBJECTS)
    if case.crash.pool in RAM and (_not_in_python(case.crash) or _has_just_started(case.crash)):
        return Skip()
    if case.cause == "eval-accumulation" and case.crash.in_trace(_TRAINER) is not None:
        return _loss_alone(case.crash)
    if case.crash.pool in RAM and job.world != "torch":
        return Proposal(action=say("Drop references to old results: keep no lists, dicts or caches that only grow"))
    if job.world in ("torch", "none") and job.task not in WITHOUT_TRAINING:
        return None
    return Proposal(action=say("Drop references to old arrays and results before you create new ones"))


def _has_just_started(crash: Crash) -> bool:
    """A container that died at its start has no old results."""
    lived = limits.lived_seconds(crash)
    return lived is not None and lived <= limits.AT_ITS_START


def _loss_alone(crash: Crash) -> Proposal:
    """The list that grows is Trainer's own: only an option of it keeps less."""
    option = "prediction_loss_only"
    old = crash.in_trace(_BEFORE_THE_OPTION) is not None
    return Proposal(
        action=say(
            "Compute only the loss in the evaluation ({option}), if no metric needs the predictions", option=option
        ),
        snippet=f"Trainer(..., {option}=True)" if old else f"--{option} True",
        setting=option if old else f"--{option}",
        cost=say("no metrics of the predictions"),
    )


def _of_the_stage(case: Case) -> Case:
    """While nothing is updated, the batch is that of the forward passes, which has an option of its own."""
    stated = case.crash.setting(*_FORWARD_BATCHES) if case.crash.stage in _WITHOUT_GRADIENTS else None
    return case if stated is None else replace(case, now=stated)


def _accumulation(case: Case) -> tuple[int, tuple[str, ...]] | None:
    """Over how many steps the job accumulates now, and what was assumed."""
    if case.number() is None:
        return None  # half of a batch that nobody printed asks for no number of steps
    stated = case.crash.setting(ACCUMULATION)
    if stated is not None:
        return (stated.whole, ()) if stated.whole is not None and stated.whole > 0 else None
    if case.row is None or not some([case.row.framework], "accumulates by option"):
        return None
    return 1, (say("{option} is 1 (its default, not in the log)", option=ACCUMULATION),)


def _accumulated(line: str | None, crash: Crash, steps: int) -> str | None:
    """The option for the steps beside that for the batch, in the same manner."""
    if line is None:
        return None
    stated = crash.setting(ACCUMULATION)
    if stated is not None and stated.written is not None:
        return f"{line} {stated.written}{steps}"
    if line.startswith("--"):
        return f"{line} --{ACCUMULATION} {steps}"
    if line.startswith('"'):
        return f'{line}, "{ACCUMULATION}": {steps}'
    return f"{line}\n{ACCUMULATION}: {steps}" if ": " in line else f"{line} {ACCUMULATION}={steps}"


def shorter_sequences(case: Case) -> Answer:
    """In a loop that generates these are prompts and answers; elsewhere they are what one example is cut to."""
    answer = halved(case)
    if isinstance(answer, Proposal) and case.crash.job.task == "rl" and _PROMPTS_ALONE.search(case.name):
        return replace(answer, cost=say("longer prompts are cut or left out"))
    if case.crash.job.task == "rl" or isinstance(answer, Refusal):
        return answer
    if not isinstance(answer, Proposal) and (shown := _by_the_square(case.crash)) is not None:
        return shown
    proposal = answer if isinstance(answer, Proposal) else Proposal(action=say("Shorten the sequences"))
    return replace(proposal, cost=say("longer sequences are truncated"))


def _by_the_square(crash: Crash) -> Proposal | None:
    """One piece larger than the GPU is a tensor over all pairs of tokens or pixels."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or not root.tried_bytes or not root.total_bytes:
        return None
    room = root.free_bytes or root.total_bytes
    if root.tried_bytes <= root.total_bytes:
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


def shard_states(case: Case) -> Answer:
    crash = case.crash
    now = case.number()
    if case.now is not None and now is not None and now >= 3 and case.now.name.endswith("stage"):
        return Refusal(
            say("{name} is already {value} ({place})", name=case.name, value=f"{now:g}", place=case.now.place)
        )
    zero, model, cards = zero_stage(crash), size_of_trained(crash), engine.cards_of_trainer(crash)
    if zero is None or model is None or cards is None or done(case.knob, crash.context) is not None:
        return None
    stage, assumed = zero
    offloaded = is_on(crash, *OPTIMIZER)
    before, after = (
        arithmetic.states_on_gpu(model.parameters, cards, level, optimizer_offloaded=offloaded) for level in (stage, 3)
    )
    if after >= before:
        return None
    return Proposal(
        suggested=case.row.value if case.row is not None else None,
        derivation=say(
            "{bytes} bytes x {size} / {cards} GPUs = {then} per GPU instead of {now} (ZeRO-{stage})",
            bytes=arithmetic.WEIGHT_BYTES if offloaded else arithmetic.STATES_BYTES,
            size=model.billions,
            cards=cards,
            then=show(after),
            now=show(before),
            stage=stage,
        ),
        assumes=(model.source, *assumed),
    )


def offload_parameters(case: Case) -> Answer:
    return _by_a_word_more(case) if _is_a_list_of_words(case) else fewer_layers(case)


def _is_a_list_of_words(case: Case) -> bool:
    """An option that lists how the model is sharded: transformers/training_args.py, FSDPOption."""
    return case.row is not None and case.row.write == _TRAINERS_FSDP


def _by_a_word_more(case: Case) -> Answer:
    if case.now is None:
        return None
    stated = str(case.now.value).split()
    if _OFFLOAD in stated:
        return already(case.now, case.now.value)
    then = " ".join((*stated, _OFFLOAD))
    return Proposal(current=case.now.value, suggested=then)


def offload_optimizer(case: Case) -> Answer:
    if _is_a_list_of_words(case):
        return _by_a_word_more(case)
    if _set_already(case):
        return None
    model = size_of_trained(case.crash)
    if phase(case.crash) == "waking" and _puts_the_trainer_to_sleep(case.row):
        return Proposal(action=translated(_TRAINER_SLEEPS), suggested=True)
    if model is None:
        return None
    freed = ram.ADAM_OFFLOAD_BYTES * model.parameters
    return Proposal(
        suggested=_as_spelled(case),
        derivation=say("12 bytes x {size} = {amount} moved to host RAM", size=model.billions, amount=show(freed)),
        assumes=(model.source,),
    )


def _puts_the_trainer_to_sleep(row: Spelling | None) -> bool:
    """Whether the option moves the states away only while the engine works: openrlhf/trainer/ray/launcher.py."""
    return row is not None and row.key.endswith(_SLEEP)


def _set_already(case: Case) -> bool:
    return case.now is not None and case.now.value not in (False, None, "none", "None")


def chunk_logits(case: Case) -> Answer:
    """Whether what was refused is the logits of a whole number of tokens."""
    if _set_already(case):
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


def fewer(case: Case) -> Answer:
    """Half of what is counted; of a factor or a threshold a half is not less memory."""
    row = case.row
    if row is None or row.type not in ("int", "size"):
        return None
    usual, default = row.value, row.smallest_default(None)
    if case.knob == "fewer-environments" and case.number() is None and default is None:
        return Proposal(action=say("Halve {name} (value not in the log)", name=row.setting))
    counts = not isinstance(usual, int) or default is None or default > usual
    return halved(case) if counts and (usual is None or case.number() is not None) else None


_TRAINERS_FSDP: Final = "--fsdp {}"
_OFFLOAD: Final = "offload"
_ON_RANK_0: Final = "rank0_only=True"  # torch/distributed/fsdp/api.py
_OF_AN_ASSIGNER: Final = "gpu_assign_thr"


def assign_on_the_host(case: Case) -> Answer:
    """mmdet/models/task_modules/assigners/max_iou_assigner.py: on the CPU for images with more objects than that."""
    if case.row is None or not case.row.key.endswith(_OF_AN_ASSIGNER):
        return None
    return Proposal(
        action=say("Match boxes on the CPU for images with more than {count} objects", count=case.row.value),
        suggested=case.row.value,
        derivation=say("{value} is a usual start value", value=case.row.value),
        cost=say("slower for these images"),
        assumes=(say("MMDetection >= 1.0 (not printed)"),),
    )


def smaller_tiles(case: Case) -> Answer:
    """Half of them; a tile of no size is the whole picture, as where none is stated."""
    return None if case.number() == 0 else fewer(case)


FUNCTIONS: Final[Mapping[str, Compute]] = {
    "smaller-input": fewer,
    "cap-primitives": fewer,
    "fewer-environments": fewer,
    "resize-sim-buffers": fewer,
    "offload-parameters": offload_parameters,
    "offload-activations": assign_on_the_host,
    "smaller-microbatch": smaller_microbatch,
    "shorter-sequences": shorter_sequences,
    "shard-states": shard_states,
    "offload-optimizer": offload_optimizer,
    "chunked-logits": chunk_logits,
    "mixed-precision": lower_precision,
    "sharded-checkpoint": shard_checkpoint,
    "tiled-processing": smaller_tiles,
    "low-memory-loading": load_in_parts,
    "low-memory-optimizer": low_memory_optimizer,
    "smaller-buffers": fewer_predictions,
    "clear-references": clear_references,
    "memory-efficient-attention": fused_attention,
    "sequence-parallel": split_sequences,
}
