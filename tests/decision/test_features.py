from __future__ import annotations

from gpu_logs import FORWARD, crash, refused, trace
from host_logs import REWARD_SERVER, kill

from oomdoctor.decision.features import features


def test_figures_come_in_as_shares() -> None:
    found = features(
        crash(
            refused(
                tried="2.00 GiB",
                total="80.00 GiB",
                free="1.00 GiB",
                own="79.00 GiB",
                allocated="70.00 GiB",
                unallocated="8.50 GiB",
            )
        )
    )
    assert {
        "asked of the card >= 0.02",
        "free of the card < 0.02",
        "own of the card >= 0.95",
        "unallocated of the card >= 0.1",
        "unallocated / asked >= 2",
    } <= found.keys()


def test_twice_the_sizes_are_the_same_features() -> None:
    one = refused(
        tried="2.00 GiB",
        total="40.00 GiB",
        free="1.00 GiB",
        own="39.00 GiB",
        allocated="36.00 GiB",
        unallocated="2.50 GiB",
    )
    two = refused(
        tried="4.00 GiB",
        total="80.00 GiB",
        free="2.00 GiB",
        own="78.00 GiB",
        allocated="72.00 GiB",
        unallocated="5.00 GiB",
    )
    assert features(crash(one)) == features(crash(two))


def test_who_held_the_node_is_told_without_names() -> None:
    found = features(crash(*kill(REWARD_SERVER)))
    assert {"hog's role reward", "hog outside Ray", "hogs one"} <= found.keys()


def test_words_come_without_numbers_paths_and_ids() -> None:
    line = "ValueError: Failed to load weights from /data/secret/run_7 for 5d0be17c42f98a36e1b07d54 with 3 shards"
    found = features(crash(line, *trace(FORWARD), refused()))
    words = [name.split(" ", 1)[1] for name in found if name.startswith(("word ", "near ", "frame "))]
    assert "allocate" in words
    assert not [word for word in words if "secret" in word or "5d0b" in word or any(c.isdigit() for c in word)]


def test_what_no_message_tells_is_no_feature() -> None:
    found = features(crash("RuntimeError: CUDA error: out of memory"))
    assert not [name for name in found if "of the card" in name or "hog" in name]
    assert set(found.values()) == {1.0}
