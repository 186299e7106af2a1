"""`import skyband` does not load sqlglot, nor does asking a question or printing a simple one; reading SQL does."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loads_sqlglot(program):
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint('sqlglot' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[-1] == "True"


@pytest.mark.parametrize(
    "program",
    [
        "import skyband",
        "import skyband as sb; sb.Workload([sb.TopK(k=3, size='10 minutes', by='price')])",
        "import skyband as sb; repr(sb.TopK(k=3, size=10, by='price')); dir(sb)",
        "import skyband as sb; sb.sql",
        "import skyband.sql, skyband.sql.writer",
        "import skyband as sb; print(sb.TopK(name='big', k=3, size='1 hour', by='a * b', partition_by=['c']))",
    ],
)
def test_nothing_loads_it_before_it_is_needed(program):
    assert not loads_sqlglot(program)


def test_reading_loads_it():
    assert loads_sqlglot("import skyband as sb; sb.sql('TOPK 1 OVER 5 ROWS')")
