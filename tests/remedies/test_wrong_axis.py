"""Which dimension of an impossible shape is wrong, and the name that the failing line has for it."""

from __future__ import annotations

import pytest
from remedy_logs import advise

LOG = (
    "Traceback (most recent call last):\n"
    '  File "/srv/play/store.py", line 12, in grow\n    {code}\n'
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 700. TiB for an array with shape {shape} and data "
    "type float32\n"
)
SHAPE = "(99000000, 3, 84, 84)"


def action(code: str, shape: str = SHAPE) -> str:
    log = LOG.format(code=code, shape=shape)
    return advise(log, "fix-shape", cause="absurd-size")[0]["fix-shape"].action


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("x = np.zeros((self.steps, 3, *self.shape), dtype=np.float32)", "self.steps"),
        ("x = np.empty([count, 3, 84, 84])", "count"),
    ],
)
def test_the_line_names_it(code: str, name: str) -> None:
    assert action(code) == f"Lower {name}: it is 99000000, dimension 1 of the requested shape {SHAPE}"


@pytest.mark.parametrize(
    "code",
    [
        "x = np.zeros((*lead, steps), dtype=np.float32)",
        "x = np.zeros((steps, 3))",
        "x = np.zeros((2 * steps, 3, 84, 84))",
        "x = np.zeros(shape)",
        "x = (steps, 3, 84, 84)",
        "x = np.zeros((steps, 3, 84",
    ],
)
def test_what_the_line_does_not_name_has_its_number(code: str) -> None:
    assert action(code) == f"Check dimension 1 of the requested shape {SHAPE}: it is 99000000"


@pytest.mark.parametrize("shape", ["(99000, 84000, 84)", "(999000, 1000, 3)", "(5000, 5000, 5000)"])
def test_of_two_long_dimensions_none_is_accused(shape: str) -> None:
    assert "at least one dimension is wrong" in action("x = np.zeros((a, b, c))", shape)


def test_the_only_dimension_is_the_one() -> None:
    assert action("x = np.zeros((n,))", "(99000000000000,)").startswith("Lower n: it is 99000000000000, dimension 1")


COMPILED = """\
jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 20.00G of 16.00G hbm. Exceeded \
hbm capacity by 4.00G.

Total hbm usage >= 20.00G:
    program          20.00G

  Largest program allocations in hbm:

  1. Size: 9.00G
     Shape: f32[600000,3,2]{{2,1,0{tile}}}
     Unpadded size: {own}
     ==========================
"""


@pytest.mark.parametrize(("tile", "layout"), [(":T(8,128)", "T(8,128)"), ("", "of its layout")])
def test_an_array_that_is_mostly_padding_is_reshaped(tile: str, layout: str) -> None:
    log = COMPILED.format(tile=tile, own="1.00G")
    remedy = advise(log, "fix-shape", cause="activations")[0]["fix-shape"]
    assert remedy.action == (
        f"Reshape or transpose f32[600000,3,2] so that its last two axes fill the tiles {layout}: the longest axis last"
    )
    assert remedy.derivation == "9.00 GiB -> 1.00 GiB"


def test_no_array_is_reshaped_that_is_mostly_its_own_numbers() -> None:
    log = COMPILED.format(tile=":T(8,128)", own="8.00G")
    assert "Reshape" not in advise(log, "fix-shape", cause="activations")[0]["fix-shape"].action


GIVEN = (
    "E external/xla/xla/service/gpu/gpu_hlo_schedule.cc:654] The byte size of input/output arguments ({}) exceeds the "
    "base limit (68719476736). This indicates an error in the calculation!\n"
    "W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate "
    "640.00GiB (rounded to 687194767360)requested by op\n"
)
KNOBS = ("fix-shape", "smaller-microbatch", "gradient-checkpointing")


def test_of_arguments_no_batch_is_halved_and_nothing_is_computed_again() -> None:
    chosen, _ = advise(GIVEN.format(687194767360), *KNOBS, cause="absurd-size")
    assert list(chosen) == ["fix-shape"]
    assert chosen["fix-shape"].snippet == "print(jax.tree.map(jax.numpy.shape, ARGUMENTS))"


def test_of_arguments_a_little_beyond_the_limit_a_batch_may_be() -> None:
    chosen, _ = advise(GIVEN.format(70866960384), *KNOBS, cause="activations")
    assert list(chosen) == ["fix-shape", "smaller-microbatch"]
    assert chosen["fix-shape"].snippet is None


def test_what_is_refused_without_arguments_is_computed_again() -> None:
    chosen, _ = advise(GIVEN.split("\n", 1)[1], *KNOBS, cause="activations")
    assert "gradient-checkpointing" in chosen


# An axis that the line calls by the name of an option

BUFFER, WORLDS = "smaller-buffers", "fewer-environments"
HOLDS = "self.held = np.zeros((self.buffer_size, self.n_envs) + self.obs_shape, dtype=np.float32)"
ROLLOUT = (
    '  File "/env/stable_baselines3/common/on_policy_algorithm.py", line 7, in learn\n    rollout_buffer.reset()\n'
)
PIXELS = "(400, 24, 3, 90, 90)"


def smaller(code: str, above: str = "", shape: str = PIXELS) -> dict[str, tuple[object, object, str | None]]:
    log = above + LOG.format(code=code, shape=shape).replace("700. TiB", "890. MiB").removeprefix(
        "Traceback (most recent call last):\n"
    )
    chosen = advise("Traceback (most recent call last):\n" + log, BUFFER, WORLDS, cause="dataset-in-ram")[0]
    return {one.knob: (one.current, one.suggested, one.snippet) for one in chosen.values()}


@pytest.mark.parametrize(
    ("code", "shape"),
    [
        ("self.held = np.zeros(shape)", PIXELS),
        ("self.held = np.zeros((rows, columns) + rest)", PIXELS),
        ("self.held = np.zeros(rest + (self.buffer_size, self.n_envs))", PIXELS),
        ("self.held = np.zeros((*rest, self.buffer_size))", PIXELS),
        ("self.held = np.zeros((2 * n_envs, 4))", "(48, 4)"),
        ("self.held = np.zeros((n_envs, 4))", PIXELS),
        ("self.held = np.zeros((n_envs, 4))", "(1, 4)"),
    ],
)
def test_an_axis_without_the_name_of_an_option_states_none(code: str, shape: str) -> None:
    assert all(now is None for now, _, _ in smaller(code, shape=shape).values())


def test_a_buffer_of_rollouts_is_halved_by_either_of_its_axes() -> None:
    found = smaller(HOLDS, ROLLOUT)
    assert found == {BUFFER: (400, 200, "model = PPO(policy, env, n_steps=200)"), WORLDS: (24, 12, None)}


def test_a_buffer_of_replays_is_another_one() -> None:
    replay = ROLLOUT.replace("on_policy", "off_policy").replace("rollout_buffer", "replay_buffer")
    assert smaller(HOLDS, replay)[BUFFER] == (400, 200, "model = DQN(policy, env, buffer_size=200)")


def test_what_the_array_takes_then_is_reckoned() -> None:
    log = "Traceback (most recent call last):\n" + ROLLOUT + LOG.format(code=HOLDS, shape=PIXELS).partition("\n")[2]
    one = advise(log.replace("700. TiB", "2.00 GiB"), WORLDS, cause="dataset-in-ram")[0][WORLDS]
    assert one.action == f"Halve n_envs: 24 -> 12 (an axis of the array of {PIXELS})"
    assert one.derivation == "2.00 GiB x 12 / 24 = 1.00 GiB"
