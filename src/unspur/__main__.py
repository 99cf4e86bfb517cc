"""Run the command line as `python -m unspur`."""

from .cli import main

main()
