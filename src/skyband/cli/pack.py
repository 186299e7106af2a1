"""`skyband pack`: make an archive with Skyband and its dependencies for the workers of a Spark cluster.

Workers need nothing but a Python of the same minor version. Spark itself is not in the archive: an executor's Spark
brings its own Python package. The kernels are compiled for a common processor level, so that no executor compiles.
"""

from __future__ import annotations

import io
import os
import platform
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source
from pathlib import Path
from py_compile import PycInvalidationMode, PyCompileError
from py_compile import compile as compile_module
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console

import skyband
from skyband.cli.spark_session import progress
from skyband.errors import InvalidInputError, MissingDependencyError

__all__ = ["pack"]

LEVEL, NATIVE, NONE = "x86-64-v3", "native", "none"  # what kernels are compiled for
SETS = ("frames", "aggregates", "incomplete", "uncertain")  # what Spark's workers run
PACKAGES, COMPILED = "packages", "packages/skyband/kernels/compiled"
_OF_SPARK = ("pyspark", "py4j")
_UNUSED = ("__pycache__", "tests", "include")  # folders of packages that no worker imports
_AGED = 8 * 86_400.0  # older than what the kernel store renews on use
_NAMES = (".tar.gz", ".tgz")  # Spark unpacks other archives too, but without the permission to execute
_COMPRESSION = 3  # higher levels take minutes and save a few percent
_USAGE = """\
Settings of the session or of spark-submit:
  spark.archives              {}#environment
  spark.pyspark.python        ./environment/bin/python
  spark.python.daemon.module  skyband.spark.worker_daemon
In client mode, where the driver runs on this machine, also unpack it in the driver's working directory:
  mkdir environment && tar -xzf {} -C environment"""
_STARTER = """\
#!/bin/sh
# Runs Python {version} of this machine with the packages of this archive, which `skyband pack` has made.
here=$(cd "$(dirname "$0")/.." && pwd)
modules=$here/{packages}
# Spark passes its Python modules as a zip file, of which Python keeps no bytecode: every process would compile them.
# Spark waits only ten seconds for some of these processes. Its folder has the same modules.
case "$PYTHONPATH" in
*/lib/pyspark.zip*)
  spark=${{PYTHONPATH%%/lib/pyspark.zip*}}
  spark=${{spark##*:}}
  if [ ! -e "$spark/pyspark/__init__.py" ] && [ -e "${{spark%/*}}/__init__.py" ]; then # installed by pip
    mkdir -p "$here/spark"
    [ -e "$here/spark/pyspark" ] || ln -sn "${{spark%/*}}" "$here/spark/pyspark" 2>/dev/null
    spark=$here/spark
  fi
  modules=$modules:$spark
  ;;
esac
for python in python{version} {base} python3; do
  if "$python" -ISc 'import sys; sys.exit(sys.version_info[:2] != ({comma}))' 2>/dev/null; then
    PYTHONPATH="$modules${{PYTHONPATH:+:$PYTHONPATH}}" exec "$python" "$@"
  fi
done
echo "skyband: Python {version} was not found on $(hostname). The archive was packed with it: install it there, or \
pack with the Python of the workers." >&2
exit 127
"""


def pack(
    output: Path,
    talk: Console,
    *,
    extras: Sequence[str] = (),
    kernels: str | None = None,
    compression: int = _COMPRESSION,
) -> str:
    """Write the archive and return how to use it. `kernels` is None for a level that most machines have."""
    if not output.name.endswith(_NAMES):
        raise InvalidInputError(f"the archive must be named .tar.gz or .tgz, got {str(output)!r}. Nothing was packed.")
    if kernels not in (None, LEVEL, NATIVE, NONE):
        raise InvalidInputError(f"kernels must be {LEVEL}, {NATIVE} or {NONE}, got {kernels!r}. Nothing was packed.")
    level = kernels or (LEVEL if platform.machine() in ("x86_64", "AMD64") else NATIVE)
    found = _distributions(extras)
    beside = output.with_name(f".{output.name}.part")
    with TemporaryDirectory(prefix="skyband-pack-") as folder:
        kernel_folder = Path(folder) / "kernels"
        kernel_folder.mkdir()
        compiled = [] if level == NONE else _compiled(level, kernel_folder, talk)
        try:
            with progress(talk, "packing…"), tarfile.open(beside, "w:gz", compresslevel=compression) as archive:
                _add_text(archive, "bin/python", _starter(), 0o755)
                for one in found:
                    _add_distribution(archive, one, Path(folder))
                for path in compiled:
                    archive.add(path, f"{COMPILED}/{path.name}", filter=_anonymous)
            os.replace(beside, output)
        except OSError as error:
            raise InvalidInputError(f"{str(output)!r} cannot be written: {error.strerror or error}.") from None
        finally:
            beside.unlink(missing_ok=True)
    size = output.stat().st_size / 1e6
    what = "no kernels: workers compile them before the first batch" if level == NONE else f"kernels for {level}"
    return f"{output}: {len(found)} packages, {what}, {size:,.0f} MB\n{_USAGE.format(output, output)}"


def _distributions(extras: Sequence[str]) -> list[Distribution]:
    """Return the installed distributions that Skyband with these extras requires, without Spark's."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(f"skyband[{','.join(['spark', *extras])}]")]
    done: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in _OF_SPARK or (name, frozenset(wanted.extras)) in done:
            continue
        done.add((name, frozenset(wanted.extras)))
        try:
            found[name] = distribution(wanted.name)
        except PackageNotFoundError:
            raise MissingDependencyError(
                f"{wanted.name} is not installed, so it cannot be packed. Install it with: pip install "
                f"'skyband[{','.join(['spark', *extras])}]'"
            ) from None
        waiting += [one for one in map(Requirement, found[name].requires or ()) if _applies(one, wanted.extras)]
    unknown = [name for name in extras if name not in (found["skyband"].metadata.get_all("Provides-Extra") or ())]
    if unknown:
        raise InvalidInputError(f"skyband has no extra {unknown[0]!r}; nothing was packed.")
    return [found[name] for name in sorted(found)]


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _add_distribution(archive: tarfile.TarFile, one: Distribution, folder: Path) -> None:
    """Add the files of a distribution, and the bytecode of its modules.

    Spark waits ten seconds for a worker. Without bytecode, a worker on a busy machine can need longer for its imports.
    """
    for path, name in _files(one):
        archive.add(path, f"{PACKAGES}/{name}", filter=_anonymous)
        if path.suffix == ".py":
            with suppress(PyCompileError, ValueError):  # templates, and files of other versions of Python
                found = compile_module(
                    str(path), str(folder / "module.pyc"), name, doraise=True,
                    invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
                )  # fmt: skip
                archive.add(str(found), f"{PACKAGES}/{cache_from_source(name)}", filter=_anonymous)


def _files(one: Distribution) -> Iterator[tuple[Path, str]]:
    """Yield the files of a distribution and their names below site-packages."""
    if canonicalize_name(one.metadata["Name"]) == "skyband":  # may be installed as a link to its sources
        root = Path(skyband.__file__).parent
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and not {"__pycache__", "compiled"} & set(name.parts):
                yield path, f"skyband/{name.as_posix()}"
    for file in one.files or ():
        path = Path(str(one.locate_file(file)))
        outside = file.parts[0] in ("..", "skyband") or file.is_absolute() or set(file.parts) & set(_UNUSED)
        if not outside and file.suffix not in (".pth", ".pyc") and file.name != "direct_url.json" and path.is_file():
            yield path, file.as_posix()


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _add_text(archive: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(text.encode()), mode, int(time.time())
    archive.addfile(member, io.BytesIO(text.encode()))


def _starter() -> str:
    major, minor = sys.version_info[:2]
    base = Path(sys.base_prefix) / "bin" / f"python{major}.{minor}"
    return _STARTER.format(version=f"{major}.{minor}", comma=f"{major}, {minor}", base=base, packages=PACKAGES)


def _compiled(level: str, folder: Path, talk: Console) -> list[Path]:
    """Return the kernels for the workers, compiled in `folder` or taken from the store of this machine."""
    from skyband.kernels._cache import kernel_store, private_folder  # noqa: PLC0415 - loads the compiler
    from skyband.precompile import compile_into  # noqa: PLC0415

    store = kernel_store().folder
    kept = store if level == NATIVE or store is None else private_folder(store / level)
    aged = time.time() - _AGED
    for path in kept.iterdir() if kept is not None else ():
        if path.suffix in (".nbi", ".nbc"):
            shutil.copy(path, folder)
            os.utime(folder / path.name, (aged, aged))
    with progress(talk, f"compiling kernels for {level}…"):
        compile_into(folder, SETS, os.cpu_count() or 1, None if level == NATIVE else level)
    # The use of a kernel renews its time. The others are of an earlier version, or not for workers.
    found = sorted(path for path in folder.iterdir() if path.stat().st_mtime > aged + 1)
    if kept is not None and level != NATIVE:
        for path in found:
            shutil.copy(path, kept)
    return found
