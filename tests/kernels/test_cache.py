"""Where compiled kernels are kept: never where another user could have put code of their own."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import skyband
from skyband.kernels._cache import KernelStore, find_store

STRANGER = 54321
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="gives folders to another user")
pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights of this system are not looked at")


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder with a source, a home and a folder for temporary files; no cache anywhere."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "temporary").mkdir(mode=0o700)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return folder


def planted(folder, how):
    """Make a folder as another user may have made it."""
    if how == "link":
        target = folder.parent / "elsewhere"
        target.mkdir(mode=0o700)
        folder.symlink_to(target)
    elif how == "foreign":
        folder.mkdir(mode=0o700)
        os.chown(folder, STRANGER, STRANGER)
    elif how == "file":
        folder.write_text("")
    else:
        folder.mkdir()
        folder.chmod(int(how, 8))


def unsound(sources):
    """Have the sources' own cache refused."""
    planted(sources / "__pycache__", "777")


def homeless(tmp_path):
    """Have the user's cache refused."""
    (tmp_path / "home").chmod(0o777)


PLANTED = ["link", "777", "775", "file", pytest.param("foreign", marks=as_root)]


def test_all_copies_of_the_library_share_the_users_cache(sources, tmp_path):
    store = find_store(sources)
    assert store == KernelStore(tmp_path / "home" / ".cache" / "skyband" / "kernels")
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    (tmp_path / "elsewhere").mkdir()
    assert find_store(tmp_path / "elsewhere") == store


def test_beside_the_sources_without_a_private_home(sources, tmp_path):
    homeless(tmp_path)
    assert find_store(sources) == KernelStore(sources / "__pycache__")


@pytest.mark.parametrize("how", PLANTED)
def test_a_planted_folder_beside_the_sources_is_not_used(sources, tmp_path, how):
    homeless(tmp_path)
    planted(sources / "__pycache__", how)
    store = find_store(sources)
    assert store.folder.parent == tmp_path / "temporary"
    assert not store.kept
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700


def test_a_group_that_may_change_the_sources_may_write_beside_them(sources, tmp_path):
    homeless(tmp_path)
    sources.chmod(0o775)
    planted(sources / "__pycache__", "775")
    assert find_store(sources).folder == sources / "__pycache__"


@pytest.mark.parametrize("how", [*PLANTED, "755"])
def test_a_planted_folder_in_the_users_cache_is_not_used(sources, tmp_path, how):
    unsound(sources)
    folder = find_store(sources).folder
    folder.rmdir()
    planted(folder, how)
    found = find_store(sources).folder
    assert found.parent == tmp_path / "temporary"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["777", "775", pytest.param("foreign", marks=as_root)])
@pytest.mark.parametrize("place", ["", ".cache", ".cache/skyband"])
def test_a_folder_above_it_that_others_can_change(sources, tmp_path, how, place):
    unsound(sources)
    above = tmp_path / "home" / place
    if not place:
        above.rmdir()
    above.parent.mkdir(exist_ok=True)
    planted(above, how)
    assert find_store(sources).folder.parent == tmp_path / "temporary"


def test_a_cache_elsewhere(sources, tmp_path, monkeypatch):
    unsound(sources)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link" / "new"))
    assert find_store(sources).folder.parent == tmp_path / "real" / "new" / "skyband"


def test_each_temporary_folder_is_new(sources, tmp_path):
    unsound(sources)
    (tmp_path / "home").chmod(0o777)
    first, second = find_store(sources).folder, find_store(sources).folder
    assert first != second
    assert {first.parent, second.parent} == {tmp_path / "temporary"}


def test_nothing_is_kept_where_others_can_replace_it(sources, tmp_path):
    unsound(sources)
    (tmp_path / "home").chmod(0o777)
    (tmp_path / "temporary").chmod(0o777)
    assert find_store(sources).folder is None
    (tmp_path / "temporary").chmod(0o1777)
    assert find_store(sources).folder is not None


def test_sources_in_an_archive_use_the_users_cache(sources, tmp_path):
    archive = tmp_path / "skyband.whl" / "skyband" / "kernels"
    assert find_store(archive) == find_store(sources)
    homeless(tmp_path)
    assert find_store(archive).folder.parent == tmp_path / "temporary"


def test_a_folder_that_the_user_names_is_used_as_it_is(sources, tmp_path, monkeypatch):
    planted(tmp_path / "mine", "777")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "mine"))
    assert find_store(sources) == KernelStore(tmp_path / "mine")


class Trace:
    """Read by pickle, it leaves a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


@pytest.fixture
def installed(tmp_path):
    """A package that its user cannot write to, as a system install is, with a kernel that compiles in a second."""
    package = tmp_path / "lib" / "skyband"
    shutil.copytree(Path(skyband.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    kernels = package / "kernels"
    (kernels / "small.py").write_text(
        "from skyband.kernels._jit import kernel\n\n@kernel\ndef small(x):\n    return x + 1\n"
    )
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o777)  # nor has the user a home that nobody else can write to
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary").chmod(0o1777)
    kernels.chmod(0o555)
    yield kernels
    kernels.chmod(0o755)


def run_small(kernels, tmp_path, **environment):
    """Call the kernel as a user without special rights; return where numba kept it."""
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if plain and shutil.which("setpriv") is None:
        pytest.skip("root can write anywhere, and there is no setpriv to take that away")
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": str(kernels.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    known |= {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    program = "from skyband.kernels.small import small; print(small(1), small.stats.cache_path)"
    done = subprocess.run(
        [*plain, sys.executable, "-c", program], env=known | environment, capture_output=True, text=True, check=True
    )
    value, path = done.stdout.split()
    assert value == "2"
    return Path(path)


@pytest.mark.parametrize("place", ["temporary", "beside", "home"])
def test_an_index_that_another_user_wrote_is_not_read(installed, tmp_path, place):
    trace = tmp_path / "trace"
    honest = run_small(installed, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "attacker"))
    if place == "temporary":  # under a name that everybody can guess
        named = tmp_path / "temporary" / f"skyband-kernels-{os.getuid()}"
    elif place == "home":
        named = tmp_path / "home" / ".cache" / "skyband" / "kernels"
    else:
        named = installed / "__pycache__"
    installed.chmod(0o755)
    named.mkdir(parents=True)
    indexes = list(honest.glob("*.nbi"))
    assert indexes
    for index in indexes:
        (named / index.name).write_bytes(pickle.dumps(Trace(trace)))
    for path in (named, *named.iterdir()):
        path.chmod(0o777)
        if os.getuid() == 0:
            os.chown(path, STRANGER, STRANGER)
    if place != "beside":
        installed.chmod(0o555)
    used = run_small(installed, tmp_path)
    assert not trace.exists(), f"the index in {used} was read, and with it another user's code was run"
    assert not used.is_relative_to(named)
    assert used.is_relative_to(tmp_path / "temporary")


def test_the_temporary_folder_is_emptied_in_the_end(installed, tmp_path):
    used = run_small(installed, tmp_path)
    assert used.is_relative_to(tmp_path / "temporary")
    assert used.is_dir()
    assert list(used.iterdir()) == []
