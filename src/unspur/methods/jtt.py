"""JTT: oversample the errors of an early-stopped network and train a new network (Liu et al., ICML 2021)."""

from .entry import MethodEntry

ENTRY = MethodEntry(
    "jtt",
    "JTT",
    "Liu et al., ICML 2021",
    "2: stopped early, main",
    stages=("mine", "finetune"),
    stages_for_users=("mine", "pretrain", "finetune"),
)
