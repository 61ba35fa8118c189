"""Arrays that JAX, TensorFlow or Paddle could not get memory for."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.array_dumps import ProgramBuffer
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.devices import maker
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import total_bytes
from oomdoctor.job.frameworks import framework, some
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, commands, sign
from oomdoctor.signs.neighbours import tensorflow_found_nearly_nothing_free
from oomdoctor.signs.trace import CREATED, STRAW
from oomdoctor.units import GIB, MIB, show

LITTLE: Final = 0.1  # of the device
NOTHING: Final = 0.01  # of the process's limit
MANY_DEVICES: Final = 8  # times its memory: no batch is trimmed to fit
PAIRS: Final = 256  # of one thing; of fewer an array is small
PICTURES: Final = 4  # dimensions: batch, height, width and channels
VOLUMES: Final = 5  # ... and depth, or time
_OF_A_TPU: Final = "memory space hbm"
_OF_A_LITTLE: Final = ("smaller-microbatch", "mixed-precision", "gradient-checkpointing", "shard-states")
MOST: Final = 0.5  # of the device: the rest of the program may be made smaller, and what it is given stays

# A batch of pictures of 3 x 3 or 7 x 7 pixels with hundreds of channels each way is none.
WIDEST_KERNEL: Final = 11
CHANNELS: Final = 64
_KERNEL: Final = late(r"\[(\d{1,2})(?:,\1){1,2},(\d{1,6}),(\d{1,6})\]")
_OF_A_LAYOUT: Final = ("fix-shape", "smaller-microbatch", "smaller-input", "gradient-checkpointing")
# Of an array in one piece, where no log says how much there is: its half, with as much beside it and its gradient,
# is more than a machine of 64 GiB has.
MOST_IN_ONE_PIECE: Final = 48 * GIB

LARGE: Final = 256 * MIB  # of what a program is given: the matrices of small models need no room
MATRIX: Final = 2  # axes, of two lengths: over all pairs it is none of weights
_WIDER: Final = (1, 2, 4)  # times: the types of weights have 1, 2 and 4 bytes
_LOADS: Final = ("model_load", "checkpoint_load", "launch")

# What puts an array on a device as it is, and what TensorFlow says where that fails
_COPY: Final = r"\bdevice_put\b|\bconvert_to_(?:eager_)?tensor\b"
_OF_A_STEP: Final = r"\bloss(?:es)?\b|\bgrads?\b|\bvalue_and_grad\b|\b(?:train|update)_step\b|\btrain_on_batch\b"
# xla/service/gpu/gpu_hlo_schedule.cc, since 0.4.30: what a program is given and gives back, beside what it may use
_GIVEN: Final = r"input/output arguments \(\d{1,15}\) exceeds the base limit \(\d{1,15}\)"
_IN_BYTES: Final = late(r"\((\d{1,15})\)")
# libtpu says the one of whatever is put on a core, and of a program's arrays that it was running
_COPIES: Final = late(r"Dst tensor is not initialized|Error allocating device buffer")


def far_beyond_a_machine(crash: Crash) -> bool:
    """Whether a half of the array that was refused is more than most machines have room for; the size of this one is
    not in the log."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or not array.shape or array.total_bytes or total_bytes(crash):
        return False
    return (array.usual_bytes or 0) >= MOST_IN_ONE_PIECE


@sign
def small_array_on_a_full_card(crash: Crash) -> Seen | None:
    """The allocation is only as large as a small array, or TensorFlow's limit is less than any GPU has: the GPU, or the
    machine, was already full."""
    array = crash.root
    if tensorflow_found_nearly_nothing_free(crash) is not None:
        return Seen(words="")
    if not isinstance(array, ArrayOutOfMemory) or array.used_bytes:
        return None
    tried = array.usual_bytes if array.pool == "host_ram" else array.tried_bytes
    return Seen(words="") if tried is not None and tried <= STRAW and not array_of_the_model(crash) else None


@sign
def array_of_a_step_on_the_host(crash: Crash) -> Seen | None:
    """JAX computes behind the program: a line that reads a loss, or calls the step, is where its arrays are missed."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array.pool != "host_ram" or array_of_the_model(crash) is not None:
        return None
    frame = crash.in_trace(_OF_A_STEP)
    if frame is None:
        return None
    words = say("Host memory ran out in a training step: its line reads or computes a loss or gradients.")
    return Seen(words=words, evidence=(array,), stage=_in_a_pass(crash))


@sign
def array_beyond_the_limit(crash: Crash) -> Seen | None:
    """One array is larger than the process's limit on the GPU."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or not array.limit_bytes or not array.array_bytes:
        return None
    return Seen(words="") if array.array_bytes > array.limit_bytes and not array_of_the_model(crash) else None


@sign
def lengthy_array_beyond_the_limit(crash: Crash) -> Seen | None:
    """An array of one axis is larger than the process's limit on the GPU, and next to nothing was in use: its length
    comes from the data that the program computes with, such as a wrong index."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or len(array.lengths) != 1 or array_beyond_the_limit(crash) is None:
        return None
    limit, held = array.limit_bytes or 0, array.in_use_bytes
    if held is None or held > NOTHING * limit:
        return None
    words = say(
        "One array of shape {shape} ({size}) is larger than all that the process may use ({limit}), and only {held} "
        "was in use. No batch makes an array of one axis that long: a wrong index or length does.",
        shape=array.shape,
        size=array.array_words,
        limit=show(limit),
        held=show(held),
    )
    return Seen(words=words, evidence=(array,))


@sign
def arguments_of_many_devices(crash: Crash) -> Seen | None:
    """What a compiled program is given and gives back is many times the device: nothing that it computes makes that
    fit, neither a part of a batch nor what is computed again."""
    line = crash.mentions(_GIVEN) if isinstance(crash.root, ArrayOutOfMemory) else None
    if line is None:
        return None
    given, limit = (int(size) for size in _IN_BYTES.findall(line[line.index("arguments (") :])[:2])
    if given < MANY_DEVICES * limit:
        return None
    words = say(
        "XLA counts {given} of arguments and results of the program, {times} times its limit on this device ({limit}). "
        "An array that the program is given has a wrong shape, or belongs on many devices.",
        given=show(given),
        limit=show(limit),
        times=f"{given / limit:.0f}",
    )
    return Seen(words=words, evidence=(crash.root,))


@sign
def array_of_the_model(crash: Crash) -> Seen | None:
    """The array belongs to the model itself, which was being created or loaded; or it is all that a program copies."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory):
        return None
    if crash.mentions(CREATED) or _weights(crash, array):
        words = say(
            "An array of the model itself did not fit while the model was created. No batch had been processed yet."
        )
    elif _is_loaded(crash, array):
        words = say("An array did not fit while the model was loading.")
    else:
        return _copied_matrix(crash)
    doubt = say("another process may hold the GPU memory")
    return Seen(words=words, evidence=(array,), against=(doubt,), stage="model_load")


def _is_loaded(crash: Crash, array: ArrayOutOfMemory) -> bool:
    """Whether a frame or a line says that weights were loading, and the array is none of the small ones beside them."""
    size = array.usual_bytes
    return crash.stage == "model_load" and not crash.doing.weak and (size is None or size > STRAW)


def _copied_matrix(crash: Crash) -> Seen | None:
    """XLA's account of a compiled program: one matrix goes in and comes out, in the same or another type, and nothing
    is worked with. Weights are turned like that one by one; a step has intermediate results, a batch more axes."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array.temporary_bytes != 0 or crash.stage not in ("unknown", *_LOADS):
        return None
    given, result, made = array.arguments_bytes or 0, array.outputs_bytes or 0, _made_whole(array)
    if made is None or len(set(made.lengths)) != MATRIX or len(made.lengths) != MATRIX:
        return None
    if given < LARGE or not any(given * times == result or given == result * times for times in _WIDER):
        return None
    words = say(
        "The compiled program takes {given} and gives back {result} of the shape {shape}, and works with nothing else: "
        "it copies or converts one matrix, as loading does with weights. On the GPU are the old one and the new one.",
        given=show(given),
        result=show(result),
        shape=made.shape,
    )
    doubt = say("the log does not say whether the matrix is a weight")
    stage = "model_load" if crash.stage == "unknown" else None
    return Seen(words=words, evidence=(array,), against=(doubt,), stage=stage)


def _made_whole(array: ArrayOutOfMemory) -> ProgramBuffer | None:
    """The array that is all that the program gives back."""
    return next((one for one in array.buffers if one.shape and one.bytes == array.outputs_bytes), None)


def _weights(crash: Crash, array: ArrayOutOfMemory) -> bool:
    """Whether it is a convolution's weights by its shape, which the allocator's own line leaves to the next message."""
    told = (
        one for one in crash.every(ArrayOutOfMemory) if array.shape is None and one.array_bytes == array.array_bytes
    )
    return any(map(_is_a_kernel, (array, *told)))


def _is_a_kernel(array: ArrayOutOfMemory) -> bool:
    """Whether it has the shape of a convolution's weights: TensorFlow keeps them as height, width, inputs, outputs."""
    axes = _KERNEL.fullmatch(array.shape or "") if array.framework == "tensorflow" else None
    return axes is not None and int(axes[1]) <= WIDEST_KERNEL and min(int(axes[2]), int(axes[3])) >= CHANNELS


def _in_a_pass(crash: Crash) -> str | None:
    """What a program's arrays are made in, where nothing tells more: a node of a graph, or a loop's own line."""
    return "forward" if crash.stage == "unknown" else None


@sign
def array_of_a_shape(crash: Crash) -> Seen | None:
    """An array whose shape is printed did not fit while the program ran."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array.used_bytes or not array.shape:
        return None
    words = (
        say(
            "An array of shape {shape} ({size}) did not fit while the program ran. Such arrays grow with the "
            "batch size.",
            shape=array.shape,
            size=array.array_words,
        )
        if array.array_bytes
        else say(
            "An array of shape {shape} did not fit while the program ran. Such arrays grow with the batch size.",
            shape=array.shape,
        )
    )
    return Seen(words=words, evidence=(array,), stage=_in_a_pass(crash))


@sign
def outputs_hold_most(crash: Crash) -> Seen | None:
    """XLA's account of a compiled program: what it gives back takes half of what it needs, or more."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or not array.outputs_hold_most:
        return None
    words = say(
        "The compiled program needs {needed}, and {outputs} of it are its outputs. They stay on the GPU until the "
        "program's caller drops them.",
        needed=show(array.needed_bytes or 0),
        outputs=show(array.outputs_bytes or 0),
    )
    return Seen(words=words, evidence=(array,), stage=_in_a_pass(crash))


@sign
def arguments_hold_most(crash: Crash) -> Seen | None:
    """XLA's account of a compiled program: what it is given takes twice what it works with and gives back."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or not array.needed_bytes or _copied_matrix(crash) is not None:
        return None
    given = array.arguments_bytes or 0
    if given < LARGE or given < 2 * (array.needed_bytes - given):
        return None
    words = say(
        "The compiled program needs {needed}, and {arguments} of it are its arguments: weights, states and the batch.",
        needed=show(array.needed_bytes),
        arguments=show(given),
    )
    return Seen(words=words, evidence=(array,))


@sign
def array_without_a_shape(crash: Crash) -> Seen | None:
    """An array did not fit while the program ran; its shape is not printed."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array.used_bytes or array.shape or _is_copied(crash, array):
        return None
    if not _is_a_bare_request(crash, array):
        return Seen(words=_of_a_batch(array), evidence=(array,), stage=_in_a_pass(crash))
    words = say(
        "A compiled program requested {size} at one go: one array, or all of its temporary buffers together. Both grow "
        "with the batch size. The log does not say which it was, nor how full the GPU was.",
        size=array.array_words,
    )
    asked = (commands.ACCOUNT_OF_XLA, commands.devices_now(crash))
    knobs = () if crash.setting(*_FRACTIONS) else _OF_A_POOL
    return Seen(
        words=words, evidence=(array,), unsure=True, stage=_in_a_pass(crash), knobs=knobs, next_evidence=asked
    )  # fmt: skip


def _is_a_bare_request(crash: Crash, array: ArrayOutOfMemory) -> bool:
    """Whether XLA's log has the size of one request and no other figure, and nothing says what the job was doing."""
    if array.framework != "jax" or crash.pool != "gpu" or crash.stage != "unknown" or array.largest_buffer is not None:
        return False
    figures = {name for name, figure in array.figures("usage").items() if figure}
    return figures == {"tried_bytes"}


@sign
def array_copied_to_one_core(crash: Crash) -> Seen | None:
    """libtpu places each array whole on one core, unless its sharding says otherwise: "0x0x0_HBM0" is the core."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array.tried_bytes is None or not _is_copied(crash, array):
        return None
    return Seen(words="") if maker(crash) == "TPU" else None


@sign
def array_of_a_program(crash: Crash) -> Seen | None:
    """A program did not fit beside the memory already in use."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or not array.used_bytes:
        return None
    return Seen(words=_of_a_batch(array), evidence=(array,), stage=_in_a_pass(crash))


def _is_copied(crash: Crash, array: ArrayOutOfMemory) -> bool:
    """Whether it was put on the device as it is, of whatever it is: nothing was computed."""
    is_copy = array.replica is None and _COPIES.search(array.at.text) is not None
    return is_copy or crash.in_trace(_COPY) is not None


def _of_a_batch(array: ArrayOutOfMemory) -> str:
    largest = array.largest_buffer
    if array.array_bytes and largest is not None:
        return joined((_of_a_program(array, largest), _what_it_grows_with(largest)))
    if array.array_bytes and array.total_bytes and array.array_bytes >= MANY_DEVICES * array.total_bytes:
        return say(
            "An array ({size}) did not fit while the program ran. It is {times} times the whole GPU: a wrong shape "
            "(a broadcast, one-hot, all pairs) is likelier than a batch to trim.",
            size=array.array_words,
            times=f"{array.array_bytes / array.total_bytes:.0f}",
        )
    if array.array_bytes:
        return say(
            "An array ({size}) did not fit while the program ran. Such arrays grow with the batch size.",
            size=array.array_words,
        )
    return say("An array did not fit while the program ran. Such arrays grow with the batch size.")


def _of_a_program(array: ArrayOutOfMemory, largest: ProgramBuffer) -> str:
    """XLA lists the largest buffers of a program, the largest first; an excerpt may begin behind it."""
    return say(
        "A compiled program requested {size} in one piece for all that it works with; the largest array listed "
        "takes {largest} ({shape}).",
        size=array.array_words,
        largest=show(largest.bytes or 0),
        shape=largest.shape,
    )


# JAX's pool is three quarters of the GPU where nobody says; nothing shows a backward pass
_FRACTIONS: Final = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")
_OF_A_POOL: Final = (
    "fewer-environments", "smaller-microbatch", "raise-allocator-cap", "smaller-input", "shorter-sequences",
)  # fmt: skip
# Options that say how large a picture is
_OF_PICTURES: Final = ("crop_size", "image_size", "img_size", "imgsz")


def what_passes_grow_with(crash: Crash, *, as_results: bool = False) -> str:
    """What to make smaller so that a pass needs less; as a compiler names it, these are a program's results."""
    one_by_one = some(crash.job.frameworks, "has no batch")
    if as_results and one_by_one:
        return say("They grow with the size of each input.")
    if as_results:
        return say("They grow with the batch size.")
    if one_by_one:
        return say("What it computes grows with the size of each input.")
    if some(crash.job.frameworks, "has no sequences") or crash.setting(*_OF_PICTURES) is not None:
        return say("Activations grow with the batch size and with the size of each input.")
    return say("Activations grow with batch size and sequence length.")


@sign
def pairs_hold_most(crash: Crash) -> Seen | None:
    """The largest array of the program ends with two axes of one length: it is over all pairs of what goes in."""
    return Seen(words="") if paired_length(crash.root) is not None else None


def paired_length(root: object) -> int | None:
    """The length of the two last axes of the program's largest array, where it is one and no other is larger."""
    largest = root.largest_buffer if isinstance(root, ArrayOutOfMemory) else None
    lengths = largest.lengths if largest is not None else []
    is_square = len(lengths) > 1 and lengths[-1] == lengths[-2] >= max(PAIRS, *lengths)
    return lengths[-1] if is_square else None


def _what_it_grows_with(largest: ProgramBuffer) -> str:
    axes = (largest.shape or "").partition("[")[2].rstrip("]").split(",")
    if len(axes) == PICTURES and axes[0] == "1":
        return say("Its batch is 1 already: such arrays grow with the size of what goes in.")
    return say("Such arrays grow with the batch size and with the size of what goes in.")


@sign
def arguments_larger_than_the_device(crash: Crash) -> Seen | None:
    """The arguments of a compiled program (weights and states) are larger than the GPU."""
    array = _program(crash)
    if array is None or (array.arguments_bytes or 0) <= (array.total_bytes or 0):
        return None
    words = say(
        "The program needs {used}; the GPU has {total}. Its arguments (weights, in training also states) alone take "
        "{arguments}, more than the GPU has.",
        **_figures(array),
    )
    return Seen(words=words, evidence=(array,))


@sign
def arguments_most_of_the_device(crash: Crash) -> Seen | None:
    """The arguments of a compiled program take half of the GPU or more."""
    array = _program(crash)
    share = (array.arguments_bytes or 0) / array.total_bytes if array is not None and array.total_bytes else 0.0
    if array is None or not MOST <= share <= 1:
        return None
    words = say(
        "The program needs {used}; the GPU has {total}. Its arguments (weights, in training also states) take "
        "{arguments}, most of the GPU.",
        **_figures(array),
    )
    return Seen(words=words, evidence=(array,))


@sign
def program_larger_than_the_device(crash: Crash) -> Seen | None:
    """A compiled program states how much memory it needs, and the GPU has less."""
    array = _program(crash)
    if array is None or (array.arguments_bytes is not None and _works_with_more(array)):
        return None
    words = say("The program needs {used} before anything runs; the GPU has {total}.", **_figures(array))
    return Seen(words=words, evidence=(array,), knobs=_OF_A_LITTLE if little_too_large(crash) else ())


@sign
def program_of_unknown_parts(crash: Crash) -> Seen | None:
    """A compiled program states how much it needs in all, not what of that it is given: most of what programs need that
    are larger than their device are intermediate results, which a batch makes."""
    array = _program(crash)
    if array is None or array.arguments_bytes is not None or (array.used_bytes or 0) <= (array.total_bytes or 0):
        return None
    words = say(
        "The program needs {used} in all; the device has {total}. Its account does not tell weights from intermediate "
        "results, which grow with the batch and the length.",
        **_figures(array),
    )
    knobs = _OF_A_LITTLE if little_too_large(crash) else ()
    return Seen(words=words, evidence=(array,), stage=_in_a_pass(crash), knobs=knobs)


def told_by_a_compiler(crash: Crash) -> bool:
    """XLA speaks of a TPU's memory and nothing names JAX: TensorFlow and PyTorch/XLA compile with it, too."""
    known = map(framework, crash.context.frameworks)
    return _OF_A_TPU in crash.root.at.text and all(own is None or own.world != "jax" for own in known)


def little_too_large(crash: Crash) -> ArrayOutOfMemory | None:
    """A program that is larger than the device by a small part. What XLA counts are weights and what it works with
    together: a smaller batch may take off as much."""
    array = _program(crash)
    if array is None or array.arguments_bytes is not None:
        return None
    total = array.total_bytes or 0
    return array if total < (array.used_bytes or 0) <= (1 + LITTLE) * total else None


def _works_with_more(array: ArrayOutOfMemory) -> bool:
    """The intermediate results alone are larger than the device, beside next to no weights."""
    total = array.total_bytes or 0
    return (array.arguments_bytes or 0) <= LITTLE * total < total < (array.temporary_bytes or 0)


@sign
def program_works_with_more_than_the_device(crash: Crash) -> Seen | None:
    """The arguments of a compiled program (weights and states) are small; its intermediate results are too large."""
    array = _program(crash)
    if array is None or not array.total_bytes:
        return None
    works_with = array.temporary_bytes or 0
    small = array.arguments_bytes is not None and array.arguments_bytes <= LITTLE * array.total_bytes
    if works_with <= array.total_bytes and not (small and (array.program_bytes or 0) > array.total_bytes):
        return None
    if works_with > array.total_bytes:
        words = say(
            "The program needs {used}; the GPU has {total}. Its intermediate results alone take {temporary}.",
            temporary=show(works_with),
            **_figures(array),
        )
    else:
        words = say(
            "The program needs {used}; the GPU has {total}. Its arguments (weights, in training also states) take only "
            "{arguments}; its intermediate results take the rest.",
            **_figures(array),
        )
    words = joined((words, what_passes_grow_with(crash, as_results=True)))
    return Seen(words=words, evidence=(array,), stage=_in_a_pass(crash))


@sign
def padded_beyond_the_device(crash: Crash) -> Seen | None:
    """A compiled program would fit, or nearly, but for what its layout fills the largest arrays up with."""
    array = _program(crash)
    padded = most_padded(crash)
    if array is None or padded is None:
        return None
    beyond = (array.used_bytes or 0) - (array.total_bytes or 0)
    if beyond <= 0 or sum(one.padding_bytes for one in array.buffers) < MOST * beyond:
        return None
    words = say(
        "The program needs {used}; the GPU has {total}. {padding} of it is padding: the array {shape} of {own} takes "
        "{size}, because its last axes are filled up to tiles.",
        padding=show(padded.padding_bytes),
        shape=padded.shape,
        own=show(padded.unpadded_bytes or 0),
        size=show(padded.bytes or 0),
        **_figures(array),
    )
    return Seen(words=words, evidence=(array,), stage=_in_a_pass(crash), knobs=_OF_A_LAYOUT)


def most_padded(crash: Crash) -> ProgramBuffer | None:
    """Of the largest arrays of the program the one with most padding, where it takes twice its own numbers."""
    buffers = crash.root.buffers if isinstance(crash.root, ArrayOutOfMemory) else ()
    widened = (one for one in buffers if one.padding_bytes >= (one.unpadded_bytes or 0) > 0)
    return max(widened, key=lambda one: one.padding_bytes, default=None)


def _program(crash: Crash) -> ArrayOutOfMemory | None:
    root = crash.root
    stated = isinstance(root, ArrayOutOfMemory) and root.used_bytes is not None and root.total_bytes is not None
    return root if isinstance(root, ArrayOutOfMemory) and stated else None


def _figures(array: ArrayOutOfMemory) -> dict[str, str]:
    used, total, arguments = array.used_bytes or 0, array.total_bytes or 0, array.arguments_bytes or 0
    return {"used": show(used), "total": show(total), "arguments": show(arguments)}
