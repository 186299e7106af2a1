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
from pathlib import Path
from typing import NamedTuple

__all__ = ["KernelStore", "find_store", "kernel_store", "private_folder"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ANY = stat.S_IRWXG | stat.S_IRWXO


class KernelStore(NamedTuple):
    """The folder of the compiled kernels; None if they are not stored."""

    folder: Path | None
    kept: bool = True  # the next process reuses what this one compiles


@cache
def kernel_store() -> KernelStore:
    """Return the store for the kernels of this package; computed once per process."""
    return find_store(Path(__file__).parent)


def find_store(sources: Path) -> KernelStore:
    """Return the first usable store: NUMBA_CACHE_DIR, the user's cache, next to the sources, a temporary folder, none.

    Stored kernels are found by content, so all copies of the library share the user's cache. NUMBA_CACHE_DIR is set by
    the user, so the folder is used without these checks.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen and _can_be_made(Path(chosen)):
        return KernelStore(Path(chosen))
    if not hasattr(os, "getuid"):  # Windows: access control lists are not visible here
        return KernelStore(sources / "__pycache__")
    own = _in_user_cache()
    if own is not None:
        return KernelStore(own)
    if _is_kept_beside(sources):
        return KernelStore(sources / "__pycache__")
    return KernelStore(_temporary(), kept=False)


def _is_kept_beside(sources: Path) -> bool:
    """Whether the sources' __pycache__ can be used."""
    cache = sources / "__pycache__"
    try:
        if not os.access(sources, os.W_OK):  # a system install, an executor's archive
            return False
        cache.mkdir(exist_ok=True)
        return _is_guarded_like(cache, sources)
    except OSError:
        return False


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


def _in_user_cache() -> Path | None:
    """Return the folder for kernels in the user's cache."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    with suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
        cache = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
        return private_folder(cache / "skyband" / "kernels")
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
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _can_be_made(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    return False
