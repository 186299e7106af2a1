"""Where compiled kernels are stored: only in folders that no other user can write to.

numba's index of compiled code is a pickle, and the code next to it is machine code: a user who can write there can run
code as the user who reads it. A folder is therefore used only if this user owns it, it is not a symbolic link, and no
other user can replace it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

__all__ = ["KernelStore", "find_store", "is_cold", "kernel_store", "private_folder"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ANY = stat.S_IRWXG | stat.S_IRWXO


class KernelStore(NamedTuple):
    """Where compiled kernels go: numba creates its folders in `folder`; None if they are not stored."""

    folder: Path | None
    kept: bool = True  # the next process reuses what this one compiles


@cache
def kernel_store() -> KernelStore:
    """Return the store for the kernels of this package; computed once per process."""
    return find_store(Path(__file__).parent)


def is_cold() -> bool:
    """Whether no kernel is compiled yet, so that the first use takes up to half a minute."""
    folder, _ = kernel_store()
    return folder is None or next(folder.glob("kernels_*/*.nbi"), None) is None


def find_store(sources: Path) -> KernelStore:
    """Return the first usable store: NUMBA_CACHE_DIR, next to the sources, the user's cache, a temporary folder, none.

    It holds the kernels of the folder `sources`, and those of the folder ``kernels`` of each sibling package.
    NUMBA_CACHE_DIR is set by the user, so the folder is used without these checks.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen and _can_be_made(Path(chosen)):
        return KernelStore(Path(chosen))
    if not hasattr(os, "getuid"):  # Windows: access control lists are not visible here
        return KernelStore(sources / "__pycache__")
    if _is_kept_beside(sources):
        return KernelStore(sources / "__pycache__")
    if not sources.is_dir():
        return KernelStore(None, kept=False)  # in an archive, where numba cannot detect outdated code
    own = _in_user_cache(_stamp(sources))
    return KernelStore(own) if own is not None else KernelStore(_temporary(), kept=False)


def _is_kept_beside(sources: Path) -> bool:
    """Whether the sources' __pycache__ can be used; if so, delete compiled kernels that are older than a source.

    numba compares a cached kernel only with its own file, but a kernel is compiled together with the kernels it calls.
    So all compiled kernels are deleted when any source has changed, by an upgrade or an edit.
    """
    cache = sources / "__pycache__"
    try:
        if not os.access(sources, os.W_OK):  # a system install, an executor's archive
            return False
        cache.mkdir(exist_ok=True)
        if not all(_is_guarded_like(folder, sources) for folder in (cache, *cache.glob("kernels_*"))):
            return False
        stamp, mark = _stamp(sources), cache / "kernels.stamp"
        if not mark.exists() or mark.read_text() != stamp:
            for compiled in (*cache.glob("kernels_*/*.nbi"), *cache.glob("kernels_*/*.nbc")):
                compiled.unlink(missing_ok=True)
            mark.write_text(stamp)
    except OSError:
        return False
    return True


def _is_guarded_like(cache: Path, sources: Path) -> bool:
    """Whether only users who can write to the sources can write to the cache; they can change the code anyway."""
    found, owner = cache.lstat(), sources.stat()
    group = found.st_mode & stat.S_IWGRP and (not owner.st_mode & stat.S_IWGRP or found.st_gid != owner.st_gid)
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid in (os.getuid(), owner.st_uid)
        and not found.st_mode & stat.S_IWOTH
        and not group
        and os.access(cache, os.W_OK)
    )


def _in_user_cache(stamp: str) -> Path | None:
    """Return a folder for these sources in the user's cache; different sources have different folders."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    with suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
        cache = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
        return private_folder(cache / "skyband" / f"kernels-{stamp}")
    return None


def private_folder(folder: Path) -> Path | None:
    """Return the folder with links in its parents resolved, created if missing; None if it is not private.

    This user must own it, no other user may have access, and it must not be a symbolic link. All its parents must be
    owned by this user or root, and no other user may be able to rename their entries.
    """
    with suppress(OSError):
        folder = folder.parent.resolve() / folder.name
        for above in reversed(folder.parents):
            _make(above)
            if not _is_sound(above):
                return None
        _make(folder)
        found = folder.lstat()
        alone = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & _OTHERS_ANY
        return folder if alone and os.access(folder, os.W_OK | os.X_OK) else None
    return None


def _make(folder: Path) -> None:
    with suppress(FileExistsError):
        if not folder.exists():
            folder.mkdir(mode=0o700)


def _is_sound(folder: Path) -> bool:
    """Whether only this user and root can replace a folder inside this one."""
    found = folder.lstat()
    kept = not found.st_mode & _OTHERS_WRITE or found.st_mode & stat.S_ISVTX
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.getuid()) and bool(kept)


def _temporary() -> Path | None:
    """Create a folder for this process and its forks; it is emptied when this process ends."""
    with suppress(OSError):
        above = Path(tempfile.gettempdir()).resolve()
        if not all(map(_is_sound, (above, *above.parents))):
            return None
        folder = Path(tempfile.mkdtemp(prefix="skyband-kernels-", dir=above))
        _hold(folder)
        atexit.register(_empty, folder, os.getpid())
        return folder
    return None


def _hold(folder: Path) -> None:
    """Lock the folder, because services that clean up temporary files skip locked folders."""
    import fcntl  # noqa: PLC0415 - not on every system

    with suppress(OSError):
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH)


def _empty(folder: Path, maker: int) -> None:
    """Delete the contents of the folder but not the folder: a forked process may still run, and another user could
    create a folder of the same name for it to read.
    """
    if os.getpid() == maker:
        for path in folder.iterdir():
            shutil.rmtree(path, ignore_errors=True)


def _can_be_made(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    return False


def _stamp(sources: Path) -> str:
    """Return a digest of the names, sizes and times of the kernels' sources."""
    files = sorted((*sources.glob("*.py"), *sources.parent.glob("*/kernels/*.py")))
    looks = [(str(path.relative_to(sources.parent)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return blake2b(repr(looks).encode(), digest_size=8).hexdigest()
