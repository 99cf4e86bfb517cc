"""Test a suspicion: change images in pixels, score models before and after, rank the changes by effect.

    cues.py          parts of an image that can be hidden, or replaced by those of another image
    found_cues.py    background and text, which have to be located in each image
    patches.py       a patch that is pasted into images
    image_changes.py changes by name, as on the command line
    donors.py        the image that each image gets a cue from
    trials.py        a change and its control
    paired.py        the statistics: intervals and p-values of paired predictions
    measuring.py     score models on every trial, rank the changes
    findings.py      the result
    wording.py       the result as text and as JSON

May import: boundary, data, errors, extras, training.
"""
