"""Training: the interface of methods, losses, sampling, the loop and its captured step, watchers, metrics.

May import: data, errors, masks, noise, parallel.
"""
