"""What goes into a job's model: texts, pictures, points or cells, as far as the log tells."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import SIDES
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import driven, some
from oomdoctor.job.verbs import words_of
from oomdoctor.remedies import in_force, own_options
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.proposal import Case
from oomdoctor.remedies.settings import spelling
from oomdoctor.signs.arrays import PICTURES
from oomdoctor.signs.generation import little_was_generated
from oomdoctor.signs.passes import of_a_recording, sees, simulates_worlds

OF_NATURE: Final = "simulation"  # a task: cells and particles, and worlds of them
_OF_DATA_IN_RAM: Final = "dataset-in-ram"  # a cause: no line that scales a tensor makes what is read smaller
_OF_PICTURES: Final = (
    r"(?i)conv_?[23]d\b|conv_transpose[23]d|(?:max|avg)_?pool[23]d|\binterpolate\b|autoencoder_kl"
    r"|\brender(?:er|ing)?\b|\bsplat|rasteri[sz]|point_?cloud|\bvoxel|\bnerf"
)
# Of what draws, and of what is trained to: its parts, and what tools print of their pictures
_DRAWN: Final = (
    r"\bVAE\b|\bU-?[Nn]et\b|\bCrossAttention\.forward\b|(?i:\bdreambooth\b|\btext(?:ual)?[ _-]inversion\b"
    r"|\bresolution\W{1,4}\(?\d{2,5}, ?\d{2,5}\)?)"
)
# A sampler's own model, which sees the whole picture at once; an autoencoder and a sliding window may see a part
_SAMPLERS: Final = (
    r"/unets?/|unet_2d|transformer_2d|/models/transformers/|k_diffusion|/samplers?\.py|openaimodel|/ldm/flux/"
)
_SIZE_OF_PICTURES: Final = (
    r"(?i)\b(?:images?|frames?|photos?|pictures?):? (?:of size |size |resolution )?\d{3,5} ?[x*\u00d7] ?\d{3,5}\b"
)
# What only text has
_OF_TEXT: Final = (
    r"(?i)attention(?!_?unet)|\battn|transformers?\b|token|\bseq(?:uences?)?(?:_len\w*)?\b|\bllms?\b|\bprompts?\b"
    r"|\blm_?head|\blogits|vocab|\b(?:bert|gpt|llama|gemma|qwen|mistral|bloom|opt(?!/)|t5|phi|(?:chat)?glm|baichuan"
    r"|vicuna)(?:\b|[\d_-])"
    r"|cross_entropy|\bmax_len|softmax|einsum"
)
_OF_SOUND: Final = (
    r"(?i)audio|\bi?stft\b|spectrogram|\bmel_?(?:spec|filter|bank)|waveform|\.(?:wav|mp3|flac)\b|\bspeech|\btts\b"
    r"|\bvocoder"
)
_OF_MOVING_PICTURES: Final = r"(?i)video|frames?\b.{0,20}\b(?:image|resolution)|\.mp4\b"
_OF_A_NETWORK: Final = ("activations", "logits-spike", "optimizer-states")  # causes
# What only programs have that learn, or that compute with a network; and batches, which others have, too
_ONLY_OF_LEARNING: Final = (
    r"(?i)\bepochs?\b|\bloss(?:es)?\b|data_?loader|\btrain|\bmodels?\b|\bnetworks?\b|\bneural|\btensors?\b"
    r"|\blayers?\b|torch|tensorflow|keras|caffe|mxnet|paddle|onnx|mindspore|\bnccl\b|cudnn|bitsandbytes"
    r"|\bRuntimeError: CUDA\b"
)
OF_LEARNING: Final = rf"{_ONLY_OF_LEARNING}|batch"
LENGTH: Final = "shorter-sequences"
SIZE: Final = "smaller-input"
SMALLEST: Final = 32  # of a picture's edges, in pixels: a filter's are shorter
_WHOLE_LINE: Final = 3  # options: a line of fewer may leave the rest to a file
_BATCH: Final = "smaller-microbatch"
_BATCHES: Final = frozenset(
    {"batch", "batches", "batchsize", "microbatch", "minibatch", "bs", "bsz", "mbs"}
)  # in names
_OF_A_BATCH: Final = r"(?i)batch|\bbsz?\b|\bsamples\b"
_COUNTED: Final = ("int", "size")  # types of options
_OF_ANY_TASK: Final = ("unknown", "system")
_WITHOUT_INPUTS: Final = ("data", "system", "serving")  # tasks
_OPS_ON_PICTURES: Final = r"(?i)conv_?(?:[23]d|ops)|batch_?norm|(?:max|avg)_?pool|image_?resiz|resize_(?:bi|near)"
_OPS_ON_SEQUENCES: Final = r"(?i)attention|softmax|matmul|einsum"
# lax.conv_general_dilated is JAX's convolution of any number of dimensions: jax/_src/lax/convolution.py
_CONVOLUTION: Final = r"\bconv_general_dilated\b"


def sequences(case: Case) -> bool:
    """No pictures, points or tables: neither the framework, the frames nor the array's shape says so. Few tokens are
    not made fewer."""
    crash = case.crash
    if case.now is not None:
        return True
    if some(crash.job.frameworks, "has no sequences") or computes_pictures(crash):
        return False
    if little_was_generated(crash) is not None:
        return False
    if crash.mentions(_SIZE_OF_PICTURES) is not None:
        return False
    root = crash.root
    if SIDES.get(crash.pool) == "host" and _is_of_any_language(crash):
        return False
    as_pictures = isinstance(root, ArrayOutOfMemory) and len((root.shape or "").split(",")) == PICTURES
    return not as_pictures or crash.mentions(_OPS_ON_SEQUENCES) is not None


def _is_of_any_language(crash: Crash) -> bool:
    """A program of which nothing is known but its message, or nothing at all, and no word of text."""
    if isinstance(crash.root, Shortage) and not crash.job.frameworks:
        return True
    return nothing_is_known_of_the_program(crash) and not crash.shows(_OF_TEXT)


def may_be_anything(crash: Crash) -> bool:
    """Whether nothing tells texts from pictures, points or cells in what a GPU computes."""
    if crash.pool != "gpu" or crash.job.engine is not None or crash.job.task in _WITHOUT_INPUTS:
        return False
    if _shows_pictures(crash) or own_options.own_option(SIZE, crash) is not None:
        return False
    return spelling(LENGTH, crash.context) is None and not crash.shows(_OF_TEXT) and not _has_a_shape(crash)


def computes_anything(case: Case) -> bool:
    """Whether nothing is known of the program, nor of any step or batch of it."""
    crash = case.crash
    if case.cause in _OF_A_NETWORK or crash.stage != "unknown":
        return False
    return nothing_is_known_of_the_program(crash) and not crash.shows(OF_LEARNING)


def nothing_is_known_of_the_program(crash: Crash) -> bool:
    """No library of arrays, no framework, no task and no word of learning: it may be of any language."""
    job = crash.job
    if job.frameworks or crash.context.models or isinstance(crash.root, ArrayOutOfMemory):
        return False
    return job.world == "none" and job.task in _OF_ANY_TASK and not crash.shows(_ONLY_OF_LEARNING)


def names_no_batch(crash: Crash) -> bool:
    """Whether the launch line stands in the log with several options of the job's own program, and neither it, nor a
    setting that is printed, nor a line near the failure speaks of a batch: a graph or a field is computed whole."""
    stated = [one for one in crash.context.settings.values() if one.outside is None]
    launched = [one for one in stated if one.is_launched and one.file == crash.root.at.file]
    if len(launched) < _WHOLE_LINE or crash.pool == "shm" or driven(crash.job.frameworks):
        return False
    if crash.setting(*KNOBS[_BATCH].settings) is not None or own_options.own_option(_BATCH, crash) is not None:
        return False
    return _BATCHES.isdisjoint(word for one in stated for word in words_of(one.name)) and not crash.shows(_OF_A_BATCH)


def of_sound(crash: Crash) -> bool:
    """Whether recordings or speech are computed."""
    return crash.shows(_OF_SOUND) and not crash.shows(_OF_MOVING_PICTURES)


def _has_a_shape(crash: Crash) -> bool:
    return isinstance(crash.root, ArrayOutOfMemory) and bool(crash.root.shape or crash.root.buffers)


def pictures(case: Case) -> bool:
    """What goes in has a size of its own: pictures, volumes, points, clips, a grid."""
    crash = case.crash
    of_data = case.cause == _OF_DATA_IN_RAM and case.row is not None and case.row.is_call
    if simulates_worlds(crash) or of_data:
        return False
    if crash.job.task == OF_NATURE:
        return True
    stated = case.now is not None or own_options.own_option(case.knob, crash) is not None
    if case.knob == SIZE and (may_be_anything(crash) or (crash.job.trains and sees(crash))):
        return True
    return stated or _shows_pictures(crash)


def _shows_pictures(crash: Crash) -> bool:
    named = some(crash.job.frameworks, "has no sequences") or crash.mentions(_SIZE_OF_PICTURES) is not None
    return named or computes_pictures(crash) or of_a_recording(crash) is not None


def tiles(case: Case) -> bool:
    """Pictures in a step that may take them in parts; where it does so already, in smaller ones. A program that has an
    option for it knows what it works on."""
    if own_options.own_option(case.knob, case.crash) is not None:
        return True
    if case.crash.in_trace(_SAMPLERS) is not None or not pictures(case):
        return False
    return not in_force.in_tiles(case.crash) or (case.row is not None and case.row.type in _COUNTED)


def computes_pictures(crash: Crash) -> bool:
    if crash.in_trace(_OF_PICTURES) is not None or crash.mentions(_DRAWN) is not None:
        return True
    if not isinstance(crash.root, ArrayOutOfMemory):
        return False
    if _is_as_high_as_wide(crash):
        return True
    return crash.mentions(_OPS_ON_PICTURES) is not None or has_axes_of_pictures(crash)


def _is_as_high_as_wide(crash: Crash) -> bool:
    """TensorFlow's array of a picture has its height and width in the middle; attention's scores have the pair last."""
    root = crash.root
    axes = root.lengths if isinstance(root, ArrayOutOfMemory) and crash.job.world == "tensorflow" else []
    return len(axes) == PICTURES and SMALLEST <= axes[1] == axes[2] != axes[3]


def has_axes_of_pictures(crash: Crash) -> bool:
    """The largest array of a compiled program comes from a convolution over pictures."""
    return len(axes_of_the_largest(crash)) == PICTURES and crash.mentions(_CONVOLUTION) is not None


def axes_of_the_largest(crash: Crash) -> list[int]:
    root = crash.root
    largest = root.largest_buffer if isinstance(root, ArrayOutOfMemory) else None
    return largest.lengths if largest is not None else []
