"""From a run's folder to files that are small, fast and checked.

May import: errors, masks, runs, store.
"""
