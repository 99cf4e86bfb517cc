"""The audit: networks trained on halves of the data, the evidence they give, and the verdict.

    auditor.py          run an audit
    audit_networks.py   the table of its networks
    questions.py        the rule of the verdict
    recommendation.py   whether to debias
    crossfit_miner.py   the suspects of an audit, for a run

May import: data, errors, methods, noise, parallel, recipes, stages, store, training.
"""
