"""What keeps arrays alive that nobody needs."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.budget import SpillRefused
from oomdoctor.families.event import RAM
from oomdoctor.families.ray_store import StoreFull
from oomdoctor.incident.climb import course
from oomdoctor.incident.engine_facts import phase
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import largest_kill, node_memory, ray_kill
from oomdoctor.job.frameworks import driven
from oomdoctor.language import say, translated
from oomdoctor.patterns import late
from oomdoctor.remedies.holder import holder
from oomdoctor.remedies.inputs import nothing_is_known_of_the_program
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import known_versions, spelling
from oomdoctor.remedies.training.batches import WITHOUT_TRAINING
from oomdoctor.remedies.training.predictions import less_of_each_batch, of_a_trainer
from oomdoctor.remedies.training.states import TRAINER_SLEEPS, puts_the_trainer_to_sleep
from oomdoctor.signs import evaluation, limits
from oomdoctor.signs.growing_caches import unbounded_cache
from oomdoctor.signs.series import per
from oomdoctor.signs.shm import it_filled_steadily
from oomdoctor.versions import versions

# Processes of other languages, as the kernel's table and Ray's name them: comm of proc(5)
_OTHER_LANGUAGES: Final = late(
    r"(?i)(?:perl|java|node|ruby|php(?:-fpm)?|mono|dotnet|rsession|julia|matlab|beam\.smp|mysqld|mariadbd|postgres"
    r"|mongod|redis-server|clickhouse-serv|prometheus|dockerd|containerd|chrome|firefox|xorg|gnome-shell|llama-server)\b"
)
_MACHINES: Final = late(r"(?i)(?:qemu-(?:system|kvm)|virt-launcher|vboxheadless|firecracker|cloud-hyperviso)")
# torch/multiprocessing/__init__.py: file_descriptor, the default of Linux, deletes a name at once, so that
# no listing has it; files of the other strategy, of NCCL and of Python keep theirs
_DELETED_IN_SHM: Final = "lsof +L1 /dev/shm | sort -nrk7 | head"
_FILES_IN_SHM: Final = "ls -laS /dev/shm | head"
_NAMED_IN_SHM: Final = r"\bfile_system\b|/dev/shm/\w|\bpsm_\w"
_COPIES: Final = "kept.append(batch.clone())"
_OBJECTS: Final = "ray memory --sort-by OBJECT_SIZE | head -40"
_LISTS_OBJECTS: Final = versions(">=1.2")  # --sort-by: python/ray/scripts/scripts.py
_NO_GRADIENTS: Final = "with torch.no_grad():  # around the loop"
_CONSTRUCTOR: Final = ".__init__"
_LOADING: Final = ("checkpoint_load", "model_load")  # stages
_TRAINING_PROCESS: Final = "trainer"


def _not_in_python(crash: Crash) -> bool:
    """Whether the process that held it runs another language, or an engine whose code is not the job's."""
    killed, memory = largest_kill(crash), node_memory(crash)
    name = killed.process.name if killed is not None else None
    name = name or (memory.heaviest.name if memory is not None and memory.heaviest is not None else None)
    return _OTHER_LANGUAGES.match(name or "") is not None


def _has_none_of_the_readers(crash: Crash) -> bool:
    """What is in /dev/shm lies there for its workers, a process that has just begun has no old results, those of
    another language have no tensors, and a tool that spills keeps no more than its budget."""
    if crash.pool == "shm" or _has_a_loop_of_its_own(crash):
        return True
    if isinstance(crash.root, SpillRefused) and nothing_is_known_of_the_program(crash):
        return True
    is_new = limits.seconds_after_its_start(crash) is not None or _is_still_loading(crash)
    return crash.pool in RAM and (is_new or _not_in_python(crash))


def _is_still_loading(crash: Crash) -> bool:
    """Before its first step a job has no results of earlier ones: not while it reads weights, nor while the process
    that holds the memory is being made, unless something is seen to grow."""
    if crash.trajectory is not None and crash.trajectory.growth_bytes:
        return False
    if crash.context.progress.get("step") or unbounded_cache(crash) is not None:
        return False
    if crash.stage in _LOADING:
        return True
    return _is_being_made(crash)


def _is_being_made(crash: Crash) -> bool:
    """Whether Ray's table has the largest process in the constructor of its actor: ray::Index.__init__."""
    kill = ray_kill(crash)
    rows = kill.rows if kill is not None else ()
    largest = max(rows, key=lambda row: row.bytes or 0, default=None)
    return largest is not None and largest.command.endswith(_CONSTRUCTOR)


def _has_a_loop_of_its_own(crash: Crash) -> bool:
    """A framework of reinforcement learning, in host RAM: no list of losses is the reader's to drop, unless something
    grows, or a program beside Ray's workers holds most, such as a reward server."""
    if crash.job.task != "rl" or not driven(crash.job.frameworks) or crash.pool not in RAM:
        return False
    if crash.trajectory is not None and crash.trajectory.growth_bytes:
        return False
    memory = node_memory(crash)
    return memory is None or memory.heaviest is None or memory.heaviest.is_a_worker


def _of_an_evaluation(case: Case) -> Answer:
    """Without gradients nothing is kept of a batch but what its loop keeps."""
    crash = case.crash
    if evaluation.may_keep_a_graph(crash) is not None:
        return Proposal(
            action=say("Run the evaluation under torch.no_grad(), and sum up loss.item(), if it does not do so yet"),
            snippet=_NO_GRADIENTS,
            cost=say("none"),
        )
    if case.cause != "eval-accumulation":
        return None
    if of_a_trainer(crash):
        return less_of_each_batch(case)
    if crash.pool not in RAM:
        return None
    return Proposal(
        action=say("Keep numbers of each batch (counts, sums), not its tensors"),
        snippet="correct += (logits.argmax(-1) == labels).sum().item()",
    )


def _of_a_leak(case: Case) -> Answer:
    """A smaller batch makes what is kept of each step smaller, and not less of it kept."""
    figure = case.crash.trajectory
    if case.cause != "host-memory-leak" or figure is None or not figure.growth_bytes:
        return None
    if holder(case.knob, case.crash) is not None:
        return None  # the process says more
    grows = {**course(figure), "step": per(figure)}
    return Proposal(
        action=say("Find what each {step} leaves behind (a list, dict, cache or hook that only grows)", **grows),
        derivation=say("{figure} went from {first} to {last}: about {rate} per {step}", **grows),
    )


def _of_old_results(crash: Crash) -> Proposal:
    """One look at who held the memory shows no growth; a job's own prints may."""
    grows = unbounded_cache(crash) is not None or (crash.trajectory is not None and crash.trajectory.growth_bytes)
    if node_memory(crash) is None or grows:
        return Proposal(action=say("Drop references to old results: keep no lists, dicts or caches that only grow"))
    return Proposal(
        action=say(
            "If it grows from step to step, drop references to old results: lists, dicts or caches that only grow"
        )
    )


def _is_a_machine(crash: Crash) -> bool:
    """What a virtual machine holds is what it was given."""
    kill = largest_kill(crash)
    return kill is not None and _MACHINES.match(kill.process.name or "") is not None


def clear_references(case: Case) -> Answer:
    """What keeps arrays alive has other names outside of PyTorch and of training."""
    job = case.crash.job
    if phase(case.crash) == "waking":
        if puts_the_trainer_to_sleep(spelling("offload-optimizer", case.crash.context)):
            return Skip()  # the option does it
        action = translated(TRAINER_SLEEPS)
        return Proposal(action=action, subject=_TRAINING_PROCESS)
    if it_filled_steadily(case.crash) is not None:
        return Proposal(
            action=say("Look for batches that are kept: copy what outlives its step, and remove old files"),
            snippet=f"{_FILES_IN_SHM if case.crash.shows(_NAMED_IN_SHM) else _DELETED_IN_SHM}; {_COPIES}",
        )
    if case.crash.pool == "object_store":
        full = case.crash.first(StoreFull)
        if full is not None and full.used_fraction == 0:
            return Refusal(say("Ray's object store was empty"))
        return Proposal(
            action=say("Find who holds references to the largest objects, and drop them"),
            snippet=_OBJECTS if _LISTS_OBJECTS.overlaps(known_versions("ray", case.crash.context)) else None,
        )
    if _has_none_of_the_readers(case.crash) or _is_a_machine(case.crash):
        return Skip()
    if (own := _of_an_evaluation(case) or _of_a_leak(case)) is not None:
        return own
    if case.crash.pool in RAM and job.world != "torch":
        return _of_old_results(case.crash)
    if job.world in ("torch", "none") and job.task not in WITHOUT_TRAINING:
        return None
    return Proposal(action=say("Drop references to old arrays and results before you create new ones"))
