"""Fuzzing of everything that unspur reads and writes; run `python -m fuzz` in the folder of the tests."""
