"""A value that is printed in prose is halved by the framework's own option, an argument of a call by that call, and
what a notebook or a script sets in Python is no flag."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.remedies.engine.known import is_set_in_code
from oomdoctor.remedies.settings import rows

BATCH = "smaller-microbatch"
WORKERS = "fewer-workers"
CELL = '  File "/tmp/ipykernel_4711/1122334455.py", line 2, in <module>\n    trainer.train()\n'
FILE = '  File "/x/tune.py", line 2, in <module>\n    trainer.train()\n'
MADE = '  File "/x/tune.py", line 9, in main\n    args = SFTConfig(output_dir="out")\n'
TRAINER = (
    '  File "/env/site-packages/transformers/trainer.py", line 3, in training_step\n    loss = self.compute_loss(x)\n'
)
TITLE = "Traceback (most recent call last):\n"
SIZE = "Num examples = 80\n  Batch size per device = 4\n"


@pytest.mark.parametrize(
    ("log", "snippet"),
    [
        (SIZE + TITLE + FILE + TRAINER, "--per_device_train_batch_size 2"),
        (SIZE + TITLE + CELL + TRAINER, "per_device_train_batch_size=2"),
        (SIZE + TITLE + MADE + TRAINER, "per_device_train_batch_size=2"),
        ("python tune.py --learning_rate 1e-4\n" + SIZE + TITLE + MADE + TRAINER, "--per_device_train_batch_size 2"),
    ],
)
def test_a_printed_size_is_halved_as_the_job_sets_it(log: str, snippet: str) -> None:
    found = advise(log + cuda(), BATCH, cause="activations")[0][BATCH]
    assert (found.suggested, found.current) == (2, 4)
    assert (found.snippet or "").startswith(snippet)


def test_a_default_is_no_answer_where_a_size_is_printed() -> None:
    least = SIZE.replace("= 4", "= 1") + TITLE + FILE + TRAINER + cuda()
    chosen, rejected = advise(least, BATCH, cause="activations")
    assert BATCH not in chosen
    assert "already 1" in rejected[BATCH].why


def test_steps_are_added_up_beside_an_argument() -> None:
    log = SIZE + "  Gradient Accumulation steps = 3\n" + TITLE + CELL + TRAINER + cuda()
    found = advise(log, BATCH, cause="activations")[0][BATCH]
    assert found.snippet == "per_device_train_batch_size=2, gradient_accumulation_steps=6"


@pytest.mark.parametrize(
    ("line", "snippet"),
    [
        ("dl = make_loaders(root, batch_size=8, num_workers=6)\n", "make_loaders(..., num_workers=3)"),
        ("python fit.py --num_workers 6\n", "--num_workers 3"),
        ("mpirun -np 6 ./solver\n", "mpirun -np 3"),
    ],
)
def test_workers_are_fewer_where_they_are_started(line: str, snippet: str) -> None:
    dead = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.\n"
    assert advise(line + dead, WORKERS, cause="too-many-workers")[0][WORKERS].snippet == snippet


@pytest.mark.parametrize(
    ("above", "in_code"),
    [
        ("", False),
        ("lmdeploy serve api_server\n", False),
        ("backend_config=TurbomindEngineConfig(session_len=2048)\n", False),
        ("from lmdeploy import pipeline\n", True),
        ("pipe = pipeline(path, backend_config=TurbomindEngineConfig(session_len=2048))\n", True),
        ("File <command-4200133>, line 5\n", True),
        ("<command-4200133> in <module>\n", True),
        ("File <command>, line 5\n", False),
    ],
)
def test_who_makes_the_engine_in_python(above: str, in_code: bool) -> None:
    log = above + "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /b/memory_utils.cu:32\n"
    row = next(one for one in rows("lmdeploy") if one.knob == "tensor-parallel")
    assert is_set_in_code(row, crashes_of(log)[0]) is in_code


VISION = '  File "/env/site-packages/lmdeploy/vl/engine.py", line 9, in forward\n    y = self.model.forward(x)\n'


@pytest.mark.parametrize(
    ("above", "in_code"),
    [
        ("", False),
        ('  File "/w/ask.py", line 3, in <module>\n    answers = pipe(prompts)\n', True),
        ('  File "/w/ask.py", line 3, in load\n    self.llm = pipeline(path)\n', True),
        ('  File "/w/ask.py", line 3, in load\n    self.llm = run_pipeline(path)\n', False),
        ('  File "/env/lmdeploy/serve/openai/api_server.py", line 3, in serve\n    pipe(x)\n', False),
    ],
)
def test_who_calls_lmdeploys_pipeline_makes_the_engine(above: str, in_code: bool) -> None:
    log = "Traceback (most recent call last):\n" + above + VISION + cuda()
    row = next(one for one in rows("lmdeploy") if one.knob == "lower-engine-reservation")
    assert is_set_in_code(row, crashes_of(log)[0]) is in_code


TOKENS = "tokens per iteration will be: 16,384\n"  # nanoGPT's own options have underscores and signs
KILLED = "Memory cgroup out of memory: Killed process 83 (python) total-vm:1601096kB, anon-rss:1020648kB\n"


@pytest.mark.parametrize(
    ("log", "snippet"),
    [
        ("+ python train.py --batch_size=64 --max_iters=9\n" + TOKENS, "--batch_size=16"),
        ("+ python train.py --batch-size 64 --max-iters 9\n" + TOKENS, "--batch-size 16"),
        ("+ python train.py --batch_size 64 --grad_accum 2\n" + TOKENS, "--batch_size=16 --grad_accum=8"),
        ("+ python train.py --batch-size=64 --accum-iter=2\n" + TOKENS, "--batch-size 16 --accum-iter 8"),
        (
            "+ python train.py --batch_size=64 --gradient_accumulation_steps=5\n" + TOKENS,
            "--batch_size=16 --gradient_accumulation_steps=20",
        ),
        ("+ python train.py --batch-size 64\nargs: {'grad_accum': 3}\n" + TOKENS, "--batch-size 16 --grad-accum 12"),
    ],
)
def test_an_option_of_the_launch_line_is_spelled_as_it_stands_there(log: str, snippet: str) -> None:
    found = advise(log + "loss before training: 4.1\n" + KILLED, BATCH, cause="activations")[0][BATCH]
    assert found.snippet == snippet
    assert "not in the log" not in " ".join(found.assumes)


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ("--memory-limit 500MB", "--memory-limit {}"),
        ("--memory_limit 500MB", "dask worker SCHEDULER --memory-limit={}"),  # another program's spelling
        ("--n-workers 2", "dask worker SCHEDULER --memory-limit={}"),
    ],
)
def test_an_option_that_a_script_hands_on_is_the_scripts(options: str, written: str) -> None:
    context = crashes_of(f"+ python anomaly.py {options}\n{cuda()}")[0].context
    row = next(one for one in rows("dask") if one.write == "dask worker SCHEDULER --memory-limit={}")
    assert row.as_launched(context).write == written
