"""The examples run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize(
    "script",
    # The one of the README; the others start Spark or compile for long.
    [pytest.param(path, marks=() if path.stem == "largest_trades" else pytest.mark.long) for path in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_runs(script):
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
