"""Threads, random streams and Ctrl-C are the same for a test wherever and after whatever it runs."""

import random
import signal

import numpy as np
import pytest
import torch

# For networks this small, more threads only wait for each other.
torch.set_num_threads(1)

# A shell that starts a command in the background lets it ignore Ctrl-C, and so do its child processes.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SEED = 12345  # no test uses it itself: weights that a test draws are not those of another seed


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the random streams anew, before the fixtures: no test depends on which others ran before it."""
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    random.seed(SEED)
