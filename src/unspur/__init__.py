"""Remove shortcuts from image classifiers.

The way of the data: data → stages (mine, pretrain, prune, fine-tune, evaluate) → runs → report, deploy. Each
folder says in its `__init__` what it may import. The flat files:
errors, extras, hashing, noise, version may import: nothing.
boundary may import: errors.
api may import: audit, boundary, data, errors, recipes, report, runs, stages, store, workflow.
run_api may import: boundary, data, deploy, errors, report, runs, stages.
probe_api may import: boundary, data, deploy, errors, probe, recipes, report, run_api, runs, stages.
"""

from .api import DebiasedModel, audit, compare, debias
from .audit.result import Audit
from .data import Split, Splits
from .errors import UnspurError
from .masks.verbs import apply, attach, bake, density, harden
from .probe.findings import Probe
from .probe_api import probe
from .recipes import Recipe
from .run_api import evaluate, export, predict, report
from .runs.classifier import Classifier, load
from .runs.comparison_record import MethodComparison
from .runs.evaluation import Evaluation
from .stages.suspects import Suspects, Verdict, verdict
from .version import VERSION

__version__ = VERSION

__all__ = [
    "Audit",
    "Classifier",
    "DebiasedModel",
    "Evaluation",
    "MethodComparison",
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
