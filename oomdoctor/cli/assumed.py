"""What `--assume` names and nothing here reads: most often a slip of the hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from oomdoctor import spellings
from oomdoctor.cli.near import near
from oomdoctor.job import dumps, outside, recognition
from oomdoctor.job.frameworks import hallmarks, packages
from oomdoctor.language import one_of, say
from oomdoctor.remedies import settings
from oomdoctor.remedies.knobs import KNOBS

# Names that the causes and remedies ask for and no table holds.
_BESIDE_THE_TABLES: Final = (
    "buffer_count",
    "actor_num_nodes", "colocate", "colocate_actor_ref", "colocate_critic_reward", "critic_num_gpus_per_node",
    "critic_num_nodes", "critic_pretrain", "data_parallel_size", "deepspeed_stage", "ds_zero_stage",
    "forward_micro_batch_size_per_gpu", "free_gpu_memory_fraction", "grad_offload", "kv_cache_memory",
    "kv_cache_memory_bytes", "log_prob_max_token_len_per_gpu", "log_prob_micro_batch_size",
    "log_prob_micro_batch_size_per_gpu", "max_capture_size", "max_in_cpu", "micro_forward_batch_size", "num_engines",
    "num_generations", "num_inference_engines", "padded_vocab_size", "port", "PYTORCH_HIP_ALLOC_CONF",
    "ref_num_gpus_per_node", "ref_num_nodes", "reward_num_gpus_per_node", "reward_num_nodes", "reward_pretrain",
    "rm_path", "total_num_nodes", "vllm_kv_cache_dtype", "vllm_num_engines", "vocab_size",
)  # fmt: skip
_PATH: Final = "path"  # of models: "critic.model.path"


def unread(names: Iterable[str]) -> Iterator[str]:
    """For each of these names that is no setting here and no package, what to say of it."""
    for name in names:
        if _last(name) in _read() or recognition.names_a_model(name, "a/b"):
            continue
        meant = near(_last(name), (*_read().values(), *hallmarks(), *packages()))
        if meant:
            yield say(
                "--assume {name}: no known package or setting has this name; did you mean {names}?",
                name=name,
                names=one_of(meant),
            )
        else:
            yield say("--assume {name}: no known package or setting has this name", name=name)


def assumed(told: outside.Outside) -> list[str]:
    """The settings that were assumed."""
    return [setting.name for setting in told.settings if setting.outside == outside.ASSUMED]


@cache
def _read() -> dict[str, str]:
    """The settings that something reads, by the last part of their names."""
    rows = (row for framework in spellings.frameworks() for row in settings.rows(framework))
    of_knobs = (name for knob in KNOBS.values() for name in knob.settings)
    names = (*_BESIDE_THE_TABLES, _PATH, *dumps.KNOWN, *of_knobs, *(row.key for row in rows))
    return {_last(name): name.rpartition(".")[2] for name in names}


def _last(name: str) -> str:
    return name.replace("-", "_").lower().rpartition(".")[2]
