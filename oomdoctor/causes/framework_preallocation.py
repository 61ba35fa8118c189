"""JAX or TensorFlow took the card in advance, and somebody else needs some of it."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.library import (
    a_handle_fails_in_jax,
    a_handle_found_the_card_taken,
    a_handle_is_refused_in_tensorflow,
    a_program_found_no_room_to_be_loaded,
    jax_or_tensorflow_beside_pytorch,
    warp_was_refused_in_jax,
)

OF_A_SIMULATION = ("cap-preallocation", "fewer-environments", "resize-sim-buffers", "free-the-gpu")

CAUSE = Cause(
    id="framework-preallocation",
    title=mark("JAX or TensorFlow reserved GPU memory in advance"),
    headlines=(
        mark("{probed_free} of {probed_total} were left for {library_name}: {taker} probably reserved most in advance"),
        mark("{probed_free} of {probed_total} were left for libraries: {taker} probably reserved most in advance"),
        mark("{probed_free} of {probed_total} were left: JAX or TensorFlow probably reserved most in advance"),
        mark("{taker} reserved GPU memory in advance: PyTorch cannot use {not_torch} of {total} on {gpu}"),
        mark("{library_name} got no memory on {gpu}: {taker} probably reserved it in advance"),
        mark("Warp got no memory on {gpu}[ {doing}]: {warps_taker} probably reserved it in advance"),
        mark("{library_name} got no memory on {gpu}: JAX or TensorFlow probably reserved it in advance"),
    ),
    stage="launch",
    pools=("gpu",),
    signs=(
        Row(jax_or_tensorflow_beside_pytorch, Grade.PROVES),
        Row(a_handle_found_the_card_taken, Grade.NAMES),
        Row(a_handle_fails_in_jax, Grade.POINTS),
        Row(a_handle_is_refused_in_tensorflow, Grade.POINTS),
        Row(a_program_found_no_room_to_be_loaded, Grade.POINTS),
        Row(warp_was_refused_in_jax, Grade.POINTS, OF_A_SIMULATION),
    ),
    knobs=("cap-preallocation", "free-the-gpu", "separate-placement", "fix-environment"),
    before=("non-torch-memory",),
)
