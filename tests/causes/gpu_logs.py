"""Logs of GPU failures, built from clauses, and read by the real street as far as the causes."""

from __future__ import annotations

from oomdoctor import families, streams
from oomdoctor.causes import Cause
from oomdoctor.decision.diagnosis import decide
from oomdoctor.decision.judgement import Finding, Judgement, NotEnough, RuledOut, judgement_of
from oomdoctor.incident.assemble import Gathered, crashes
from oomdoctor.incident.model import Crash
from oomdoctor.incident.trajectory import TrajectoryBuilder
from oomdoctor.job.context import ContextBuilder

TRACEBACK = "Traceback (most recent call last):"


def crash(*lines: str) -> Crash:
    """The first crash of a log with these lines."""
    page = streams.page("job.log", 1, "\n".join(lines).encode())
    gathered, job, memory = Gathered(), ContextBuilder(), TrajectoryBuilder()
    job.add(page)
    memory.add(page)
    for found in families.read(page):
        gathered.add(found)
    return crashes(gathered, job.build(), memory.build())[0]


def refused(
    tried: str = "512.00 MiB",
    total: str = "79.15 GiB",
    free: str = "310.44 MiB",
    own: str | None = "78.82 GiB",
    allocated: str | None = "76.40 GiB",
    unallocated: str | None = "1.35 GiB",
    others: tuple[tuple[int, str], ...] = (),
    allowed: str = "",
    device: str = "CUDA",
) -> str:
    """The allocator's sentence of PyTorch 2.5 and later; a figure that is None leaves its clause out."""
    clauses = [f"Tried to allocate {tried}. GPU 0 has a total capacity of {total} of which {free} is free."]
    clauses += [f"Process {pid} has {size} memory in use." for pid, size in others]
    clauses += [f"Including non-PyTorch memory, this process has {own} memory in use."] if own else []
    clauses += [f"{allowed} allowed;"] if allowed else []
    rest = f", and {unallocated} is reserved by PyTorch but unallocated." if unallocated else ""
    clauses += [f"Of the allocated memory {allocated} is allocated by PyTorch{rest}"] if allocated else []
    return f"torch.OutOfMemoryError: {device} out of memory. {' '.join(clauses)}"


def frame(file: str, function: str, code: str) -> list[str]:
    return [f'  File "/opt/env/lib/python3.11/site-packages/{file}", line 210, in {function}', f"    {code}"]


def trace(*frames: tuple[str, str, str]) -> list[str]:
    return [TRACEBACK, *(line for each in frames for line in frame(*each))]


FORWARD = ("transformers/models/llama/modeling_llama.py", "forward", "hidden_states = self.mlp(hidden_states)")
BACKWARD = ("torch/_tensor.py", "backward", "torch.autograd.backward(")
ADAM = ("torch/optim/adamw.py", "_init_group", 'state["exp_avg"] = torch.zeros_like(')
LOADING = ("transformers/modeling_utils.py", "from_pretrained", "model = cls._load_pretrained_model(")
LOSS = ("torch/nn/functional.py", "cross_entropy", "return torch._C._nn.cross_entropy_loss(")


def finding(cause: Cause, *lines: str) -> Finding:
    judgement = judgement_of(cause, crash(*lines))
    assert isinstance(judgement, Finding), judgement
    return judgement


def ruled_out(cause: Cause, *lines: str) -> str:
    judgement = judgement_of(cause, crash(*lines))
    assert isinstance(judgement, RuledOut), judgement
    return judgement.why


def missing(cause: Cause, *lines: str) -> str:
    judgement = judgement_of(cause, crash(*lines))
    assert isinstance(judgement, NotEnough), judgement
    return judgement.missing


def says(cause: Cause, *lines: str) -> Judgement | None:
    return judgement_of(cause, crash(*lines))


def ranking(*lines: str) -> list[str]:
    """The ids of the causes that fit, the best first; without one that only the classifier names."""
    return [answer.cause.id for answer in decide(crash(*lines)).answers if answer.finding.grade is not None]
