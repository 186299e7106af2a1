"""Python processes of Spark import PySpark from its installed package, if Spark's zip file is a copy of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from skyband.spark import sessions

SHOW = """
import sys, pyspark, py4j
print(pyspark.__file__, py4j.__file__, sys.path, getattr(sys.modules.get("sitecustomize"), "user", None), sep="\\n")
"""
LIBRARIES = Path(pyspark.__file__).parent / "python" / "lib"
ZIPS = [str(LIBRARIES / "pyspark.zip"), *map(str, LIBRARIES.glob("py4j-*.zip"))]


def shown(*path):
    """Where a process with this path imports PySpark and py4j from, its path, and the mark of a user's module."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.splitlines()


def test_the_installed_package_is_imported():
    assert ".zip" in shown(*ZIPS)[0], "the folder makes the difference"
    spark, py4j, path, _ = shown(*ZIPS, sessions._STARTUP)
    assert ".zip" not in spark + py4j
    assert str(sessions._STARTUP) not in path, "no other module of this name is hidden"


@pytest.mark.parametrize("name", ["pyspark", "spark-4"])
def test_the_zip_file_of_another_spark_stays(tmp_path, name):
    library = tmp_path / name / "python" / "lib"
    library.mkdir(parents=True)
    other = library / "pyspark.zip"
    other.write_bytes(Path(ZIPS[0]).read_bytes())
    assert shown(other, sessions._STARTUP)[0].startswith(str(other))


def test_a_module_of_the_user_with_the_same_name_is_imported(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("user = 'imported'")
    spark, _, _, user = shown(*ZIPS, sessions._STARTUP, tmp_path)
    assert ".zip" not in spark
    assert user == "imported"


def test_an_error_of_that_module_is_not_hidden(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import missing_module")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(sessions._STARTUP), str(tmp_path)])}
    done = subprocess.run([sys.executable, "-c", ""], env=environment, capture_output=True, text=True, check=False)
    assert "missing_module" in done.stderr


def test_only_processes_of_the_same_python_get_the_folder(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "mine")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with sessions._workers_run(sys.executable):
        assert os.environ["PYTHONPATH"] == os.pathsep.join([str(sessions._STARTUP), "mine"])
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    with sessions._workers_run("/other/python"):
        assert (os.environ["PYTHONPATH"], os.environ["PYSPARK_PYTHON"]) == ("mine", "/other/python")
    assert os.environ["PYTHONPATH"] == "mine"
    assert "PYSPARK_PYTHON" not in os.environ
    monkeypatch.delenv("PYTHONPATH")
    with sessions._workers_run(sys.executable):
        assert os.environ["PYTHONPATH"] == str(sessions._STARTUP)
    assert "PYTHONPATH" not in os.environ
