"""What `skyband pack` puts into an archive, and what it rejects; tests/spark/test_cluster.py runs one."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from rich.console import Console

import skyband
from skyband.cli import pack as module
from skyband.cli.pack import pack
from skyband.errors import InvalidInputError, MissingDependencyError

SILENT = Console(quiet=True)


@pytest.fixture
def skyband_alone(monkeypatch):
    """Only Skyband's own files: those of its dependencies take seconds to pack."""
    found = module._distributions([])
    monkeypatch.setattr(module, "_distributions", lambda extras: [one for one in found if one.name == "skyband"])


def test_dependencies_are_those_of_the_extras_without_spark():
    names = {one.name.lower() for one in module._distributions([])}
    assert {"skyband", "numba", "llvmlite", "pyarrow", "pandas", "grpcio", "protobuf"} <= names
    assert not {"pyspark", "py4j", "pytest", "psycopg"} & names
    assert "psycopg" in {one.name.lower() for one in module._distributions(["postgres"])}


@pytest.mark.usefixtures("skyband_alone")
def test_the_python_of_an_archive_has_its_packages(tmp_path):
    said = pack(tmp_path / "it.tar.gz", SILENT, kernels="none", compression=1)
    assert "1 packages, no kernels" in said
    assert f"spark.archives              {tmp_path}/it.tar.gz#environment" in said
    with tarfile.open(tmp_path / "it.tar.gz") as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "environment", filter="data")
    assert not [name for name in names if "/compiled/" in name]
    modules, bytecode = ({name for name in names if name.endswith(ending)} for ending in (".py", ".pyc"))
    assert bytecode == {cache_from_source(name) for name in modules}
    bare = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"}
    python = tmp_path / "environment" / "bin" / "python"
    # Bytecode with this flag is valid whatever the time of the source, which unpacking may change.
    flags = (tmp_path / "environment" / cache_from_source("packages/skyband/__init__.py")).read_bytes()[4:8]
    assert flags == b"\x01\0\0\0"
    show = "import importlib.util, sys; print(importlib.util.find_spec('skyband').origin, *sys.version_info[:2])"
    found = subprocess.run([python, "-c", show], env=bare, capture_output=True, text=True, check=True)
    packed = tmp_path / "environment" / "packages" / "skyband" / "__init__.py"
    assert found.stdout.split() == [str(packed), *map(str, sys.version_info[:2])]
    assert packed.read_text() == Path(skyband.__file__).read_text()


@pytest.mark.parametrize("by_pip", [True, False])
def test_its_python_imports_spark_from_a_folder_which_has_bytecode(tmp_path, by_pip):
    """Spark passes a zip file. The folder with the same modules is elsewhere if Spark was installed by pip."""
    place = tmp_path / "site" / "pyspark" / "python"
    (place / "lib").mkdir(parents=True)
    (place / "pyspark").mkdir()
    package = place.parent if by_pip else place / "pyspark"
    (package / "__init__.py").write_text("")
    (tmp_path / "site" / "other.py").write_text("")
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(module._starter())
    python.chmod(0o755)
    known = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"/some/where:{place}/lib/pyspark.zip:{place}/lib/py4j.zip"}
    show = "import importlib.util, pyspark; print(pyspark.__file__, importlib.util.find_spec('other'))"
    for _ in range(2):
        found = subprocess.run([python, "-c", show], env=known, capture_output=True, text=True, check=True)
        where, other = found.stdout.split()
        assert Path(where).samefile(package / "__init__.py")
        assert other == "None", "only Spark's modules are added"


@pytest.mark.usefixtures("skyband_alone")
def test_a_worker_without_this_python_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module.sys, "version_info", (3, 99, 0))
    pack(tmp_path / "it.tgz", SILENT, kernels="none", compression=1)
    with tarfile.open(tmp_path / "it.tgz") as archive:
        archive.extractall(tmp_path / "environment", filter="data")
    found = subprocess.run([tmp_path / "environment/bin/python", "-V"], capture_output=True, text=True, check=False)
    assert found.returncode == 127
    assert "skyband: Python 3.99 was not found on" in found.stderr


@pytest.mark.parametrize(("name", "given", "says"), [
    ("it.zip", {}, "the archive must be named .tar.gz or .tgz, got"),
    ("it.tgz", {"kernels": "x86"}, "kernels must be x86-64-v3, native or none, got 'x86'"),
    ("it.tgz", {"extras": ["more"], "kernels": "none"}, "skyband has no extra 'more'"),
    ("no/where/it.tgz", {"kernels": "none"}, "cannot be written: No such file or directory"),
])  # fmt: skip
def test_what_is_rejected(tmp_path, name, given, says):
    with pytest.raises(InvalidInputError, match=says):
        pack(tmp_path / name, SILENT, **given)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(monkeypatch):
    def missing(name):
        raise module.PackageNotFoundError(name)

    monkeypatch.setattr(module, "distribution", missing)
    with pytest.raises(MissingDependencyError, match=r"skyband is not installed, so it cannot be packed\. Install it"):
        module._distributions([])
