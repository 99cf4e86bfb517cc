"""Check the installed packages for known vulnerabilities with pip-audit (`make check`).

The list of vulnerabilities is on pypi.org. If that cannot be reached, nothing is checked, with a message.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import urllib.request

ADDRESS = "https://pypi.org/pypi/pip/json"
SECONDS = 10


def obstacle() -> str:
    """Return the reason why the check is not possible, or "" if it is."""
    if importlib.util.find_spec("pip_audit") is None:
        return "pip-audit is not installed"
    try:
        with urllib.request.urlopen(ADDRESS, timeout=SECONDS):
            return ""
    except OSError as error:
        return f"pypi.org cannot be reached ({error})"


def main() -> int:
    """Run pip-audit on the packages of this environment; return its exit code."""
    if reason := obstacle():
        print(f"known vulnerabilities of dependencies: NOT CHECKED, {reason}.")
        return 0
    command = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable"]
    return subprocess.run(command, check=False).returncode  # noqa: S603  (no part of it is user input)


if __name__ == "__main__":
    sys.exit(main())
