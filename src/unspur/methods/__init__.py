"""Methods, one file each: losses, settings, plan, supervision, source; and the catalogue of them.

May import: data, extras, masks, models, noise, training.
"""

from .amplified import Amplified
from .catalogue import all_methods, own_stages, plans
from .confident import Confident
from .dcwp import Debiased, MaskSearch
from .entry import MethodEntry, OwnStage
from .erm import ERM

__all__ = [
    "ERM",
    "Amplified",
    "Confident",
    "Debiased",
    "MaskSearch",
    "MethodEntry",
    "OwnStage",
    "all_methods",
    "own_stages",
    "plans",
]
