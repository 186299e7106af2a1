"""Kernels in an installed package: used if everything matches, else compiled as usual; answers are the same."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import skyband
from skyband.kernels import _shipped

LEVEL = "x86-64-v3"
PROGRAM = """
import numpy as np, skyband as sb
from skyband.kernels import _notice
scores = np.random.default_rng(5).random(2_000)
found = sb.replay(sb.TopK(k=4, size=300, slide=20), None, scores, algorithm="naive")
print(hash(tuple(found["score"].to_pylist())), _notice.compiled_kernels())
"""
pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason=f"{LEVEL} is another processor")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with the kernels of one algorithm, as a wheel contains them."""
    folder = tmp_path_factory.mktemp("lib")
    hidden = shutil.ignore_patterns("__pycache__", "assets", "compiled")
    shutil.copytree(Path(skyband.__file__).parent, folder / "skyband", ignore=hidden)
    compiled = folder / "skyband" / "kernels" / "compiled"
    command = ["-m", "skyband.precompile", "--into", str(compiled), "--level", LEVEL, "algorithm-naive"]
    subprocess.run([sys.executable, *command], env=environment(folder), check=True)
    return folder


def environment(folder, **more):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    return plain | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"} | more


def answer(folder, tmp_path, **more):
    """The answers and the number of compiled kernels of a first use, with an empty home."""
    home = tmp_path / f"home {len(list(tmp_path.iterdir()))}"
    home.mkdir(mode=0o700)
    known = environment(folder, HOME=str(home), **more)
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=known, check=True, capture_output=True, text=True)
    found, compiled = done.stdout.split()
    return found, int(compiled)


def another_version(manifest):
    return {**manifest, "environment": manifest["environment"].replace("cpython", "otherpython")}


def another_processor(manifest):
    triple, name, features = manifest["processor"]
    return {**manifest, "processor": [triple, name, f"{features},+imaginary"]}


@pytest.fixture
def compiled(package):
    host = llvm.get_host_cpu_features()
    if not all(host.get(name[1:], False) for name in _shipped.level_features(LEVEL).split(",")):
        pytest.skip(f"this processor is below {LEVEL}")
    return package / "skyband" / "kernels" / "compiled"


@pytest.mark.long
@pytest.mark.parametrize("change", [another_version, pytest.param(another_processor, marks=pytest.mark.long)])
def test_a_first_use_compiles_nothing_unless_something_differs(package, compiled, tmp_path, change):
    assert not [path.name for path in compiled.iterdir() if "inner" in path.name or path.suffix == ".lock"]
    shipped, count = answer(package, tmp_path)
    assert count == 0
    manifest = compiled / _shipped.MANIFEST
    text = manifest.read_text()
    wanted = json.loads(text)
    assert change(wanted) != wanted
    manifest.write_text(json.dumps(change(wanted)))
    found, count = answer(package, tmp_path)
    manifest.write_text(text)
    assert found == shipped
    assert count > 0


@pytest.mark.long
def test_other_settings_or_no_manifest(package, compiled, tmp_path):
    assert answer(package, tmp_path, NUMBA_OPT="2")[1] > 0
    manifest = compiled / _shipped.MANIFEST
    text = manifest.read_text()
    manifest.unlink()
    assert answer(package, tmp_path)[1] > 0
    manifest.write_text(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"processor": 1}', '{"processor": ["a"]}', '{"processor": [1, 2]}'])
def test_a_damaged_manifest_is_ignored(tmp_path, text):
    (tmp_path / _shipped.MANIFEST).write_text(text)
    assert _shipped.shipped_kernels(tmp_path) is None
    assert _shipped.shipped_kernels(tmp_path / "missing") is None
