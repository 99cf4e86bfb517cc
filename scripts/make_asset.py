"""Make the embedded digits: the first 1,000 training and 200 test images of each class of MNIST.

    python scripts/make_asset.py --data-root data --out src/unspur/data/assets/mnist12k.xz

Prints the sha256 that `unspur.data.benchmarks.embedded` checks.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
from pathlib import Path

import torch
from torch import Tensor

from unspur.data.benchmarks.embedded import CLASSES, TEST_PER_CLASS, TRAIN_PER_CLASS
from unspur.data.benchmarks.mnist import find_root, mnist

# Found by trial: pixels have no period of 2 or 4 bytes (pb=0), and the previous byte is informative (lc=4).
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]


def main() -> None:
    """Write the file and print its size and checksum."""
    parser = argparse.ArgumentParser(description="Make the embedded digits from MNIST.")
    parser.add_argument("--data-root", type=Path, help="folder with the four MNIST idx files")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    options = parser.parse_args()
    packed = pack(find_root(options.data_root))
    options.out.write_bytes(packed)
    print(f"{options.out}: {len(packed)} bytes, sha256 {hashlib.sha256(packed).hexdigest()}")


def pack(root: Path) -> bytes:
    """Pack the chosen images, training then test, class by class, as one xz file of raw pixels."""
    full = mnist(root)
    train = first_of_each(full.train_images, full.train_labels, TRAIN_PER_CLASS)
    test = first_of_each(full.test_images, full.test_labels, TEST_PER_CLASS)
    return lzma.compress(torch.cat([train, test]).numpy().tobytes(), filters=FILTERS)


def first_of_each(images: Tensor, labels: Tensor, count: int) -> Tensor:
    """Return the first `count` images of every class, class by class."""
    return torch.cat([images[labels == label][:count] for label in range(CLASSES)])


if __name__ == "__main__":
    main()
