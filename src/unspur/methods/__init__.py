"""Methods, one file each (losses, settings, plan, supervision, source), and the catalogue of all methods.

Names are imported when they are first used. May import: data, extras, lazy, masks, models, noise, training.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .amplified import Amplified
    from .catalogue import all_methods, method_of_plan, own_stages, plans
    from .confident import Confident
    from .dcwp import Debiased, MaskSearch
    from .entry import MethodEntry, OwnStage
    from .erm import ERM
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "amplified": "Amplified",
            "catalogue": "all_methods method_of_plan own_stages plans",
            "confident": "Confident",
            "dcwp": "Debiased MaskSearch",
            "entry": "MethodEntry OwnStage",
            "erm": "ERM",
        },
    )

__all__ = [
    "ERM",
    "Amplified",
    "Confident",
    "Debiased",
    "MaskSearch",
    "MethodEntry",
    "OwnStage",
    "all_methods",
    "method_of_plan",
    "own_stages",
    "plans",
]
