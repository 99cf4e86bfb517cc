"""The paper's linear model, its theorems and its simulation, as functions that return arrays.

One bit of the input is the label itself (invariant); D more bits agree with it with probability p
(spurious). A linear classifier with pretrained weights is pruned by random masks m_j ~ Bern(π_j).

    environments.py   the distribution of the bits (biased, test, mixture); sampling and enumeration
    error_rates.py    the error of the pruned classifier, exact or from samples
    bounds.py         Theorems 1 and 2: Hoeffding bounds on that error
    sweep.py          compares bound and exact error over a grid that includes extreme cases
    flow.py           Proposition 1: how the weights grow under gradient flow, and its bounds
    simulation.py     the appendix figure: many linear classifiers trained at once
    pruning.py        learning of the mask probabilities π by gradient descent
    cosines.py        Lemma 1: how similar the features of two samples are at initialisation
    studies.py        the numbers of the report, one function per figure
    corners.py        where the paper's inequality fails, or is trivial

Wrong parameters raise ValueError.

May import: extras.
"""

from .bounds import mean_output, mixture_bound, one_sided_bound, test_bound, train_bound
from .cosines import Cosines, expected_cosines, sampled_cosines, semi_orthogonal
from .environments import Environment, biased, fair, mixture, φ_limit
from .error_rates import Error, exact_error, sampled_error
from .flow import Start, Trajectory, integrate
from .pruning import critical_φ, learn
from .simulation import Rule, accuracy, train, weight_ratio
from .sweep import Case, sweep

__all__ = [
    "Case",
    "Cosines",
    "Environment",
    "Error",
    "Rule",
    "Start",
    "Trajectory",
    "accuracy",
    "biased",
    "critical_φ",
    "exact_error",
    "expected_cosines",
    "fair",
    "integrate",
    "learn",
    "mean_output",
    "mixture",
    "mixture_bound",
    "one_sided_bound",
    "sampled_cosines",
    "sampled_error",
    "semi_orthogonal",
    "sweep",
    "test_bound",
    "train",
    "train_bound",
    "weight_ratio",
    "φ_limit",
]
