"""Benchmarks of speed and memory: `python -m benchmarks --help`. The package unspur does not import them."""
