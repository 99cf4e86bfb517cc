"""Finished work on disk: a run's folder, the model back from it, suspects.csv, many runs in one table.

May import: addresses, audit, data, errors, extras, masks, methods, models, parallel, recipes, stages,
store, training, version.
"""

from .classifier import Classifier, load, score
from .run_folder import record, save, save_record, with_advice

__all__ = ["Classifier", "load", "record", "save", "save_record", "score", "with_advice"]
