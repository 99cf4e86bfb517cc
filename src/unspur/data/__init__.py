"""Labelled images: splits, batches, augmentation, streaming.

`decoding/` turns files into pixels, `custom/` opens a user's own images, `sharded/` opens images in tar
shards, `benchmarks/` loads or generates the published data sets.
May import: boundary, errors, extras, noise, parallel, store.
"""

from .benchmarks.registry import DATASETS, SIZED, cache_folder, dataset_names, load
from .custom import load as open_images
from .splits import Part, Split, Splits

__all__ = [
    "DATASETS",
    "SIZED",
    "Part",
    "Split",
    "Splits",
    "cache_folder",
    "dataset_names",
    "load",
    "open_images",
]
