"""A user's `mypy --strict` sees our types, and passes on the example of the README and on a tracker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRACKER = """from unspur import trackers

with trackers.TensorBoard("runs") as tracker:
    tracker("pretrain", 1, {"loss": 0.5})
"""
WRONG = "import unspur\n\nresult: int = unspur.debias('photos', modle=None)\n"


def test_the_example_of_the_readme_passes_and_a_wrong_call_does_not(tmp_path: Path) -> None:
    """mypy's settings are those of `make check`, so that what it has cached is used again."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    examples = [block for block in blocks if "import" in block and "unspur.debias" in block]
    assert examples
    for number, example in enumerate(examples):
        (tmp_path / f"example_{number}.py").write_text(example)
    (tmp_path / "track.py").write_text(TRACKER)
    (tmp_path / "wrong.py").write_text(WRONG)
    files = sorted(map(str, tmp_path.glob("*.py")))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *files],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": "src"},
        capture_output=True,
        text=True,
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line for line in errors if "wrong.py" not in line] == [], done.stderr
    assert 'Unexpected keyword argument "modle"' in done.stdout
    assert 'expression has type "DebiasedModel"' in done.stdout
