"""The data sets of the paper, plain sets without a bias, and planted shortcuts."""
