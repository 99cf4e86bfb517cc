"""Report pages, tables and figures, made from stored results; nothing here trains.

May import: audit, cluster, errors, extras, methods, probe, recipes, runs, stages, store, theory, training,
version.
"""
