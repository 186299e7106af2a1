"""The wheel and the sdist: what they contain, and that they work where nothing else of the repository is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import skyband as sb
from tests.programs import LONGEST

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
UV = Path(sys.executable).parent / "uv"
CONSTRAINTS = ROOT / "constraints.txt"
IN_PROCESS = """
import numpy as np, skyband as sb
scores = np.random.default_rng(5).random(2_000)
found = sb.replay(sb.TopK(k=2, size=300, slide=100), None, scores)
assert found["score"][0].as_py() == scores[:100].max()
print(sb.__file__, sb.__version__)
"""
ON_SPARK = """
import datetime as dt, skyband as sb
from pyspark.sql import SparkSession
from skyband.spark import answers, configure
start = dt.datetime(2026, 1, 1)
rows = [(start + dt.timedelta(seconds=n), n, float(n * 37 % 101)) for n in range(200)]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = configure(builder.config("spark.driver.host", "127.0.0.1")).getOrCreate()
df = spark.createDataFrame(rows, "ts timestamp, id long, x double")
found = answers(df, sb.TopK(k=1, size="1 minute", by="x"), time="ts", id="id").orderBy("window_end").collect()
assert [row.score for row in found] == [max(x for *_, x in rows[begin : begin + 60]) for begin in range(0, 200, 60)]
print("answers", len(found))
spark.stop()
"""


def uv(*arguments, **more):
    """Run uv; what it prints. Its own environment does not name another virtual environment."""
    known = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [UV, *map(str, arguments)], capture_output=True, text=True, timeout=LONGEST, check=False, env=known, **more
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(folder, *kinds, source=ROOT):
    """Build without compiled kernels, as a release for all platforms is."""
    assert "SKYBAND_COMPILED_KERNELS" not in os.environ
    uv("build", *kinds, "--build-constraints", CONSTRAINTS, "--out-dir", folder, source)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    build(folder, "--wheel")
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    build(folder, "--sdist")
    (found,) = folder.glob("*.tar.gz")
    return found


def names_in(wheel):
    with zipfile.ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if ".dist-info/" not in name}


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    assert wheel.name == f"skyband-{sb.__version__}-py3-none-any.whl"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src/skyband"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    there = {name.removeprefix("src/") for name in tracked if name and (ROOT / name).exists()}
    assert names_in(wheel) == there
    assert {"skyband/py.typed", "skyband/dashboard/assets/page.js", "skyband/spark/kafka_jars.toml"} <= there


def test_its_metadata(wheel):
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith("METADATA")]
        about = message_from_string(opened.read(name).decode())
        assert any(name.endswith("licenses/LICENSE") for name in opened.namelist())
    assert about["License-Expression"] == "Apache-2.0"
    assert set(about["Keywords"].split(",")) == set(PROJECT["keywords"])
    assert about.get_all("Classifier") == PROJECT["classifiers"]
    assert set(about.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert about.get_payload().lstrip().startswith("# Skyband")


def test_classifiers_and_bounds_are_those_of_the_matrix():
    """The page of versions names what the metadata promise."""
    page = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
    pythons = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert pythons == re.findall(r"^\| Python (3\.\d+) \|", page, flags=re.MULTILINE)
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    lowest = dict(one.split(">=") for one in PROJECT["dependencies"])
    assert f"| numba {lowest['numba']} |" in page
    (spark,) = [one for one in PROJECT["optional-dependencies"]["spark"] if one.startswith("pyspark")]
    assert spark == "pyspark>=4.0,<5"
    minors = re.findall(r"^\| Spark (4\.\d) \|", page, flags=re.MULTILINE)
    assert minors == ["4.0", "4.1", "4.2", "4.3"]


@pytest.mark.release
def test_the_wheel_of_the_sdist_is_the_same(wheel, sdist, tmp_path):
    with tarfile.open(sdist) as opened:
        opened.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert {"LICENSE", "README.md", "hatch_build.py", "pyproject.toml"} <= {path.name for path in source.iterdir()}
    build(tmp_path / "again", "--wheel", source=source)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert names_in(again) == names_in(wheel)


@pytest.mark.release
def test_a_clean_environment_answers_in_process_and_on_spark(wheel, sdist, tmp_path):
    uv("venv", "--quiet", "--python", sys.executable, tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    known = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    known |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}

    def run(*command):
        done = subprocess.run(
            command, cwd=tmp_path, env=known, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for built in (wheel, sdist):
        install(python, built)
        where, version = run(python, "-c", IN_PROCESS).split()
        assert Path(where).is_relative_to(tmp_path / "env")
        assert version == sb.__version__
    assert run(python, "-c", ON_SPARK).strip().endswith("answers 4")
    assert "mintopk" in run(tmp_path / "env" / "bin" / "skyband", "algorithms")


def install(python, built):
    """Install a built package with all that it needs for Spark."""
    pinned = ("--constraints", CONSTRAINTS, "--build-constraints", CONSTRAINTS, "--reinstall-package", "skyband")
    command = ("pip", "install", "--quiet", "--python", python, *pinned, f"skyband[spark] @ {built.as_uri()}")
    try:
        uv(*command, "--offline")  # from the cache, in which uv may otherwise build PySpark again
    except AssertionError:
        uv(*command)


@pytest.mark.release
def test_uvx_runs_the_command(wheel, tmp_path):
    """`pipx run --spec` installs and runs in the same way."""
    said = uv("tool", "run", "--python", sys.executable, "--constraints", CONSTRAINTS, "--from", wheel, "skyband",
              "algorithms", cwd=tmp_path)  # fmt: skip
    assert "mintopk" in said
