"""What programs see of a machine, and tests can change: its clock, and how slow its disk is."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

DAY = 86_400  # seconds


class _Preloaded:
    """A library that is preloaded into programs, and looks at a number in a file while they run."""

    source = variable = ""

    def __init__(self, folder):
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no compiler of C here to make a machine that is wrong")
        name = Path(self.source).stem
        library, self._file = folder / f"{name}.so", folder / name
        source = Path(__file__).with_name(self.source)
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self.variables = {"LD_PRELOAD": str(library), self.variable: str(self._file)}
        self._file.write_bytes(struct.pack("=q", 0))

    def set(self, number):
        with self._file.open("r+b") as file:  # it is looked into while it is open
            file.write(struct.pack("=q", number))


class WrongClock(_Preloaded):
    """What programs are told when they ask for the time of day; seconds off, and set anew while they run."""

    source, variable = "clock.c", "SKYBAND_CLOCK"
    wrong_by = 0

    def set(self, number):
        self.wrong_by = number
        super().set(number)

    def seen(self):
        """The time that a program is told."""
        asked = [sys.executable, "-c", "import time; print(time.time())"]
        return float(
            subprocess.run(asked, check=True, capture_output=True, env={**os.environ, **self.variables}).stdout
        )


class SlowDisk(_Preloaded):
    """Microseconds that it takes to create, rename, remove or sync a file."""

    source, variable = "slow_disk.c", "SKYBAND_SLOW_DISK"


def together(*parts):
    """The variables of a program that sees all of them."""
    found = {name: value for one in parts for name, value in one.variables.items()}
    return {**found, "LD_PRELOAD": " ".join(one.variables["LD_PRELOAD"] for one in parts)} if parts else {}
