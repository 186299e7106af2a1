"""Build hook: put kernels that are compiled for a common processor level into the wheel.

It runs only if SKYBAND_COMPILED_KERNELS is set, because it needs the library's own dependencies in the build
environment, takes minutes, and makes the wheel specific to a platform and a Python version. The value is the processor
level. numba and numpy must have the versions that the users of the wheel have, so pin them::

    SKYBAND_COMPILED_KERNELS=x86-64-v3 uv build --wheel --build-constraints constraints.txt

SKYBAND_COMPILED_SETS, a list with spaces, chooses other kernel sets than the common ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "SKYBAND_COMPILED_KERNELS"
SETS = "SKYBAND_COMPILED_SETS"


class CompiledKernels(BuildHookInterface[Any]):
    """Compiles the common kernels into build/kernels and adds them to the wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build environment needs beside hatchling."""
        return list(self.metadata.core.dependencies) if os.environ.get(VARIABLE) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to the wheel; an editable install has none."""
        level = os.environ.get(VARIABLE)
        if not level or self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        folder = root / "build" / "kernels"
        shutil.rmtree(folder, ignore_errors=True)
        environment = {**os.environ, "PYTHONPATH": str(root / "src")}
        command = [sys.executable, "-m", "skyband.precompile", "--into", str(folder), "--level", level]
        command += os.environ.get(SETS, "").split()
        subprocess.run(command, env=environment, check=True)
        build_data["force_include"][str(folder)] = "skyband/kernels/compiled"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
