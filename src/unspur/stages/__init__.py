"""The stages of a run (mine, pretrain, adapt, prune, finetune, evaluate), their context and results.

May import: data, errors, masks, methods, models, noise, parallel, recipes, store, training.
"""

from .driver import Run, mine_together, run, run_together

__all__ = ["Run", "mine_together", "run", "run_together"]
