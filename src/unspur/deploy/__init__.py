"""From a run's folder to files that are small, fast and checked.

`export.py` exports a model; `check_images.py` finds images to check it with; `formats.py` writes and compares
files; `measure.py` and `export_report.py` measure and report; `removal_summary.py` says what was removed.
May import: data, errors, masks, recipes, runs, store.
"""
