"""Reports made by hand, for the renderers' tests."""

from __future__ import annotations

from msgspec.structs import replace

from oomdoctor.remedies import Gap, Rejected, Remedy
from oomdoctor.report.contract import (
    CauseRuledOut,
    Diagnosis,
    DoingRecord,
    EventRecord,
    Evidence,
    Incident,
    JobRecord,
    Ledger,
    LedgerRow,
    Moment,
    Quote,
    Report,
    Stats,
)
from oomdoctor.sources import Trouble

GIB = 1024**3

KILL = EventRecord(
    id="e1",
    family="ray",
    kind="memory-kill",
    role="root",
    file="driver.log",
    line=412,
    end_line=425,
    time="2025-04-02 11:20:31",
    stage="weight_sync",
    text="Memory on the node (IP: 10.3.0.8, ID: 7f1c) was 121.60GB / 128.00GB (0.950000), which exceeds the threshold",
    repeats=1,
    process={"pid": 4471, "name": "PolicyActor", "role": "policy", "rank": None, "node": "10.3.0.8", "gpu": None},
    usage={"used_bytes": round(121.6 * GIB), "total_bytes": 128 * GIB},
    threshold={"fraction": 0.95},
    fields={"top": [{"pid": 230, "bytes": 88 * GIB}]},
)
DEATH = replace(
    KILL,
    id="e2",
    kind="actor-death",
    role="cascade",
    line=431,
    end_line=431,
    text="ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    usage={},
    threshold={},
    fields={},
)

MOVE = Remedy(
    knob="move-process",
    action="Start the reward server (PID 230) on another node, or cap its memory",
    setting="--remote_rm_url",
    snippet="--remote_rm_url http://<other-node>:5000/get_reward",
    derivation="121.60 GiB in use - 88.00 GiB of PID 230 = 33.60 GiB, under 0.95 x 128.00 GiB = 121.60 GiB",
    assumes=("the server answers over HTTP, as its flag says",),
    relieves=("host_ram",),
    cost="another node's memory, and a network hop per batch of rewards",
    reference="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
)
RESTART = Remedy(
    knob="restart-periodically",
    action="Restart the reward server between epochs while its growth is looked for",
    relieves=("host_ram",),
    cost="a pause per restart",
)
FEWER = Remedy(
    knob="fewer-workers",
    action="Lower the number of reward workers from 8 to 5",
    setting="--workers",
    current=8,
    suggested=5,
    snippet="--workers 5",
    derivation="8 workers hold 88.00 GiB, 11.00 GiB each; 5 x 11.00 = 55.00 GiB",
    relieves=("host_ram",),
    cost="slower rewards",
)
MORE = Remedy(knob="more-host-memory", action="Give the node more memory", relieves=("host_ram",), cost="money")

HOG = Diagnosis(
    cause="reward-model-ram-hog",
    headline="The reward server (PID 230) fills node 10.3.0.8: 88.00 of 128.00 GiB",
    title="A reward model's process holds most of the node's memory",
    explanation=(
        "The reward server (PID 230) held 88.00 GiB of the 121.60 GiB in use, 72 %; the killed PolicyActor held "
        "6.40 GiB. Ray kills the newest worker, not the largest process."
    ),
    confidence=0.93,
    pool="host_ram",
    stage="weight_sync",
    evidence=(Evidence("e1", "driver.log", 412, KILL.text),),
    against=(),
    remedies=(MOVE, RESTART, FEWER, MORE),
)
GROWTH = Diagnosis(
    cause="host-memory-leak",
    headline="The reward server (PID 230) leaks about 30 MiB of RAM per step",
    title="The same processes grow step after step",
    explanation="Two prints of the same process stand 40 steps apart and 1.20 GiB.",
    confidence=0.21,
    pool="host_ram",
    stage="weight_sync",
    evidence=(Evidence("e1", "driver.log", 412, KILL.text),),
    against=("only two prints",),
    remedies=(),
)
NODE = Ledger(
    "host_ram",
    "node 10.3.0.8",
    128 * GIB,
    (
        LedgerRow("reward server (PID 230)", 88 * GIB, "printed", 415),
        LedgerRow("PolicyActor (PID 4471)", round(6.4 * GIB), "printed", 416),
        LedgerRow("object store", None, "unknown", None),
        LedgerRow("everything else in use", round(27.2 * GIB), "derived", 412),
        LedgerRow("free", round(6.4 * GIB), "derived", 412),
    ),
    0,
)
JOB = JobRecord("torch", "rl", "vllm", DoingRecord("engine_init", "profile", "profile_run"))
CRASH = Incident(
    job=JOB,
    id="i1",
    verdict="oom",
    headline=HOG.headline,
    cause_open=False,
    fingerprint="v1:0123456789abcdef",
    events=("e1", "e2"),
    diagnoses=(HOG, GROWTH),
    ruled_out=(
        CauseRuledOut("object-store-full", "nothing spilled and no store message stands in the log"),
        CauseRuledOut("container-limit", "128.00 GiB is the node's own memory"),
    ),
    remedies_rejected=(Rejected("engine-sleep", "it keeps a copy of the weights in the memory that ran out"),),
    next_evidence=("ray memory --stats-only",),
    gap=Gap(
        pool="host_ram", missing_low_bytes=40802189, missing_high_bytes=40802189, derivation="239.02 GiB - 238.98 GiB"
    ),
    ledger=(NODE,),
    timeline=(Moment("e1", "root", "2025-04-02 11:20:31"), Moment("e2", "cascade", None)),
    trajectory={
        "what": "reward server",
        "pool": "host_ram",
        "growth_bytes": None,
        "per": "step",
        "points": [{"step": 1, "bytes": GIB, "line": 12}, {"step": 2, "bytes": 2 * GIB, "line": 40}],
    },
)

OOM = Report(
    tool={"name": "oomdoctor", "version": "0.1.0"},
    verdict="oom",
    incidents=(CRASH,),
    advice_rejected=(
        Quote(
            "driver.log",
            424,
            "To adjust the kill threshold, set the environment variable `RAY_memory_usage_threshold`",
            "a higher threshold only delays the kill",
        ),
    ),
    lookalikes=(),
    events=(KILL, DEATH),
    context={
        "frameworks": {"openrlhf": None, "ray": "2.40.0"},
        "settings": {"remote_rm_url": "http://10.3.0.8:5000/get_reward", "zero_stage": 3},
        "models": ["my-org/policy-7b"],
        "hardware": {},
    },
    errors=(),
    notes=(),
    stats=Stats(bytes=52_431, lines=None, files=1, events=2),
)

HEALTHY = Report(
    tool=OOM.tool,
    verdict="no-oom",
    incidents=(),
    advice_rejected=(),
    lookalikes=(
        Quote("train.log", 77, "OutOfResources: out of resource: shared memory", "on-chip shared memory, not VRAM"),
        Quote("train.log", 90, "Xid 94: Contained ECC error", "a hardware error, not a lack of memory"),
        Quote("train.log", 95, "SIGTERM", "the scheduler took the node back"),
    ),
    events=(),
    context={"frameworks": {}, "settings": {}, "models": [], "hardware": {}},
    errors=(),
    notes=("`ray logs` cut this log to its last 1000 lines; --tail -1 gives all of it",),
    stats=Stats(bytes=9_000, lines=None, files=1, events=0),
)

_SIGKILL = replace(
    KILL,
    kind="sigkill",
    file="<stdin>",
    line=9,
    end_line=9,
    time=None,
    stage="unknown",
    text="Killed",
    usage={},
    threshold={},
    fields={},
)
INCONCLUSIVE = replace(
    HEALTHY,
    verdict="inconclusive",
    incidents=(
        replace(
            CRASH,
            verdict="inconclusive",
            cause_open=True,
            events=("e1",),
            headline="Something was killed (SIGKILL), and the log does not say why",
            diagnoses=(
                replace(
                    HOG,
                    cause="killed-without-evidence",
                    headline="Something was killed (SIGKILL), and the log does not say why",
                    title="A kill that memory would explain, without proof",
                    explanation="The shell reports a SIGKILL; nothing says who sent it.",
                    confidence=0.3,
                    pool="none",
                    stage="unknown",
                    evidence=(Evidence("e1", "<stdin>", 9, "Killed"),),
                    remedies=(),
                ),
            ),
            ruled_out=(),
            remedies_rejected=(),
            next_evidence=("dmesg -T | grep -i -E 'killed process|oom'", "journalctl -k --since '1 hour ago'"),
            ledger=(),
            timeline=(Moment("e1", "root", None),),
            trajectory=None,
        ),
    ),
    lookalikes=(),
    events=(_SIGKILL,),
    notes=(),
)

UNREADABLE = replace(
    HEALTHY,
    verdict="inconclusive",
    lookalikes=(),
    notes=(),
    errors=(Trouble("gone.log", "no such file"),),
    stats=Stats(bytes=0, lines=None, files=0, events=0),
)
