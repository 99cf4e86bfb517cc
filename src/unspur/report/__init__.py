"""Pages, tables and figures; reads results, never trains.

May import: audit, cluster, errors, extras, methods, probe, recipes, runs, stages, store, theory, trackers,
training, version.
"""
