"""Where compiled kernels are kept: only in folders that no other user can write to.

numba's index of compiled code is a pickle, and the code beside it is machine code: whoever can write there runs code
as the user who reads it. So a folder is used only if this user owns it, no link leads to it, and nobody else can put
another in its place.
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
    """Where compiled kernels go: folders that numba makes in `folder`; None where they are not kept at all."""

    folder: Path | None
    kept: bool = True  # the next process finds what this one has compiled


@cache
def kernel_store() -> KernelStore:
    """Where the kernels of this package go, found out once in a process."""
    return find_store(Path(__file__).parent)


def is_cold() -> bool:
    """Whether nothing has been compiled yet, so that the first use takes up to half a minute."""
    folder, _ = kernel_store()
    return folder is None or next(folder.glob("kernels_*/*.nbi"), None) is None


def find_store(sources: Path) -> KernelStore:
    """The first that can be used: NUMBA_CACHE_DIR, beside the sources, the user's cache, a temporary folder, none.

    It serves the kernels in the folder `sources`, and those in the folder ``kernels`` of each package beside it.
    What NUMBA_CACHE_DIR names is the user's own choice, and is used as it is.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen and _can_be_made(Path(chosen)):
        return KernelStore(Path(chosen))
    if not hasattr(os, "getuid"):  # Windows: folders of a profile are the user's, by lists of rights not seen here
        return KernelStore(sources / "__pycache__")
    if _is_kept_beside(sources):
        return KernelStore(sources / "__pycache__")
    if not sources.is_dir():
        return KernelStore(None, kept=False)  # in an archive, of which numba sees too little to drop what is old
    own = _in_user_cache(_stamp(sources))
    return KernelStore(own) if own is not None else KernelStore(_temporary(), kept=False)


def _is_kept_beside(sources: Path) -> bool:
    """Whether the sources' own __pycache__ will do; if so, it holds nothing that is older than a source.

    numba compares a cached kernel with its own file only, while kernels are compiled together with those they call.
    So all of them are dropped when any source has changed: an upgrade, an edit.
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
    """Whether only those can write to the cache who can write to the sources: they can change what runs anyway."""
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
    """A folder for these sources in the user's cache; sources that differ have different folders."""
    told = os.environ.get("XDG_CACHE_HOME", "")
    with suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
        cache = Path(told) if os.path.isabs(told) else Path.home() / ".cache"
        return private_folder(cache / "skyband" / f"kernels-{stamp}")
    return None


def private_folder(folder: Path) -> Path | None:
    """The folder, made if it is missing, with links above it followed; None if it is not this user's alone.

    It must belong to this user with no rights for others, and it must itself be no link. All folders above it must be
    this user's or root's, and such that nobody else can rename what is in them.
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
    """Whether nobody but this user and root can put another folder in the place of one that is in it."""
    found = folder.lstat()
    kept = not found.st_mode & _OTHERS_WRITE or found.st_mode & stat.S_ISVTX
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.getuid()) and bool(kept)


def _temporary() -> Path | None:
    """A new folder for this process and those it forks, which is emptied when this process ends."""
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
    """Lock the folder: services that clear away old temporary files leave one that is locked."""
    import fcntl  # noqa: PLC0415 - not on every system

    with suppress(OSError):
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH)


def _empty(folder: Path, maker: int) -> None:
    """Remove what is in the folder, but not the folder: a forked process may live on, and would read what another
    user puts in its place.
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
    """What the kernels' sources look like: changes when any of them does."""
    files = sorted((*sources.glob("*.py"), *sources.parent.glob("*/kernels/*.py")))
    looks = [(str(path.relative_to(sources.parent)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return blake2b(repr(looks).encode(), digest_size=8).hexdigest()
