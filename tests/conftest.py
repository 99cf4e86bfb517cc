"""One thread for torch in tests: for networks this small, more threads only wait for each other."""

import torch

torch.set_num_threads(1)
