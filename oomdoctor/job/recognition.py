"""What stands in a log of versions, models and cards, besides the frameworks themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from oomdoctor.job.frameworks import frameworks, packages
from oomdoctor.patterns import late

_VERSION: Final = r"v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:[.+\-]?[A-Za-z0-9][\w.+\-]{0,40})?)"
_BUILD: Final = r"(\d{3,5})"  # of a program that counts its builds, and has no other version
_NAME: Final = r"(?P<name>[A-Za-z][\w\-]{1,40})"
# `[pip3] torch==2.6.0`, `vllm  0.8.3`, `| vllm | 0.8.3 |`, `- transformers version: 4.50.0`, `torch: 2.6.0`
_LISTED: Final = late(
    rf"^[\W_]{{0,8}}(?:\[(?:pip3|conda)\]\s*)?[`\"']?{_NAME}(?:\[[\w,]{{1,40}}\])?[`\"']?"
    rf"(?:\s{{0,4}}(?:version|info|Version))?\s{{0,60}}[.]{{0,60}}[\s=:@|,]{{1,60}}[\"']?{_VERSION}(?![\w%]|\s?[KMGT]i?B)",
    re.IGNORECASE,
)
_NEXT: Final = late(rf"[\s,;|/]{{1,4}}(?:and )?{_NAME}[ =]{{1,2}}v?{_VERSION}(?![\w%]|\s?[KMGT]i?B)", re.IGNORECASE)
_PINNED: Final = late(rf"(?<![\w\-.]){_NAME}(?:\[[\w,]{{1,40}}\])?==\s?{_VERSION}")
_METADATA: Final = late(rf"(?:site|dist)-packages/{_NAME}-{_VERSION}(?:\.dist-info|-py3\.[\w.\-]{{1,60}}\.egg)\b")
_CONDITION: Final = late(
    r"pip install|requires|require |>=|<=|you have|please (?:install|upgrade)|incompatible|should be", re.IGNORECASE
)

# "/lib/python3.7/", "\Python310\lib\", "/envs/py36/", "x.cpython-37.pyc": the last three without the point
PYTHON_PATH: Final = late(
    r"/python(?P<whole>[23]\.\d{1,2})/"
    r"|(?:[\\/]Python|[\\/]envs[\\/](?:\w{1,40}[_-])?py(?:thon)?|\bcpython-)(?P<short>2(?=7)|3)\.?(?P<minor>\d{1,2})\b(?!\.\d)"
)

_VERSION_WORDS: Final = ("ersion", "==", "dist-info", ".egg/", "Python 3", " info:")


@cache
def _banners() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """The package, what its banner always holds, the banner. Most lines hold none of the words."""
    of_frameworks = (
        (each.name, word[0] if word else "", late(expression.replace("{version}", _VERSION).replace("{build}", _BUILD)))
        for each in frameworks()
        for *word, expression in each.banners
    )
    return (*of_frameworks, ("python", "ython ", late(rf"(?:^|\b)[Pp]ython (?:version)?[ :=]{{0,4}}{_VERSION}")))


def python_of(text: str) -> str | None:
    """The Python whose path a line holds: "3.7"."""
    match = PYTHON_PATH.search(text)
    if match is None:
        return None
    return match["whole"] or f"{match['short']}.{match['minor']}"


def version_words() -> tuple[str, ...]:
    """One of which every line holds that states a version."""
    words = (row[0] for each in frameworks() for row in each.banners if len(row) > 1)
    return (*_VERSION_WORDS, *(word for word in words if not any(general in word for general in _VERSION_WORDS)))


def versions(text: str) -> Iterator[tuple[str, str]]:
    """Every package and version that this line states."""
    found = list(_stated(text))
    if found and not _CONDITION.search(text):
        yield from found


def _stated(text: str) -> Iterator[tuple[str, str]]:
    for name, word, banner in _banners():
        if word in text and (match := banner.search(text)):
            yield name, _trimmed(match[1])
    if ".dist-info" in text or ".egg" in text:
        yield from _of_packages(*_METADATA.finditer(text))
    if "==" in text:
        yield from _of_packages(*_PINNED.finditer(text))
    yield from listed(text)


def listed(text: str) -> Iterator[tuple[str, str]]:
    """The package and version of one line of a package list."""
    first = _LISTED.match(text)
    found = list(_of_packages(first, *_further(text, first)))
    if found and not _CONDITION.search(text):
        yield from found


def _further(text: str, first: re.Match[str] | None) -> Iterator[re.Match[str]]:
    """Those that stand behind one another in a line: "torch 2.14.1+cu130 transformers 5.24.0"."""
    at = first.end(2) if first is not None else len(text)
    while (match := _NEXT.match(text, at)) is not None:
        yield match
        at = match.end()


def _of_packages(*matches: re.Match[str] | None) -> Iterator[tuple[str, str]]:
    """Those whose version decides something."""
    for match in filter(None, matches):
        name = match["name"].lower()
        if name in packages():
            yield name if name == "torch_npu" else name.replace("_", "-"), _trimmed(match[2])


def _trimmed(version: str) -> str:
    return version.rstrip(".-+,")


_FAMILY: Final = (
    r"(?:Qwen|QwQ|[Ll]lama|LLaMA|LLAMA|DeepSeek|deepseek|Mi[sx]tral|mi[sx]tral|[Gg]emma|GLM|glm|Phi|phi|Yi|InternLM"
    r"|internlm|InternVL|Baichuan|OPT|opt|bloom|falcon|gpt-oss|SmolLM)"
)
_MODEL: Final = late(
    rf"(?:(?<![\w.\-/])[A-Za-z0-9][\w.\-]{{0,60}}/|(?<![\w.\-]))"
    rf"[\w.\-]{{0,40}}?{_FAMILY}[\w.\-]{{0,40}}?\d{{1,4}}(?:\.\d{{1,4}})?x?\d{{0,4}}[bBmM](?![a-zA-Z])[\w.\-]{{0,60}}"
)
# GPUStack's name for a copy of a model: the model's, and five letters and digits (gpustack/worker/serve_manager.py)
_INSTANCE: Final = late(
    r"\b(?:Provisioning|Starting [\w ]{1,40}) model instance:? (?P<model>[A-Za-z0-9][\w.\-]{1,80})-[A-Za-z0-9]{5}\b"
)
MODEL_WORDS: Final = (
    "model instance",
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
    instance = _INSTANCE.search(text[:4000])
    if instance is not None:
        yield instance["model"]


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
