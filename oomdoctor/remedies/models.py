"""Sizes of models: the dimensions that decide what weights, caches and logits take.

Dimensions from litgpt's configurations, those of the first Qwen from its own; parameters are computed from them, which
is exact to about 0.01 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from oomdoctor.arithmetic import kv_cache
from oomdoctor.patterns import late


class Model(Struct, frozen=True):
    name: str
    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int  # padded
    active: int | None = None  # parameters per token, of a mixture of experts

    def kv_bytes_per_token(self, tensor_parallel: int = 1, bytes_each: int = 2) -> int:
        """A key and a value per layer and head. Upper bound where layers look at a window only."""
        return kv_cache.of_model(self.layers, self.kv_heads, self.head_dim, tensor_parallel, bytes_each)


_TABLE: Final = (
    Model("Qwen-1.8B", 1_836_828_672, 24, 2048, 16, 16, 128, 151936),
    Model("Qwen-7B", 7_721_324_544, 32, 4096, 32, 32, 128, 151936),
    Model("Qwen-14B", 14_167_290_880, 40, 5120, 40, 40, 128, 152064),
    Model("Qwen-72B", 72_287_920_128, 80, 8192, 64, 64, 128, 152064),
    Model("Qwen2.5-0.5B", 494_032_768, 24, 896, 14, 2, 64, 151936),
    Model("Qwen2.5-1.5B", 1_543_714_304, 28, 1536, 12, 2, 128, 151936),
    Model("Qwen2.5-3B", 3_085_938_688, 36, 2048, 16, 2, 128, 151936),
    Model("Qwen2.5-7B", 7_615_616_512, 28, 3584, 28, 4, 128, 152064),
    Model("Qwen2.5-14B", 14_770_033_664, 48, 5120, 40, 8, 128, 152064),
    Model("Qwen2.5-32B", 32_763_876_352, 64, 5120, 40, 8, 128, 152064),
    Model("Qwen2.5-72B", 72_706_203_648, 80, 8192, 64, 8, 128, 152064),
    Model("Qwen3-0.6B", 596_049_920, 28, 1024, 16, 8, 128, 151936),
    Model("Qwen3-1.7B", 1_720_574_976, 28, 2048, 16, 8, 128, 151936),
    Model("Qwen3-4B", 4_022_468_096, 36, 2560, 32, 8, 128, 151936),
    Model("Qwen3-8B", 8_190_735_360, 36, 4096, 32, 8, 128, 151936),
    Model("Qwen3-14B", 14_768_307_200, 40, 5120, 40, 8, 128, 151936),
    Model("Qwen3-32B", 32_762_123_264, 64, 5120, 64, 8, 128, 151936),
    Model("Qwen3-30B-A3B", 30_532_122_624, 48, 2048, 32, 4, 128, 151936, 3_350_000_000),
    Model("Qwen3-235B-A22B", 235_093_634_560, 94, 4096, 64, 4, 128, 151936, 22_190_000_000),
    Model("Llama-3.2-1B", 1_235_814_400, 16, 2048, 32, 8, 64, 128256),
    Model("Llama-3.2-3B", 3_212_749_824, 28, 3072, 24, 8, 128, 128256),
    Model("Llama-3-8B", 8_030_261_248, 32, 4096, 32, 8, 128, 128256),
    Model("Llama-3-70B", 70_553_706_496, 80, 8192, 64, 8, 128, 128256),
    Model("Llama-3.1-405B", 405_853_388_800, 126, 16384, 128, 8, 128, 128256),
    Model("Mistral-7B", 7_248_023_552, 32, 4096, 32, 8, 128, 32768),
    Model("Mixtral-8x7B", 46_702_792_704, 32, 4096, 32, 8, 128, 32000, 12_880_000_000),
    Model("Mistral-Large-2407", 122_610_069_504, 88, 12288, 96, 8, 128, 32768),
    Model("Gemma-2-2b", 2_614_341_888, 26, 2304, 8, 4, 256, 256000),
    Model("Gemma-2-9b", 9_241_705_984, 42, 3584, 16, 8, 256, 256000),
    Model("Gemma-2-27b", 27_227_128_320, 46, 4608, 32, 16, 128, 256000),
    Model("Gemma-3-1b", 999_885_952, 26, 1152, 4, 1, 256, 262144),
    Model("Gemma-3-4b", 3_880_099_328, 34, 2560, 8, 4, 256, 262144),
    Model("Gemma-3-12b", 11_765_788_416, 48, 3840, 16, 8, 256, 262144),
    Model("Gemma-3-27b", 27_009_002_240, 62, 5376, 32, 16, 128, 262144),
)  # fmt: skip

# How checkpoints of these shapes are named, most specific first. The distilled Qwen-1.5B has an untied embedding, so
# its size is not in the table.
_FAMILIES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (late(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"distill[-_]?qwen[-_]?(7b|14b|32b)\b", "Qwen2.5-{}"),
        (r"distill[-_]?llama[-_]?(8b|70b)\b", "Llama-3-{}"),
        (r"(?:^|/)qwen[-_](1[._]8b|7b|14b|72b)\b", "Qwen-{}"),
        (r"qwen[-_]?2[._]5[-_](?:math[-_]|coder[-_])?(0[._]5b|1[._]5b|3b|7b|14b|32b|72b)\b", "Qwen2.5-{}"),
        (r"qwen[-_]?3[-_](?:coder[-_])?(30b[-_]a3b|235b[-_]a22b)", "Qwen3-{}"),
        (r"qwen[-_]?3[-_](0[._]6b|1[._]7b|4b|8b|14b|32b)\b", "Qwen3-{}"),
        (r"llama[-_]?3[._]2[-_](1b|3b)\b", "Llama-3.2-{}"),
        (r"llama[-_]?3[._]1[-_](405b)\b", "Llama-3.1-{}"),
        (r"llama[-_]?3(?:[._][13])?[-_](8b|70b)(?![a-z0-9])", "Llama-3-{}"),
        (r"mixtral[-_]?(8x7b)", "Mixtral-{}"),
        (r"mistral[-_]?(7b)", "Mistral-{}"),
        (r"mistral[-_]large[-_](2407)", "Mistral-Large-{}"),
        (r"gemma[-_]?2[-_](2b|9b|27b)\b", "Gemma-2-{}"),
        (r"gemma[-_]?3[-_](1b|4b|12b|27b)\b", "Gemma-3-{}"),
    )
)


def known(names: Iterable[str]) -> Model | None:
    """The first of these names whose dimensions we know."""
    for name in names:
        for pattern, row in _FAMILIES:
            match = pattern.search(name[:300])
            if match is not None:
                wanted = _letters(row.format(match[1]))
                return next(model for model in _TABLE if _letters(model.name) == wanted)
    return None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
