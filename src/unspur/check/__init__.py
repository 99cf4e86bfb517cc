"""A check for CI: compare data and a model with a baseline, and raise an alarm if a shortcut appears.

    baseline.py     the result of a check as a file, which is validated when it is read
    checking.py     measure the data and the model, unless both are unchanged since the baseline
    alarms.py       compare a measurement with the baseline: the three alarms and their statistics
    ci_output.py    the outcome for CI systems: JUnit XML, GitHub annotations, Markdown

May import: audit, data, errors, runs, stages, store, version, workflow.
"""
