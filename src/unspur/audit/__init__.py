"""The audit: networks trained on halves of the data, the evidence they give, and the verdict.

May import: errors, methods, noise, recipes, stages, store, training.
"""
