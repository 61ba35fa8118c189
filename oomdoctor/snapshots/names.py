"""Who holds a block, as the table of holders names them: ids of the ledger's rows, which are translated there."""

from __future__ import annotations

from typing import Final

OPTIMIZER_STATES: Final = "optimizer states"
OPTIMIZER_STEP: Final = "optimizer step"
PARAMETERS: Final = "parameters"
GATHERED: Final = "gathered parameters"
PARAMETERS_AND_GRADIENTS: Final = "parameters and gradients"
GRADIENTS: Final = "gradients"
BACKWARD: Final = "backward pass"
ACTIVATIONS: Final = "activations"
TEMPORARY: Final = "temporary memory"
LOGITS: Final = "logits and loss"
GRAPHS: Final = "CUDA graphs"
INPUTS: Final = "input batches"
OTHER: Final = "other allocations"
NO_STACK: Final = "allocated without a stack"
