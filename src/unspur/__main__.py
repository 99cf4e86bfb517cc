"""`python -m unspur`."""

from .cli import main

main()
