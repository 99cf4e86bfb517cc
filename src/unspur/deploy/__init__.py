"""From a run's folder to files that are small, fast and checked.

`export.py` is the verb; `check_images.py` finds images to check with, `formats.py` writes and compares files,
`measure.py` and `export_report.py` measure and report, `removal_summary.py` says what was removed.
May import: data, errors, masks, recipes, runs, store.
"""
