"""An attack on what unspur reads, writes and survives; `python -m fuzz` from the folder of the tests."""
