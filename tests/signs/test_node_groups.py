from __future__ import annotations

import pytest
from gpu_logs import crash
from host_logs import kill

from oomdoctor.incident.model import Crash
from oomdoctor.signs import node_groups


def shards(*gib: float, beside: float = 1.0, name: str = "ray::tokenize") -> Crash:
    """A node with 100 GiB in use when Ray killed, by processes of one name and another one."""
    rows = ((100 + n, size, name) for n, size in enumerate(gib))
    return crash(*kill(*rows, (7, beside, "python main.py"), used=100.0, total=110.0))


def test_two_of_a_name_below_forty_percent_have_little() -> None:
    assert node_groups.two_alike_have_it(shards(19.9, 20.0)) is None
    assert node_groups.those_of_a_name_have_little(shards(19.9, 20.0)) is not None


def test_two_of_a_name_have_it_and_are_not_several() -> None:
    assert node_groups.two_alike_have_it(shards(20.1, 20.0)) is not None
    assert node_groups.several_alike_have_it(shards(20.1, 20.0)) is None
    assert node_groups.several_alike_have_it(shards(14.0, 14.0, 14.0)) is not None


def listed(*gib: float, names: tuple[str, ...] = ("ray::tokenize",)) -> Crash:
    """A node with 100 GiB in use, and what Ray lists of it."""
    rows = ((100 + n, size, names[n % len(names)]) for n, size in enumerate(gib))
    return crash(*kill(*rows, used=100.0, total=110.0))


def test_a_list_that_is_full_of_one_size_goes_on_below() -> None:
    found = node_groups.all_that_are_listed_are_alike(listed(*[3.0] * 9, 2.5))
    assert found is not None
    assert "23 more of them" in found.words  # (100 - 29.5) x 10 / 29.5 is 23.9
    assert node_groups.those_of_a_name_have_little(listed(*[3.0] * 10)) is None


@pytest.mark.parametrize(
    "it",
    [
        listed(*[3.0] * 9),  # the list has room for a tenth
        listed(*[3.0] * 11),  # another tool's list
        listed(*[3.0] * 9, 2.3),  # they grow smaller: those below may be small
        listed(*[3.0] * 10, names=("ray::tokenize", "ray::train")),
        listed(*[12.0] * 10),  # more than all
    ],
)
def test_a_list_that_may_end_there_says_nothing_of_what_is_below(it: Crash) -> None:
    assert node_groups.all_that_are_listed_are_alike(it) is None


def test_one_of_a_name_has_it_where_the_next_is_much_smaller() -> None:
    assert node_groups.one_of_a_name_has_it(shards(50.0, 30.1)) is None
    assert node_groups.one_of_a_name_has_it(shards(50.0, 29.9)) is not None
    assert node_groups.one_of_a_name_has_it(shards(30.0, 15.0)) is None


def stages(*gib: float) -> Crash:
    rows = [(100 + n, size, f"ray::stage_{n}") for n, size in enumerate(gib)]
    return crash(*kill(*rows, (90, 0.1, "ray::stage_0"), used=100.0, total=110.0))


def test_workers_of_all_names_are_four_and_hold_half() -> None:
    assert node_groups.workers_of_all_names_have_it(stages(17.0, 16.0, 16.0)) is None
    assert node_groups.workers_of_all_names_have_it(stages(30.0, 30.0)) is None
    assert node_groups.workers_of_all_names_have_it(stages(17.0, 17.0, 16.0)) is not None
    assert node_groups.workers_of_all_names_have_it(stages(60.0, 17.0, 16.0)) is None


@pytest.mark.parametrize(
    ("title", "counts"),
    [
        ("ray::IDLE", True),
        ("ray::RestoreWorker", True),
        ("/opt/ray/core/src/ray/raylet/raylet --raylet_socket_name=/tmp/s", False),
        ("/opt/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp/l", False),
        ("ray-dashboard-AgentHead", False),
        ("plasma_store_server -s /tmp/plasma", False),
        ("python main.py", False),
    ],
)
def test_rays_own_services_are_no_workers(title: str, counts: bool) -> None:
    rows = [(100 + n, 15.0, f"ray::stage_{n}") for n in range(4)]
    found = node_groups.workers_of_all_names_have_it(crash(*kill(*rows, (90, 8.0, title), used=100.0, total=110.0)))
    assert found is not None
    assert found.words.startswith("5 Ray workers hold 68" if counts else "4 Ray workers hold 60")


def test_a_single_one_of_another_name() -> None:
    assert node_groups.a_process_of_another_name_has_it(shards(21.0, 21.0, beside=39.0)) is None
    assert node_groups.a_process_of_another_name_has_it(shards(21.0, 21.0, beside=41.0)) is not None
    assert node_groups.a_process_of_another_name_has_it(shards(45.0, 44.0)) is None


def test_ranks_that_hold_little_are_no_reason_to_speak_of_gpus() -> None:
    assert node_groups.there_is_one_for_each_gpu(shards(19.0, 19.0, name="ray::WorkerDict.update")) is None
    assert node_groups.there_is_one_for_each_gpu(shards(21.0, 21.0)) is None
    assert node_groups.there_is_one_for_each_gpu(shards(21.0, 21.0, name="ray::WorkerDict.update")) is not None
