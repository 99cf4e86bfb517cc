"""The data sets of the paper, data sets without a shortcut, and planted shortcuts."""
