from __future__ import annotations

import pytest
from system_logs import crash_of, quiet

from oomdoctor.causes.container_limit import CAUSE as CONTAINER_LIMIT
from oomdoctor.causes.shm_too_small import CAUSE
from oomdoctor.decision.judgement import Finding, RuledOut, judgement_of
from oomdoctor.signs import Grade

REFUSED = "RuntimeError: unable to allocate shared memory(shm) for file </torch_7_1_3>: No space left on device (28)\n"
BUS = "srun: error: n18: task 13: Bus error\n"


def test_on_chip_shared_memory_is_quiet() -> None:
    assert quiet(
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Limit: 101376\n"
    )


def test_a_full_disk_and_file_descriptors_are_quiet() -> None:
    assert quiet("OSError: [Errno 28] No space left on device: '/data/step-3/model.pt'\n")
    assert quiet("RuntimeError: received 0 items of ancdata\n")


def test_a_bus_error_with_room_in_shm_is_not_it() -> None:
    judgement = judgement_of(CAUSE, crash_of("tmpfs            16G  4.1G   12G  26% /dev/shm\n" + BUS))
    assert isinstance(judgement, RuledOut)
    assert "26%" in judgement.why


def test_a_bare_kill_says_nothing_of_shm() -> None:
    assert judgement_of(CAUSE, crash_of("Killed\n")) is None


def test_a_bus_error_alone_is_a_hint() -> None:
    judgement = judgement_of(CAUSE, crash_of(BUS))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.HINTS
    assert judgement.next_evidence == ("df -h /dev/shm",)
    assert judgement.against


def test_a_refused_segment_is_named() -> None:
    judgement = judgement_of(CAUSE, crash_of(REFUSED))
    assert isinstance(judgement, Finding)
    assert judgement.why == "PyTorch's DataLoader workers found no room in /dev/shm."
    assert judgement.grade is Grade.PROVES
    assert judgement.next_evidence == ("df -h /dev/shm",)


def test_dockers_default_is_recognised() -> None:
    judgement = judgement_of(CAUSE, crash_of("shm              64M   64M     0 100% /dev/shm\n" + REFUSED))
    assert isinstance(judgement, Finding)
    assert "The size of /dev/shm is 64 MiB (docker's default); 100% was in use" in judgement.why
    assert judgement.next_evidence == ()


def test_nccls_segment_comes_with_its_size() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of("n1:7:9 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a1 (size 33030528)\n"),
    )
    assert isinstance(judgement, Finding)
    assert judgement.why.startswith("NCCL requested 32 MiB and found no room")


def test_a_store_larger_than_shared_memory_is_refused() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of(
            "ValueError: The configured object store size (16.0 GB) exceeds /dev/shm size (4.0 GB). This will harm "
            "performance. Consider deleting files in /dev/shm or increasing its size with --shm-size in Docker.\n"
        ),
    )
    assert isinstance(judgement, Finding)
    assert judgement.knobs[0] == "bigger-shm"
    assert "object store of" in judgement.why


def test_a_store_that_is_larger_than_shm() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of(
            "ValueError: The configured object store size (12.582912 GB) exceeds /dev/shm size (0.3145728 GB). "
            "This will harm performance.\n"
        ),
    )
    assert isinstance(judgement, Finding)
    assert judgement.why == "Ray's object store of 11.72 GiB is larger than /dev/shm (300 MiB)."


def test_a_store_that_only_runs_slower_is_quiet() -> None:
    assert quiet(
        "WARNING: The object store is using /tmp/ray instead of /dev/shm because /dev/shm has only 314572800 bytes "
        "available. This will harm performance!\n"
    )


def test_a_size_that_is_printed_without_how_full_it_was() -> None:
    worker = "RuntimeError: DataLoader worker (pid 31) is killed by signal: Bus error.\n"
    for size, told in (("64M", "is 64 MiB, docker's default."), ("2.0G", "The size of /dev/shm is 2.00 GiB.")):
        found = judgement_of(CAUSE, crash_of(f"tmpfs    {size}     0   {size}   0% /dev/shm\n{worker}"))
        assert isinstance(found, Finding)
        assert found.why.endswith(told)


STORE = (
    "{launch}WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 67108864 bytes "
    "available.\nStarting the Plasma object store with {size} GB memory using /tmp.\n"
    "/b/plasma/io.cc:99: Connection to IPC socket failed for pathname /tmp/ray/s/plasma_store, retrying 9 more times\n"
)


@pytest.mark.parametrize(
    ("launch", "size", "beyond"),
    [
        ("docker run --memory=40G trainer /run.sh\n", "42.95", True),
        ("docker run --memory=40G trainer /run.sh\n", "42.94", False),
        ("docker run --shm-size=40G trainer /run.sh\n", "61.0", False),
        ("", "61.0", False),
    ],
)
def test_a_store_beyond_the_limit_of_its_container_is_no_matter_of_shm(launch: str, size: str, beyond: bool) -> None:
    crash = crash_of(STORE.format(launch=launch, size=size))
    of_shm, of_limit = judgement_of(CAUSE, crash), judgement_of(CONTAINER_LIMIT, crash)
    assert isinstance(of_shm, Finding)
    assert of_shm.grade is (Grade.POINTS if beyond else Grade.NAMES)
    assert any("on disk instead" in why for why in of_shm.against)
    assert isinstance(of_limit, Finding) == beyond
