"""Controls for learned masks: weights are kept by magnitude or at random."""

from .entry import MethodEntry

MAGNITUDE = MethodEntry(
    "magnitude",
    "magnitude pruning",
    "Han et al., NeurIPS 2015",
    "1",
    stages=("pretrain", "prune", "finetune"),
    plan="mrm",
)
CONTROL_STAGES = ("mine", "pretrain", "prune", "control", "finetune")
MAGNITUDE_DEBIAS = MethodEntry(
    "magnitude-debias",
    "DCWP, magnitude masks",
    "control of DCWP",
    "2: miner, main",
    CONTROL_STAGES,
    plan="control",
)
RANDOM_DEBIAS = MethodEntry(
    "random-debias",
    "DCWP, random masks",
    "control of DCWP",
    "2: miner, main",
    CONTROL_STAGES,
    plan="control",
)
