"""A known version needs more memory than another one."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, releases

CAUSE = Cause(
    id="framework-regression",
    title=mark("A known problem of a package version needs more memory"),
    headlines=(
        mark("{release} {flaw}[ (fixed in {fixed})]"),
        mark("Probably a known problem: {suspect} {flaw}[ (fixed in {fixed})]"),
    ),
    pools=("gpu", "kv_cache", "host_ram", "cgroup", "pinned", "scheduling"),
    excluded=(releases.another_release,),
    signs=(
        Row(releases.release_is_known_for_it, Grade.PROVES),
        Row(releases.release_fits, Grade.NAMES),
        Row(releases.release_may_be_it, Grade.POINTS),
        Row(releases.release_has_a_symptom, Grade.HINTS),
        Row(releases.release_is_named, Grade.LEFT),
    ),
    against=(Row(releases.only_a_kill_is_shown, Grade.PROVES),),
    missing=(releases.release_is_not_printed,),
    knobs=("pin-version",),
    before=("activations", "checkpoint-spike"),
)
