"""Finished runs on disk: the folder of a run, loading its model, suspects.csv, tables of many runs.

May import: audit, data, errors, extras, masks, methods, models, parallel, recipes, stages, store, training,
version.
"""

from .classifier import Classifier, load, score
from .run_folder import save, save_record

__all__ = ["Classifier", "load", "save", "save_record", "score"]
