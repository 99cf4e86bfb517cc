"""The review: a local web page to go through suspects, and the decisions a person makes there.

    SuspectTable      suspects.csv as read: names, labels, scores, flags
    DecisionLog       review.jsonl, to which every decision is appended before anything else happens
    Review            both together: the present state of every image; decide, undo, select
    image_sources     the images of the rows, by number alone
    web_app           the addresses that the page asks, behind `web_guard`

May import: data, errors, models, recipes, runs, stages, store.
"""
