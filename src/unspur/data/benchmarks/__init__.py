"""The data sets of the paper, the same images without a bias, and planted shortcuts."""
