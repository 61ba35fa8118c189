"""How many parameters the job's model has: from its name, from what loading it took, or from the size in its name."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.vllm_figures import WeightsLoaded
from oomdoctor.incident.model import Crash
from oomdoctor.patterns import late
from oomdoctor.records import dataclass
from oomdoctor.remedies import models
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.units import show

_SIZE: Final = late(r"(?<![A-Za-z0-9.])(\d{1,3}(?:[._]\d)?)[bB](?![a-zA-Z0-9])")


@dataclass(frozen=True, slots=True)
class Size:
    parameters: int
    source: str  # how it is known, as an assumption to print

    @property
    def billions(self) -> str:
        return f"{self.parameters / 1e9:.2f} B parameters"


def size_of_model(crash: Crash) -> Size | None:
    """The parameters of the model that the job trains or serves."""
    model = models.known(crash.context.models)
    if model is not None:
        return Size(model.parameters, f"the model is a {model.name}: {model.parameters / 1e9:.2f} B parameters")
    loaded = crash.first(WeightsLoaded)
    if loaded is not None and loaded.weights_bytes:
        ranks = tensor_parallel(crash)
        parameters = loaded.weights_bytes * ranks // arithmetic.WEIGHT_BYTES
        over = f" on each of {ranks} cards" if ranks > 1 else ""
        return Size(
            parameters,
            f"{show(loaded.weights_bytes)} of weights{over} at 2 bytes each are {parameters / 1e9:.2f} B parameters",
        )
    return _named(crash)


def _named(crash: Crash) -> Size | None:
    for name in crash.context.models:
        match = _SIZE.search(name.rsplit("/", 1)[-1])
        if match is not None:
            billions = float(match[1].replace("_", "."))
            return Size(round(billions * 1e9), f"the model's name says {billions:g} B parameters")
    return None


def tensor_parallel(crash: Crash) -> int:
    """Over how many cards one copy of the model is split."""
    stated = crash.setting(*KNOBS["tensor-parallel"].settings)
    return stated.value if stated is not None and isinstance(stated.value, int) and stated.value > 0 else 1
