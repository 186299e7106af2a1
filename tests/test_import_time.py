"""`import skyband` is quick because it loads nothing heavy: checked by what is loaded, not by the clock."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skyband.queries.families import FAMILIES

HEAVY = ["numba", "llvmlite", "pyarrow", "pyspark", "pandas", "polars", "rich", "typer", "matplotlib"]


def loaded_after(program):
    program += "\nimport sys\nprint(*(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "program",
    [
        "import skyband",
        "import skyband as sb; sb.TopK(k=3, size='10 minutes', slide='1 minute', origin='2024-01-01')",
        "import skyband as sb; sb.Workload([sb.TopK(k=3, size=10)])",
        "from skyband import TopK, Workload, SkybandError",
        "import skyband as sb; dir(sb)",
        "import skyband as sb; dir(sb.aggregate)",
    ],
)
def test_nothing_heavy_is_loaded(program):
    assert loaded_after(program).isdisjoint(HEAVY)


def test_running_a_query_never_meets_spark():
    loaded = loaded_after("import skyband as sb; sb.replay(sb.TopK(k=1, size=2), None, [1.0, 2.0])")
    assert {"numba", "pyarrow"} <= loaded
    assert loaded.isdisjoint(["pyspark", "polars", "matplotlib", "typer"])


def test_what_spark_loads_to_ask_for_the_state_is_light():
    modules = ["spark.processor", *(f"{family}.plan" for family in FAMILIES)]
    loaded = loaded_after("import " + ", ".join(f"skyband.{module}" for module in modules))
    assert loaded.isdisjoint({*HEAVY, "numpy"} - {"pyspark"})


def test_one_query_loads_one_engine():
    program = "import skyband as sb; sb.replay(sb.TopK(k=1, size=2), None, [1.0, 2.0], algorithm='mintopk')"
    program += "\nimport sys; assert 'skyband.topk.algorithms.mintopk' in sys.modules"
    program += "; assert 'skyband.topk.algorithms.sma' not in sys.modules"
    loaded_after(program)
