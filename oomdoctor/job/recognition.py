"""What runs in this log: frameworks and their versions, models, cards. Several layers at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.records import dataclass

Kind = Literal["rl", "tuning", "states", "engine", "local", "base"]
# Whether a trainer has an inference engine: only where it is told so; always; always, and on the trainer's own cards
# unless it is told otherwise.
Engine = Literal["none", "if told", "beside", "colocated"]


@dataclass(frozen=True, slots=True)
class Framework:
    """What a framework is and how a log shows it."""

    name: str
    # learns by reinforcement, tunes, holds a trainer's states, serves from a share of the card, serves what fits, or is
    # what the others stand on
    kind: Kind
    prints: tuple[str, ...] = ()  # what only it prints, or a path, class or module that only it has; case counts
    launches: tuple[str, ...] = ()  # the modules, scripts and commands it is started with
    classes: tuple[str, ...] = ()  # its actors and processes, wherever a line names them
    writers: tuple[str, ...] = ()  # those with a name like anybody's: only where it says who wrote the line
    logger: str = ""  # the package that its log lines name
    builds_on: tuple[str, ...] = ()  # forks print the same names as what they come from
    borrows: tuple[str, ...] = ()  # whose class names it uses, which are then no sign of their first owner
    engine: Engine = "none"
    share: float | None = None  # of the card for that engine, where nobody says
    share_source: str = ""

    @property
    def trains(self) -> bool:
        return self.kind in ("rl", "tuning", "states")

    @property
    def serves(self) -> bool:
        return self.kind == "engine"


# Outermost first: advice is spelled for the first layer that has the knob.
FRAMEWORKS: Final = (
    Framework(
        "simplerl-reason", "rl",
        prints=("simpleRL-reason", "simpleRL_reason"),
        launches=("train_grpo_math_tune_ray",),
        builds_on=("verl", "ray"),
        engine="colocated", share=0.5, share_source=mark("verl's default"),
    ),
    Framework(
        "open-reasoner-zero", "rl",
        prints=("orz/ppo/", "orz.ppo", "vllm engine gourps", "Open-Reasoner-Zero", "- config key -"),
        launches=("playground.orz_", "playground/orz_"),
        classes=("PolicyRayActorBase", "CriticRayActorBase", "RefRayActorBase", "RewardRayActorBase"),
        builds_on=("ray",), borrows=("openrlhf",),
        engine="colocated", share=0.85, share_source=mark("Open-Reasoner-Zero's base configuration"),
    ),
    Framework(
        "openrlhf", "rl",
        prints=("openrlhf/", "openrlhf.", "OpenRLHF", "for colocate_all_models!"),
        launches=("openrlhf.cli.", "examples/train_ppo_ray.py"),
        classes=(
            "ActorModelRayActor", "ReferenceModelRayActor", "RewardModelRayActor", "CriticModelRayActor",
            "PolicyModelActor", "ReferenceModelActor", "RewardModelActor", "CriticModelActor",
            "RolloutRayActor",
        ),
        writers=("LLMRayActor", "LLMRayActorAsync"),
        builds_on=("ray",),
        engine="beside", share=0.9, share_source=mark("OpenRLHF's default"),
    ),
    Framework(
        "easyr1", "rl",
        prints=("EasyR1", "easyr1"),
        builds_on=("verl", "ray"),
        engine="colocated", share=0.6, share_source=mark("EasyR1's default"),
    ),
    Framework(
        "rllm", "rl",
        prints=("rllm/trainer", "rllm.workflow"),
        launches=("rllm.trainer",),
        builds_on=("verl", "ray"),
        engine="colocated", share=0.5, share_source=mark("verl's default"),
    ),
    Framework(
        "verl", "rl",
        prints=(
            "verl/trainer", "verl/workers", "verl/single_controller", "verl/utils", "verl/experimental",
            "actor_rollout_ref", "FSDPVLLMShardingManager", "MegatronVLLMShardingManager", "AgentLoopManager",
            "timing_s/gen", "perf/cpu_memory_used_gb", "perf/max_memory_",
        ),
        launches=("verl.trainer", "recipe.dapo.main_dapo"),
        classes=(
            "WorkerDict", "ActorRolloutRefWorker", "AsyncActorRolloutRefWorker", "vLLMHttpServer", "SGLangHttpServer",
            "AgentLoopWorker", "AgentLoopWorkerTQ", "RewardLoopWorker",
        ),
        writers=("main_task", "TaskRunner", "TaskRunnerV1"),
        builds_on=("ray",),
        engine="colocated", share=0.5, share_source=mark("verl's default"),
    ),
    Framework(
        "roll", "rl",
        prints=("roll/pipeline/", "roll/distributed/", "actor_infer-", "actor_train-"),
        launches=("start_rlvr_pipeline", "start_agentic_pipeline"),
        builds_on=("ray",),
        engine="beside",
    ),
    Framework(
        "slime", "rl",
        prints=("slime/ray/", "slime/backends/", "slime/utils/", "Memory-Usage before wake_up model"),
        classes=("MegatronTrainRayActor", "FSDPTrainRayActor"),
        writers=("SGLangEngine", "RolloutManager", "RolloutController"),
        builds_on=("ray",),
        engine="beside",
    ),
    Framework(
        "areal", "rl",
        prints=(
            "areal/", "FSDPPPOActor", "MegatronPPOActor", "ArchonPPOActor", "RemoteSGLangEngine", "RemotevLLMEngine",
        ),
        launches=("areal.launcher",),
        engine="beside",
    ),
    Framework(
        "skyrl", "rl",
        prints=("skyrl/", "skyrl_train"),
        launches=("skyrl.train.entrypoints", "skyrl_train.entrypoints"),
        classes=(
            "FSDPPolicyWorkerBase", "FSDPCriticWorkerBase", "FSDPRefWorkerBase", "MegatronPolicyWorkerBase",
            "MegatronCriticWorkerBase", "MegatronRefWorkerBase", "DeepSpeedPolicyWorkerBase",
            "DeepSpeedCriticWorkerBase", "DeepSpeedRefWorkerBase", "VLLMServerActor", "AsyncVLLMInferenceEngine",
        ),
        builds_on=("ray",), borrows=("openrlhf",),
        engine="colocated", share=0.8, share_source=mark("SkyRL's default"),
    ),
    Framework(
        "nemo-rl", "rl",
        prints=(
            "nemo_rl/", "nemo_rl.", "▶ Training policy...", "▶ Computing logprobs...", "▶ Preparing for training...",
        ),
        classes=(
            "DTensorPolicyWorker", "DTensorPolicyWorkerV2", "FSDP1PolicyWorker", "VllmGenerationWorker",
            "VllmAsyncGenerationWorker", "MegatronPolicyWorker[",
        ),
        writers=("MegatronPolicyWorker",),
        builds_on=("ray",),
        engine="colocated", share=0.6, share_source=mark("NeMo-RL's examples"),
    ),
    Framework(
        "nemo-aligner", "rl",
        prints=("nemo_aligner/", "nemo_aligner.", "MegatronGPTActorModel", "CriticServerTrainer"),
        launches=("train_gpt_ppo_actor.py", "serve_ppo_critic.py"),
    ),
    Framework(
        "deepspeed-chat", "rl",
        prints=("DeepSpeed-Chat/",),
        builds_on=("deepspeed",),
    ),
    Framework(
        "open-instruct", "tuning",
        prints=("open_instruct/", "open_instruct."),
        engine="if told",
    ),
    Framework(
        "ms-swift", "tuning",
        prints=(
            "swift/llm/", "swift/trainers/", "swift/rlhf_trainers", "[INFO:swift]", "SftArguments(", "RLHFArguments(",
        ),
        logger="swift",
        launches=("swift sft", "swift rlhf", "swift pt", "megatron sft"),
        engine="if told", share=0.9, share_source=mark("ms-swift's default"),
    ),
    Framework(
        "llamafactory", "tuning",
        prints=("llamafactory/", "llamafactory.", "llmtuner/"),
        launches=("llamafactory-cli",),
        logger="llamafactory",
    ),
    Framework(
        "axolotl", "tuning",
        prints=("[axolotl.", "axolotl/", "memory/max_active (GiB)"),
        launches=("axolotl train", "axolotl.cli"),
        logger="axolotl",
    ),
    Framework(
        "unsloth", "tuning",
        prints=("==((====))==", "unsloth/", "unsloth_zoo", "unsloth_compiled_cache", "🦥"),
        engine="if told", share=0.5, share_source=mark("unsloth's default"),
    ),
    Framework("torchtune", "tuning", prints=("torchtune/", "torchtune."), launches=("tune run ",)),
    Framework(
        "trl", "tuning",
        prints=("trl/trainer/", "GRPOConfig(", "site-packages/trl/"),
        launches=("trl vllm-serve", "trl grpo", "trl sft", "trl dpo"),
        engine="if told",
    ),
    Framework(
        "megatron", "states",
        prints=(
            "megatron/core/", "megatron/training/", "megatron.core", "--- arguments ---", "Megatron-LM",
            "memory (MB) | allocated: ",
        ),
    ),
    Framework(
        "deepspeed", "states",
        prints=(
            "deepspeed/runtime/", "DeepSpeed info: version", "[deepspeed]", "DeepSpeedZeroOptimizer",
            "DeepSpeedZeroOffload", "cpu_adam", "deepspeed.",
            "site-packages/deepspeed/", "[launch.py:", "zero_optimization", "DeepSpeedCPUAdam",
            "Max_MA ", "] exits with return code = ", "params, optim states and gradients for a:",
        ),
        launches=("deepspeed --",),
    ),
    Framework(
        "fsdp", "states",
        prints=("torch/distributed/fsdp/", "FullyShardedDataParallel", "fully_shard(", "_fsdp_param_group"),
    ),
    Framework(
        "accelerate", "states",
        prints=("site-packages/accelerate/", "accelerate/accelerator.py", "accelerate.commands"),
        launches=("accelerate launch",),
    ),
    Framework("vllm-ascend", "engine", prints=("vllm_ascend/",), builds_on=("vllm",)),
    Framework(
        "vllm", "engine",
        prints=(
            "vllm/engine/", "vllm/v1/", "vllm/worker/", "vllm/executor/", "vllm/entrypoints", "vLLM API server",
            "LLM engine (v", "Initializing an LLM engine", "WorkerProc ", "vllm-project/vllm", "kv_cache_utils.py",
            "gpu_worker.py", "Sleep mode freed",
        ),
        launches=("vllm serve", "vllm.entrypoints"),
        classes=(
            "EngineCore", "VllmWorkerProcess", "RayWorkerWrapper", "LLMRayActor", "RolloutRayActor", "vLLMHttpServer",
            "VLLMServerActor", "AsyncVLLMInferenceEngine", "VllmGenerationWorker", "VllmAsyncGenerationWorker",
        ),
        writers=("VllmWorker", "APIServer", "LLMRayActorAsync"),
    ),
    Framework(
        "sglang", "engine",
        prints=("sglang/srt/", "server_args=ServerArgs", "sglang::"),
        launches=("sglang.launch_server", "sglang serve"),
        classes=("SGLangEngine", "SGLangHttpServer"),
    ),
    Framework("lmdeploy", "engine", prints=("lmdeploy/", "[TM]["), launches=("lmdeploy serve",)),
    Framework("tensorrt-llm", "engine", prints=("[TensorRT-LLM]", "[TRT-LLM]", "tensorrt_llm")),
    Framework(
        "text-generation-inference", "engine",
        prints=("text_generation_launcher", "text_generation_server"),
        launches=("text-generation-launcher",),
    ),
    Framework("mlc-llm", "engine", prints=("mlc_llm", "mlc-llm", "MLCEngine")),
    Framework("ollama", "local", prints=("ollama", 'msg="offload to ', "llama runner process has terminated")),
    Framework(
        "llama.cpp", "local",
        prints=(
            "llama_model_load", "ggml_backend_", "ggml_cuda", "ggml_gallocr", "ggml_vulkan", "ggml_metal", "ggml-cuda",
            "ggml_aligned_malloc", "llama_kv_cache", "llama_init_from_", "llama_context: ", "alloc_tensor_range: ",
            "llama.cpp",
        ),
    ),
    Framework("stable-diffusion-webui-forge", "local", prints=("webui-forge", "[GPU Setting] You will use")),
    Framework("lmcache", "base", prints=("LMCache", "lmcache/", "lmcache.")),
    Framework(
        "transformers", "base",
        prints=(
            "site-packages/transformers/", "dist-packages/transformers/", "transformers/trainer.py",
            "transformers/models/", "transformers.modeling", "transformers.trainer",
        ),
    ),
    Framework(
        "ray", "base",
        prints=(
            "ray::", "ray.exceptions", "/ray/_private/", "Ray runtime", "local Ray instance", "ray.init",
            "/ray/session_", "ray.tune", "ray.rllib", "Ray cluster", "ray logs ",
        ),
        launches=("ray start", "ray job submit"),
        writers=("raylet", "autoscaler"),
    ),
    Framework("jax", "base", prints=("jaxlib", "site-packages/jax/", "XlaRuntimeError", "XLA_PYTHON_CLIENT")),
    Framework(
        "tensorflow", "base",
        prints=("site-packages/tensorflow/", "tensorflow/core/", "tensorflow.python", "bfc_allocator"),
    ),
    Framework(
        "torch", "base",
        prints=(
            "site-packages/torch/", "dist-packages/torch/", "torch.OutOfMemoryError", "torch.cuda.",
            "torch.distributed", "PYTORCH_CUDA_ALLOC_CONF", "by PyTorch", "/c10/cuda/", "torch._C",
        ),
    ),
)  # fmt: skip

NAMED: Final = {framework.name: framework for framework in FRAMEWORKS}
FINGERPRINTS: Final = {each.name: (*each.prints, *each.launches, *each.classes) for each in FRAMEWORKS}
LEARNERS: Final = frozenset(each.name for each in FRAMEWORKS if each.kind == "rl")
# One job has one of them, and what it is built on.
OUTER: Final = frozenset(each.name for each in FRAMEWORKS if each.kind in ("rl", "tuning"))
# With one of these in the log, a bare refusal may be the trainer's.
TRAINERS: Final = frozenset(each.name for each in FRAMEWORKS if each.trains)
ENGINES: Final = frozenset(each.name for each in FRAMEWORKS if each.serves)


def _writers() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for framework in FRAMEWORKS:
        for name in (*framework.classes, *framework.writers):
            found.setdefault(name, []).append(framework.name)
    return found


WRITERS: Final[Mapping[str, Sequence[str]]] = _writers()
_LOGGERS: Final = {each.logger: each.name for each in FRAMEWORKS if each.logger}


def written_by(name: str) -> Sequence[str]:
    """The frameworks whose process has this name: "EngineCore_DP0" is an "EngineCore"."""
    return WRITERS.get(name) or WRITERS.get(name.split("_", maxsplit=1)[0], ())


def logged_by(source: str) -> str | None:
    """The framework whose logger has this name: "llamafactory.hparams.parser:401"."""
    return _LOGGERS.get(source.partition(":")[0].partition(".")[0])


# Packages whose version decides something here, as pip, collect_env, banners and bug forms write them.
PACKAGES: Final = (
    "vllm", "deepspeed", "torch", "ray", "transformers", "trl", "accelerate", "openrlhf", "verl", "sglang", "peft",
    "flash-attn", "flash_attn", "bitsandbytes", "liger-kernel", "liger_kernel", "unsloth", "axolotl", "ms-swift",
    "ms_swift",
    "llamafactory", "megatron-core", "megatron_core", "jax", "jaxlib", "tensorflow", "xformers", "lmdeploy",
    "torch_npu",
    "vllm-ascend", "vllm_ascend", "triton", "flashinfer-python", "torchao", "datasets",
)  # fmt: skip
_NAMES: Final = "|".join(sorted((re.escape(name) for name in PACKAGES), key=len, reverse=True))
_VERSION: Final = r"v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:[.+\-]?[A-Za-z0-9][\w.+\-]{0,40})?)"

# `[pip3] torch==2.6.0`, `vllm  0.8.3`, `| vllm | 0.8.3 |`, `- transformers version: 4.50.0`, `torch: 2.6.0`
_LISTED: Final = late(
    rf"^[\W_]{{0,8}}(?:\[(?:pip3|conda)\]\s*)?[`\"']?(?P<name>{_NAMES})(?:\[[\w,]{{1,40}}\])?[`\"']?"
    rf"(?:\s{{0,4}}(?:version|info|Version))?\s{{0,60}}[.]{{0,60}}[\s=:@|,]{{1,60}}[\"']?{_VERSION}(?![\w%]|\s?[KMGT]i?B)",
    re.IGNORECASE,
)
_PINNED: Final = late(rf"(?<![\w\-.])(?P<name>{_NAMES})(?:\[[\w,]{{1,40}}\])?==\s?{_VERSION}", re.IGNORECASE)
_METADATA: Final = late(rf"(?:site|dist)-packages/(?P<name>{_NAMES})-{_VERSION}\.dist-info", re.IGNORECASE)
# The package, what its banner always holds, the banner. Most lines hold none of the words.
_BANNERS: Final[tuple[tuple[str, str, re.Pattern[str]], ...]] = (
    ("vllm", "vLLM API", late(rf"vLLM API server version:? {_VERSION}")),
    ("vllm", "LLM engine", late(rf"LLM engine \({_VERSION}\)")),
    ("vllm", "vLLM ", late(rf"\bvLLM (?:[Vv]ersion|server version)[ :]+{_VERSION}")),
    ("deepspeed", "info: version", late(rf"DeepSpeed info: version={_VERSION}")),
    ("deepspeed", "", late(rf"(?i:deepspeed) (?:info|version)[ .:=]{{1,60}}{_VERSION}")),
    ("torch", "PyTorch", late(rf"PyTorch (?:version|v)?[ :]{{0,4}}{_VERSION}")),
    ("torch", "torch ", late(rf"\btorch (?:version|cuda version)?[ .:]{{1,60}}{_VERSION}")),
    ("ray", "Ray version", late(rf"\bRay version[ :]{{1,4}}{_VERSION}")),
    ("ray", "ray, version", late(rf"\bray, version {_VERSION}")),
    ("ray", "ray_version", late(rf"[\"']?ray_version[\"']?\s?[:=]\s?[\"']?{_VERSION}")),
    ("unsloth", "Unsloth", late(rf"==\(\(====\)\)==\s+Unsloth {_VERSION}")),
    ("transformers", "Transformers:", late(rf"Transformers: {_VERSION}")),
    ("transformers", "transformers_version", late(rf"\"transformers_version\": \"{_VERSION}")),
    ("python", "ython ", late(rf"(?:^|\b)[Pp]ython (?:version)?[ :=]{{0,4}}{_VERSION}")),
)
_CONDITION: Final = late(
    r"pip install|requires|require |>=|<=|you have|please (?:install|upgrade)|incompatible|should be", re.IGNORECASE
)

PYTHON_PATH: Final = late(r"/python(3\.\d{1,2})/")

VERSION_WORDS: Final = (
    "ersion", "==", "LLM engine (v", "dist-info", "Python 3", "PyTorch ", "Transformers:",
    "ray_version",
    " info:", "deepspeed info",
)  # fmt: skip


def versions(text: str) -> Iterator[tuple[str, str]]:
    """Every package and version that this line states."""
    found = list(_stated(text))
    if found and not _CONDITION.search(text):
        yield from found


def _stated(text: str) -> Iterator[tuple[str, str]]:
    for name, word, banner in _BANNERS:
        if word in text and (match := banner.search(text)):
            yield name, _trimmed(match[1])
    if ".dist-info" in text and (match := _METADATA.search(text)):
        yield _package(match["name"]), _trimmed(match[2])
    for match in _PINNED.finditer(text) if "==" in text else ():
        yield _package(match["name"]), _trimmed(match[2])
    yield from listed(text)


def listed(text: str) -> Iterator[tuple[str, str]]:
    """The package and version of one line of a package list."""
    match = _LISTED.match(text)
    if match and not _CONDITION.search(text):
        yield _package(match["name"]), _trimmed(match[2])


def _package(name: str) -> str:
    return name.lower().replace("_", "-") if name.lower() != "torch_npu" else "torch_npu"


def _trimmed(version: str) -> str:
    return version.rstrip(".-+,")


def layers(seen: Iterable[str]) -> list[str]:
    """The frameworks that the fingerprints stand for, what they build on added, outermost first."""
    found = set(seen)
    known = [framework for framework in FRAMEWORKS if framework.name in found]
    found.difference_update(*(framework.borrows for framework in known))
    found.update(*(framework.builds_on for framework in known if framework.name in found))
    return [name for name in NAMED if name in found] + sorted(found - NAMED.keys())


_FAMILY: Final = (
    r"(?:Qwen|QwQ|[Ll]lama|LLaMA|LLAMA|DeepSeek|deepseek|Mi[sx]tral|mi[sx]tral|[Gg]emma|GLM|glm|Phi|phi|Yi|InternLM"
    r"|internlm|InternVL|Baichuan|OPT|opt|bloom|falcon|gpt-oss|SmolLM)"
)
_MODEL: Final = late(
    rf"(?:(?<![\w.\-/])[A-Za-z0-9][\w.\-]{{0,60}}/|(?<![\w.\-]))"
    rf"[\w.\-]{{0,40}}?{_FAMILY}[\w.\-]{{0,40}}?\d{{1,4}}(?:\.\d{{1,4}})?x?\d{{0,4}}[bBmM](?![a-zA-Z])[\w.\-]{{0,60}}"
)
MODEL_WORDS: Final = (
    "Qwen",
    "QwQ",
    "lama",
    "LLaMA",
    "LLAMA",
    "DeepSeek-",
    "istral",
    "emma-",
    "GLM-",
    "Phi-",
    "InternVL",
    "gpt-oss",
)

# Settings whose value is a model.
MODEL_SETTINGS: Final = frozenset({
    "model", "model_path", "model_name", "model_name_or_path", "pretrain", "reward_pretrain", "critic_pretrain",
    "ref_pretrain",
    "model_id", "base_model", "hf_checkpoint", "ref_load", "path", "served_model_name",
    "pretrained_model_name_or_path", "model_dir",

})  # fmt: skip


def names_a_model(setting: str, value: str) -> bool:
    """Whether this setting's value is a model."""
    leaf = setting.rsplit(".", 1)[-1]
    if leaf not in MODEL_SETTINGS or (leaf == "path" and ".model." not in f".{setting}"):
        return False
    return 2 < len(value) < 160 and not value.startswith(("http", "$", "<")) and " " not in value


def model_names(text: str) -> Iterator[str]:
    """Names of models that this text holds, like Qwen/Qwen2.5-7B-Instruct."""
    for match in _MODEL.finditer(text[:4000]):
        yield match[0].rstrip(".-")


_CARD: Final = late(
    r"(?:(?P<count>\d{1,3})\s?(?:x|X|×|\*)\s?)?(?:NVIDIA[ \-]|Tesla |Nvidia )?(?P<card>"
    r"(?:A100|A800|H100|H800|H200|H20|B200|B100|GB200|V100|P100|L40S|L40|L20|L4|A40|A10G|A10|A30|A6000|A5000|A4000|T4"
    r"|K80|MI\d{3}X?)"
    r"(?:[ \-](?:SXM\d?|PCIE|PCIe|NVL|HBM3))?(?:[ \-]?\d{2,3} ?GB)?"
    r"|(?:GeForce )?(?:RTX|GTX)[ \-]?(?:PRO |A)?\d{3,4}(?: ?(?:Ti|SUPER|Ada))?)(?![\w])"
)
CARD_WORDS: Final = (
    "A100", "A800", "H100", "H800", "H200", "H20", "B200", "V100", "P100", "L40", "L20", "A40", "A10", "A6000",
    "RTX", "GTX", "Tesla",
    "MI300", "MI250",
)  # fmt: skip
_CARD_ROW: Final = late(r"^\W{0,6}(?:GPU\s{1,20})?(\d{1,2})\s{0,20}:?\s{1,20}(?:NVIDIA|Tesla|GeForce|AMD)")


def card(text: str) -> tuple[str, int | None, int | None] | None:
    """A card's name, how many the line counts, and which one it lists."""
    match = _CARD.search(text)
    if match is None:
        return None
    row = _CARD_ROW.match(text)
    count = int(match["count"]) if match["count"] else None
    return match["card"].strip(), count, int(row[1]) if row else None
