"""The review: a local web page to go through suspects, and the decisions a person makes there.

    SuspectTable      the content of suspects.csv: names, labels, scores, flags
    DecisionLog       review.jsonl, to which every decision is appended before anything else happens
    Review            table and log together: the current state of every image; decide, undo, select
    image_sources     the images of the rows, by row number
    RegionJob         hides a region in images of the run, and compares the predictions
    web_app           the routes of the server, protected by `web_guard`

May import: data, errors, models, probe, recipes, runs, stages, store.
"""
