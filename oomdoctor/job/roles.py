"""What a process is to the job, from the name it has in Ray's table, in a log's prefix or in the kernel's dump.

Ray names its workers after the class and the method that runs ("ray::LLMRayActor.update_weight"); everything else
shows its command line. A kill names an actor's creation task ("abc123WorkerDict_0:5:WorkerDict.__init__") whatever
it was doing.
"""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import Final

from oomdoctor.patterns import late

CHARACTERS: Final = 400  # of a title or command line that are looked at
SHORT: Final = 48

# Workers of verl hold several models in one process; the method tells which one is at work.
_FUSED = late(r"\b(?:WorkerDict|FusedWorker|ActorRolloutRefWorker|AsyncActorRolloutRefWorker)\b")
_FUSED_METHODS: Final = (
    (r"(?:\w{1,40}_)?(?:generate_sequences|generate|rollout_mode|wake_up|sleep)$", "engine"),
    (r"(?:actor_rollout_ref_|ref_)?(?:compute_ref_log_prob)$|ref_", "ref"),
    (r"critic_|compute_values$|update_critic$", "critic"),
    (r"rm_|reward_|compute_rm_score$", "reward"),
    (r"actor_|actor_rollout_|update_actor$|compute_log_prob$|init_model$", "policy"),
)

# Class names of actors and engine processes; one pattern matches the whole name.
_CLASSES: Final = {
    "policy": (
        r"ActorModelRayActor|PolicyModelActor",  # OpenRLHF before and since 0.8.3
        r"PolicyRayActor(?:Base)?",  # Open-Reasoner-Zero
        r"(?:FSDP|Megatron|DeepSpeed)PolicyWorker(?:Base)?",  # SkyRL
        r"DTensorPolicyWorker(?:V2)?|MegatronPolicyWorker|FSDP1PolicyWorker",  # NeMo-RL
        r"(?:FSDP|Megatron|Archon)PPOActor",  # AReaL
        r"MegatronTrainRayActor|FSDPTrainRayActor",  # slime
        r"ActorWorker|actor_train-\d{1,4}|TrainingWorker|RayTrainWorker",  # ROLL, verl since 0.7, Ray Train
    ),
    "ref": (
        r"ReferenceModel(?:Ray)?Actor|RefRayActor(?:Base)?",
        r"(?:FSDP|Megatron|DeepSpeed)RefWorker(?:Base)?|reference-\d{1,4}",
    ),
    "reward": (
        r"RewardModel(?:Ray)?Actor|RewardRayActor(?:Base)?|RewardModelWorker|RewardLoopWorker|RewardManager\w{0,20}",
        r"RemoteRewardModel|RewardModelProxy|remote_rm_fn(?:_ray)?|reward_func|reward_fn|RewardWorker",
    ),
    "critic": (
        r"CriticModel(?:Ray)?Actor|CriticRayActor(?:Base)?|CriticWorker",
        r"(?:FSDP|Megatron|DeepSpeed)CriticWorker(?:Base)?|critic-\d{1,4}",
    ),
    "engine": (
        r"LLMRayActor(?:Async)?|RolloutRayActor|LLMActor|RayWorkerWrapper|VLLMServerActor|AsyncVLLMInferenceEngine",
        r"[Vv]LLMHttpServer\w{0,10}|SGLangHttpServer|SGLangEngine|Vllm(?:Async)?GenerationWorker(?:Impl)?",
        r"Remote(?:SGLang|vLLM)Engine|InferWorker|actor_infer-\d{1,4}|VLLMWorker|VLLMEngine\w{0,20}|ServeReplica\S{0,80}",
        # vLLM's own processes, whose parts stand only where that parallel size is above one; SGLang's
        r"(?:VLLM::)?(?:EngineCore(?:_DP)?(?:_?\d+)?|Worker(?:_[A-Z]{2,4}\d+)*)|VllmWorker(?:Process)?|APIServer(?:_\d+)?",
        r"(?:DP|TP|PP)\d+(?: \w{2,6}\d+)*|sglang::\S{1,60}|sglang",
    ),
    "driver": (
        r"main_task|TaskRunner(?:V1)?|PPOTrainer(?:Async)?|TrainingActor|GenerateSamplesActor",
        r"RolloutManager|RolloutController|SignalActor|JobSupervisor",
    ),
    "environment": (r"AgentLoopWorker\w{0,10}|AgentInstance|RolloutWorker|(?:Single|Multi)AgentEnvRunner",),
    "data_loader": (r"pt_data_worker|_?MapWorker\S{0,60}|SplitCoordinator",),
    "object_store": (r"(?:IDLE_|SPILL_)?SpillWorker|(?:IDLE_|RESTORE_)?RestoreWorker|plasma_store(?:_server)?",),
    "ray": (r"IDLE|raylet|gcs_server|dashboard(?:_agent)?|log_monitor|autoscaler|runtime_env_agent",),
}

# Command lines; the first that is found wins.
_COMMANDS: Final = {
    "ray": (
        r"/raylet/raylet\b|\braylet(?:\.exe)? --|\bgcs_server\b|/ray/dashboard/|/redis-server\b|\bray start\b",
        r"^ray-dashboard-|^dashboard agent\b",
        r"/ray/_private/(?:log_monitor|runtime_env|workers)|/ray/autoscaler/|/ray/workers/default_worker",
    ),
    "object_store": (r"\bplasma_store(?:_server)?\b",),
    "engine": (
        r"(?i)\bvllm::|\bsglang::|\bvllm serve\b|\bvllm\.entrypoints\b|\bsglang\.launch_server\b|\btrl vllm-serve\b",
        r"\bapi_server(?:\.py)?\b|\btext-generation-(?:server|launcher)\b|\bllama-server\b|\btritonserver\b",
    ),
    "data_loader": (r"\bpt_data_worker\b",),
    "reward": (
        r"\bserve_rm\b|\bremote_rm(?:_|\b)|\brm_server\b",
        r"(?:[/\s]|^)(?:[a-z0-9]{1,40}_){0,3}reward(?:_[a-z0-9]{1,40}){0,4}(?:\.py\b|\s|$)",
    ),
    "driver": (
        r"\btrain\w{0,40}(?:\.py)?\b|\bmain_ppo\b|\bplayground\.orz|\bstart_\w{1,20}_pipeline\b|\bmain_base\b|\brun_grpo\b|\bfinetune\w{0,20}\b",
    ),
}

# The kernel cuts names after 15 characters: what is left of a worker's class behind "ray::".
_CUT_LENGTH: Final = 15
_CUT: Final = {
    "reward": r"Reward|RemoteRew",
    "engine": r"LLMRayActo|RolloutRay|RayWorkerW|[vV]LLM|SGLang|ServeRepli",
    "policy": r"ActorModel|Policy(?:Mode|RayA)|TrainingWo|RayTrainWo",
    "critic": r"Critic(?:Mode|RayA|Work)",
    "ref": r"ReferenceM|RefRayActo",
}

_CUT_ROLES = [(late(pattern), role) for role, pattern in _CUT.items()]
_CLASS_ROLES = [(late(rf"(?:{pattern})$"), role) for role, rows in _CLASSES.items() for pattern in rows]
_COMMAND_ROLES = [(late(pattern), role) for role, rows in _COMMANDS.items() for pattern in rows]
_METHOD_ROLES = [(late(pattern), role) for pattern, role in _FUSED_METHODS]

# "ray::Class.method", the creation task "name:Class.__init__", and the "ray_Class:method()" of 2018
_TITLE = late(r"(?:ray::|ray_(?=[A-Z]))(?P<name>[^\s()]{1,200})")
_CREATION = late(r"(?:[^\s:]{0,120}:){0,3}(?P<name>[A-Za-z_]\w{0,80})\.__init__$")
# verl puts six random characters before and the node and rank behind a colocated worker's class; NeMo-RL and ROLL put
# the rank or the group behind theirs
_SPAWNED = late(
    r"[0-9A-Za-z]{6}(?=(?:WorkerDict|FusedWorker)_\d)|_\d{1,5}:\d{1,5}$|\[rank=\d{1,5}\]$|\([a-z_]{1,40}-\d{1,4}\)$"
)
_INTERPRETER = late(r"(?:.*/)?(?:python[\d.]*|pypy\d?|uv|bash|sh)(?:\.exe)?$")
_PLAIN = late(r"[A-Za-z_][\w:.<>-]{0,80}(?:\[rank=\d{1,5}\]|\([a-z_]{1,40}-\d{1,4}\))?$")


@lru_cache(maxsize=1024)  # a log names the same processes again and again
def role_of(process_name: str) -> str | None:
    """What the process is to the job; None where its name does not tell."""
    title = process_name.strip()[:CHARACTERS]
    name, method = class_and_method(title)
    if _FUSED.search(name):
        return next((role for pattern, role in _METHOD_ROLES if pattern.match(method)), "policy")
    for pattern, role in _CLASS_ROLES:
        if pattern.match(name):
            return role
    if _TITLE.match(title):
        cut = _CUT_ROLES if len(title) == _CUT_LENGTH else []
        return next((role for pattern, role in cut if pattern.match(name)), None)
    return next((role for pattern, role in _COMMAND_ROLES if pattern.search(title)), None)


def class_and_method(title: str) -> tuple[str, str]:
    """The class and the running method of a worker's title or an actor's name; the creation task tells no method."""
    title = title.strip()[:CHARACTERS]
    if match := _CREATION.match(title.removeprefix("ray::")):
        return match["name"], ""
    match = _TITLE.match(title)
    if match is None and not _PLAIN.match(title):
        return "", ""
    name = (match["name"] if match else title).replace("create_colocated_worker_cls.<locals>.", "")
    name, _, method = name.partition(".") if "::" not in name else (name, "", "")
    return _SPAWNED.sub("", name), method


def is_outside_ray(title: str) -> bool:
    """Whether a row of Ray's table is a process that Ray did not start and can never kill."""
    title = title.strip()[:CHARACTERS]
    if _TITLE.match(title) or _CREATION.match(title):
        return False
    return role_of(title) not in ("ray", "object_store")


def short_name(title: str) -> str:
    """A few words for a table: the class of a worker, the script or module that a command runs."""
    title = title.strip()[:CHARACTERS]
    name, _ = class_and_method(title)
    if name:
        return name[:SHORT]
    return _program(title)[:SHORT] or title[:SHORT]


def _program(command: str) -> str:
    command = command.replace("\\", "/")
    try:
        words = shlex.split(command)
    except ValueError:  # cut inside a quotation
        words = command.split()
    while words and (_INTERPRETER.match(words[0]) or words[0].startswith("-")):
        flag = words.pop(0)
        if flag == "-m" and words:
            return words[0]
        if flag == "-c":
            return f"python -c {' '.join(words)}"
    if not words:
        return command
    return words[0].rstrip("/").rpartition("/")[2] or words[0]
