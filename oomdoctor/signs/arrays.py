"""Arrays that JAX, TensorFlow or Paddle could not get memory for."""

from __future__ import annotations

from oomdoctor.causes.gpu import CREATED, STRAW
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.signs import Seen, sign


@sign
def small_array_on_a_full_card(crash: Crash) -> Seen | None:
    """No more was asked for than a small array takes: the card was full before it."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array.used_bytes or array.tried_bytes is None:
        return None
    return Seen(words="") if array.tried_bytes <= STRAW and not array_of_the_model(crash) else None


@sign
def array_beyond_the_limit(crash: Crash) -> Seen | None:
    """One array is larger than what the process was given of the card."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or not array.limit_bytes or not array.tried_bytes:
        return None
    return Seen(words="") if array.tried_bytes > array.limit_bytes and not array_of_the_model(crash) else None


@sign
def array_of_the_model(crash: Crash) -> Seen | None:
    """The array belongs to the model itself, which was being created."""
    if not isinstance(crash.root, ArrayOutOfMemory) or not crash.mentions(CREATED):
        return None
    return Seen(
        words=say("An array of the model's own did not fit while the model was being created: no batch had come yet."),
        evidence=(crash.root,),
        against=(say("another process may hold the card"),),
        stage="model_load",
    )


@sign
def array_of_a_shape(crash: Crash) -> Seen | None:
    """An array whose shape is printed did not fit while the program ran."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array.used_bytes or not array.shape:
        return None
    words = (
        say(
            "An array of shape {shape} ({size}) did not fit while the program ran: such arrays grow with the batch.",
            shape=array.shape,
            size=array.array_words,
        )
        if array.array_bytes
        else say(
            "An array of shape {shape} did not fit while the program ran: such arrays grow with the batch.",
            shape=array.shape,
        )
    )
    return Seen(words=words, evidence=(array,), stage="forward")


@sign
def array_without_a_shape(crash: Crash) -> Seen | None:
    """An array did not fit while the program ran; its shape is not printed."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array.used_bytes or array.shape:
        return None
    return Seen(words=_of_a_batch(array), evidence=(array,), stage="forward")


@sign
def array_of_a_program(crash: Crash) -> Seen | None:
    """A program did not fit beside what is used already."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or not array.used_bytes:
        return None
    return Seen(words=_of_a_batch(array), evidence=(array,), stage="forward")


def _of_a_batch(array: ArrayOutOfMemory) -> str:
    if array.array_bytes:
        return say(
            "An array ({size}) did not fit while the program ran: such arrays grow with the batch.",
            size=array.array_words,
        )
    return say("An array did not fit while the program ran: such arrays grow with the batch.")
