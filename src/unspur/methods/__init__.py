"""One file a method; a method is what one training stage minimises."""

from ..method import Method
from .amplified import Amplified
from .confident import Confident
from .dcwp import Debiased, MaskSearch
from .erm import ERM

METHODS: dict[str, type[Method]] = {
    "erm": ERM,
    "amplified": Amplified,
    "confident": Confident,
    "debiased": Debiased,
    "mask-search": MaskSearch,
}

__all__ = ["ERM", "METHODS", "Amplified", "Confident", "Debiased", "MaskSearch"]
