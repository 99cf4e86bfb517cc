"""A gate for CI: compare data and a model with a baseline, and raise an alarm where a shortcut comes in.

    baseline.py     what is kept of a check, as a file that is read strictly
    checking.py     measure the data and the model; nothing is done where both are as in the baseline
    alarms.py       compare a measurement with the baseline: the three alarms and their statistics
    ci_output.py    the outcome for machines: JUnit XML, GitHub annotations, Markdown

May import: audit, data, errors, runs, stages, store, version, workflow.
"""
