"""The audit: networks trained on halves of the data, the evidence they give, and the verdict.

auditor.py runs an audit, audit_networks.py is the table of its networks, questions.py the rule of the
verdict, and recommendation.py says whether to debias, and crossfit_miner.py
gives its suspects to a run.

May import: data, errors, methods, noise, parallel, recipes, stages, store, training.
"""
