"""Speed and memory, side by side in one process. `python -m benchmarks --help`; never imported by unspur."""
