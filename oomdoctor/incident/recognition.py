"""What runs in this log: frameworks and their versions, models, cards. Several layers at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from oomdoctor.patterns import late

# What only this framework prints, or a path or module that only it has. Case counts.
FINGERPRINTS: Final[Mapping[str, tuple[str, ...]]] = {
    "simplerl-reason": ("simpleRL-reason", "simpleRL_reason", "train_grpo_math_tune_ray"),
    "open-reasoner-zero": (
        "playground.orz_", "playground/orz_", "orz/ppo/", "orz.ppo", "PolicyRayActorBase", "CriticRayActorBase",
        "RefRayActorBase", "RewardRayActorBase", "vllm engine gourps", "Open-Reasoner-Zero", "- config key -",
    ),
    "openrlhf": (
        "openrlhf/", "openrlhf.", "OpenRLHF", "ActorModelRayActor", "ReferenceModelRayActor", "RewardModelRayActor",
        "CriticModelRayActor", "PolicyModelActor", "ReferenceModelActor", "RewardModelActor", "CriticModelActor",
        "RolloutRayActor", "for colocate_all_models!",
    ),
    "easyr1": ("EasyR1", "easyr1"),
    "rllm": ("rllm.trainer", "rllm/trainer", "rllm.workflow"),
    "verl": (
        "verl/trainer", "verl.trainer", "verl/workers", "verl/single_controller", "verl/utils", "verl/experimental",
        "WorkerDict", "ActorRolloutRefWorker", "actor_rollout_ref", "FSDPVLLMShardingManager", "vLLMHttpServer",
        "AgentLoopWorker", "AgentLoopManager",
    ),
    "roll": ("roll/pipeline/", "roll/distributed/", "actor_infer-", "actor_train-"),
    "slime": (
        "slime/ray/", "slime/backends/", "slime/utils/", "MegatronTrainRayActor",
        "Memory-Usage before wake_up model",
    ),
    "areal": ("areal/", "FSDPPPOActor", "MegatronPPOActor", "ArchonPPOActor", "RemoteSGLangEngine", "RemotevLLMEngine"),
    "skyrl": (
        "skyrl/", "skyrl_train", "FSDPPolicyWorkerBase", "FSDPCriticWorkerBase", "FSDPRefWorkerBase",
        "MegatronPolicyWorkerBase", "VLLMServerActor", "AsyncVLLMInferenceEngine",
    ),
    "nemo-rl": (
        "nemo_rl/", "nemo_rl.", "DTensorPolicyWorker", "MegatronPolicyWorker[", "VllmGenerationWorker",
        "VllmAsyncGenerationWorker",
    ),
    "nemo-aligner": ("nemo_aligner/", "nemo_aligner.", "MegatronGPTActorModel", "CriticServerTrainer"),
    "ms-swift": (
        "swift/llm/", "swift/trainers/", "swift/rlhf_trainers", "[INFO:swift]", "swift sft", "swift rlhf",
        "swift pt", "megatron sft", "SftArguments(",
    ),
    "llamafactory": ("llamafactory/", "llamafactory-cli", "llamafactory.", "llmtuner/"),
    "axolotl": ("[axolotl.", "axolotl/", "axolotl train", "axolotl.cli"),
    "unsloth": ("==((====))==", "unsloth/", "unsloth_zoo", "unsloth_compiled_cache", "🦥"),
    "trl": ("trl/trainer/", "trl vllm-serve", "trl grpo", "trl sft", "trl dpo", "GRPOConfig(", "site-packages/trl/"),
    "megatron": ("megatron/core/", "megatron/training/", "megatron.core", "--- arguments ---", "Megatron-LM"),
    "deepspeed": (
        "deepspeed/runtime/", "DeepSpeed info: version", "[deepspeed]", "DeepSpeedZeroOptimizer",
        "DeepSpeedZeroOffload", "cpu_adam", "deepspeed.",
        "site-packages/deepspeed/", "[launch.py:", "zero_optimization", "deepspeed --", "DeepSpeedCPUAdam",
    ),
    "fsdp": (
        "torch/distributed/fsdp/", "FullyShardedDataParallel", "fully_shard(", "_fsdp_param_group",
    ),
    "accelerate": (
        "site-packages/accelerate/", "accelerate launch", "accelerate/accelerator.py", "accelerate.commands",
    ),
    "transformers": (
        "site-packages/transformers/", "dist-packages/transformers/", "transformers/trainer.py",
        "transformers/models/", "transformers.modeling", "transformers.trainer",
    ),
    "vllm": (
        "vllm/engine/", "vllm/v1/", "vllm/worker/", "vllm/executor/", "vllm/entrypoints", "vllm.entrypoints",
        "vllm serve",
        "vLLM API server", "LLM engine (v", "Initializing an LLM engine", "EngineCore", "VllmWorkerProcess",
        "WorkerProc ",
        "RayWorkerWrapper", "LLMRayActor", "vllm-project/vllm", "kv_cache_utils.py", "gpu_worker.py",
        "Sleep mode freed",
    ),
    "sglang": (
        "sglang/srt/", "sglang.launch_server", "sglang serve", "server_args=ServerArgs", "SGLangEngine",
        "SGLangHttpServer", "sglang::",
    ),
    "lmdeploy": ("lmdeploy/", "lmdeploy serve", "[TM]["),
    "tensorrt-llm": ("[TensorRT-LLM]", "[TRT-LLM]", "tensorrt_llm"),
    "text-generation-inference": ("text_generation_launcher", "text_generation_server", "text-generation-launcher"),
    "llama.cpp": ("llama_model_load", "ggml_backend_cuda", "ggml_cuda", "ggml_gallocr", "llama_kv_cache", "llama.cpp"),
    "ollama": ("ollama", "msg=\"offload to "),
    "ray": (
        "ray::", "ray.exceptions", "/ray/_private/", "Ray runtime", "local Ray instance", "ray start", "ray job submit",
        "ray.init", "/ray/session_", "ray.tune", "ray.rllib", "Ray cluster", "ray logs ",
    ),
    "jax": ("jaxlib", "site-packages/jax/", "XlaRuntimeError", "XLA_PYTHON_CLIENT"),
    "tensorflow": ("site-packages/tensorflow/", "tensorflow/core/", "tensorflow.python", "bfc_allocator"),
    "torch": (
        "site-packages/torch/", "dist-packages/torch/", "torch.OutOfMemoryError", "torch.cuda.", "torch.distributed",
        "PYTORCH_CUDA_ALLOC_CONF", "by PyTorch", "/c10/cuda/", "torch._C",
    ),
}  # fmt: skip

# The name of a process or actor in a line's decorations, where it alone tells the framework.
WRITERS: Final[Mapping[str, str]] = {
    "raylet": "ray", "autoscaler": "ray", "RayWorkerWrapper": "vllm", "VllmWorkerProcess": "vllm", "VllmWorker": "vllm",
    "EngineCore": "vllm", "APIServer": "vllm", "LLMRayActor": "openrlhf", "RolloutRayActor": "openrlhf",
    "ActorModelRayActor": "openrlhf", "ReferenceModelRayActor": "openrlhf", "RewardModelRayActor": "openrlhf",
    "CriticModelRayActor": "openrlhf", "PolicyModelActor": "openrlhf", "ReferenceModelActor": "openrlhf",
    "RewardModelActor": "openrlhf", "CriticModelActor": "openrlhf",
    "WorkerDict": "verl", "main_task": "verl", "TaskRunner": "verl", "vLLMHttpServer": "verl",
    "AgentLoopWorker": "verl",
    "PolicyRayActorBase": "open-reasoner-zero", "CriticRayActorBase": "open-reasoner-zero",
    "RefRayActorBase": "open-reasoner-zero", "RewardRayActorBase": "open-reasoner-zero",
    "MegatronTrainRayActor": "slime", "SGLangEngine": "slime", "RolloutManager": "slime",
    "DTensorPolicyWorker": "nemo-rl", "VllmGenerationWorker": "nemo-rl", "MegatronPolicyWorker": "nemo-rl",
}  # fmt: skip

# Forks print the same names as what they come from.
IMPLIED: Final[Mapping[str, tuple[str, ...]]] = {
    "simplerl-reason": ("verl",), "easyr1": ("verl",), "rllm": ("verl",),
    "openrlhf": ("ray",), "open-reasoner-zero": ("ray",), "verl": ("ray",),
}  # fmt: skip
# ... and these borrow class names of the other, whose fingerprint is then no sign of it.
_BORROWED: Final[Mapping[str, str]] = {"open-reasoner-zero": "openrlhf", "skyrl": "openrlhf"}

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
    for fork, origin in _BORROWED.items():
        if fork in found:
            found.discard(origin)
    for name in list(found):
        found.update(IMPLIED.get(name, ()))
    return [name for name in FINGERPRINTS if name in found] + sorted(found - FINGERPRINTS.keys())


_FAMILY: Final = (
    r"(?:Qwen|QwQ|[Ll]lama|LLaMA|LLAMA|DeepSeek|deepseek|Mi[sx]tral|mi[sx]tral|[Gg]emma|GLM|glm|Phi|phi|Yi|InternLM"
    r"|internlm|InternVL|Baichuan|OPT|opt|bloom|falcon|gpt-oss|SmolLM)"
)
_MODEL: Final = late(
    rf"(?:(?<![\w.\-/])[A-Za-z0-9][\w.\-]{{0,60}}/|(?<![\w.\-]))"
    rf"[\w.\-]{{0,40}}?{_FAMILY}[\w.\-]{{0,40}}?\d+(?:\.\d+)?x?\d*[bBmM](?![a-zA-Z])[\w.\-]{{0,60}}"
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
_CARD_ROW: Final = late(r"^\W{0,6}(?:GPU\s+)?(\d{1,2})\s*:?\s+(?:NVIDIA|Tesla|GeForce|AMD)")


def card(text: str) -> tuple[str, int | None, int | None] | None:
    """A card's name, how many the line counts, and which one it lists."""
    match = _CARD.search(text)
    if match is None:
        return None
    row = _CARD_ROW.match(text)
    count = int(match["count"]) if match["count"] else None
    return match["card"].strip(), count, int(row[1]) if row else None
