"""Finished runs on disk: the folder of a run, loading its model, suspects.csv, tables of many runs.

May import: audit, data, errors, extras, masks, methods, models, parallel, recipes, stages, store, training,
version.
"""

from .classifier import Classifier, load, score
from .run_folder import record, save, save_record, with_advice

__all__ = ["Classifier", "load", "record", "save", "save_record", "score", "with_advice"]
