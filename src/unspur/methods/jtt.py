"""JTT: oversample what a network stopped early gets wrong, and train anew (Liu et al., ICML 2021)."""

from .entry import MethodEntry

ENTRY = MethodEntry(
    "jtt", "JTT", "Liu et al., ICML 2021", "2: stopped early, main", stages=("mine", "finetune")
)
