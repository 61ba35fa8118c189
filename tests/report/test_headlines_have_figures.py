"""Who reads only the headline wants to know how much: where the failure's own message has sizes, it has a figure."""

from __future__ import annotations

from pathlib import Path

from reports import LOGS, diagnosed, named, of_each

# What these messages print is no size of what failed
WITHOUT = {
    "budget/maps",  # of data, not of the maps that were spent
    "kernel/group-statistics-without-head",  # cut off before it says what was killed
    "memory_summary/last-word",  # of a process that died of something else, for all that the log says
    "tensorrt_llm/creation-failed",  # of what was free before the part that found no room
    "tensorrt_llm/creation-failed-model",
}


@of_each(LOGS, one_in=4)
def test_a_headline_has_a_figure_where_its_event_has_sizes(log: Path) -> None:
    report = diagnosed(log)
    events = {event["id"]: event for event in report["events"]}
    for incident in report["incidents"][:1]:
        roots = [events[name] for name in incident["events"] if events[name]["role"] == "root"]
        usage = roots[0]["usage"] if roots else {}
        sizes = [name for name, size in usage.items() if name.endswith("_bytes") and size and isinstance(size, int)]
        if sizes and named(log) not in WITHOUT:
            assert any(sign.isdigit() for sign in incident["headline"]), (incident["headline"], usage)
