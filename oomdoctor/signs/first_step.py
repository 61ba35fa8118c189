"""Training on the CPU that is killed before its first step is done: what a step needs comes on top of the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from oomdoctor.arithmetic.training import ADAM_BYTES, states_in_full_precision
from oomdoctor.families.container import LimitKill
from oomdoctor.families.event import RAM
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import SIGKILL, Kill, RankFailure
from oomdoctor.families.lines import PROGRESS
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import held_by, total_bytes
from oomdoctor.incident.prints import A_COUNT, Held, growing, is_told_last, number, own_lines, several_steps_went_by
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.node_groups import several_alike_have_it
from oomdoctor.units import GIB, percent, show

# What JAX, Stable-Baselines3, Lightning, Transformers and Accelerate, TensorFlow, and programs of one's own print
_ON_THE_CPU: Final = late(
    r"^(?![^\n]*(?i:offload|map_location|engine))[^\n]*?(?:\bCpuDevice\(|GPU available: \w{4,5}[^\n]{0,20}, used: False"
    r"|GPU will not be used|\d\+cpu\b|(?i:\busing (?:the )?cpu\b(?! (?:adam|cores|affinity|count|memory))"
    r"|\b(?:jax [\d.]{3,12}|runs?|running|trains?|training|fitting) on (?:the )?cpu\b|falling back to cpu\b"
    r"|\b(?:model|param(?:eter)?s|weights) on (?:the )?cpu\s{0,4}$"
    r"|(?<![\"'\w])(?:device|backend|platform|accelerator)(?: ?(?:name|type|=|:|is)){1,2} ?[\"']?cpu\b"
    r"|\bcuda(?:\.is_available\(\)| (?:is )?available)\W{1,4}false\b))"
)
_ON_A_CARD: Final = late(
    r"(?i)\b(?:singularity|apptainer) exec(?: -\S{1,60}){0,6}? --nv(?:\s|$)|--gpus[ =](?:all|[1-9])"
    r"|\b(?:cuda|gpu|xpu|mps|npu|tpu):\d|\bdevice:gpu\b|\b(?:Cuda|Rocm|Tpu)Device\(|\bnvidia|\bgpu available: true"
    r"[^\n]{0,20}, used: true|\b(?:using|on|device\W{1,4}) ?(?:the )?(?:cuda|gpu|tpu|mps)\b|\bn_gpu\W{1,3}[1-9]"
    r"|\bper GPU\b|\b[1-9]\d{0,3} GPUs?\b|\busing fused adamw: true"  # nanoGPT's model.py: on CUDA alone
)
_CPU_SETTINGS: Final = {"use_cpu": True, "no_cuda": True, "cpu": True, "device": "cpu", "accelerator": "cpu"}
# TensorFlow's first line: with a GPU the next ones would name it
_TENSORFLOW: Final = late(r"\bcpu_feature_guard\.cc")
_BEGUN: Final = late(
    r"^\s{0,4}(?:(?i:train\w*|epoch|fit\w*|steps?)\b[^|%\n]{0,40})?0%\|[^|\n]{0,200}\| ?0/\d"  # a bar at its start
    r"|\bbefore (?:the )?(?:training|first step|update)"
    # A loss that is computed before any step; nanoGPT's train.py evaluates ahead of its step 0
    r"|^(?![^\n]*(?i:it/s|s/it|%\|))[^\n]{0,40}?(?:(?i:\b(?:initial|starting|untrained)\b[^|\n]{0,30}\bloss\b)"
    r"|\b(?:step|iter(?:ation)?) 0: train loss [\d.]{1,12}, val loss\b)"
    r"|^(?![^\n]*(?i:\bloss\b|it/s|s/it|%\||\bstep\W{0,3}[1-9]))(?:"
    r"\W{0,6}\*{3,} ?(?i:(?:\w+ ){0,3}?(?:train|distill|fine-?tun|optimiz|dpo|sft))"
    r"|[^\n]*?(?i:\bepoch\W{0,4}(?:1/\d|0{0,2}[01]\b)|\b(?:start|begin)\w* (?:the )?(?:training|fit|fine-?tuning))"
    r"|[^a-z\n]{0,20}(?i:(?:\[[\w.]{1,30}\] )?(?:(?:full|mini|large)[- ]batch )?"
    r"(?:fitting|training|fine-?tuning|distilling)\b"
    r"(?! (?:set|data|examples|samples|split|arg|took|done|complete)))"
    # XLA compiles a step when it is first called
    r"|[^\n]*?(?i:\bcompil(?:ing|ed|ation of) (?:the )?(?:first )?(?:train|update|optim)\w*)"
    # A rollout that is whole: its update comes next
    r"|[^\n]*?(?i:\brollout (?:is )?(?:done|finished|complete|collected))|\|\s{0,8}iterations\s{0,20}\|\s{0,4}1\s)"
)
# "MLP 64-32: 1,201,162 parameters", "121.6 M weights", "Total params: 1,404,020", "number of parameters: 124.44M"
_AMOUNT: Final = (
    r"(?P<{0}>\d{{1,3}}(?:[,_]\d{{3}}){{1,4}}|\d{{1,12}}(?:\.\d{{1,3}})?) ?"
    r"(?P<{0}_unit>[KMB](?![a-zA-Z])|[mb]illion)?"
)
_PARAMETERS: Final = late(
    r"(?:^|[^\d.,])" + _AMOUNT.format("before") + r" (?:(?i:trainable|total|model) )?(?i:param(?:eter)?s|weights)\b"
    r"|\b(?i:param(?:eter)?s)\b(?: \([^)\n]{1,20}\))?[:=] ?" + _AMOUNT.format("behind")
)
# "Parameter entity_embedding: torch.Size([398214, 200]), require_grad = True", "param user.weight: (4000, 64)"
_ONE_PARAMETER: Final = late(
    r"\b(?i:param(?:eter)?)\b:? (?P<name>[\w.]{1,80}):? (?:torch\.Size\()?"
    r"[\[(](?P<shape>\d{1,9}(?:, ?\d{1,9}){0,4}),?[\])]"
)
# What `print(model)` ends with
_MODULE: Final = late(r"^\s{1,40}\(\w{1,40}\): [A-Z]\w{1,40}\(|^\s{0,40}\)$")
_UNITS: Final = {"K": 10**3, "M": 10**6, "B": 10**9, "million": 10**6, "billion": 10**9}
# "user_embedding │ (None, 96) │ 46,098,144 │ user_id[0][0]": keras/src/utils/summary_utils.py; "|" of older releases
_ROW_OF_EMBEDDINGS: Final = late(
    r"(?i)^[^\u2502|\n]{0,40}embedding[^\u2502|\n]{0,40}(?:[\u2502|] {0,8}\([^)\n]{1,40}\)| \([^)\n]{1,40}\)) {0,20}"
    r"[\u2502| ] {0,20}(?P<count>\d{1,3}(?:,\d{3}){0,4}|\d{1,12})(?![\d,])"
)
_NOT_TRAINED: Final = late(r"(?i)\b(?:teacher|reference|ref|frozen|non-?trainable|reward)\b")
# In names of settings and in lines: what only training has
_OF_TRAINING: Final = late(
    r"(?i)(?<![a-z])(?:optax|adamw?|optimi[sz]er|sgd|grad(?:ients?)?|train(?:ing)?|epochs?|lr|learning[_ ]rate|loss)"
    r"(?![a-z])"
)
_BATCH: Final = late(r"(?i)batch[_-]?size|(?<![a-z])bsz(?![a-z])")
_ADAM: Final = late(r"(?i)(?<![a-z])adamw?(?:_torch(?:_fused)?|_hf)?(?![a-z\d_]|[ -]?8)")
_NARROW: Final = ("bf16", "fp16", "float16", "bfloat16", "16")
# What comes before an optimizer's step
_BACKWARD_DONE: Final = late(
    r"(?i)\b(?:after|finished|completed?|done with) (?:the |its )?(?:1st |first )?backward\b"
    r"|\bbackward(?: pass)?:? (?:is |was )?(?:done|finished|completed?)\b"
)
_OF_A_FIRST: Final = late(r"(?i)\b(?:first|1st) backward\b")
# lhotse's samplers, fairseq's and ESPnet's batches by tokens, frames or seconds
_FILLED_TO: Final = ("max_duration", "batch_duration", "batch_bins", "batch_frames", "max_batch_frames")
_UNEVEN: Final = late(r"\bDynamic(?:Bucketing|Cut)Sampler\b|(?i:\b(?:dynamic|bucketed) batch(?:es|ing)\b)")
_FIRST_EPOCH: Final = late(r"(?i)\bepoch\W{0,3}[01]\b")
_DONE: Final = late(r"(?i)\bloss\W{1,4}\d")  # "Steps: 95 | Loss: 24.19"
_OF_SO_MANY: Final = late(r"(?<![\d./])(\d{1,9})/[1-9]\d{0,8}\b")  # "Val 0/2 0/9", "0/63 [00:00<?"
# "[seqlen warmup] sequence length -> 1024", "resolution: 256 -> 384", "curriculum: context grows to 4096"
_GROWN: Final = late(
    r"(?i)\b(?:seq\w*|context|resolution|image|picture|crop|tile|batch|frames?|clip)\b[^\n\d]{0,24}"
    r"(?:\d{1,7} ?)?(?:->|=>|\u2192|\bto\b) ?(\d{1,7})\b(?![^\n]*\bloss\b)"
)
# What a scene or a cloud is made of, which optimizers split and clone: gaussian-splatting's densify_and_prune
_PRIMITIVES: Final = late(r"(?i)\b(?P<what>points|gaussians|splats|primitives)\b[\s:=]{1,4}" + A_COUNT)
_PRIMITIVES_GROW: Final = late(r"(?i)\bdensif\w{1,10} (?:to|into)\b")
_OF_PRIMITIVES: Final = ("cap-primitives", "smaller-microbatch", "smaller-input", "mixed-precision", "more-host-memory")
_PASSES: Final = ("forward", "backward")
_EVALUATES: Final = "eval"
# Of an evaluation behind steps that went well with their batch
_OF_AN_EVALUATION: Final = ("tiled-processing", "smaller-input", "smaller-microbatch", "shorter-sequences",
                            "mixed-precision", "smaller-model", "more-host-memory")  # fmt: skip
_SCORING: Final = "logprob"  # which only training has
_STAGES: Final = ("unknown", "launch", "forward", "backward", "optimizer_step")
_DATA: Final = "data_load"
_NO_TRAINING: Final = ("inference", "serving", "data")  # tasks
_NEARLY_ALL: Final = 0.75
HALF: Final = 0.5
_CHARACTERS: Final = 100  # of a line, enough to know it again
_WEIGHTY: Final = GIB  # of states: more than most batches take
_SMALL: Final = 8  # times as much was held as the model and its states take
_BILLION: Final = 10**9  # parameters
_SOME: Final = GIB // 8  # of states that a kill may be for


@sign
def killed_in_the_first_step_on_the_cpu(crash: Crash) -> Seen | None:
    """The kernel or a manager killed a job for host memory that trains on the CPU, or on no GPU that a line shows with
    a model that is small beside what was held, had begun and had done no step; one process held three quarters of the
    memory, where the kernel tells."""
    if not isinstance(crash.root, KernelKill | LimitKill) or before_the_first_step(crash) is None:
        return None
    if not _one_held_it(crash):
        return None
    if computes_on_the_cpu(crash):
        words = say(
            "The job trains on the CPU and was killed before its first step was done. What the forward pass keeps for "
            "the backward pass comes on top of the model there, and grows with the batch."
        )
    elif (words := _beside_a_small_model(crash)) == "":
        return None
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), unsure=True, stage=_stage(crash, "forward"))


@sign
def states_of_the_first_step_on_the_cpu(crash: Crash) -> Seen | None:
    """The same, or of fewer than a thousand million parameters and on no GPU that a line shows, with Adam, and the
    number of parameters that the log prints makes states of at least half of what there is, or of what the killed
    process held."""
    states, whole = _states(crash), memory_in_all(crash)
    if states is None or not whole or not (killed_in_the_first_step_on_the_cpu(crash) or _may_be_on_the_cpu(crash)):
        return None
    parameters, size = states
    if size < HALF * min(whole, _held(crash) or whole):
        return None
    words = say(
        "The job trains on the CPU and was killed before its first step was done. {formula}: {share} of {whole}.",
        formula=_formula(parameters, size), share=percent(size / whole), whole=show(whole),
    ) if computes_on_the_cpu(crash) else say(
        "The job trains and was killed before its first step was done; no line shows a GPU. {formula}: {share} of "
        "{whole}.",
        formula=_formula(parameters, size), share=percent(size / whole), whole=show(whole),
    )  # fmt: skip
    stage = _stage(crash, "optimizer_step")
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), unsure=True, stage=stage)


def _may_be_on_the_cpu(crash: Crash) -> bool:
    """Whether the kernel or a manager killed one process that had begun to train a model that somebody may train so."""
    return _is_limited(crash) and before_the_first_step(crash) is not None and parameters_of(crash) < _BILLION


def _beside_a_small_model(crash: Crash) -> str:
    """What it says where the log prints a batch and the number of parameters, and these make far less than was held;
    nothing where it does not."""
    parameters, held = parameters_of(crash), _held(crash) or memory_in_all(crash)
    size = states_in_full_precision(parameters)
    if not parameters or not held or _SMALL * size > held or _starts_workers(crash) or not _states_a_batch(crash):
        return ""
    return say(
        "{formula}: little of {held}, at which the job was killed before its first training step was done. What the "
        "forward pass keeps for the backward pass comes on top, and grows with the batch; no line shows a GPU.",
        formula=_formula(parameters, size),
        held=show(held),
    )


def _states_a_batch(crash: Crash) -> bool:
    return any(_BATCH.search(one.name) and one.whole for one in crash.context.settings.values())


@sign
def killed_bare_before_the_first_step(crash: Crash) -> Seen | None:
    """A SIGKILL for no printed reason, of a job that trains, of which no line shows a GPU, before a step was done."""
    if not killed_bare(crash) or _starts_workers(crash) or before_the_first_step(crash) is None:
        return None
    words = say(
        "The job trains and was killed before its first step was done; no line shows a GPU. What the forward pass "
        "keeps for the backward pass comes on top of the model then, and grows with the batch."
    )
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage=_stage(crash, "forward"))


@sign
def killed_bare_after_the_inputs_grew(crash: Crash) -> Seen | None:
    """The same, before a step of larger inputs than those of the steps before was done, or after what it computes with
    had grown."""
    if not killed_bare(crash) or not _may_compute_alone(crash):
        return None
    more = _after_more_primitives(crash) or _among_uneven_batches(crash)
    if more is not None:
        return more
    sizes = [int(grown[1]) for line in crash.root.around.before if (grown := _GROWN.search(line)) is not None]
    before, now = [0, 0, *sizes][-2:]
    if not 0 < before < now or not is_told_last(own_lines(crash), _GROWN, (PROGRESS,)):
        return None
    words = say(
        "The job was killed before the first step on larger inputs was done ({now} after {before}). What the forward "
        "pass keeps for the backward pass grows with them.",
        now=now,
        before=before,
    )
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage=_stage(crash, "forward"))


def primitives_of(crash: Crash) -> Held | None:
    """How many points or Gaussians the job had at its last print, where that counts more of them than those before."""
    return growing(crash, _PRIMITIVES, _PRIMITIVES_GROW)


def _after_more_primitives(crash: Crash) -> Seen | None:
    held = primitives_of(crash)
    if held is None or not speaks_of_training(crash):
        return None
    words = say(
        "The job trains with ever more {what}: {count:,} at its last print. What each step computes grows with "
        "them; no line shows a GPU.",
        what=held.what, count=held.count,
    )  # fmt: skip
    stage = _stage(crash, "forward")
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage=stage, knobs=_OF_PRIMITIVES,
                unsure=not killed_bare(crash))  # fmt: skip


def _among_uneven_batches(crash: Crash) -> Seen | None:
    """In the first epoch of batches that are filled up to a length in all: each is of another size."""
    lines = list(own_lines(crash))
    filled = crash.setting(*_FILLED_TO) is not None or any(_UNEVEN.search(line) for line in lines)
    if not filled or not computes_on_the_cpu(crash) or not any(_FIRST_EPOCH.search(line) for line in lines):
        return None
    words = say(
        "The job trains on the CPU and was killed in its first epoch, among batches that are filled up to a length in "
        "all and each of another size. What the forward pass keeps for the backward pass grows with the longest."
    )
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage=_stage(crash, "forward"))


@sign
def killed_bare_in_a_pass(crash: Crash) -> Seen | None:
    """A SIGKILL for no printed reason, of a job that trains, of which no line shows a GPU: its last line tells of a
    forward or backward pass."""
    return _in_a_pass(crash) if crash.stage in _PASSES or evaluates_its_first_batch(crash) else None


@sign
def killed_bare_while_scoring(crash: Crash) -> Seen | None:
    """The same, and its last line tells of the probabilities of tokens."""
    return _in_a_pass(crash) if crash.stage == _SCORING else None


@sign
def killed_at_a_limit_in_a_step(crash: Crash) -> Seen | None:
    """A job that trains, of which no line shows a GPU, was killed for host memory in its first step, or its last line
    tells of a forward or backward pass; one process held three quarters of the memory, where the kernel tells."""
    if (seen := killed_in_the_first_step_on_the_cpu(crash)) is not None:
        return seen
    if _is_limited(crash) and (grown := _after_more_primitives(crash)) is not None:
        return grown
    return _at_a_limit(crash) if crash.stage in _PASSES or evaluates_its_first_batch(crash) else None


@sign
def killed_at_a_limit_while_scoring(crash: Crash) -> Seen | None:
    """The same, and its last line tells of the probabilities of tokens."""
    return _at_a_limit(crash) if crash.stage == _SCORING else None


@sign
def killed_at_a_limit_while_computing(crash: Crash) -> Seen | None:
    """Either is seen, or what a first step makes of the model's states."""
    signs = (killed_at_a_limit_in_a_step, killed_at_a_limit_while_scoring, states_of_the_first_step_on_the_cpu)
    return next((seen for one in signs if (seen := one(crash)) is not None), None)


def evaluates_its_first_batch(crash: Crash) -> bool:
    """Whether the last line counts none of the batches of an evaluation as done: nothing is kept yet."""
    told = crash.doing.because
    if crash.stage != _EVALUATES or not isinstance(told, str):
        return False
    counts = _OF_SO_MANY.findall(told[:_CHARACTERS])
    return bool(counts) and int(counts[-1]) == 0


def _is_limited(crash: Crash) -> bool:
    """Whether the kernel or a manager killed one process, which may compute alone."""
    return isinstance(crash.root, KernelKill | LimitKill) and _one_held_it(crash) and _may_compute_alone(crash)


def _at_a_limit(crash: Crash) -> Seen | None:
    if not isinstance(crash.root, KernelKill | LimitKill) or not _one_held_it(crash):
        return None
    return _seen_in_a_pass(crash)


def _in_a_pass(crash: Crash) -> Seen | None:
    return _seen_in_a_pass(crash) if killed_bare(crash) else None


def _seen_in_a_pass(crash: Crash) -> Seen | None:
    if not _may_compute_alone(crash) or not (crash.stage in (_SCORING, _EVALUATES) or speaks_of_training(crash)):
        return None
    if crash.stage in _PASSES and _is_told_by_a_result(crash):
        return None
    unsure = not killed_bare(crash)  # beside a limit that is sure
    evaluates = crash.stage == _EVALUATES
    words = (
        say(
            "The job was killed in the first batch of an evaluation, which keeps nothing yet; no line shows a GPU. "
            "What a pass computes lies in host memory then, and grows with the batch and with each input."
        )
        if evaluates
        else say(
            "The job trains and was killed in a pass of its model; no line shows a GPU. What a pass computes lies in "
            "host memory then, and grows with the batch."
        )
    )
    knobs = _OF_AN_EVALUATION if evaluates else ()
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), unsure=unsure, knobs=knobs)


def _is_told_by_a_result(crash: Crash) -> bool:
    """Whether the line that tells the pass counts a step of it as done: such a step fitted."""
    told = crash.doing.because
    return isinstance(told, str) and _DONE.search(told) is not None


def killed_bare_at_a_step(crash: Crash) -> Seen | None:
    """A bare kill in a training step, or before one that needs more than what was done before: the first, or a larger
    one."""
    signs = (killed_bare_before_the_first_step, killed_bare_after_the_inputs_grew, killed_bare_in_a_pass,
             killed_bare_while_scoring)  # fmt: skip
    return next((seen for one in signs if (seen := one(crash)) is not None), None)


def killed_bare(crash: Crash) -> bool:
    """Whether the crash is a SIGKILL for no printed reason."""
    return isinstance(crash.root, Kill) and crash.root.signal == SIGKILL and not crash.proven


@sign
def states_are_told(crash: Crash) -> Seen | None:
    """The same, with Adam, and the log prints the number of parameters."""
    states = _states(crash)
    if states is None or killed_bare_before_the_first_step(crash) is None:
        return None
    words = say(
        "The job trains and was killed before its first step was done; no line shows a GPU. {formula}.",
        formula=_formula(*states),
    )
    stage = _stage(crash, "optimizer_step")
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage=stage)


@sign
def states_weigh_most(crash: Crash) -> Seen | None:
    """The same, and weights, gradients and states of so many parameters take 1 GiB or more, or a quarter of that where
    nearly all parameters are of embeddings: a batch computes with few of their rows."""
    states = _states(crash)
    if states is None or states[1] < (_WEIGHTY // 4 if _are_of_embeddings(crash, states[0]) else _WEIGHTY):
        return None
    return states_are_told(crash)


def _are_of_embeddings(crash: Crash, parameters: int) -> bool:
    """By the rows of Keras' summary."""
    rows = (row for line in own_lines(crash) if (row := _ROW_OF_EMBEDDINGS.search(line)) is not None)
    return sum(number(row["count"]) for row in rows) >= _NEARLY_ALL * parameters


@sign
def adams_states_come_next(crash: Crash) -> Seen | None:
    """A job was killed for host memory or for no printed reason, of which no line shows a GPU: its last print says that
    its first backward pass is done, and Adam makes two states of the printed number of parameters in its first step."""
    if not (killed_bare(crash) or isinstance(crash.root, KernelKill | LimitKill)) or not _may_compute_alone(crash):
        return None
    states, whole = _states(crash), memory_in_all(crash)
    size = states[0] * ADAM_BYTES if states is not None else 0
    if states is None or size < max(_SOME, (whole or 0) // _SMALL) or not _one_backward_is_done(crash):
        return None
    words = say(
        "The last print says that the backward pass is done, and no step is. Adam makes its two states in its first "
        "step: {parameters:,} parameters x 2 x 4 bytes = {size} on top of weights and gradients.",
        parameters=states[0],
        size=show(size),
    )
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), unsure=True, stage="optimizer_step")


@sign
def adams_states_come_next_at_a_limit(crash: Crash) -> Seen | None:
    """The same, and the kernel or a manager says that it was for host memory."""
    return adams_states_come_next(crash) if isinstance(crash.root, KernelKill | LimitKill) else None


def _one_backward_is_done(crash: Crash) -> bool:
    """Whether the last print that tells says so of the first pass, or of the only one in sight."""
    if several_steps_went_by(crash) or not is_told_last(own_lines(crash), _BACKWARD_DONE, (PROGRESS,)):
        return False
    told = [line for line in dict.fromkeys(own_lines(crash)) if _BACKWARD_DONE.search(line)]
    return len(told) == 1 or _OF_A_FIRST.search(told[0]) is not None


@sign
def before_the_first_step(crash: Crash) -> Seen | None:
    """The last prints of a job say that training begins, and none behind them counts a step; no line shows a GPU."""
    if not _may_compute_alone(crash) or crash.stage not in (*_STAGES, _DATA):
        return None
    begun = (_BEGUN, _PARAMETERS, _MODULE) if speaks_of_training(crash) else (_BEGUN,)
    told = (is_told_last(own_lines(crash), about, (PROGRESS, *_of_data(crash))) for about in begun)
    return Seen(words="") if any(told) or _launched_to_train(crash) else None


def _may_compute_alone(crash: Crash) -> bool:
    """Whether it may be one process that trains, and no line shows a GPU."""
    if crash.pool not in (*RAM, "none") or crash.job.task in _NO_TRAINING:
        return False
    if crash.root.process.rank is not None or crash.first(RankFailure) is not None:
        return False  # ranks share their work over devices
    return crash.job.engine is None and several_alike_have_it(crash) is None and not shows_a_card(crash)


def _of_data(crash: Crash) -> Iterator[re.Pattern[str]]:
    """The line that says that data are read, where the crash's stage is from one: training begins behind it."""
    if crash.stage == _DATA:
        yield re.compile(re.escape(crash.doing.because[:_CHARACTERS]) if isinstance(crash.doing.because, str) else "")


def _launched_to_train(crash: Crash) -> bool:
    """Whether the launch line states a batch and what only training has, and what the job printed says that it computes
    on the CPU, and counts no step."""
    if crash.stage not in _STAGES or not computes_on_the_cpu(crash):
        return False
    stated = [one.name for one in crash.context.settings.values() if one.is_launched]
    if not any(_BATCH.search(name) for name in stated) or not any(_OF_TRAINING.search(name) for name in stated):
        return False
    return not any(PROGRESS.search(line) for line in own_lines(crash))


def shows_a_card(crash: Crash) -> bool:
    """Whether a line before the end says that the job computes on a GPU."""
    return any(_seen_of_a_card(crash))


def _seen_of_a_card(crash: Crash) -> Iterator[str]:
    return (line for line in own_lines(crash) if _ON_A_CARD.search(line) and not _ON_THE_CPU.search(line))


def speaks_of_training(crash: Crash) -> bool:
    stated = (f"{one.name}={one.value}" for one in crash.context.settings.values())
    return any(_OF_TRAINING.search(text) for text in (*stated, *own_lines(crash)))


def computes_on_the_cpu(crash: Crash) -> bool:
    """Whether the launch line or a line before the end says so; of TensorFlow, whether it begins without a GPU."""
    # What is a word may be another part's in a dump: "device" of an offload
    stated = (one for one in crash.context.settings.values() if one.value is True or one.is_launched)
    if any(_CPU_SETTINGS.get(one.name) == one.value for one in stated):
        return True
    says = (_ON_THE_CPU, _TENSORFLOW) if crash.job.world == "tensorflow" else (_ON_THE_CPU,)
    return any(pattern.search(line) for line in own_lines(crash) for pattern in says)


def memory_in_all(crash: Crash) -> int | None:
    """The limit of the control group or job, else the machine's memory."""
    limit = crash.root.limit_bytes if isinstance(crash.root, KernelKill | LimitKill) else None
    return limit or total_bytes(crash)


def _held(crash: Crash) -> int | None:
    return held_by(crash.root) if isinstance(crash.root, KernelKill) else None


def _one_held_it(crash: Crash) -> bool:
    """A manager's record names no process: there, workers of the job's would be others."""
    if isinstance(crash.root, LimitKill):
        return not _starts_workers(crash)
    held, whole = _held(crash), memory_in_all(crash)
    return held is not None and whole is not None and held >= _NEARLY_ALL * whole


def _starts_workers(crash: Crash) -> bool:
    workers = crash.setting("num_workers", "dataloader_num_workers", "workers")
    return workers is not None and bool(workers.whole)


def _states(crash: Crash) -> tuple[int, int] | None:
    """The number of parameters that are trained with Adam in 32 bits, and what these take with its states."""
    stated = [f"{one.name}={one.value}" for one in crash.context.settings.values()]
    if any(str(one.value) in _NARROW for one in crash.context.settings.values()):
        return None
    if not any(_ADAM.search(text) for text in (*stated, *own_lines(crash))):
        return None
    most = parameters_of(crash)
    return (most, states_in_full_precision(most)) if most else None


def parameters_of(crash: Crash) -> int:
    """The largest number of parameters that a line prints of a model that is trained; 0 where none does."""
    lines = [line for line in own_lines(crash) if _NOT_TRAINED.search(line) is None]
    return max(*map(_count, lines), _sum_of_shapes(lines), 0)


def _sum_of_shapes(lines: Sequence[str]) -> int:
    """Of all that are listed one by one, each once."""
    shapes = {match["name"]: match["shape"] for line in lines for match in _ONE_PARAMETER.finditer(line)}
    return sum(prod(map(int, shape.replace(" ", "").strip(",").split(","))) for shape in shapes.values())


def _count(line: str) -> int:
    """The parameters of which a line prints the number; 0 where it prints none."""
    match = _PARAMETERS.search(line)
    if match is None:
        return 0
    place = "before" if match["before"] else "behind"
    return round(float(match[place].replace(",", "").replace("_", "")) * _UNITS.get(match[f"{place}_unit"] or "", 1))


def _formula(parameters: int, size: int) -> str:
    return say(
        "{parameters:,} parameters x 16 bytes (weights, gradients and Adam's two states in 32 bits) = {size}",
        parameters=parameters,
        size=show(size),
    )


def _unseen() -> str:
    return say("no line shows what the memory was for")


def _stage(crash: Crash, stage: str) -> str | None:
    return stage if crash.stage in ("unknown", "launch", _DATA) else None
