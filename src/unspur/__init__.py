"""unspur removes shortcuts from image classifiers."""

from .api import Debiased, audit, debias
from .auditing import Audit
from .bundle import Classifier, load
from .data import Split, Splits
from .errors import UnspurError
from .masks import apply, attach, bake, density, harden
from .mining import Suspects, Verdict, verdict
from .recipe import Recipe
from .version import VERSION

__version__ = VERSION

__all__ = [
    "Audit",
    "Classifier",
    "Debiased",
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
    "debias",
    "density",
    "harden",
    "load",
    "verdict",
]
