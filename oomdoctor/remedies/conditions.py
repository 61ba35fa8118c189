"""What a knob takes for granted: the worlds and tasks of the jobs that have it, and what else has to be so in this one.

`knobs.txt` names the conditions in its column `while`; here each name is a question to the job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.arithmetic import vllm
from oomdoctor.families.budget import BudgetSpent
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import SIDES
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import OF_16_BITS, OF_32_BITS, ArrayOutOfMemory
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.families.sglang import HostCacheTooLarge, UnbalancedCards
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.families.vllm_figures import EncoderProfile
from oomdoctor.incident.card import card_of
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import early_kill, machine_before, node_memory, of_low_limit, ray_kill, total_bytes
from oomdoctor.job.frameworks import draws, driven, framework, some
from oomdoctor.patterns import late
from oomdoctor.remedies import own_line, own_options, ray_workers
from oomdoctor.remedies.engine import share
from oomdoctor.remedies.engine.known import card_total
from oomdoctor.remedies.engine.requests import beams_of, decoded_at_once
from oomdoctor.remedies.host.offload import OFFLOADS
from oomdoctor.remedies.host.processes import NEARLY_ALL, of_threads, several_tasks
from oomdoctor.remedies.inputs import (
    OF_NATURE,
    axes_of_the_largest,
    computes_anything,
    has_axes_of_pictures,
    pictures,
    sequences,
    tiles,
)
from oomdoctor.remedies.knobs import KNOBS, Knob
from oomdoctor.remedies.placement import a_handle_found_no_room
from oomdoctor.remedies.proposal import PROCESS_HOG, RACE, UNPROVEN, Case
from oomdoctor.remedies.settings import NO_OPTION
from oomdoctor.remedies.sizes import cards_of_trainer
from oomdoctor.remedies.training.checkpoints import one_save_at_a_time
from oomdoctor.remedies.training.predictions import keeps_predictions
from oomdoctor.remedies.whatif.states import STARTING
from oomdoctor.signs import commands, limits, placement
from oomdoctor.signs.above_a_kill import before_its_first_step, texts_were_tokenized
from oomdoctor.signs.address_space import a_thread_was_refused
from oomdoctor.signs.arrays import PICTURES, arguments_of_many_devices, array_copied_to_one_core
from oomdoctor.signs.engine import its_pool_was_refused
from oomdoctor.signs.first_step import computes_on_the_cpu, shows_a_card
from oomdoctor.signs.generation import little_was_generated
from oomdoctor.signs.ggml import vision_encoder_warming_up
from oomdoctor.signs.growing_caches import cache_of_items, unbounded_cache
from oomdoctor.signs.held_data import hash_table_of
from oomdoctor.signs.host_caches import caches_of_ranks, lmcache_was_refused
from oomdoctor.signs.host_data import (
    a_matrix_of_pairs_was_refused,
    a_square_array_was_refused,
    a_wide_table_was_refused,
    data_goes_to_the_card_in_one_piece,
    refused_among_tables,
)
from oomdoctor.signs.host_engines import an_engine_computes_on_the_host, computes_on_the_host
from oomdoctor.signs.kills import HALF_FULL, only_small_processes_were_killed, part_in_use, ranks_beside_the_killed
from oomdoctor.signs.library import nccl_was_refused
from oomdoctor.signs.loading import a_card_for_no_model
from oomdoctor.signs.made import of_all_pairs_in_ram
from oomdoctor.signs.mapped_data import rows_wait_to_be_written
from oomdoctor.signs.moved_to_host import its_lines_move_to_the_host
from oomdoctor.signs.neighbours import a_process_of_the_log_was_there_first
from oomdoctor.signs.node import a_driver_is_the_largest, a_task_is_the_largest, an_engine_is_the_largest
from oomdoctor.signs.offload import (
    killed_while_states_were_made,
    no_cluster_in_sight,
    optimizer_on_the_cpu,
    ranks_may_keep_their_states,
    refused_beside_an_option_that_offloads,
    refused_for_parameters_on_the_host,
    refused_for_the_buffer_of_parameters,
    sleeping_engines_have_it,
)
from oomdoctor.signs.other_words import host_cache_in_other_words
from oomdoctor.signs.passes import computes_scores, one_piece_beside_a_model, sees, simulates_worlds
from oomdoctor.signs.pinned import pinning_was_an_invalid_argument
from oomdoctor.signs.replays import a_buffer_is_laid_out

_GATHERED_BY_A_DRIVER: Final = ("data.train_batch_size",)

Question = Callable[[Case], bool]

ON_THAT_SIDE: Final = "on that side"
_ANY_WORLD: Final = "none"
_ANY_TASK: Final = ("unknown", "system")  # the log shows nothing of the job, or only what the system says of it
_WITHOUT_BATCHES: Final = ("data", "inference")  # tasks
_ENGINES: Final = ("vllm_num_engines", "vllm.num_engines", "num_inference_engines", "data_parallel_size")
_CONCURRENT: Final = late(r"(?i)concurren|parallelism|in_?flight|max_?pending")
_WORKERS: Final = r"multiprocess|concurrent/futures|joblib|torch/utils/data/_utils/worker|dask|/ray/"
_NAMES_OTHERS: Final = r"(?i)worker|num_?proc|n_jobs|joblib|multiprocess|process pool"  # than Ray's own
_NAMES_WORKERS: Final = rf"{_NAMES_OTHERS}|\bray\b"
_OF_RANKS: Final = r"torch/distributed/distributed_c10d|init_process_group"
_OF_JAVA: Final = "jvm"  # an allocator, of a process beside the one that computes batches
_WIDE: Final = frozenset({"float64", "int64", "uint64", "complex128", "float128", "longdouble", "object"})
_NARROW: Final = frozenset({"float32", "float16", "int32", "int16", "int8", "uint16", "uint8", "bool", "|S1"})
_LOADING: Final = frozenset({"model_load", "checkpoint_load", "engine_init"})
_WITHOUT_DATA: Final = frozenset(
    {"model_load", "checkpoint_load", "checkpoint_save", "engine_init", "optimizer_step", "weight_sync"}
)
_OF_LOADING: Final = ("checkpoint-spike", "device-misplacement", "host-model-load")  # causes
_WEIGHTS_MOVE: Final = frozenset({"model_load", "checkpoint_load", "checkpoint_save", "weight_sync"})
_BATCHES_ON_THE_HOST: Final = ("activations", "dataset-in-ram", "eval-accumulation", "logits-spike", "shm-too-small")
_OF_WEIGHTS: Final = r"from_pretrained|load_state_dict|safetensors|torch/serialization|checkpoint|load_model"
# Files that are memory-mapped already, by their names and by who opens them: safetensors/bindings/python/src/lib.rs
_MAPPED: Final = r"\w\.safetensors\b|\bsafe_open\("
_OF_DATA: Final = (
    r"(?i)data_?set|data_?loader|load_data|\.(?:csv|parquet|arrow|jsonl|npz|h5ad)\b"
    r"|(?<![\w.-])(?![\w.-]*(?:config|deepspeed|ds_|zero_?\d|args|settings))[\w.-]{1,80}\.json\b"
    r"|tokenize|load_shard|_read\b|\bread_|\bray\.data\b|\bdask\b|\bpandas\b|data_?frame"
)
# A driver that found no cluster to join began one of its own, of this machine alone: ray/_private/worker.py, `connect`
LOCAL_RAY: Final = r"\bStarted a local Ray instance\b"
SHOWN: Final = 2000  # characters of a line
# "x: torch.Size([1, 3, 512, 512])", "bs=1"; two axes are of anything
_FIRST_AXIS: Final = late(
    r"(?:(?:\btorch\.Size\(\[|\bshape\W{0,3}[(\[])(?=\d{1,9}(?:, ?\d{1,9}){2,8}[)\]])"
    r"|(?<![\w.-])(?:bs|bsz)[\"']?\s?[:=]\s?)(?P<size>\d{1,9})(?![\w.])"
)
_OF_WEIGHTS_SHAPES: Final = late(r"(?i)size mismatch|\bparam(?:eter)?s?\b|\bweights?\b|embed")
_AXIS: Final = late(r"\d{1,20}")
_BY_A_SIMULATOR: Final = late(r"\bPx[gv]?[A-Z]|PhysX")  # PhysX, whose buffers know no batches
_OF_ATTENTION: Final = (
    r"(?i)attention|attn|\bqkv\b|\bq\w{0,8} ?@ ?k|softmax|transformers?\b|\btokens?\b|\bseq(?:uence)?_?len|\bllms?\b"
    r"|\b(?:bert|gpt|llama|gemma)|chat_?completion"
)
_ARRAYS_OF_ANYTHING: Final = ("jax", "tensorflow")  # worlds
# XLA's names of what a jitted function computes; those of a gradient have the transformation around them:
# jax/_src/interpreters/ad.py, jvp and backward_pass
_COMPILED_STEP: Final = r"op_name=\"jit\("
_OF_A_GRADIENT: Final = r"op_name=\"[^\"]*\b(?:jvp|transpose|vjp)\("
# torch/utils/_contextlib.py: how a function under a decorator is called
_NO_GRADIENTS: Final = r"torch/utils/_contextlib\.py decorate_context\b"
# What is seen where a library's trainer runs, or a loop of one's own that trains its models
_TRAINS: Final = (
    r"[Tt]rainer|\bTrainingArguments\b|\bbackward\b|per_device_|train_runtime|grad_norm|\b[Tt]rain(?:ing)?\b|\bepoch"
    r"|\bloss\b|\boptim(?:i[sz]er)?\b|\.step\("
)
_LEARNS: Final = ("training", "rl")  # tasks
# What DeepSpeed does before a batch is there: deepspeed/runtime/engine.py, zero/stage_1_and_2.py
_STATES_AT_THE_START: Final = r"\b(?:_configure_(?:zero_)?optimizer|initialize_optimizer_states)\b"
_ENCODERS: Final = r"(?i)visual|vision|multi_?modal|\bmm_|pixel_values|audio_tower"
# Causes that are about somebody else's memory on the card.
_NEIGHBOURS: Final = ("gpu-shared", RACE)
# vLLM looks at its share, and SGLang at the GPUs of a group, before anything is loaded: no remedy then is what matters
# only later
AT_ANY_TIME: Final = "at any time"
_BESIDE_PYTORCH: Final = "non-torch-memory"  # a cause
_OF_TENSORS: Final = (
    "smaller-microbatch",
    "smaller-input",
    "shorter-sequences",
    "gradient-checkpointing",
    "shard-states",
)
MUCH: Final = 0.25  # of the card with somebody else
HALVES: Final = 2.0  # of the card: what is asked for beyond it does not fit when it is halved, either


def holds(knob: Knob, case: Case) -> bool:
    """Whether the job may have the knob, and what the knob takes for granted is so."""
    job = case.crash.job
    suits = (not knob.worlds or job.world in (*knob.worlds, _ANY_WORLD)) and (
        not knob.tasks or job.task in (*knob.tasks, *_ANY_TASK)
    )
    if not suits and not _has_its_own(knob, case):
        return False
    if _of_training(knob) and job.task in _ANY_TASK and own_line.task_of(case.crash) == "inference":
        return False
    if isinstance(case.crash.root, NotEnoughFree | UnbalancedCards) and AT_ANY_TIME not in knob.conditions:
        return False
    if knob.id in _OF_TENSORS and _tensors_are_few(case):
        return False
    return all(CONDITIONS[name](case) for name in knob.conditions)


def _has_its_own(knob: Knob, case: Case) -> bool:
    """Whether the job's own program has an option for it: then it is of its world and task, whatever these are."""
    return own_options.own_option(knob.id, case.crash) is not None


def _tensors_are_few(case: Case) -> bool:
    """What fills the GPU is of a library beside PyTorch, whose tensors have little of it: fewer of them free as
    little."""
    if case.cause != _BESIDE_PYTORCH or (total := card_total(case.crash)) is None:
        return False
    held = (card_of(event).reserved_bytes for event in case.crash.every(DeviceOutOfMemory))
    return any(each is not None and each < MUCH * total for each in held)


def _of_training(knob: Knob) -> bool:
    return bool(knob.tasks) and not set(knob.tasks) - {"training", "rl"}


def relieved(knob: Knob, case: Case) -> tuple[str, ...]:
    """The pools that it relieves in this job: of what it computes with, those of the one side."""
    if ON_THAT_SIDE not in knob.conditions:
        return knob.relieves
    host = _on_the_host(case.crash.pool)
    return tuple(pool for pool in knob.relieves if _on_the_host(pool) == host)


def _on_the_host(pool: str) -> bool:
    return SIDES.get(pool) == "host"


# the inference engine


def an_engine_runs(case: Case) -> bool:
    """An inference engine with a share of the card; some causes are about nothing else."""
    crash = case.crash
    named = crash.job.runs_engine or crash.job.world == "ggml" or case.cause.startswith(vllm.NAME)
    return named or an_engine_computes_on_the_host(crash) is not None


def several_sequences(case: Case) -> bool:
    """An engine serves several, a library's generate() keeps several of each prompt, or the program has an option."""
    return an_engine_runs(case) or beams_of(case.crash) is not None or _has_its_own(KNOBS["fewer-sequences"], case)


def past_its_own_cache(case: Case) -> bool:
    """The KV cache that an engine sets up is as large as its share, whatever it computes at once; so is the pool that
    it puts to sleep. An engine without a share makes it for the context."""
    if its_pool_was_refused(case.crash) is not None:
        return False
    by_the_context = some(case.crash.job.frameworks, "takes what it needs")
    return by_the_context or case.crash.stage != "kv_cache_init" or case.crash.pool != "gpu"


def several_requests(case: Case) -> bool:
    """Where one alone is too many, there are no fewer, and what it decodes is no prefill."""
    return decoded_at_once(case.crash) != 1


def reserves(case: Case) -> bool:
    return case.crash.job.reserves or case.cause.startswith(vllm.NAME)


def beside_a_trainer(case: Case) -> bool:
    """Only there has an engine somebody to sleep for, or to be parted from."""
    return an_engine_runs(case) and case.crash.job.may_share


def several_starts(case: Case) -> bool:
    """An engine starts beside another one, or beside what somebody else holds."""
    crash = case.crash
    if not an_engine_runs(case):
        return False
    engines = crash.setting(*_ENGINES)
    several = engines is not None and isinstance(engines.value, int) and engines.value > 1
    beside = case.cause in _NEIGHBOURS or crash.first(NotEnoughFree) is not None
    return several or beside or neighbours_bytes(crash) > 0


def media_in_prompts(case: Case) -> bool:
    """Something sees or hears."""
    crash = case.crash
    profiled = crash.first(EncoderProfile) is not None or case.now is not None
    profiled = profiled or vision_encoder_warming_up(crash) is not None
    return profiled or crash.in_trace(_ENCODERS) is not None or sees(crash)


def on_that_side(case: Case) -> bool:
    """What it computes with lies in the memory that ran out: on the card, or on the host where it computes there. So
    does what a program of one's own has an option for, where no line shows a card."""
    crash = case.crash
    if not _on_the_host(crash.pool) or computes_on_the_host(crash):
        return True
    return _has_its_own(KNOBS[case.knob], case) and not shows_a_card(crash)


# the card


def several_cards(case: Case) -> bool:
    crash = case.crash
    together = case.cause == "device-misplacement" or crash.in_trace(_OF_RANKS) is not None
    return together or crash.job.spread or bool(placement.ranks(crash))


def another_card(case: Case) -> bool:
    """One for each rank, or for who found this one full, or beside what is part of the processor."""
    if a_card_for_no_model(case.crash) is not None:
        return True
    strangers = case.cause == "gpu-shared" and not placement.own_processes(case.crash)
    found_full = isinstance(case.crash.root, NotEnoughFree) or a_handle_found_no_room(case)
    return strangers or found_full or several_cards(case)


def several_cards_train(case: Case) -> bool:
    """Or an array was put on one core of a TPU, which has more of them in most machines."""
    if array_copied_to_one_core(case.crash) is not None:
        return True
    return several_cards(case) and cards_of_trainer(case.crash) != 1


def neighbours_bytes(crash: Crash) -> int:
    """What processes that the message names hold of the card; in a job of several parts they are its own."""
    if crash.job.may_share:
        return 0
    return max((card_of(event).others_bytes or 0 for event in crash.every(DeviceOutOfMemory)), default=0)


def crowded(crash: Crash) -> bool:
    """A good share of the card is somebody else's."""
    total = card_total(crash)
    return total is not None and neighbours_bytes(crash) >= MUCH * total


def of_another_job(case: Case) -> bool:
    """Nobody stops a part of the job that is running, to start the next one."""
    return a_process_of_the_log_was_there_first(case.crash) is None


def allocator_named(case: Case) -> bool:
    """Whose allocator it is, is in the log."""
    return case.crash.job.world != _ANY_WORLD


# batches and sequences


def past_the_start(case: Case) -> bool:
    """Nothing is trained while an engine reserves its share."""
    return case.crash.stage not in STARTING or share.share(case.crash) is None


def _sees_one_picture(crash: Crash) -> bool:
    """The array begins with a batch of one: TensorFlow's that was refused, or the largest of XLA's program. A filter
    begins with its height and width."""
    root = crash.root
    axes = root.lengths if isinstance(root, ArrayOutOfMemory) and crash.job.world == "tensorflow" else []
    if has_axes_of_pictures(crash):
        axes = axes_of_the_largest(crash)
    return len(axes) == PICTURES and axes[0] == 1 != axes[1]


def gradients(case: Case) -> bool:
    """What is computed for a backward pass: not in an evaluation, nor where XLA names what a program computes, and
    nothing of a gradient."""
    crash = case.crash
    if crash.stage == "eval" or _keeps_no_gradients(crash):
        return False
    return crash.mentions(_COMPILED_STEP) is None or crash.mentions(_OF_A_GRADIENT) is not None


def _keeps_no_gradients(crash: Crash) -> bool:
    """The traceback goes through torch.no_grad() or inference_mode(), and nothing in sight trains."""
    return crash.in_trace(_NO_GRADIENTS) is not None and nothing_trains(crash)


def nothing_trains(crash: Crash) -> bool:
    return own_line.task_of(crash) not in _LEARNS and not crash.shows(_TRAINS)


def recomputed(case: Case) -> bool:
    """By an option, or by a line in a model of one's own: who drives a program by its options has no such line, nor
    does a framework that only has an option for it."""
    job = case.crash.job
    return option_for_it(case) or not (driven(job.frameworks) or job.world == "own")


def something_in_32_bits(case: Case) -> bool:
    """Not where what was refused, and the largest arrays of the program, are numbers of 16 bits and none of more, nor
    in a world of its own that has no option for it."""
    root = case.crash.root
    if case.crash.job.world == "own" and not option_for_it(case):
        return False
    types = root.types if isinstance(root, ArrayOutOfMemory) else frozenset[str]()
    return not types & OF_16_BITS or bool(types & OF_32_BITS)


def wide_numbers(case: Case) -> bool:
    """The array that was refused has them; else an option or a line tells, and not where it is of narrow ones already:
    they may be of another."""
    root = case.crash.root
    dtype = root.dtype if isinstance(root, HostAllocation) else None
    if dtype in _WIDE:
        return True
    shown = dtype not in _NARROW or case.now is not None or own_line.shows(case.knob, case.crash)
    return shown and option_for_it(case)


def attention(case: Case) -> bool:
    """A tensor is of anything: a frame, a line, a model's name or a framework's own option tells of attention. The
    scores of few tokens are small."""
    crash = case.crash
    if little_was_generated(crash) is not None:
        return False
    if "mlx" in crash.job.frameworks:
        return option_for_it(case)  # it has no other: mlx/fast.cpp, `scaled_dot_product_attention`
    if case.now is not None or own_line.shows(case.knob, crash):
        return True
    of_a_framework = case.row is not None and (case.row.is_command or not own_line.of_a_library(case.row))
    told = bool(crash.context.models) or crash.shows(_OF_ATTENTION) or computes_scores(crash) is not None
    if case.cause == "activations" and one_piece_beside_a_model(crash) is not None:
        return True  # nothing else of a pass is as large
    return of_a_framework or told


def a_step_runs(case: Case) -> bool:
    """Weights that are loaded, saved or handed on have no batches and no sequences, nor has the data as a whole, nor a
    trainer that is being set up."""
    crash = case.crash
    if _a_trainer_is_set_up(crash):
        return False
    return crash.stage not in _WEIGHTS_MOVE and data_goes_to_the_card_in_one_piece(crash) is None


def _a_trainer_is_set_up(crash: Crash) -> bool:
    """It is about to make its optimizer's states and buffers, before the first batch: an engine beside it sets itself
    up with batches."""
    if crash.pool != "gpu" or crash.job.runs_engine:
        return False
    of_trainer = crash.job.task == "training" and crash.stage == "engine_init"
    return of_trainer or crash.shows(_STATES_AT_THE_START)


def past_the_load(case: Case) -> bool:
    """Weights that find no room while they are loaded have no gradients and no optimizer states yet."""
    return case.crash.stage != "model_load" or case.crash.pool != "gpu"


def batch_of_its_own(case: Case) -> bool:
    """Something with batches, which an engine that serves makes itself, and a half of which could fit."""
    crash = case.crash
    if crash.job.task == "serving" and (crash.job.in_engine or crash.job.engine is not None):
        return False
    if case.now is None and own_options.is_at_its_least(case.knob, crash):
        return False
    if case.now is None and crash.job.task == "data" and isinstance(crash.root, LibraryOutOfMemory):
        return False  # tables and clouds of points are parted, and by another knob
    if _has_no_batches(crash) or computes_anything(case) or before_its_first_step(crash) is not None:
        return False
    if case.cause == "shm-too-small" and not _loads_batches(crash):
        return False
    if _beyond_a_half(crash) or case.cause == "framework-preallocation" or _batches_lie_elsewhere(case):
        return False
    if _sees_one_picture(crash) or _is_of_no_batches(crash) or (case.now is None and _shows_batches_of_one(crash)):
        return False
    if not isinstance(crash.root, HostAllocation) or crash.root.allocator in ("torch", "torch7"):
        return True
    if crash.root.allocator == _OF_JAVA or crash.root.part is not None:
        return case.row is not None and bool(case.row.words)  # those that a log shows it to hand to Python
    others = [one for one in map(framework, crash.job.frameworks) if one is None or one.task not in _WITHOUT_BATCHES]
    return crash.setting(*KNOBS["smaller-microbatch"].settings) is not None or bool(others)


def _has_no_batches(crash: Crash) -> bool:
    """Its program has none, nor has its simulator, nor a step on whole tables."""
    if refused_among_tables(crash) is not None or a_wide_table_was_refused(crash) is not None:
        return True
    simulates = crash.job.task == OF_NATURE or _BY_A_SIMULATOR.search(crash.root.at.text) is not None
    return simulates or some(crash.job.frameworks, "has no batch")


def _shows_batches_of_one(crash: Crash) -> bool:
    """Each shape around that may be of a batch begins with 1, or the batch is said to be of one."""
    around = crash.root.around
    lines = (
        line[:SHOWN] for line in (*around.before, *around.after) if _OF_WEIGHTS_SHAPES.search(line[:SHOWN]) is None
    )
    sizes = [match["size"] for line in lines for match in _FIRST_AXIS.finditer(line)]
    return bool(sizes) and all(size == "1" for size in sizes)


def _is_of_no_batches(crash: Crash) -> bool:
    """No axis of the array is a number of whole batches: it is of the data, before any batch is cut."""
    refused = crash.root
    if not isinstance(refused, HostAllocation) or not refused.shape:
        return False
    own = own_options.own_option("smaller-microbatch", crash)
    batch = crash.setting(*KNOBS["smaller-microbatch"].settings) or (own.setting if own is not None else None)
    size = batch.whole if batch is not None else None
    return size is not None and size > 0 and all(int(axis) % size for axis in _AXIS.findall(refused.shape))


def _loads_batches(crash: Crash) -> bool:
    """Workers hand batches over in shared memory."""
    return crash.stage == "data_load" or crash.shows(_OF_DATA)


def _batches_lie_elsewhere(case: Case) -> bool:
    """Not in the memory that ran out: of a killed job that states none or says that it computes on a GPU, and of a
    framework for reinforcement learning, they are mostly there; and a GPU of which this job has little is another's."""
    root = case.crash.root
    if _on_the_host(case.crash.pool):
        job = case.crash.job
        of_a_gpu = job.task == "rl" and bool(job.frameworks)
        on_cards = _shards_states(case.crash) or shows_a_card(case.crash)
        of_a_gpu = of_a_gpu or (case.cause == UNPROVEN and on_cards)
        of_a_gpu = of_a_gpu and not computes_on_the_cpu(case.crash)
        stated = case.now is not None or own_options.own_option(case.knob, case.crash) is not None
        stated = stated and not of_a_gpu
        stages = case.cause == "pinned-memory-exhausted" and case.crash.job.world == "tensorflow"
        return not (stated or stages or isinstance(root, HostAllocation) or case.cause in _BATCHES_ON_THE_HOST)
    own = card_of(root).reserved_bytes if isinstance(root, DeviceOutOfMemory) else None
    total = root.total_bytes if isinstance(root, DeviceOutOfMemory) else None
    return case.cause in _NEIGHBOURS and own is not None and total is not None and own < MUCH * total


def _shards_states(crash: Crash) -> bool:
    """Over GPUs, which then hold the batches, too."""
    return any(one is not None and one.layer == "states" for one in map(framework, crash.job.frameworks))


def _beyond_a_half(crash: Crash) -> bool:
    root = crash.root
    if arguments_of_many_devices(crash) is not None:
        return True
    if not isinstance(root, DeviceOutOfMemory) or not root.tried_bytes or not root.total_bytes:
        return False
    return root.tried_bytes > HALVES * root.total_bytes


def simulated_worlds(case: Case) -> bool:
    """Environments that the job computes itself, of which there may be fewer; or an option for these or for buffers."""
    option = case.row is not None and case.crash.job.task == OF_NATURE
    stated = case.now is not None or _has_its_own(KNOBS[case.knob], case)
    return stated or option or simulates_worlds(case.crash)


def option_for_it(case: Case) -> bool:
    """A framework of the job has an option for it, or the job's own line shows where it is."""
    shown = own_line.shows(case.knob, case.crash) or own_options.own_option(case.knob, case.crash) is not None
    return case.row is not None or shown


def pinned_by_choice(case: Case) -> bool:
    """What else an engine or a driver pins, nobody unpins; LMCache's buffer its kernels read from the GPU, and refuse a
    host tensor that is not pinned: csrc/mem_kernels.cu, `get_kernel_ptr`."""
    if lmcache_was_refused(case.crash) is not None:
        return False
    return case.crash.pool == "pinned" or option_for_it(case)


def way_to_disk(case: Case) -> bool:
    """An option for it, or files in memory that may lie on a disk."""
    return option_for_it(case) or limits.most_is_in_no_process(case.crash) is not None


def card_for_a_model(case: Case) -> bool:
    """Of a model of today not even the smallest, in the fewest bits, fits into what a firmware sets aside."""
    return a_card_for_no_model(case.crash) is None


def model_of_a_library(case: Case) -> bool:
    """Not a network of the job's own in plain PyTorch, which nobody splits or quantizes for it; and no loader of JAX or
    TensorFlow has weights in few bits without an option for it, nor has a program that draws or a framework with a
    world of its own."""
    crash = case.crash
    of_anything = case.knob == "quantize-weights" and crash.job.world in _ARRAYS_OF_ANYTHING
    if of_anything or crash.job.world == "own" or draws(crash.job.frameworks):
        return option_for_it(case)
    if option_for_it(case) or crash.job.world != "torch" or crash.job.engine is not None or crash.shows(_OF_WEIGHTS):
        return True
    known = (framework(name) for name in crash.context.frameworks)
    return any(one is not None and one.layer != "base" for one in known)


def data_in_parts(case: Case) -> bool:
    """What data libraries compute is divided by their caller, and what a task of Ray is called with, too; what fit() is
    given goes to the GPU as a whole."""
    crash = case.crash
    computes = crash.pool == "gpu" and crash.job.task == "data"
    divided = computes and data_goes_to_the_card_in_one_piece(crash) is None
    tables = (refused_among_tables, hash_table_of, a_wide_table_was_refused)
    if any(one(crash) is not None for one in tables):
        return True
    pairs = of_all_pairs_in_ram(crash) or a_matrix_of_pairs_was_refused(crash) or a_square_array_was_refused(crash)
    return option_for_it(case) or divided or pairs is not None or a_task_is_the_largest(crash) is not None


_OF_A_FULL_CARD: Final = ("activations", "gpu-memory-exhausted")


def kept_is_known(case: Case) -> bool:
    """An option or a line of it is in the log, or the predictions of an evaluation or a program's outputs are kept."""
    root = case.crash.root
    if case.crash.pool == "shm" and (case.row is None or case.row.framework == "torch"):
        return False  # what its line keeps lies in ordinary memory
    if case.row is not None and case.row.key in _GATHERED_BY_A_DRIVER:
        return a_driver_is_the_largest(case.crash) is not None
    keeps = isinstance(root, ArrayOutOfMemory) and root.outputs_hold_most
    keeps = keeps or a_thread_was_refused(case.crash) is not None or nccl_was_refused(case.crash) is not None
    if case.cause in _OF_A_FULL_CARD and (case.row is None or case.row.framework == "torch"):
        return keeps  # what a line of PyTorch's would keep elsewhere is not known to be kept
    keeps = keeps or limits.budget_beyond_the_limit(case.crash) is not None
    keeps = keeps or a_buffer_is_laid_out(case.crash) is not None or one_save_at_a_time(case) is not None
    keeps = keeps or cache_of_items(case.crash) is not None
    keeps = keeps or unbounded_cache(case.crash) is not None or rows_wait_to_be_written(case.crash) is not None
    return keeps or option_for_it(case) or keeps_predictions(case.cause, case.crash)


# the host


def worker_processes(case: Case) -> bool:
    """A refusal is one process's own; a kill may be of one among many, unless the kernel lists no second one."""
    crash = case.crash
    if only_small_processes_were_killed(crash) is not None or _one_of_them_holds_all(crash):
        return False
    if case.row is None and case.cause != "too-many-workers" and ray_workers.are_one_for_each_gpu(crash):
        return False
    if case.now is None and node_memory(crash) is None and ray_workers.killed_held_little(crash):
        return False
    if a_thread_was_refused(crash) is not None or of_threads(case.row):
        return True
    if not isinstance(crash.root, HostAllocation | KernelKill) or case.cause == "too-many-workers":
        return _several(case)
    if isinstance(crash.root, KernelKill) and not _kernel_lists_one(crash):
        return _several(case)
    stated = crash.setting(*KNOBS["fewer-workers"].settings)
    several = stated is not None and isinstance(stated.value, int) and stated.value > 1
    several = several or _at_once(crash)
    listed = isinstance(crash.root, HostAllocation) and node_memory(crash) is not None
    return several or listed or crash.in_trace(_WORKERS) is not None


def _one_of_them_holds_all(crash: Crash) -> bool:
    """What all other processes of the table hold together is too little to matter."""
    memory = node_memory(crash)
    if memory is None or memory.heaviest is None or memory.cut or memory.overlaps or _at_once(crash):
        return False
    return memory.heaviest.largest >= NEARLY_ALL * memory.base_bytes


def _at_once(crash: Crash) -> bool:
    """The program's own option says how much one process does at once: requests, tasks, coroutines."""
    option = own_options.own_option("fewer-workers", crash)
    return option is not None and _CONCURRENT.search(option.setting.name) is not None


def _several(case: Case) -> bool:
    """A setting, a table, the traceback or a line near the failure speaks of workers; or the framework starts some."""
    crash = case.crash
    told = crash.setting(*KNOBS["fewer-workers"].settings) is not None or node_memory(crash) is not None
    named = case.cause == "too-many-workers" or crash.in_trace(_WORKERS) is not None
    starts_some = case.row is not None and (case.row.smallest_default(None) or 0) > 1
    if told or named or starts_some or _at_once(crash):
        return True
    if several_tasks(crash) or ranks_beside_the_killed(crash) is not None:
        return True
    return crash.mentions(_NAMES_OTHERS if crash.pool == "object_store" else _NAMES_WORKERS) is not None


def _kernel_lists_one(crash: Crash) -> bool:
    """The kernel's table holds no two processes of the victim's name."""
    memory = node_memory(crash)
    return memory is not None and all(len(holder.sizes) == 1 for holder in memory.holders)


def weights_are_loaded(case: Case) -> bool:
    """A script that builds an array in host memory loads none; what reads GGML's files has an option for it or nothing,
    as it loads them piece by piece and once."""
    crash = case.crash
    if crash.job.world == "ggml" and case.row is None:
        return False
    if crash.stage == "checkpoint_save" or (_maps_them_anyway(case) and crash.shows(_MAPPED)):
        return False
    if SIDES.get(crash.pool) != "host" or crash.stage in _LOADING or case.cause in _OF_LOADING:
        return True
    return crash.shows(_OF_WEIGHTS) or bool(crash.context.models) or an_engine_is_the_largest(crash) is not None


def _maps_them_anyway(case: Case) -> bool:
    """The advice is the format of the files, and no option of how they are loaded."""
    return case.row is None or case.row.type in NO_OPTION


def data_are_loaded(case: Case) -> bool:
    """A step, a frame or a line near the failure is about data that are read; self-play makes its own, and tables that
    are combined have been. Data in partitions are streamed already, where no line of the job collects them, into Ray's
    object store."""
    crash = case.crash
    if isinstance(crash.root, BudgetSpent) and some([crash.root.program], "answers queries"):
        return option_for_it(case)
    if some(crash.context.frameworks, "computes by partitions") and crash.pool != "object_store":
        return option_for_it(case)
    if refused_among_tables(crash) is not None:
        return own_line.shows(case.knob, crash)
    if crash.stage in _WITHOUT_DATA and not crash.doing.weak and isinstance(crash.root, Kill):
        return False  # what a command names, it has not read yet, or no longer
    stages = case.cause == "pinned-memory-exhausted" and crash.job.world == "tensorflow"
    of_data = stages or (crash.job.task == "data" and crash.pool != "object_store")
    if case.cause == "dataset-in-ram" or crash.stage == "data_load" or of_data:
        return True
    if option_for_it(case) or crash.shows(_OF_DATA) or texts_were_tokenized(crash) is not None:
        return True
    memory = node_memory(crash)
    return memory is not None and any(re.search(_OF_DATA, holder.name) for holder in memory.holders)


_SIGNS_OF_OFFLOADING: Final = (
    caches_of_ranks,
    host_cache_in_other_words,
    its_lines_move_to_the_host,
    killed_while_states_were_made,
    lmcache_was_refused,
    optimizer_on_the_cpu,
    ranks_may_keep_their_states,
    refused_for_parameters_on_the_host,
    refused_for_the_buffer_of_parameters,
    refused_beside_an_option_that_offloads,
    sleeping_engines_have_it,
)


def offloaded(case: Case) -> bool:
    stated = any(case.crash.setting(name) is not None for name in OFFLOADS)
    refused = case.crash.first(HostCacheTooLarge) is not None
    return stated or refused or any(sign(case.crash) is not None for sign in _SIGNS_OF_OFFLOADING)


def object_store(case: Case) -> bool:
    keeps = some(case.crash.context.frameworks, "keeps an object store")
    return keeps or case.crash.first(StoreTooLarge) is not None


def memory_grows(case: Case) -> bool:
    grows = case.crash.trajectory
    return case.cause.endswith("-leak") or (grows is not None and bool(grows.growth_bytes))


def killed_by_rays_monitor(case: Case) -> bool:
    kill = ray_kill(case.crash)
    return kill is not None and kill.fraction is not None


def a_cluster(case: Case) -> bool:
    """A scheduler or a launcher of several machines is in sight: a single one has no nodes to add."""
    crash = case.crash
    if case.now is None and crash.shows(LOCAL_RAY):
        return False
    if case.now is not None or crash.pool == "scheduling" or crash.job.spread:
        return True
    return no_cluster_in_sight(crash) is None or commands.in_slurm(crash)


def node_is_full(case: Case) -> bool:
    """Not where memory is left that Ray is told to leave alone, nor where the last print shows that most is free and
    nothing shows that it ran out; a helper of Ray's own that grew fills any node. What the driver calls an invalid
    argument is more than it pins in one piece, on nodes with hundreds of GB free, too (LMCache/LMCache#1051)."""
    crash = case.crash
    printed = _last_share(crash)
    if (printed is None or printed < HALF_FULL) and pinning_was_an_invalid_argument(crash) is not None:
        return False
    if printed is not None and printed < HALF_FULL and not crash.proven:
        return False
    if early_kill(crash) is not None or (case.cause == PROCESS_HOG and _held_by_a_helper(crash)):
        return False
    return total_bytes(crash) is None or not of_low_limit(crash)


def _last_share(crash: Crash) -> float | None:
    """By what tools printed; of a job that was killed its own prints are too old, since it grew behind them."""
    if crash.pool == "pinned":
        return part_in_use(crash)
    return next((each.share for each in reversed(machine_before(crash)) if each.share is not None), None)


def _held_by_a_helper(crash: Crash) -> bool:
    memory = node_memory(crash)
    return memory is not None and memory.heaviest is not None and memory.heaviest.is_a_helper


CONDITIONS: Final[Mapping[str, Question]] = {
    AT_ANY_TIME: lambda _: True,
    "an engine runs": an_engine_runs,
    "sequences at once": several_sequences,
    "an engine reserves": reserves,
    "past its own cache": past_its_own_cache,
    "several requests": several_requests,
    "an engine beside a trainer": beside_a_trainer,
    ON_THAT_SIDE: on_that_side,
    "several engines start": several_starts,
    "media in the prompts": media_in_prompts,
    "several cards": several_cards,
    "another card": another_card,
    "several cards train": several_cards_train,
    "an allocator that is named": allocator_named,
    "another job's process": of_another_job,
    "past the start": past_the_start,
    "a batch of its own": batch_of_its_own,
    "a step runs": a_step_runs,
    "past the load": past_the_load,
    "something in 32 bits": something_in_32_bits,
    "gradients": gradients,
    "a way to recompute": recomputed,
    "wide numbers": wide_numbers,
    "attention": attention,
    "sequences": sequences,
    "pictures": pictures,
    "tiles": tiles,
    "simulated worlds": simulated_worlds,
    "an option for it": option_for_it,
    "pinned by choice": pinned_by_choice,
    "a way to disk": way_to_disk,
    "a library's model": model_of_a_library,
    "a card for a model": card_for_a_model,
    "data in parts": data_in_parts,
    "what is kept is known": kept_is_known,
    "worker processes": worker_processes,
    "weights are loaded": weights_are_loaded,
    "data are loaded": data_are_loaded,
    "something is offloaded": offloaded,
    "an object store": object_store,
    "memory grows": memory_grows,
    "Ray's monitor killed": killed_by_rays_monitor,
    "the node is full": node_is_full,
    "a cluster": a_cluster,
}
