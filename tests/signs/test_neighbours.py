from __future__ import annotations

from pathlib import Path

import pytest
from engine_logs import not_enough_free
from gpu_logs import crash, ranking, refused
from reports import body

from oomdoctor.remedies.advise import remedies
from oomdoctor.signs import Sign, neighbours

BARE = "RuntimeError: CUDA error: out of memory"


def beside(listed: float, own: float = 20) -> str:
    """A refusal on a card of 80 GiB, another process with so much of it, and no memory that nothing explains."""
    return refused(
        tried="40.00 GiB",
        total="80.00 GiB",
        free=f"{80 - own - listed:.2f} GiB",
        own=f"{own:.2f} GiB",
        allocated="1.00 GiB",
        unallocated=None,
        others=((71, f"{listed:.2f} GiB"),),
    )


def unlisted(held: float, tried: str = "512.00 MiB") -> str:
    """A refusal on a card of 80 GiB, of which so much is in use that nothing lists."""
    return refused(tried=tried, total="80.00 GiB", free="0.00 GiB", own=f"{80 - held:.2f} GiB", allocated="1.00 GiB")


def in_total(reserved: float, tried: str = "24.00 MiB", free: str = "6.00 MiB") -> str:
    """PyTorch's words up to 2.0, in a forward pass on a card of 40 GiB: they list no process."""
    return (
        "Traceback (most recent call last):\n"
        '  File "/srv/fit.py", line 71, in main\n    out = net(batch)\n'
        '  File "/srv/net.py", line 20, in forward\n    return self.head(x)\n'
        f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried} (GPU 0; 40.00 GiB total capacity; "
        f"{reserved - 0.1:.2f} GiB already allocated; {free} free; {reserved:.2f} GiB reserved in total by PyTorch)\n"
    )


MISSING = neighbours.others_hold_many_times_what_was_missing


def test_who_holds_many_times_what_a_pass_was_short_of_comes_before_the_pass() -> None:
    assert ranking(in_total(25))[:2] == ["gpu-shared", "activations"]
    assert ranking(in_total(25, tried="151.00 MiB"))[:2] == ["activations", "gpu-shared"]
    assert ranking(in_total(37))[0] == "activations"


@pytest.mark.parametrize(
    ("sign", "below", "from_here"),
    [
        (MISSING, in_total(29.2), in_total(28.8)),  # less 1 GiB for a context
        (MISSING, in_total(25, tried="151.00 MiB"), in_total(25, tried="148.00 MiB")),
        (MISSING, in_total(25, free="24.00 MiB"), in_total(25, free="23.00 MiB")),
        (MISSING, beside(20.1, own=59.89), beside(20.1, own=59.89).replace("allocate 40.00", "allocate 0.20")),
        (MISSING, unlisted(19.9, "0.10 GiB"), unlisted(20.1, "0.10 GiB")),
        (neighbours.others_hold_some, beside(7.9), beside(8.1)),
        (neighbours.others_hold_much, beside(19.9), beside(20.1)),
        (neighbours.others_hold_very_much, beside(39.9), beside(40.1)),
        (neighbours.others_hold_as_much, beside(24.9, own=25), beside(25.1, own=25)),
        (neighbours.others_hold_as_much, beside(19.9, own=2), beside(20.1, own=2)),
        (neighbours.others_hold_much, unlisted(7.9), unlisted(8.1)),
        (neighbours.others_hold_very_much, unlisted(15.9), unlisted(16.1)),
        (neighbours.others_hold_little, beside(4.1), beside(3.9)),
        (
            neighbours.asks_for_more_than_the_card,
            refused(tried="79 GiB", allocated=None),
            refused(tried="80 GiB", allocated=None),
        ),
        (neighbours.others_hold_hardly_any, refused(own="60.00 GiB"), beside(1)),
        (neighbours.nothing_was_taken_at_the_start, not_enough_free(75.9, 80.0, 0.97), not_enough_free(76.1, 80, 0.97)),
        (neighbours.little_was_taken_at_the_start, not_enough_free(76.1, 80, 0.97), not_enough_free(75.9, 80, 0.97)),
        (neighbours.some_was_taken_at_the_start, not_enough_free(72.1, 80, 0.95), not_enough_free(71.9, 80, 0.95)),
        (neighbours.much_was_taken_at_the_start, not_enough_free(60.1, 80, 0.95), not_enough_free(59.9, 80, 0.95)),
    ],
)
def test_how_much_others_hold(sign: Sign, below: str, from_here: str) -> None:
    assert sign(crash(below)) is None
    assert sign(crash(from_here)) is not None


def table(used: int, *listed: int) -> str:
    """nvidia-smi's, of a card of 80 GiB: how much of it is in use, in MiB, and by whom; nobody is hidden."""
    rows = "".join(
        f"|    0   N/A  N/A    {7713 + n}      C   python3    {held}MiB |\n" for n, held in enumerate(listed)
    )
    return (
        "|   0  NVIDIA H100 80GB HBM3          On  | 00000000:1B:00.0 Off |                    0 |\n"
        f"| N/A   41C    P0             118W / 700W |  {used}MiB /  81920MiB |      0%      Default |\n"
        "| Processes:                                                                              |\n"
        f"|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |\n{rows}"
    )


@pytest.mark.parametrize(
    ("held", "own", "seen"),
    [
        (20400, "20.00 GiB", False),  # a little less than a quarter of the card
        (20600, "20.00 GiB", True),
        (63400, "17.00 GiB", True),
        (63400, "19.50 GiB", False),  # no room for as much beside this process: it is listed itself
    ],
)
def test_a_table_lists_a_process_that_the_message_does_not(held: int, own: str, *, seen: bool) -> None:
    line = refused(total="80.00 GiB", free="0.00 GiB", own=own, allocated="1.00 GiB")
    assert (neighbours.a_table_lists_another(crash(table(81000, held), line)) is not None) is seen


def test_a_card_that_is_full_afterwards() -> None:
    assert neighbours.the_card_is_full_afterwards(crash(BARE, table(40900))) is None
    assert neighbours.the_card_is_full_afterwards(crash(table(41000), BARE)) is None
    assert neighbours.the_card_is_full_afterwards(crash(BARE, table(41000))) is not None


def test_where_others_hold_their_share_an_engine_can_make_its_own_smaller() -> None:
    serving = "INFO 10-02 12:09:40 [core.py:58] Initializing a V1 LLM engine (v0.10.2) with config: model='m'"
    asked = neighbours.figures_of_a_card_beside_an_engine
    assert asked(crash(beside(30))) is None
    assert asked(crash(serving, BARE)) is None
    assert asked(crash(serving, beside(30))) is not None


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("what():  Memory allocation failed: cuDriver().CuDevicePrimaryCtxRetain(&context, dev) returned (2)", True),
        ("RuntimeError: cuCtxCreate failed: out of memory on the GPU", True),
        ("RuntimeError: cuMemAlloc failed: out of memory on the GPU", False),
        ("RuntimeError: cuCtxSynchronize failed: out of memory on the GPU", False),
    ],
)
def test_a_context_that_found_no_room(line: str, is_refused: bool) -> None:
    assert (neighbours.no_context_could_be_created(crash(line)) is not None) is is_refused


NEMO = (
    "(VllmGenerationWorker pid=3107) INFO 02-03 04:05:06 [core.py:101] Initializing a V1 LLM engine (v0.17.1)",
    "({worker} pid=3519) torch.AcceleratorError: CUDA error: out of memory",
    "Traceback (most recent call last):",
    '  File "/srv/nemo_rl/algorithms/grpo.py", line 61, in {function}',
    "    {call}",
)
CREATING = {"worker": "MegatronPolicyWorker", "function": "setup", "call": "policy.print_node_ip_and_gpu_id()"}


@pytest.mark.parametrize(
    ("changed", "without", "seen"),
    [
        ({}, "", True),
        ({"worker": "DTensorPolicyWorker"}, "", True),
        ({"worker": "VllmGenerationWorker"}, "", False),  # the engine itself
        ({"function": "train", "call": "policy.train(batch)"}, "", False),  # which has been created
        ({}, "VllmGenerationWorker", False),  # training alone
        ({}, "nemo_rl", False),  # whoever lets its engine sleep later
    ],
)
def test_a_trainer_that_starts_beside_a_sleeping_engine(changed: dict[str, str], without: str, *, seen: bool) -> None:
    lines = [line.format(**(CREATING | changed)) for line in NEMO]
    if without == "nemo_rl":
        lines = [line.replace("/srv/nemo_rl/", "/srv/verl/").replace("PolicyWorker", "Actor") for line in lines]
    elif without:
        lines = [line for line in lines if without not in line]
    found = neighbours.a_trainer_started_beside_a_sleeping_engine(crash(*lines))
    assert (found is not None) is seen


def test_who_creates_a_trainer_beside_a_sleeping_engine_looks_at_the_gpu_first() -> None:
    job = crash(*(line.format(**CREATING) for line in NEMO))
    assert job.stage == "model_load"
    first = remedies("gpu-shared", ("separate-placement",), job)[0][0]
    assert "gpus_per_node=N" in (first.snippet or "")  # one node's are asserted


BUILDS = (
    "Traceback (most recent call last):",
    '  File "/srv/net.py", line 9, in tower',
    "    layers += [block(width)]",
)
LAYER = '  File "/env/torch/nn/modules/{}.py", line 9, in {}'


@pytest.mark.parametrize(
    ("lines", "is_first"),
    [
        ((LAYER.format("conv", "__init__"), "    out_channels, in_channels // groups, *kernel_size))"), True),
        ((LAYER.format("linear", "reset_parameters"), "    bound = 1 / math.sqrt(fan_in)"), True),
        (
            ('  File "/env/torch/nn/init.py", line 9, in xavier_normal_', "    return _no_grad_normal_(tensor, 0.0)"),
            True,
        ),
        (('  File "/env/torch/nn/parameter.py", line 9, in __new__', "    return torch.Tensor._make(data)"), True),
        ((LAYER.format("module", "__call__"), "    result = self.forward(*input, **kwargs)"), False),
        ((LAYER.format("conv", "forward"), "    self.padding, self.dilation, self.groups)"), False),
        (('  File "/srv/net.py", line 9, in __init__', "    self.net = Net(width)"), False),
    ],
)
def test_a_layer_that_is_built_is_the_first_use_of_the_gpu(lines: tuple[str, ...], is_first: bool) -> None:
    log = crash(*BUILDS, *lines, "RuntimeError: CUDA error: out of memory")
    assert (neighbours.refused_at_the_first_touch(log) is not None) is is_first
    printed = crash(*BUILDS, *lines, refused("64.00 MiB"))
    assert neighbours.refused_at_the_first_touch(printed) is None  # the allocator prints what it has


@pytest.mark.parametrize(("own", "first"), [(13.94, "activations"), (11.4, "gpu-shared"), (13.4, "gpu-shared")])
def test_what_a_display_takes_of_a_card_that_the_job_fills_is_no_neighbour(
    tmp_path: Path, own: float, first: str
) -> None:
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 226.00 MiB. GPU 0 has a total capacity of 15.58 "
        f"GiB of which 71.25 MiB is free. Including non-PyTorch memory, this process has {own} GiB memory in use. Of "
        f"the allocated memory {own - 0.3:.2f} GiB is allocated by PyTorch, and 67.23 MiB is reserved by PyTorch but "
        "unallocated.\n"
    )
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == first


SEED = (
    '  File "/env/torch/cuda/random.py", line 9, in {}', "    _lazy_call(cb)",
    '  File "/env/torch/cuda/random.py", line 8, in cb', "    default_generator.{}(value)",
)  # fmt: skip
BAR = "Epoch 3:  41%|####1     | 410/1000 [02:11<03:08,  3.13it/s, loss=0.41]"


def seeding(function: str, *above: str) -> tuple[str, ...]:
    return (*above, *BUILDS, *(line.format(function) for line in SEED))


@pytest.mark.parametrize(
    ("lines", "is_first"),
    [
        (seeding("set_rng_state"), False),  # of a checkpoint of activations
        (seeding("manual_seed", BAR), False),  # long since in use
        ((*BUILDS, '  File "/srv/random.py", line 9, in manual_seed', "    draw(seed)"), False),
        ((*BUILDS, '  File "/env/torch/random.py", line 9, in fork_rng', "    yield"), False),
        (seeding("manual_seed"), True),
        (seeding("manual_seed_all"), True),
        ((*BUILDS, '  File "/env/torch/random.py", line 9, in manual_seed', "    return gen.manual_seed(s)"), True),
    ],
)
def test_seeding_is_a_first_use_of_the_gpu(lines: tuple[str, ...], is_first: bool) -> None:
    assert (neighbours.refused_at_the_first_touch(crash(*lines, BARE)) is not None) is is_first
    assert (ranking(*lines, BARE)[0] == "gpu-shared") is is_first


@pytest.mark.parametrize("caller", ["evaluate", "generate_image", "training_step"])
@pytest.mark.parametrize("said", [BARE, "RuntimeError: CUDA out of memory."])
def test_seeding_is_no_pass(caller: str, said: str) -> None:
    head = (BUILDS[0], f'  File "/srv/run.py", line 9, in {caller}', "    torch.cuda.manual_seed(7)")
    seed = [line.format("manual_seed") for line in SEED]
    assert ranking(*head, *seed, said)[0] == "gpu-shared"
    assert neighbours.refused_at_the_first_touch(crash(*head, *seed, refused("64.00 MiB"))) is None


@pytest.mark.parametrize("said", [BARE, "RuntimeError: CUDA out of memory."])
def test_a_context_that_is_opened_within_a_step(said: str) -> None:
    head = (BUILDS[0], '  File "/srv/run.py", line 9, in training_step', "    y = net(x)")
    opens = ('  File "/env/torch/cuda/__init__.py", line 9, in _lazy_init', "    torch._C._cuda_init()")
    assert ranking(*head, *opens, said)[0] == "gpu-shared"
    assert ranking(*head, said)[0] == "activations"


# another process of the same log, which was there first

REFUSED = not_enough_free(60.0, 80.0, 0.9)
LOADS = "{who}INFO 03-12 08:30:50 [model_runner.py:133] Model loading took {weights} GiB and 13.2 seconds\n"


@pytest.mark.parametrize(
    ("log", "its_own"),
    [
        (REFUSED + LOADS.format(who="[Stage-1] ", weights="18.9"), True),
        (REFUSED + LOADS.format(who="(EngineCore_1 pid=99) ", weights="18.9"), True),
        (REFUSED + LOADS.format(who="(EngineCore_1 pid=99) ", weights="17.9"), False),  # what else is there is more
        (REFUSED + LOADS.format(who="(EngineCore_1 pid=99) ", weights="20.1"), False),  # more than was in use
        (LOADS.format(who="(EngineCore_1 pid=99) ", weights="18.9") + REFUSED, False),  # which may have ended
        (REFUSED.replace("ValueError", "(EngineCore_0 pid=9) ValueError")
         + LOADS.format(who="(EngineCore_0 pid=9) ", weights="18.9"), False),  # who was refused, at its next start
        (REFUSED, False),
    ],
)  # fmt: skip
def test_who_was_there_first_is_a_part_of_the_job(tmp_path: Path, log: str, *, its_own: bool) -> None:
    first = body(tmp_path, log)["diagnoses"][0]
    assert first["cause"] == "gpu-shared"
    assert ("another process of this log loads 18.90 GiB" in first["explanation"]) is its_own
    knobs = {one["knob"]: one for one in first["remedies"]}
    assert ("free-the-gpu" not in knobs) is its_own
    assert knobs["lower-engine-reservation"]["suggested"] == (0.7 if its_own else 0.75)
