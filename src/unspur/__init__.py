"""Remove shortcuts from image classifiers.

The flow of data: data → stages (mine, pretrain, prune, fine-tune, evaluate) → runs → report, deploy. The
`__init__` of a folder says what it may import. Names are imported when they are first used. The flat files:
deprecation, errors, extras, lazy, noise, version may import: nothing.
boundary may import: errors.
api may import: audit, boundary, data, errors, parallel, recipes, report, runs, stages, store, workflow.
run_api may import: boundary, data, deploy, errors, report, runs, stages.
probe_api may import: boundary, data, deploy, errors, probe, recipes, report, run_api, runs, stages.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from .deprecation import RESULT_NAME, renamed_names
from .errors import UnspurError
from .lazy import lazy_names
from .version import VERSION

if TYPE_CHECKING:
    from .api import audit, compare, debias
    from .audit.result import Audit
    from .data import Split, Splits
    from .integrations import trackers as trackers
    from .integrations.estimator import DebiasClassifier
    from .integrations.pretrained import PretrainedClassifier
    from .masks.verbs import apply, attach, bake, density, harden
    from .probe.findings import Probe
    from .probe_api import probe
    from .recipes import Recipe
    from .run_api import evaluate, export, predict, report
    from .runs.classifier import Classifier, load
    from .runs.comparison_record import MethodComparison
    from .runs.evaluation import Evaluation
    from .stages.suspects import Suspects, Verdict, verdict
    from .workflow.debiased_model import DebiasedModel

__version__ = VERSION

__all__ = [
    "Audit",
    "Classifier",
    "DebiasClassifier",
    "DebiasedModel",
    "Evaluation",
    "MethodComparison",
    "PretrainedClassifier",
    "Probe",
    "Recipe",
    "Split",
    "Splits",
    "Suspects",
    "UnspurError",
    "Verdict",
    "__version__",
    "apply",
    "attach",
    "audit",
    "bake",
    "compare",
    "debias",
    "density",
    "evaluate",
    "export",
    "harden",
    "load",
    "predict",
    "probe",
    "report",
    "verdict",
]

if not TYPE_CHECKING:
    _find = lazy_names(
        __name__,
        {
            "api": "audit compare debias",
            "audit.result": "Audit",
            "data.splits": "Split Splits",
            "integrations": "trackers",
            "integrations.estimator": "DebiasClassifier",
            "integrations.pretrained": "PretrainedClassifier",
            "masks.verbs": "apply attach bake density harden",
            "probe.findings": "Probe",
            "probe_api": "probe",
            "recipes.settings": "Recipe",
            "run_api": "evaluate export predict report",
            "runs.classifier": "Classifier load",
            "runs.comparison_record": "MethodComparison",
            "runs.evaluation": "Evaluation",
            "stages.suspects": "Suspects Verdict verdict",
            "workflow.debiased_model": "DebiasedModel",
        },
    )
    __getattr__ = renamed_names(_find, {"Debiased": ("DebiasedModel", RESULT_NAME)})


class _Package(ModuleType):
    """This package. Importing a folder (`audit`, `report`) must not replace the function of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
