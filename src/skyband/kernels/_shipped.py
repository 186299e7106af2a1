"""Kernels that a wheel contains, compiled for a common processor level when the wheel was built.

They are used only if everything matches: versions, settings, operating system, and a processor with all features of
the level. The folder is part of the package and as trustworthy as its sources.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm
from numba.core import config

from skyband.kernels._digest import environment

__all__ = ["FOLDER", "MANIFEST", "Shipped", "level_features", "shipped_kernels", "write_manifest"]

FOLDER = Path(__file__).parent / "compiled"
MANIFEST = "manifest.json"

# The features of x86-64-v3 that LLVM names; a processor of this level has all of them.
_LEVELS = {
    "x86-64-v3": (
        "64bit,avx,avx2,bmi,bmi2,cmov,cx16,cx8,f16c,fma,fxsr,lzcnt,mmx,movbe,popcnt,sahf,sse,sse2,sse3,sse4.1,sse4.2,"
        "ssse3,xsave"
    )
}


class Shipped(NamedTuple):
    """A folder of compiled kernels, and the processor they were compiled for as numba describes it."""

    folder: Path
    processor: tuple[str, ...]


@cache
def shipped_kernels(folder: Path = FOLDER) -> Shipped | None:
    """Return the kernels of this installation if they run on this machine, else None."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        processor = tuple(map(str, manifest["processor"]))
        triple, _, features = processor
    except (OSError, ValueError, KeyError, TypeError):
        return None
    chosen = config.CPU_NAME, config.CPU_FEATURES
    if manifest.get("environment") != environment() or triple != llvm.get_process_triple() or any(chosen):
        return None
    try:
        host = llvm.get_host_cpu_features()
    except RuntimeError:  # unknown to LLVM
        return None
    wanted = [name[1:] for name in features.split(",") if name.startswith("+")]
    return Shipped(folder, processor) if wanted and all(host.get(name, False) for name in wanted) else None


def level_features(level: str) -> str:
    """Return the features of a processor level in LLVM's notation."""
    return ",".join(f"+{name}" for name in _LEVELS[level].split(","))


def write_manifest(folder: Path, processor: tuple[str, ...]) -> None:
    """Describe the kernels of a folder."""
    text = json.dumps({"environment": environment(), "processor": list(processor)}, indent=1)
    (folder / MANIFEST).write_text(text + "\n", "utf-8")
