"""MRM: learn masks on uniform batches, rewind the weights, retrain (Zhang et al., ICML 2021)."""

from .entry import MethodEntry

MRM = MethodEntry(
    "mrm",
    "MRM",
    "Zhang et al., ICML 2021",
    "1, trained twice",
    stages=("pretrain", "prune", "finetune"),
)
DEBIASED = MethodEntry(
    "mrm-debias",
    "MRM_debias",
    "Park et al., CVPR 2023",
    "2: miner, main",
    stages=("mine", "pretrain", "prune", "finetune"),
    plan="dcwp",
)
