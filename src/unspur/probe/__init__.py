"""Test a suspicion: change images in pixels, score models before and after, rank the changes by effect.

    cues.py          parts of an image that can be hidden, or taken from another image
    found_cues.py    the background and text, which are found in each image first
    patches.py       a patch that is pasted
    image_changes.py changes by name, as on the command line
    donors.py        which image gives its cue to which
    trials.py        a change with its fair control
    paired.py        the statistics: intervals and p-values of paired answers
    measuring.py     score models on every trial, rank the changes
    findings.py      the result
    wording.py       the result in words and as JSON

May import: boundary, data, errors, extras, training.
"""
